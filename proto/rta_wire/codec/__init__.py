"""Samples, rows and events to bursts and back. Owns the layout of a burst; names of keys and streams are elsewhere."""
