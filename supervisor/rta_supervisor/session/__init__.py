"""Sessions: the rules of their states, their records in Redis, and what is published of them. Reads no control stream
and no catalogue: messages come from `control`, changes are reported to `catalogue` and `webhooks` by callbacks.
"""
