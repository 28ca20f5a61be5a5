"""Samples, rows and events to bursts and back. Owns how a burst is laid out, cut and compressed.

Reading streams is `rta_wire.stream`'s, and batches of old entries are `rta_wire.cold`'s.
"""
