"""What a viewer keeps of what it is sent by a client."""

import tracemalloc
from typing import Any

from websockets.protocol import State
from websockets.server import ServerProtocol

from rta_supervisor.gateway.access.grant import LOCAL
from rta_supervisor.gateway.counts import GatewayCounts
from rta_supervisor.gateway.live.viewer import SLICE_BYTES, Viewer

EMPTY_FRAGMENT = b"\x00\x80" + bytes(4)
FRAGMENTS = 20_000


class SilentTransport:
    """A transport to which nothing is written."""

    def is_closing(self) -> bool:
        return False

    def resume_reading(self) -> None:
        pass


class Owner:
    """A service without other viewers."""

    counts = GatewayCounts()


def test_a_message_of_empty_fragments_takes_no_memory() -> None:
    """The limit of a message counts bytes, and there can be any number of fragments without one."""
    websocket = ServerProtocol(state=State.OPEN, max_size=1000)
    parts: tuple[Any, Any] = Owner(), SilentTransport()
    viewer = Viewer(*parts, websocket, "s", LOCAL)
    viewer.data_received(b"\x02\x80" + bytes(4))
    piece = EMPTY_FRAGMENT * (SLICE_BYTES // len(EMPTY_FRAGMENT))
    tracemalloc.start()
    try:
        for _ in range(FRAGMENTS * len(EMPTY_FRAGMENT) // len(piece)):
            viewer.data_received(piece)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < FRAGMENTS
