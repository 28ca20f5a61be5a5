"""Tells systemd how we are, where systemd asked."""

import os
import socket


def send(state: str) -> bool:
    """One message, such as READY=1. Whether somebody wanted it."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.connect("\0" + address[1:] if address.startswith("@") else address)
        channel.sendall(state.encode())
    return True
