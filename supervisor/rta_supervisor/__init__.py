"""The session supervisor: a daemon that opens, watches, closes and publishes sessions, and its command line."""
