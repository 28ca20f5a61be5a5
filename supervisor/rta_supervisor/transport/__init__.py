"""Redis as commands and replies: connections, routes, pipelines, errors and server functions. Knows no session."""
