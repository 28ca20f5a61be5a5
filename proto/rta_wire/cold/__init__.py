"""Batches of cold entries: packs entries of a live stream into smaller ones, and unpacks them to the same bytes.

When entries are moved and where batches are stored is the supervisor's; how live and cold are read as one stream is
`rta_wire.stream.live_then_cold`'s.
"""
