"""Time indexes of sessions in streams: made in the background, kept in memory and in files."""
