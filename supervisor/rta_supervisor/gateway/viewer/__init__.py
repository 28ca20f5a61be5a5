"""The viewer: the page at `/` for people who look at sessions. Its scripts speak the WebSocket and the REST of the
gateway as any other client does; there is nothing behind it here but its files.
"""
