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
from rta_supervisor.diagnostics import counters, log, principal_limits
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, paging
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import entry_ids, errors, keys, quoting
from rta_wire.control import messages

PAGE: Final = 100
ADDED_PAGE: Final = 100

MESSAGE_MAX_BYTES: Final = 4096
"""How much of a message is kept: far more than a report has, and more than most requests have."""

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
    is_cut: bool = False
    """Whether only the beginning of the message was kept. It can't be sent again."""


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


class NewLetter(msgspec.Struct, frozen=True):
    """A message that is to be added to the dead letters."""

    owner: str
    """The principal that sent it; for a webhook's delivery `webhook:` and the name of the webhook. Each owner has a
    limit of its own."""
    source: str
    """The key that it came from."""
    entry: str
    """Its id there."""
    code: str
    reason: str
    message: bytes


class DeadLetterWriter:
    """Adds messages that could not be handled to the dead letters."""

    def __init__(self, link: Link, config: settings.Settings, *, kind: str) -> None:
        """`kind`: of the control streams, `requests` or `reports`, for the log."""
        self._link = link
        self._config = config
        self._log = log.get(lane=kind)

    async def add(self, entry: ControlEntry, error: errors.RtaError) -> None:
        """Keep a message with the error that says why it could not be handled."""
        await self.add_all([(entry, error)])

    async def add_all(self, refused: Sequence[tuple[ControlEntry, errors.RtaError]]) -> None:
        """Keep messages, each with its error, some of them in each round trip: there may be as many as are read."""
        for page in paging.pages(refused, ADDED_PAGE):
            letters = [self._letter(entry, error) for entry, error in page]
            await add_letters(self._link, self._config, letters)

    def _letter(self, entry: ControlEntry, error: errors.RtaError) -> NewLetter:
        code, reason = type(error).__name__, str(error)
        counters.counts.dead_letters[code] += 1
        self._log.warning("message_refused", entry=entry.id, principal=entry.principal, reason=reason)
        return NewLetter(entry.principal, entry.key, entry.id, code, reason, entry.raw or b"")


async def add_letter(link: Link, config: settings.Settings, letter: NewLetter) -> None:
    """Add a message to the dead letters."""
    await add_letters(link, config, [letter])


async def add_letters(link: Link, config: settings.Settings, letters: Sequence[NewLetter]) -> None:
    """Add messages to the dead letters. Long texts and messages are cut, and beyond `control.dead_letters_max` the
    oldest letters of the same owner are removed."""
    counts = await link.do_all([_add_command(config, letter) for letter in letters])
    for letter, removed in zip(letters, counts, strict=True):
        if removed:
            principal_limits.note_reached(letter.owner, "control.dead_letters_max", count=removed)


def _add_command(config: settings.Settings, letter: NewLetter) -> commands.Command:
    fields: dict[bytes, commands.Argument] = {
        keys.LETTER_SOURCE: letter.source,
        keys.LETTER_ENTRY: letter.entry,
        keys.LETTER_CODE: letter.code,
        keys.LETTER_REASON: quoting.cut(letter.reason),
        keys.CONTROL_FIELD: letter.message[:MESSAGE_MAX_BYTES],
    }
    if len(letter.message) > MESSAGE_MAX_BYTES:
        fields[keys.LETTER_SIZE] = len(letter.message)
    most = config.control.dead_letters_max
    return server_functions.add_dead_letter(config.keys, letter.owner, fields, max_entries=most)


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
            is_publication = control_stream == self._keys.publishing()
            reason = (
                "it is a call to a Session Service. Use rta-supervisor publish retry"
                if is_publication
                else f"it came from {control_stream!r}, which no supervisor reads"
            )
            raise errors.LetterUnusable(entry=letter_id, reason=reason)
        raw = _message_to_resend(letter_id, fields)
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
    """A letter as it is listed. Every text in it is cut: earlier versions kept long reasons, and a message that was
    refused may have long names."""
    raw = fields.get(keys.CONTROL_FIELD, b"")
    message = _decode(raw)
    source, entry, code, reason = (
        quoting.cut(fields.get(name, b"").decode(errors="replace"))
        for name in (keys.LETTER_SOURCE, keys.LETTER_ENTRY, keys.LETTER_CODE, keys.LETTER_REASON)
    )
    return DeadLetter(
        letter=letter_id.decode(),
        buried_ms=entry_ids.ms_of(letter_id.decode()),
        lane=source,
        entry=entry,
        code=code,
        reason=reason,
        kind="" if message is None else type(message).__name__,
        session=quoting.cut(getattr(message, "identity", ""), quoting.NAME_MAX_CHARS),
        size_bytes=_full_size(fields),
        is_cut=keys.LETTER_SIZE in fields,
    )


def _full_size(fields: dict[bytes, bytes]) -> int:
    """How many bytes the message had, kept or not."""
    return int(fields.get(keys.LETTER_SIZE, len(fields.get(keys.CONTROL_FIELD, b""))))


def _decode(raw: bytes) -> messages.Message | None:
    try:
        return messages.unpack(raw)
    except errors.RtaError:
        return None


def _message_fields(raw: bytes) -> Any:
    message = _decode(raw)
    return None if message is None else json_format.MessageToDict(message, preserving_proto_field_name=True)


def _message_to_resend(letter_id: str, fields: dict[bytes, bytes]) -> bytes:
    """The message of a letter. A request gets another id: its own has a reply, and a reply is final."""
    raw = fields.get(keys.CONTROL_FIELD, b"")
    if keys.LETTER_SIZE in fields:
        raise errors.LetterCut(entry=letter_id, kept=len(raw), size=_full_size(fields))
    try:
        message = messages.unpack(raw)
    except errors.RtaError as error:
        raise errors.LetterUnusable(entry=letter_id, reason=str(error).rstrip(".")) from error
    if isinstance(message, messages.Request):
        message.request_id = f"again-{letter_id}"
        return messages.pack(message)
    return raw
