"""Tells systemd how we are, where systemd asked."""

import os
import socket

from rta_supervisor.diagnostics import log

_deaf: set[str] = set()
"""Listeners that did not take the last message: said once, and not with every message."""


def send(state: str) -> bool:
    """One message, such as READY=1. Whether somebody took it; a listener that is gone is no reason to stop."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        # A listener that reads no more must not hold up the loop.
        channel.setblocking(False)
        try:
            channel.connect("\0" + address[1:] if address.startswith("@") else address)
            channel.sendall(state.encode())
        except OSError as error:
            if address not in _deaf:
                log.get().warning("notify_failed", state=state, error=str(error))
            _deaf.add(address)
            return False
    _deaf.discard(address)
    return True
