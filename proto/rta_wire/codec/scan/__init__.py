"""Decodes many bursts at once to columns: packed fields are read as bytes, and every byte is accounted for."""
