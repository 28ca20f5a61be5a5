"""Streams that have gone cold, and what readers see of them."""

import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import redis

from rta_supervisor import calls, settings
from rta_supervisor.cold import when
from rta_supervisor.cold.compactor import Compactor
from rta_supervisor.cold.store import Store
from rta_supervisor.link import Link
from rta_supervisor.sessions import Sessions
from rta_supervisor.sqlite_catalogue import SqliteCatalogue
from rta_wire import cold, keys, opened, woven
from rta_wire.opened import Entry
from rta_writers import joined

NAMES = keys.Keys()
HOUR_MS = 3_600_000
HIGHEST = f"{2**64 - 1}-{2**64 - 1}"


def scratch() -> Path:
    """A file for a catalogue that nobody looks at."""
    return Path(tempfile.mkdtemp(prefix="rtas-cold-")) / "catalogue.sqlite"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def fill(client: redis.Redis, stream: str, entries: Iterable[Entry]) -> None:
    """A stream that a session of ours used long ago."""
    with client.pipeline(transaction=False) as pipe:
        for one in entries:
            pipe.execute_command("XADD", keys.stream(stream), one.id, *one.fields)
        pipe.zadd(NAMES.streams_used(), {stream: now_ms() - 24 * HOUR_MS})
        pipe.sadd(keys.STREAMS, stream)
        pipe.execute()


def aged(datas: Sequence[bytes], *, first_ms: int | None = None) -> list[Entry]:
    """Entries of a session, an hour or more old."""
    start_ms = now_ms() - 2 * HOUR_MS if first_ms is None else first_ms
    return [Entry(f"{start_ms + n}-{n % 2}", (b"id", b"7", b"data", data)) for n, data in enumerate(datas)]


def packed(entries: Iterable[Entry]) -> bytes:
    """A batch of these entries."""
    opener = opened.Opener()
    return cold.packed([opener.open(one) for one in entries], woven.Widths(), live_bytes=0)


class Late(Link):
    """A link on which a compactor that read a stream before adds its batch just before the n-th command."""

    def __init__(self, place: Store, link: Link, at: int, batch: tuple[str, str]) -> None:
        """`batch`: its id, and that of the one before it."""
        super().__init__(link.config)
        self._place, self._left, self._batch = place, at, batch
        self.has_come = False

    async def try_all(self, batch: Sequence[calls.Call]) -> list[Any]:
        answers = []
        for call in batch:
            self._left -= 1
            if self._left == 0:
                await self.freeze()
            answers += await super().try_all([call])
        return answers

    async def freeze(self) -> None:
        self.has_come = True
        await self._place.freeze(*self._batch, b"batch", calls.FOREVER)


def view(client: redis.Redis, stream: str, after: str = "0-0") -> list[tuple[str, dict[bytes, bytes]]]:
    """Everything that a reader sees."""
    return list(joined.entries(client, NAMES, (stream, after, HIGHEST), 16))


def shown(entries: Iterable[Entry]) -> list[tuple[str, dict[bytes, bytes]]]:
    """What a reader is to see."""
    return [(one.id, dict(zip(one.fields[::2], one.fields[1::2], strict=True))) for one in entries]


def config(trim: settings.TrimSettings | None = None, **changes: Any) -> settings.Settings:
    given = {"after_s": 60, "bytes_per_s": 10**12, "streams_per_hour": 10**6} | changes
    return settings.Settings(
        trim=trim or settings.TrimSettings(max_entries=10**9), compact=when.CompactSettings(**given)
    )


def compactor(link: Link, catalogue: SqliteCatalogue, loaded: settings.Settings | None = None) -> Compactor:
    loaded = loaded or config()
    return Compactor(link, Sessions(link, loaded), catalogue, loaded)
