"""The HTTP server and what every page stands on: sockets, tokens, bounds, event streams."""
