"""Packs entries of a live stream into batches, which take less memory, and unpacks the same bytes.

When entries are moved and where batches are stored is the supervisor's; how live and cold are read as one stream is
`rta_wire.stream.live_then_cold`'s.
"""
