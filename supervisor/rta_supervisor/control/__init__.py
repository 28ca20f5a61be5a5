"""Control streams: reads them through a consumer group, takes over messages of dead supervisors, serves requests with
one reply each, and keeps dead letters. What a message does to a session is left to `session` and `recovery`.
"""
