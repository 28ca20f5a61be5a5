"""Looks at sockets of tests."""

import socket


def is_closed(client: socket.socket) -> bool:
    """Whether the other end has closed a connection from which nothing was sent."""
    client.setblocking(False)
    try:
        return client.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
