"""Requests to the supervisor: open, update and close a session, one or a group of them."""
