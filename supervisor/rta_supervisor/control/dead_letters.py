"""Dead letters: messages that could not be applied, kept with the reason. Written by the supervisor, read by people."""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec
from google.protobuf import json_format

from rta_supervisor.control import functions
from rta_supervisor.control.entry import ControlEntry
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import entry_ids, errors, keys, limits
from rta_wire.control import messages

PAGE: Final = 100
AGAIN_TTL_S: Final = 24 * 3600
"""How long it is known that a letter was sent again. It is removed right after that: this outlives a crash between."""

_ENTRY_ID: Final = re.compile(r"\d{1,20}-\d{1,20}")


class DeadLetter(msgspec.Struct, frozen=True):
    """One message, and why it could not be applied."""

    letter: str
    """Its id among the dead letters."""
    buried_ms: int
    lane: str
    entry: str
    """Its id in the lane that it came from."""
    code: str
    reason: str
    kind: str
    """Which message it is; empty where that can't be told."""
    session: str
    size_bytes: int


class DeadLetterContents(msgspec.Struct, frozen=True):
    """A letter with what is in it."""

    letter: DeadLetter
    message: Any
    """Fields of the message, or None where it can't be understood."""
    hex: str


class ResentLetter(msgspec.Struct, frozen=True):
    """Where a letter went; an empty entry where it had been sent before."""

    letter: str
    lane: str
    entry: str


class DeadLetterWriter:
    """Keeps the messages of one control stream that could not be applied."""

    def __init__(self, link: Link, config: settings.Settings, *, lane: str) -> None:
        """`lane`: the kind of control stream, `requests` or `reports`, for the log."""
        self._link = link
        self._config = config
        self._log = log.get(lane=lane)

    async def add(self, entry: ControlEntry, error: errors.RtaError) -> None:
        """Put a message that can't be applied where a person can look at it."""
        code = type(error).__name__
        counters.counts.dead_letters[code] += 1
        self._log.warning("message_refused", entry=entry.id, principal=entry.principal, reason=str(error))
        await self._link.do(
            *functions.add_dead_letter(
                self._config.keys,
                source=entry.key,
                entry=entry.id,
                code=code,
                reason=str(error),
                message=(entry.raw or b"")[: limits.CONTROL_MAX_BYTES],
                max_entries=self._config.control.dead_letters_max,
            )
        )


class DeadLetters:
    """The dead letters of one deployment, for people: listed, looked into, sent again, removed."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._keys = config.keys
        control_ = config.control
        self._lanes = {self._keys.requests(one) for one in control_.requesters}
        self._lanes |= {self._keys.reports(one) for one in control_.principals}

    async def count(self) -> int:
        count: int = await self._link.do("XLEN", self._keys.dead_letters())
        return count

    async def newest(self, count: int) -> list[DeadLetter]:
        entries = await self._link.do("XREVRANGE", self._keys.dead_letters(), "+", "-", "COUNT", count)
        return [_letter(entry_id, pairs_to_dict(flat)) for entry_id, flat in entries]

    async def oldest_first(self) -> AsyncIterator[DeadLetter]:
        """All that are there now, oldest first. Those that come while we look are left for the next time."""
        last = await self._link.do("XREVRANGE", self._keys.dead_letters(), "+", "-", "COUNT", 1)
        if not last:
            return
        end, after = last[0][0], "-"
        while page := await self._link.do("XRANGE", self._keys.dead_letters(), after, end, "COUNT", PAGE):
            for entry_id, flat in page:
                yield _letter(entry_id, pairs_to_dict(flat))
            after = f"({page[-1][0].decode()}"

    async def get(self, letter_id: str) -> DeadLetterContents:
        fields = await self._fields(letter_id)
        raw = fields.get(keys.CONTROL_FIELD, b"")
        return DeadLetterContents(_letter(letter_id.encode(), fields), _contents(raw), raw.hex())

    async def resend(self, letter_id: str) -> ResentLetter:
        """Put it back on the lane that it came from, once, and remove it here."""
        fields = await self._fields(letter_id)
        lane = fields.get(keys.LETTER_SOURCE, b"").decode(errors="replace")
        if lane not in self._lanes:
            raise errors.LetterUnusable(entry=letter_id, reason=f"it came from {lane!r}, which no supervisor reads")
        raw = _as_new(letter_id, fields.get(keys.CONTROL_FIELD, b""))
        entry = await self._link.do(*functions.resend_letter(self._keys, lane, letter_id, raw, ttl_s=AGAIN_TTL_S))
        await self.drop([letter_id])
        return ResentLetter(letter_id, lane, entry.decode())

    async def drop(self, letter_ids: Sequence[str]) -> int:
        """How many of them were there."""
        count: int = await self._link.do("XDEL", self._keys.dead_letters(), *letter_ids)
        return count

    async def _fields(self, letter_id: str) -> dict[bytes, bytes]:
        found = []
        if _ENTRY_ID.fullmatch(letter_id):
            found = await self._link.do("XRANGE", self._keys.dead_letters(), letter_id, letter_id)
        if not found:
            raise errors.NoSuchLetter(entry=letter_id)
        return pairs_to_dict(found[0][1])


def _letter(letter_id: bytes, fields: dict[bytes, bytes]) -> DeadLetter:
    raw = fields.get(keys.CONTROL_FIELD, b"")
    message = _message(raw)
    return DeadLetter(
        letter=letter_id.decode(),
        buried_ms=entry_ids.ms_of(letter_id.decode()),
        lane=fields.get(keys.LETTER_SOURCE, b"").decode(errors="replace"),
        entry=fields.get(keys.LETTER_ENTRY, b"").decode(errors="replace"),
        code=fields.get(keys.LETTER_CODE, b"").decode(errors="replace"),
        reason=fields.get(keys.LETTER_REASON, b"").decode(errors="replace"),
        kind="" if message is None else type(message).__name__,
        session=getattr(message, "identity", ""),
        size_bytes=len(raw),
    )


def _message(raw: bytes) -> messages.Message | None:
    try:
        return messages.unpack(raw)
    except errors.BadMessage:
        return None


def _contents(raw: bytes) -> Any:
    message = _message(raw)
    return None if message is None else json_format.MessageToDict(message, preserving_proto_field_name=True)


def _as_new(letter_id: str, raw: bytes) -> bytes:
    """The message to send. A request gets another id: its own has been answered, and an answer is final."""
    try:
        message = messages.unpack(raw)
    except errors.BadMessage as error:
        raise errors.LetterUnusable(entry=letter_id, reason=str(error).rstrip(".")) from error
    if isinstance(message, messages.Request):
        message.request_id = f"again-{letter_id}"
        return messages.pack(message)
    return raw
