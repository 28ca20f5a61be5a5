"""Calls of the server functions on a session: its hash, its folded state, its gate, its entries that are not data."""

from collections.abc import Mapping, Sequence
from typing import Final

from rta_supervisor.session import config_bindings
from rta_supervisor.session.model import SessionRecord, SessionRef
from rta_supervisor.transport import commands
from rta_wire import keys
from rta_wire.codec import encode
from rta_wire.control.totals import Totals
from rta_wire.session import State

FIRST_VERSION: Final = 1


def open_session(
    names: keys.Keys, record: SessionRecord, *, position: str, now_ms: int, ttl_s: int
) -> commands.Command:
    """Write a new session, if there is none of its identity. `position`: entry id at which its stream ends."""
    ref = record.ref
    extra_fields: dict[str, commands.Argument] = {}
    if record.opened_ms != now_ms:
        extra_fields[keys.OPENED_MS] = record.opened_ms
    if record.version != FIRST_VERSION:
        extra_fields[keys.VERSION] = record.version
    if record.external_id:
        extra_fields[keys.EXTERNAL_ID] = record.external_id
    if record.config:
        extra_fields[keys.CONFIG] = record.config
    extra_fields |= config_bindings.changed_fields(b"", record.document)
    extra_fields |= {keys.change_field(version): change for version, change in record.unqueued_changes.items()}
    return (
        *("FCALL", "rtas_open_2", 2, *keys.session_hashes(names, ref.identity)),
        *(ref.stream_session_id, ref.stream, position, record.document, record.state.value, record.principal),
        *(now_ms, ttl_s, names.state_channel(ref.identity)),
        *(argument for field in extra_fields.items() for argument in field),
    )


def put_json(
    names: keys.Keys,
    record: SessionRecord,
    document: bytes,
    state: State,
    *,
    now_ms: int,
    ttl_s: int,
    extra_fields: Mapping[str, commands.Argument] | None = None,
) -> commands.Command:
    """Write new JSON and the state, if the session still has the version of the record.

    `extra_fields`: more fields of the folded state."""
    ref = record.ref
    return (
        *("FCALL", "rtas_put_json_2", 2, *keys.session_hashes(names, ref.identity)),
        *(record.version, document, state.value, now_ms, ttl_s, names.state_channel(ref.identity)),
        *(argument for field in (extra_fields or {}).items() for argument in field),
    )


def fold(
    names: keys.Keys,
    reports: Sequence[tuple[tuple[str, int], Mapping[str, Totals]]],
    *,
    max_units: int,
    principal: str | None = None,
) -> commands.Command:
    """Join totals of units into sessions, each named by its identity and stream session id.

    `max_units`: units that a session has at most; others are left out. `principal`: the one that reported; sessions of
    others are left alone. None folds into sessions of any principal.
    """
    states = [names.session_state(identity) for (identity, _), _ in reports]
    arguments: list[commands.Argument] = [max_units, *((0, "-") if principal is None else (1, principal))]
    for (_, stream_session_id), units in reports:
        arguments += (stream_session_id, len(units))
        for unit, totals in units.items():
            arguments.append(unit)
            arguments += totals.to_strings()
    return ("FCALL", "rtas_fold_3", len(states), *states, *arguments)


def refresh(names: keys.Keys, lifetimes_s: Sequence[tuple[SessionRef, int]]) -> commands.Command:
    """Write the folded time ranges of open sessions to their hashes and renew their lifetimes. A lifetime of 0 is left
    as it is."""
    session_keys = [key for ref, _ in lifetimes_s for key in keys.session_hashes(names, ref.identity)]
    arguments = (argument for ref, ttl_s in lifetimes_s for argument in (ref.stream_session_id, ttl_s))
    return ("FCALL", "rtas_refresh_4", len(session_keys), *session_keys, *arguments)


def extend_closed(names: keys.Keys, identity: str, *, ttl_s: int) -> commands.Command:
    """Renew the lifetime of a closed session that the catalogue does not have yet."""
    return ("FCALL", "rtas_hold_2", 2, *keys.session_hashes(names, identity), ttl_s)


def note(names: keys.Keys, ref: SessionRef, field: str, value: commands.Argument) -> commands.Command:
    """Set a field of the folded state, if it is still that of the session."""
    return ("FCALL", "rtas_note_1", 2, *keys.session_hashes(names, ref.identity), ref.stream_session_id, field, value)


def raise_floor(floor: int) -> commands.Command:
    """Raise the counter of stream session ids to a floor. It is never lowered."""
    return ("FCALL", "rtas_raise_floor_2", 1, keys.LAST_STREAM_SESSION_ID, floor)


def publish_opening(names: keys.Keys, record: SessionRecord, *, ttl_s: int) -> commands.Command:
    """Add the first entry of a session to its stream and open its gate, if there is no gate."""
    return _publish("rtas_announce_3", names, record, ttl_s)


def publish_json(names: keys.Keys, record: SessionRecord, *, ttl_s: int) -> commands.Command:
    """Add the Session JSON to the stream, if nothing as new is there."""
    return _publish("rtas_tell_3", names, record, ttl_s)


def publish_end(names: keys.Keys, record: SessionRecord, *, ttl_s: int) -> commands.Command:
    """Add the last entry of a session to its stream and finish its gate, if it is not finished. Gives why there is no
    last entry, empty where there is one."""
    return _publish("rtas_finish_3", names, record, ttl_s)


def publish_time_ranges(
    names: keys.Keys, stream: str, time_ranges: Sequence[tuple[int, bytes, bytes]], *, ttl_s: int
) -> commands.Command:
    """Add the time ranges of sessions to their stream, each if it is wider than the last one there.

    `time_ranges`: stream session id, start and end of each, as the text that stands in Redis.
    """
    session_keys = [
        key
        for stream_session_id, _, _ in time_ranges
        for key in (names.gate(stream, stream_session_id), names.published(stream, stream_session_id))
    ]
    arguments = (
        argument
        for stream_session_id, start, end in time_ranges
        for argument in (stream_session_id, encode.time_range(int(start), int(end)), start, end)
    )
    return ("FCALL", "rtas_show_4", 1 + len(session_keys), keys.stream(stream), *session_keys, ttl_s, *arguments)


def seal(names: keys.Keys, ref: SessionRef, *, ttl_s: int, until_ms: int = commands.FOREVER) -> commands.Command:
    """Shut the gate, if the lease that ends at `until_ms` is not over: the marks are final then. Gives 1, and the marks
    where they are few."""
    return _stream_call("rtas_seal_2", names, ref, ttl_s, until_ms)


def extend_gate(names: keys.Keys, ref: SessionRef, *, ttl_s: int) -> commands.Command:
    """Renew the lifetime of an open gate once less than half of it is left."""
    return _stream_call("rtas_keep_2", names, ref, ttl_s)


def _publish(function: str, names: keys.Keys, record: SessionRecord, ttl_s: int) -> commands.Command:
    entry_data = encode.session_json(record.document)
    arguments = (record.ref.stream_session_id, entry_data, record.version, ttl_s)
    return _stream_call(function, names, record.ref, *arguments)


def _stream_call(function: str, names: keys.Keys, ref: SessionRef, *arguments: commands.Argument) -> commands.Command:
    stream_keys = (
        keys.stream(ref.stream),
        names.gate(ref.stream, ref.stream_session_id),
        names.marks(ref.stream, ref.stream_session_id),
        names.published(ref.stream, ref.stream_session_id),
    )
    return ("FCALL", function, len(stream_keys), *stream_keys, *arguments)
