"""Calls of the server functions on a session: its hash, its folded state, its gate and its stream."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from rta_supervisor.transport import commands
from rta_wire import keys
from rta_wire.codec import encode
from rta_wire.control.totals import Totals


def _stream_call(
    function: str, names: keys.Keys, stream: str, stream_session_id: int, *args: commands.Argument
) -> commands.Command:
    guarded = (
        keys.stream(stream),
        names.gate(stream, stream_session_id),
        names.marks(stream, stream_session_id),
        names.published(stream, stream_session_id),
    )
    return ("FCALL", function, len(guarded), *guarded, *args)


class NewSession(msgspec.Struct, frozen=True):
    """What a session begins with."""

    identity: str
    stream_session_id: int
    stream: str
    position: str
    """Entry id at which its stream ended when it began."""

    json: bytes
    state: str
    principal: str
    now_ms: int
    ttl_s: int
    extra_fields: Mapping[str, commands.Argument] = {}
    """More fields of the folded state."""


def open_session(names: keys.Keys, new: NewSession) -> commands.Command:
    """Write a session, if there is none of its identity."""
    channel = names.state_channel(new.identity)
    readers = (new.stream_session_id, new.stream, new.position, new.json, new.state, new.principal)
    pairs = (argument for pair in new.extra_fields.items() for argument in pair)
    return commands.session_call("rtas_open_1", names, new.identity, *readers, new.now_ms, new.ttl_s, channel, *pairs)


def fold(
    names: keys.Keys,
    reports: Sequence[tuple[tuple[str, int], Mapping[str, Totals]]],
    *,
    principal: str | None = None,
) -> commands.Command:
    """Totals of units of sessions, each session by its identity and stream session id.

    `principal`: who reported it. None: it stands in the stream, so it needs nobody's word.
    """
    states = [names.session_state(identity) for (identity, _), _ in reports]
    words: list[commands.Argument] = [0, "-"] if principal is None else [1, principal]
    for (_, stream_session_id), units in reports:
        words += (stream_session_id, len(units))
        for unit, totals in units.items():
            words.append(unit)
            words += totals.words()
    return ("FCALL", "rtas_fold_2", len(states), *states, *words)


def refresh(names: keys.Keys, sessions: Sequence[tuple[str, int, int]]) -> commands.Command:
    """For each its identity, stream session id and lifetime in seconds; 0 leaves the lifetime as it is."""
    guarded = [key for identity, _, _ in sessions for key in (names.session(identity), names.session_state(identity))]
    return ("FCALL", "rtas_refresh_3", len(guarded), *guarded, *(word for one in sessions for word in one[1:]))


def put_json(names: keys.Keys, identity: str, version: int, *words: commands.Argument) -> commands.Command:
    """`words`: json, state, now_ms, ttl_s, channel, then names and values of our own state."""
    return commands.session_call("rtas_put_json_1", names, identity, version, *words)


def extend_closed(names: keys.Keys, identity: str, *, ttl_s: int) -> commands.Command:
    return commands.session_call("rtas_hold_1", names, identity, ttl_s)


def note_loss(names: keys.Keys, identity: str, stream_session_id: int) -> commands.Command:
    return commands.session_call("rtas_note_loss_1", names, identity, stream_session_id)


def raise_floor(floor: int) -> commands.Command:
    return ("FCALL", "rtas_raise_floor_1", 1, keys.LAST_STREAM_SESSION_ID, floor)


class VersionedJson(NamedTuple):
    """Session JSON for the stream, with the version of the session: nothing older is told after it."""

    document: bytes
    version: int


def publish_opening(
    names: keys.Keys, stream: str, stream_session_id: int, told: VersionedJson, *, ttl_s: int
) -> commands.Command:
    return _stream_call(
        "rtas_announce_2", names, stream, stream_session_id, *_json_words(stream_session_id, told), ttl_s
    )


def publish_json(
    names: keys.Keys, stream: str, stream_session_id: int, told: VersionedJson, *, ttl_s: int
) -> commands.Command:
    """The stream entry that tells readers the new Session JSON."""
    return _stream_call("rtas_tell_2", names, stream, stream_session_id, *_json_words(stream_session_id, told), ttl_s)


def publish_end(
    names: keys.Keys, stream: str, stream_session_id: int, told: VersionedJson, *, ttl_s: int
) -> commands.Command:
    return _stream_call("rtas_finish_2", names, stream, stream_session_id, *_json_words(stream_session_id, told), ttl_s)


def _json_words(stream_session_id: int, told: VersionedJson) -> tuple[commands.Argument, ...]:
    return stream_session_id, encode.session_json(told.document), told.version


def seal(
    names: keys.Keys, stream: str, stream_session_id: int, *, ttl_s: int, until_ms: int = commands.FOREVER
) -> commands.Command:
    return _stream_call("rtas_seal_1", names, stream, stream_session_id, ttl_s, until_ms)


def extend_gate(names: keys.Keys, stream: str, stream_session_id: int, *, ttl_s: int) -> commands.Command:
    return _stream_call("rtas_keep_1", names, stream, stream_session_id, ttl_s)


def publish_time_ranges(
    names: keys.Keys, stream: str, spans: Sequence[tuple[int, bytes, bytes]], *, ttl_s: int
) -> commands.Command:
    """The entries that tell readers what sessions of a stream cover: of each its number, start and end as Redis has
    them."""
    guarded = [key for number, _, _ in spans for key in (names.gate(stream, number), names.published(stream, number))]
    words = (
        word for number, start, end in spans for word in (number, encode.time_range(int(start), int(end)), start, end)
    )
    return ("FCALL", "rtas_show_3", 1 + len(guarded), keys.stream(stream), *guarded, ttl_s, *words)
