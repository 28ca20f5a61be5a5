"""Sessions as a job sees them: asked for and closed through the supervisor, kept alive, and found by tasks.

Owns requests, replies and heartbeats. Rows and bursts are left to `write` and `read`.
"""
