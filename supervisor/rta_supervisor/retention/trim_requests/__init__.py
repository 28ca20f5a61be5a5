"""Streams that operators have trimmed: how much may go, and the removing."""
