"""The web application of the supervisor: its routes, and the live page with what it shows. Serving, authentication,
limits on connections and server-sent events are in `http`.
"""
