"""How a stream is read: positions, gaps where entries were trimmed, and which part is cold. Does no I/O.

Batches of the cold part are unpacked by `rta_wire.cold`, and bursts decoded by `rta_wire.codec`.
"""
