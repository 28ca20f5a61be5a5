"""The control streams of one kind, requests or reports, of all principals: reads them through a consumer group,
acknowledges what is handled, takes over what others left, and reports what was evicted unread.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import anyio
import msgspec

from rta_supervisor.control import server_functions
from rta_supervisor.control.entry import ControlEntry
from rta_supervisor.control.read_size import ReadSize
from rta_supervisor.control.takeover import Takeover
from rta_supervisor.diagnostics import counters, log, principal_limits
from rta_supervisor.nodes.server_clock import JUMP_MS, now_ms
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, paging
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import entry_ids, keys

BLOCK_MS: Final = int(settings.CONTROL_BLOCK_S * 1000)
BLOCK_SEPARATE_MS: Final = 50
BLOCKS_PER_LEASE: Final = 20
ACKNOWLEDGE_MAX: Final = 1000

FUTURE_MS: Final = JUMP_MS
"""An entry id that is ahead of the server's clock by more than this was chosen by a client."""

FIELD_BYTES: Final = 64
"""What a field of an entry takes to read, besides its text: a client chooses how many there are."""

FUTURE_LOG_MS: Final = 60_000
"""How often entry ids from the future are logged for one control stream."""


class ConsumerCallbacks(msgspec.Struct, frozen=True):
    """What a consumer calls when Redis lost data, or evicted messages before they were read."""

    on_data_loss: Callable[[str], Awaitable[None]]
    on_gap: Callable[[Collection[str]], None]
    """Called with the principals whose reports were evicted."""


class ControlStreams:
    """The control streams of one kind, as one consumer of their groups sees them."""

    def __init__(
        self, kind: str, principals: dict[str, str], link: Link, config: settings.Settings, consumer: str
    ) -> None:
        """`kind`: `requests` or `reports`. `principals`: by the key of their control stream. `consumer`: the name of
        this supervisor in the consumer group."""
        self.kind = kind
        self.principals = principals
        self.takeover = Takeover(link, config, list(principals), consumer, kind=kind)
        self.block_ms = min(BLOCK_MS, int(config.node.lease_s * 1000 / BLOCKS_PER_LEASE))
        self._link = link
        self._config = config
        self._keys = config.keys
        self._consumer = consumer
        self._are_separate = link.spans_slots(principals)
        self._read_size = ReadSize()
        self._future_logged_ms: dict[str, int] = {}
        self._log = log.get(lane=kind)

    def fitting(self, stream_keys: Iterable[str], count: int) -> int:
        """How many entries to read of each of some control streams, `count` at most: fewer while those are large."""
        return self._read_size.count(stream_keys, count)

    async def create_groups(self) -> None:
        """Create the consumer groups at the beginning of each stream: what was sent before counts too."""
        await self._link.do_all([server_functions.create_group(self._keys, key) for key in self.principals])

    async def read_new(
        self, stream_keys: Iterable[str], *, count: int, block_ms: int | None = None
    ) -> list[ControlEntry]:
        """Entries of control streams that nobody in the group has read, at most `count` of each."""
        entries = await self._read(dict.fromkeys(stream_keys, ">"), count, block_ms, is_first_delivery=True)
        self._log_future(entries)
        return entries

    async def read_pending(self, after: Mapping[str, str], *, count: int) -> list[ControlEntry]:
        """Entries after an id of each control stream that this consumer has read before and not acknowledged, or taken
        over; at most `count` of each."""
        return await self._read(after, count, None, is_first_delivery=False)

    async def acknowledge(self, entries: Iterable[ControlEntry]) -> None:
        """Acknowledge and remove entries that are handled, in pages, so that Redis serves others in between."""
        ids_by_key: dict[str, list[str]] = {}
        for entry in entries:
            ids_by_key.setdefault(entry.key, []).append(entry.id)
        batch: list[commands.Command] = []
        for key, ids in ids_by_key.items():
            ids.sort(key=entry_ids.parse)
            batch += (
                server_functions.acknowledge(self._keys, key, page) for page in paging.pages(ids, ACKNOWLEDGE_MAX)
            )
            if ids[-1] == entry_ids.MAX:
                # It is removed with what comes before the next id, and there is none after it.
                batch.append(("XDEL", key, entry_ids.MAX))
        await self._link.do_all(batch)

    async def report_gaps(self) -> list[str]:
        """Report messages that were evicted before anybody read them: Redis skips them without a word. Gives whose they
        were."""
        counts = await self._link.do_all([server_functions.count_evicted(self._keys, key) for key in self.principals])
        for (key, principal), count in zip(self.principals.items(), counts, strict=True):
            if count:
                principal_limits.note_evicted(principal, count)
                counters.counts.evicted += count
                self._log.error("messages_evicted", stream=key, count=count)
        return [principal for principal, count in zip(self.principals.values(), counts, strict=True) if count]

    async def _read(
        self, after: Mapping[str, str], count: int, block_ms: int | None, *, is_first_delivery: bool
    ) -> list[ControlEntry]:
        """Entries after an id of each control stream, or after `>`: those that nobody in the group has read."""
        if self._are_separate:
            replies = await self._read_each(after, count, block_ms)
        else:
            replies = await self._link.do(*self._read_command(after, count, block_ms))
        at_ms = now_ms()
        entries: list[ControlEntry] = []
        sizes: dict[str, list[int]] = {key: [] for key in after}
        for raw_key, rows in replies or ():
            key = raw_key.decode()
            principal = self.principals[key]
            sizes[key] = [_read_bytes(fields) for _, fields in rows]
            entries += [
                ControlEntry(key, principal, id_.decode(), message_in(fields), is_first_delivery, at_ms, size)
                for (id_, fields), size in zip(rows, sizes[key], strict=True)
            ]
        self._read_size.note(sizes, self._config.control.batch)
        return entries

    def _read_command(self, after: Mapping[str, str], count: int, block_ms: int | None) -> commands.Command:
        wait = () if block_ms is None else ("BLOCK", block_ms)
        return (
            *("XREADGROUP", "GROUP", keys.CONTROL_GROUP, self._consumer, "COUNT", count, *wait),
            *("STREAMS", *after.keys(), *after.values()),
        )

    async def _read_each(self, after: Mapping[str, str], count: int, block_ms: int | None) -> list[Any]:
        """Read control streams in different slots: one command for each. They block shortly, since all wait for the
        longest."""
        block_ms = None if block_ms is None else min(block_ms, BLOCK_SEPARATE_MS)
        replies: list[Any] = []

        async def read(key: str, last_id: str) -> None:
            replies.extend(await self._link.do(*self._read_command({key: last_id}, count, block_ms)) or ())

        try:
            async with anyio.create_task_group() as tasks:
                for key, last_id in after.items():
                    tasks.start_soon(read, key, last_id)
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from group
        return replies

    def _log_future(self, entries: Sequence[ControlEntry]) -> None:
        """Log that clients chose entry ids from the future: their time counts as the time of reading."""
        last_by_key = {entry.key: entry for entry in entries}
        for key, entry in last_by_key.items():
            ahead_ms = entry_ids.ms_of(entry.id) - entry.read_ms
            if ahead_ms > FUTURE_MS and entry.read_ms - self._future_logged_ms.get(key, 0) > FUTURE_LOG_MS:
                self._future_logged_ms[key] = entry.read_ms
                self._log.warning(
                    "ids_from_future",
                    principal=entry.principal,
                    stream=key,
                    entry=entry.id,
                    ahead_s=ahead_ms // 1000,
                )


def _read_bytes(fields: Sequence[bytes] | None) -> int:
    """What it took to read the fields of an entry."""
    if not fields:
        return 0
    if len(fields) == 2:
        return len(fields[0]) + len(fields[1])
    return sum(map(len, fields)) + FIELD_BYTES * len(fields)


def message_in(fields: Sequence[bytes] | None) -> bytes | None:
    """The message in the fields of an entry; None where it has none, as an entry that was deleted meanwhile."""
    if fields is not None and len(fields) == 2 and fields[0] == keys.CONTROL_FIELD:
        return fields[1]
    return pairs_to_dict(fields or ()).get(keys.CONTROL_FIELD)
