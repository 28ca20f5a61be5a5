"""The catalogue: a row for every session that ever was, in a SQLite file or a PostgreSQL database.

Owns the tables, the search in them, and writing to them what changes in Redis. Never on the hot path of a session; what
is read back after a loss is decided in `recovery`.
"""
