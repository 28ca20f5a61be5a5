"""The wire: names, limits, errors, session model and burst codec. Pure: does no I/O and imports nothing of ours."""

__version__ = "0.1.0"
