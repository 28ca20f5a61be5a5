"""Streams back to rows: which entries a task reads, the entries themselves, and Arrow batches made of them.

Does not import Spark. How a stream with a cold part is read, and how bursts are decoded, is decided in `rta_wire`.
"""
