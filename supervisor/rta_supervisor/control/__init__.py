"""Control streams: reads them through a consumer group, takes over messages of dead supervisors, serves requests with
one reply each, and keeps dead letters. What a message does is left to the packages above:
`session`, `recovery` and `archive`.
"""
