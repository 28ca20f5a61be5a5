"""Compaction: moves entries of streams that get no new ones into batches that take less memory.

Owns the cold streams and their index: writes, reads, repairs and trims them. The format of a batch, and the rule by
which live and cold are read as one stream, are in `rta_wire`.
"""
