"""Streams per day: which day a session goes to, the index of days, and the end of old ones."""
