"""A network between writers, supervisors and Redis that can be told to be a bad one. Runs in a thread of its own."""

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

CHUNK: Final = 1 << 16
WRITES: Final = (b"EXEC\r\n", b"FCALL\r\n", b"XADD\r\n")
"""Commands whose reply is worth losing: they change something."""

Target = Path | int
"""A unix socket or a loopback port."""


class Wire:
    """One connection and what is under way on it."""

    def __init__(self, near: asyncio.StreamWriter, far: asyncio.StreamWriter) -> None:
        self.near = near
        self.far = far
        self.has_written = False

    def reset(self) -> None:
        _abort(self.near)
        _abort(self.far)

    def hang_up_on_asker(self) -> None:
        """What was asked reaches the server all the same."""
        _abort(self.near)
        self.far.close()


class Network:
    """Forwards to one server, well or badly."""

    def __init__(self, target: Target, chooser: random.Random) -> None:
        self.target = target
        self.counts: Counter[str] = Counter()
        self.delay_s = 0.0
        self.bytes_per_s = 0
        self.replies_to_cut = 0
        self._chooser = chooser
        self._wires: set[Wire] = set()
        self._loop = asyncio.new_event_loop()
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._server: asyncio.Server | None = None
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="network", daemon=True)
        self._thread.start()
        started.wait()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def calm(self) -> None:
        """A good network again."""
        self.delay_s, self.bytes_per_s, self.replies_to_cut = 0.0, 0, 0
        self._soon(self._flowing.set)

    def hold(self) -> None:
        """A black hole: nothing gets through, and nobody is told. What was under way comes later, if it comes."""
        self._soon(self._flowing.clear)

    def flow(self) -> None:
        self._soon(self._flowing.set)

    def reset(self) -> None:
        """Every connection breaks, whatever is on it."""
        self._soon(self._reset)

    def close(self) -> None:
        self._soon(self._stop)
        self._thread.join()
        self._listener.close()

    def _soon(self, step: Callable[[], object]) -> None:
        self._loop.call_soon_threadsafe(step)

    def _run(self, started: threading.Event) -> None:
        async def serve() -> None:
            self._server = await asyncio.start_server(self._connect, sock=self._listener)
            started.set()
            with contextlib.suppress(asyncio.CancelledError):
                await self._server.serve_forever()
            self._reset()

        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(serve())
        self._loop.run_until_complete(self._let_go())
        self._loop.close()

    async def _let_go(self) -> None:
        """Connections close in turns of the loop after the one that asked them to."""
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        self._reset()
        for _ in range(3):
            await asyncio.sleep(0)

    def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self._flowing.set()

    def _reset(self) -> None:
        for wire in list(self._wires):
            wire.reset()

    async def _connect(self, asker: asyncio.StreamReader, near: asyncio.StreamWriter) -> None:
        try:
            if isinstance(self.target, Path):
                answerer, far = await asyncio.open_unix_connection(str(self.target))
            else:
                answerer, far = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            _abort(near)
            return
        wire = Wire(near, far)
        self._wires.add(wire)
        try:
            await asyncio.gather(self._ask(asker, wire), self._answer(answerer, wire))
        except (OSError, asyncio.CancelledError):
            wire.reset()
        finally:
            self._wires.discard(wire)

    async def _weather(self, size: int) -> None:
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        if self.bytes_per_s:
            await asyncio.sleep(size / self.bytes_per_s)
        await self._flowing.wait()

    async def _ask(self, asker: asyncio.StreamReader, wire: Wire) -> None:
        while data := await asker.read(CHUNK):
            await self._weather(len(data))
            if any(word in data for word in WRITES):
                wire.has_written = True
            wire.far.write(data)
            await wire.far.drain()
        wire.far.close()

    async def _answer(self, answerer: asyncio.StreamReader, wire: Wire) -> None:
        while data := await answerer.read(CHUNK):
            await self._weather(len(data))
            if self.replies_to_cut and wire.has_written:
                self.replies_to_cut -= 1
                self.counts["reply cut"] += 1
                wire.near.write(data[: self._chooser.randrange(len(data))])
                wire.hang_up_on_asker()
                return
            wire.has_written = False
            wire.near.write(data)
            await wire.near.drain()
        wire.near.close()


def _abort(end: asyncio.StreamWriter) -> None:
    """Close with a reset, as a firewall does."""
    raw = end.get_extra_info("socket")
    if raw is not None and raw.family != socket.AF_UNIX:
        with contextlib.suppress(OSError):
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    end.transport.abort()
