"""Streams that have gone cold, and what readers see of them."""

import os
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import redis

from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.compaction.compactor import Compactor
from rta_supervisor.compaction.store import CompactionStore
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections import compaction
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link
from rta_wire import keys
from rta_wire.codec import encode
from rta_wire.cold import batch as cold_batch
from rta_wire.cold import byte_split, lz4_roundtrip
from rta_wire.cold.lz4_roundtrip import RawEntry
from rta_wire.stream import cold_index
from rta_writers.read import stream as read_stream
from tests.support import samples

NAMES = keys.Keys()
HOUR_MS = 3_600_000
STEPS = ("rtas_freeze_1", "rtas_switch_1", "rtas_shed_1", "rtas_take_out_1")
HIGHEST = f"{2**64 - 1}-{2**64 - 1}"


def scratch() -> Path:
    """A file for a catalogue that nobody looks at."""
    return Path(tempfile.mkdtemp(prefix="rtas-cold-")) / "catalogue.sqlite"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def fill(client: redis.Redis, stream: str, entries: Iterable[RawEntry]) -> None:
    """A stream that a session of ours used long ago."""
    with client.pipeline(transaction=False) as pipe:
        for one in entries:
            pipe.execute_command("XADD", keys.stream(stream), one.id, *one.fields)
        pipe.zadd(NAMES.streams_used(), {stream: now_ms() - 24 * HOUR_MS})
        pipe.sadd(keys.STREAMS, stream)
        pipe.execute()


def aged(datas: Sequence[bytes], *, first_ms: int | None = None) -> list[RawEntry]:
    """Entries of a session, an hour or more old."""
    start_ms = now_ms() - 2 * HOUR_MS if first_ms is None else first_ms
    return [RawEntry(f"{start_ms + n}-{n % 2}", (b"id", b"7", b"data", data)) for n, data in enumerate(datas)]


def packed(entries: Iterable[RawEntry]) -> bytes:
    """A batch of these entries."""
    opener = lz4_roundtrip.Lz4Unpacker()
    return cold_batch.pack_batch([opener.unpack(one) for one in entries], byte_split.WidthChooser(), live_bytes=0)


class Late(Link):
    """A link on which a compactor that read a stream before adds its batch just before the n-th command."""

    def __init__(self, place: CompactionStore, link: Link, at: int, batch: tuple[str, str]) -> None:
        """`batch`: its id, and that of the one before it."""
        super().__init__(link.config)
        self._place, self._left, self._batch = place, at, batch
        self.has_come = False

    async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
        answers = []
        for call in batch:
            self._left -= 1
            if self._left == 0:
                await self.freeze()
            answers += await super().try_all([call])
        return answers

    async def freeze(self) -> None:
        self.has_come = True
        await self._place.append_batch(*self._batch, b"batch", commands.FOREVER)


def view(client: redis.Redis, stream: str, after: str = "0-0") -> list[tuple[str, dict[bytes, bytes]]]:
    """Everything that a reader sees."""
    return list(read_stream.iter_entries(client, NAMES, (stream, after, HIGHEST), 16))


def shown(entries: Iterable[RawEntry]) -> list[tuple[str, dict[bytes, bytes]]]:
    """What a reader is to see."""
    return [(one.id, dict(zip(one.fields[::2], one.fields[1::2], strict=True))) for one in entries]


def config(trim: settings.TrimSettings | None = None, **changes: Any) -> settings.Settings:
    given = {"after_s": 60, "bytes_per_s": 10**12, "streams_per_hour": 10**6} | changes
    return settings.Settings(
        trim=trim or settings.TrimSettings(max_entries=10**9), compact=compaction.CompactSettings(**given)
    )


def compactor(link: Link, catalogue: SqliteCatalogue, loaded: settings.Settings | None = None) -> Compactor:
    loaded = loaded or config()
    return Compactor(link, SessionStore(link, loaded), catalogue, loaded)


def some(count: int) -> list[RawEntry]:
    """Bursts, time ranges and JSON of a session, and entries of somebody else."""
    datas = [encode.session_json(b"{}"), *(one.data for one in samples.bursts(count - 3)), encode.time_range(1, 2)]
    entries = aged(datas)
    ms = int(entries[-1].id.partition("-")[0])
    return [*entries, RawEntry(f"{ms + 1}-0", (b"who", b"else", b"who", os.urandom(40), b"", b""))]


def index(client: redis.Redis, stream: str = "rig") -> cold_index.ColdExtent | None:
    raw: Any = client.hget(NAMES.cold_index(), stream)
    return cold_index.parse(raw)


def length(client: redis.Redis, key: str) -> int:
    found: Any = client.xlen(key)
    return int(found)


class Killed(Exception):
    """Where a supervisor ends."""


class Mortal(Link):
    """A link whose owner dies before or after the n-th call of one of these functions, or the n-th command of any."""

    def __init__(
        self, config: settings.RedisSettings, left: int, *, before: bool, steps: Sequence[str] | None = STEPS
    ) -> None:
        super().__init__(config)
        self.left = left
        self._before = before
        self._steps = steps

    async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
        answers = []
        for call in batch:
            is_step = self._steps is None or (call[0] == "FCALL" and call[1] in self._steps)
            self.left -= is_step
            if is_step and self.left == 0 and self._before:
                raise Killed
            answers += await super().try_all([call])
            if is_step and self.left == 0:
                raise Killed
        return answers
