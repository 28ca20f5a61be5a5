"""Batches of entries that left the live stream: made, checked and opened. Where they are kept is the compactor's."""
