"""Rows to bursts in a stream: encoded, appended with the delivery guarantee of the options, reported and committed.

Knows Arrow batches and sessions. What Spark calls is in `spark`; bursts and messages are made by `rta_wire`.
"""
