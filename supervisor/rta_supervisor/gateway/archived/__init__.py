"""Entries that the archive has, made again as the stream had them, for viewers that want what was trimmed."""
