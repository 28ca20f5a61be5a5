"""The session supervisor: a daemon that owns the life of every session, and its command line."""
