"""Reads control streams through a consumer group: requests in one lane, reports in another, so that neither waits.

A message is acknowledged after its effects. What is read and not acknowledged, by us or by a supervisor that died, is
read again; what can never be applied goes to the dead letters with its reason.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio
import msgspec
import redis.exceptions

from rta_supervisor import calls, log, settings
from rta_supervisor.link import Link, Outage, pairs
from rta_wire import errors, keys, limits

BLOCK_MS: Final = 1000
BLOCK_DEFERRED_MS: Final = 100
OUTAGE_PAUSE_S: Final = 0.5


class Entry(msgspec.Struct, frozen=True):
    """One message as it stands in a control stream. The stream says who wrote it."""

    key: str
    principal: str
    id: str
    raw: bytes | None

    @property
    def sent_ms(self) -> int:
        return int(self.id.partition("-")[0])


class Done(msgspec.Struct, frozen=True):
    """What became of a batch: entries to acknowledge, and others that have to wait for something."""

    handled: Sequence[Entry]
    deferred: Sequence[Entry] = ()


Handle = Callable[[Sequence[Entry]], Awaitable[Done]]


class Lane:
    """One lane for all principals."""

    def __init__(self, name: str, key_of: Callable[[str], str], link: Link, config: settings.Settings) -> None:
        self.name = name
        self._link = link
        self._config = config.control
        self._dead_letters = config.keys.dead_letters()
        self._principals = {key_of(principal): principal for principal in config.control.principals}
        self._log = log.get(lane=name)
        self._deferred: list[Entry] = []

    async def prepare(self) -> None:
        """Make the groups, from the beginning of each stream: what was sent before we came counts too."""
        for key in self._principals:
            try:
                await self._link.do("XGROUP", "CREATE", key, keys.CONTROL_GROUP, "0", "MKSTREAM")
            except redis.exceptions.ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise

    async def run(self, consumer: str, handle: Handle, stopping: anyio.Event) -> None:
        """Until `stopping` is set. An outage is waited out, and what was in flight is read again."""
        own_pending_first = True
        next_claim_s = 0.0
        while not stopping.is_set():
            try:
                if anyio.current_time() >= next_claim_s:
                    await self._claim(consumer)
                    own_pending_first = True
                    next_claim_s = anyio.current_time() + self._config.retry_s
                entries = await self._read(consumer, own_pending=own_pending_first)
                own_pending_first = own_pending_first and bool(entries)
                await self._work([*self._deferred, *entries] if not own_pending_first else entries, handle)
                own_pending_first = own_pending_first and not self._deferred
            except Outage as error:
                self._log.warning("redis_unavailable", error=str(error))
                own_pending_first = True
                await anyio.sleep(OUTAGE_PAUSE_S)
            except redis.exceptions.ResponseError as error:
                if "NOGROUP" not in str(error) and "Function not found" not in str(error):
                    raise
                self._log.error("redis_lost_data", error=str(error))
                await self._link.load_functions()
                await self.prepare()

    async def _work(self, entries: Sequence[Entry], handle: Handle) -> None:
        if not entries:
            return
        done = await handle(entries)
        self._deferred = list(done.deferred)
        await self._link.do_all(
            [
                (command, key, *group, *ids)
                for key in self._principals
                if (ids := [entry.id for entry in done.handled if entry.key == key])
                for command, group in (("XACK", (keys.CONTROL_GROUP,)), ("XDEL", ()))
            ]
        )

    async def _read(self, consumer: str, *, own_pending: bool) -> list[Entry]:
        block_ms = BLOCK_DEFERRED_MS if self._deferred else BLOCK_MS
        wait = () if own_pending else ("BLOCK", block_ms)
        wanted = [*self._principals, *("0" if own_pending else ">" for _ in self._principals)]
        count = ("COUNT", self._config.batch)
        answer = await self._link.do(
            "XREADGROUP", "GROUP", keys.CONTROL_GROUP, consumer, *count, *wait, "STREAMS", *wanted
        )
        return [
            Entry(name, self._principals[name], id_.decode(), _message(fields))
            for key, entries in answer or ()
            for name in (key.decode(),)
            for id_, fields in entries
        ]

    async def _claim(self, consumer: str) -> None:
        """Take over what another supervisor read and did not finish. It is handled as our own pending."""
        for key in self._principals:
            start: str | bytes = "0-0"
            while True:
                idle_ms = int(self._config.retry_s * 1000)
                options = ("COUNT", self._config.batch, "JUSTID")
                start, claimed, *_ = await self._link.do(
                    "XAUTOCLAIM", key, keys.CONTROL_GROUP, consumer, idle_ms, start, *options
                )
                if claimed:
                    self._log.info("messages_claimed", stream=key, count=len(claimed))
                if start == b"0-0":
                    break

    async def bury(self, entry: Entry, error: errors.RtaError) -> None:
        """Put a message that can't be applied where a person can look at it."""
        self._log.warning("message_refused", entry=entry.id, principal=entry.principal, reason=str(error))
        words: tuple[calls.Word, ...] = (
            *("source", entry.key, "entry", entry.id, "code", type(error).__name__, "reason", str(error)),
            *("m", (entry.raw or b"")[: limits.CONTROL_MAX_BYTES]),
        )
        await self._link.do("XADD", self._dead_letters, "MAXLEN", "~", self._config.dead_letters_max, "*", *words)


def _message(fields: Sequence[bytes] | None) -> bytes | None:
    """The one field that an entry of a control stream has. An entry that was deleted has none."""
    if fields is not None and len(fields) == 2 and fields[0] == keys.CONTROL_FIELD:
        return fields[1]
    return pairs(fields or ()).get(keys.CONTROL_FIELD)
