"""Control streams: read through a consumer group, answered, taken over from the dead, and kept as dead letters."""
