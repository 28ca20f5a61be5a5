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
from rta_supervisor.compaction.mover import MoveResult, StreamMover
from rta_supervisor.compaction.store import CompactionStore
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections.compact import CompactSettings
from rta_supervisor.transport import commands, function_loader
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, keys
from rta_wire.codec import encode
from rta_wire.cold.lz4_roundtrip import RawEntry
from rta_wire.stream import cold_index
from rta_writers.read import stream as read_stream
from tests.support import samples

NAMES = keys.Keys()
HOUR_MS = 3_600_000
STEPS = ("rtas_freeze_1", "rtas_switch_1", "rtas_shed_1", "rtas_take_out_1")
"""The server functions that change a cold stream, its index or what is live of it."""


def scratch_catalogue_path() -> Path:
    """A file for a catalogue that no test looks at."""
    return Path(tempfile.mkdtemp(prefix="rtas-cold-")) / "catalogue.sqlite"


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def fill(client: redis.Redis, stream: str, entries: Iterable[RawEntry]) -> None:
    """Add entries to a stream that a session of ours used a day ago."""
    with client.pipeline(transaction=False) as pipe:
        for entry in entries:
            pipe.execute_command("XADD", keys.stream(stream), entry.id, *entry.fields)
        pipe.zadd(NAMES.streams_used(), {stream: now_ms() - 24 * HOUR_MS})
        pipe.sadd(keys.STREAMS, stream)
        pipe.execute()


def old_entries(datas: Sequence[bytes], *, first_ms: int | None = None) -> list[RawEntry]:
    """Entries of a session, two hours old unless `first_ms` says otherwise."""
    start_ms = now_ms() - 2 * HOUR_MS if first_ms is None else first_ms
    return [RawEntry(f"{start_ms + n}-{n % 2}", (b"id", b"7", b"data", data)) for n, data in enumerate(datas)]


def sample_entries(count: int) -> list[RawEntry]:
    """Session JSON, bursts and a time range of a session, and at the end an entry of another program."""
    bursts = [burst.data for burst in samples.bursts(count - 3)]
    entries = old_entries([encode.session_json(b"{}"), *bursts, encode.time_range(1, 2)])
    last_ms = entry_ids.ms_of(entries[-1].id)
    return [*entries, RawEntry(f"{last_ms + 1}-0", (b"who", b"else", b"who", os.urandom(40), b"", b""))]


def read_all(client: redis.Redis, stream: str, after: str = entry_ids.MIN) -> list[tuple[str, dict[bytes, bytes]]]:
    """Everything that a reader sees of a stream, live and cold."""
    return list(read_stream.iter_entries(client, NAMES, (stream, after, entry_ids.MAX), 16))


def as_read(entries: Iterable[RawEntry]) -> list[tuple[str, dict[bytes, bytes]]]:
    """Entries in the form in which `read_all` returns them."""
    return [(entry.id, entry.by_name()) for entry in entries]


def read_extent(client: redis.Redis, stream: str = "rig") -> cold_index.ColdExtent | None:
    """The index entry of a stream."""
    raw: Any = client.hget(NAMES.cold_index(), stream)
    return cold_index.parse(raw)


def stream_length(client: redis.Redis, key: str) -> int:
    length: Any = client.xlen(key)
    return int(length)


def config(trim: settings.TrimSettings | None = None, **changes: Any) -> settings.Settings:
    """Settings under which streams are cold after a minute and are compacted without pauses."""
    compact = {"after_s": 60, "bytes_per_s": 10**12, "streams_per_hour": 10**6} | changes
    return settings.Settings(trim=trim or settings.TrimSettings(max_entries=10**9), compact=CompactSettings(**compact))


def compactor(link: Link, catalogue: SqliteCatalogue, own_config: settings.Settings | None = None) -> Compactor:
    own_config = own_config or config()
    return Compactor(link, SessionStore(link, own_config), catalogue, own_config)


async def move_all(store: CompactionStore) -> None:
    """Move all entries of a stream that are live now into its cold part, whether a session is open in it or not."""

    async def permit_batch() -> int:
        return commands.FOREVER

    async def on_batch(_: MoveResult) -> None:
        return

    live = await store.live_info()
    await StreamMover(store, config().compact.options).run(live.last_id, permit_batch, on_batch)


class LateBatchLink(Link):
    """A link on which a compactor that has read a stream before adds its batch just before the n-th command."""

    def __init__(self, store: CompactionStore, link: Link, at: int, batch_ids: tuple[str, str]) -> None:
        """`batch_ids`: the id of the batch, and that of the batch before it."""
        super().__init__(link.config)
        self._store, self._remaining, self._batch_ids = store, at, batch_ids
        self.has_added = False

    async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
        replies = []
        for command in batch:
            self._remaining -= 1
            if self._remaining == 0:
                await self.add_batch()
            replies += await super().try_all([command])
        return replies

    async def add_batch(self) -> None:
        self.has_added = True
        await self._store.append_batch(*self._batch_ids, b"batch", commands.FOREVER)


class Killed(Exception):
    """Raised where a supervisor would be killed."""


class DyingLink(Link):
    """A link whose supervisor is killed before or after the n-th call of one of these functions, or, where `steps` is
    None, the n-th command."""

    def __init__(
        self, config: settings.RedisSettings, at: int, *, before: bool, steps: Sequence[str] | None = STEPS
    ) -> None:
        super().__init__(config)
        self._remaining = at
        self._before = before
        self._steps = steps

    async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
        replies = []
        for command in batch:
            is_step = self._steps is None or (command[0] == "FCALL" and command[1] in self._steps)
            self._remaining -= is_step
            if is_step and self._remaining == 0 and self._before:
                raise Killed
            replies += await super().try_all([command])
            if is_step and self._remaining == 0:
                raise Killed
        return replies


async def compact_now(url: str) -> None:
    """Make all of stream `rig` cold that stands there now."""
    link = Link(settings.RedisSettings(url=url))
    await function_loader.load(link)
    catalogue = SqliteCatalogue(scratch_catalogue_path())
    await link.do("ZADD", NAMES.streams_used(), 1, "rig")
    await compactor(link, catalogue, config(after_s=0.001)).sweep()
    await catalogue.close()
    await link.close()
