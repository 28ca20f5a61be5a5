"""The HTTP server and what every application on it needs: the socket, authentication, connection limits, event streams.

Knows no page and no route: `web` has them.
"""
