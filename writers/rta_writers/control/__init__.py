"""Sessions as a job sees them: asked for and closed through the supervisor, kept alive, and found by tasks.

Owns requests and replies, and the heartbeats of a driver. Rows, bursts and the reports of tasks are left to `write`
and `read`.
"""
