"""Dead letters: messages that could not be handled, kept with the reason. Written by supervisors; listed, sent again
and removed by operators.
"""

import re
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import msgspec
from google.protobuf import json_format

from rta_supervisor.control import server_functions
from rta_supervisor.control.entry import ControlEntry
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import entry_ids, errors, keys, limits
from rta_wire.control import messages

PAGE: Final = 100

RESENT_TTL_S: Final = 24 * 3600
"""How long it is known that a letter was sent again. The letter is removed right after it was sent: a crash in between
must not let it be sent twice."""

_ENTRY_ID: Final = re.compile(r"\d{1,20}-\d{1,20}")


class DeadLetter(msgspec.Struct, frozen=True):
    """A message that could not be handled, and why. Field names are part of the output of `dlq`."""

    letter: str
    """Its id among the dead letters."""
    buried_ms: int
    lane: str
    """The key of the control stream that it came from."""
    entry: str
    """Its id in that control stream."""
    code: str
    reason: str
    kind: str
    """The type of the message; empty where it can't be decoded."""
    session: str
    size_bytes: int


class DeadLetterContents(msgspec.Struct, frozen=True):
    """A dead letter with its message."""

    letter: DeadLetter
    message: Any
    """Fields of the message; None where it can't be decoded."""
    hex: str


class ResentLetter(msgspec.Struct, frozen=True):
    """A dead letter that was sent again."""

    letter: str
    lane: str
    """The key of the control stream that it was sent to."""
    entry: str
    """Its id there; empty where it had been sent again before."""


class DeadLetterWriter:
    """Adds messages that could not be handled to the dead letters."""

    def __init__(self, link: Link, config: settings.Settings, *, kind: str) -> None:
        """`kind`: of the control streams, `requests` or `reports`, for the log."""
        self._link = link
        self._config = config
        self._log = log.get(lane=kind)

    async def add(self, entry: ControlEntry, error: errors.RtaError) -> None:
        """Keep a message with the error that says why it could not be handled."""
        code = type(error).__name__
        counters.counts.dead_letters[code] += 1
        self._log.warning("message_refused", entry=entry.id, principal=entry.principal, reason=str(error))
        await self._link.do(
            *server_functions.add_dead_letter(
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
    """The dead letters as operators use them: lists them, shows one, sends them again, removes them."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._keys = config.keys
        self._control_streams = {
            *map(self._keys.requests, config.control.requesters),
            *map(self._keys.reports, config.control.principals),
        }

    async def count(self) -> int:
        count: int = await self._link.do("XLEN", self._keys.dead_letters())
        return count

    async def newest(self, count: int) -> list[DeadLetter]:
        entries = await self._link.do("XREVRANGE", self._keys.dead_letters(), "+", "-", "COUNT", count)
        return [_parse_letter(letter_id, pairs_to_dict(flat)) for letter_id, flat in entries]

    async def oldest_first(self) -> AsyncIterator[DeadLetter]:
        """All dead letters of now, oldest first. Those that are added meanwhile are left out."""
        newest = await self._link.do("XREVRANGE", self._keys.dead_letters(), "+", "-", "COUNT", 1)
        if not newest:
            return
        end, start = newest[0][0], "-"
        while page := await self._link.do("XRANGE", self._keys.dead_letters(), start, end, "COUNT", PAGE):
            for letter_id, flat in page:
                yield _parse_letter(letter_id, pairs_to_dict(flat))
            start = f"({page[-1][0].decode()}"

    async def get(self, letter_id: str) -> DeadLetterContents:
        fields = await self._fields(letter_id)
        raw = fields.get(keys.CONTROL_FIELD, b"")
        return DeadLetterContents(_parse_letter(letter_id.encode(), fields), _message_fields(raw), raw.hex())

    async def resend(self, letter_id: str) -> ResentLetter:
        """Add a letter's message to its control stream again, once, and remove the letter."""
        fields = await self._fields(letter_id)
        control_stream = fields.get(keys.LETTER_SOURCE, b"").decode(errors="replace")
        if control_stream not in self._control_streams:
            reason = f"it came from {control_stream!r}, which no supervisor reads"
            raise errors.LetterUnusable(entry=letter_id, reason=reason)
        raw = _message_to_resend(letter_id, fields.get(keys.CONTROL_FIELD, b""))
        entry_id = await self._link.do(
            *server_functions.resend_letter(self._keys, control_stream, letter_id, raw, ttl_s=RESENT_TTL_S)
        )
        await self.drop([letter_id])
        return ResentLetter(letter_id, control_stream, entry_id.decode())

    async def drop(self, letter_ids: Sequence[str]) -> int:
        """Remove letters. Gives how many of them there were."""
        count: int = await self._link.do("XDEL", self._keys.dead_letters(), *letter_ids)
        return count

    async def _fields(self, letter_id: str) -> dict[bytes, bytes]:
        entries = []
        if _ENTRY_ID.fullmatch(letter_id):
            entries = await self._link.do("XRANGE", self._keys.dead_letters(), letter_id, letter_id)
        if not entries:
            raise errors.NoSuchLetter(entry=letter_id)
        return pairs_to_dict(entries[0][1])


def _parse_letter(letter_id: bytes, fields: dict[bytes, bytes]) -> DeadLetter:
    raw = fields.get(keys.CONTROL_FIELD, b"")
    message = _decode(raw)
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


def _decode(raw: bytes) -> messages.Message | None:
    try:
        return messages.unpack(raw)
    except errors.BadMessage:
        return None


def _message_fields(raw: bytes) -> Any:
    message = _decode(raw)
    return None if message is None else json_format.MessageToDict(message, preserving_proto_field_name=True)


def _message_to_resend(letter_id: str, raw: bytes) -> bytes:
    """The message of a letter. A request gets another id: its own has a reply, and a reply is final."""
    try:
        message = messages.unpack(raw)
    except errors.BadMessage as error:
        raise errors.LetterUnusable(entry=letter_id, reason=str(error).rstrip(".")) from error
    if isinstance(message, messages.Request):
        message.request_id = f"again-{letter_id}"
        return messages.pack(message)
    return raw
