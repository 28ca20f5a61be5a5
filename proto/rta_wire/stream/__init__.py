"""How a stream is read: where a reader stands, what was trimmed, and which part of it is cold. Does no I/O."""
