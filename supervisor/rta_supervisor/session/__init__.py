"""The life of a session: its state machine, its record in Redis, and what readers see of it."""
