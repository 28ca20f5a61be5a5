"""Webhooks: posts every change of a session's state to the targets in the settings, each change at least once.

Owns the queues of deliveries in Redis and the posting. The note of a change is written by `session` together with the
change; this package says what is in it.
"""
