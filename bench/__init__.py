"""Measurements of the wire, the writers and the supervisor: `python -m bench`, or `make bench`."""
