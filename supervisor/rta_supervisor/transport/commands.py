"""Commands as tuples of words, ready to be sent one by one or packed together. Sends nothing itself."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from rta_supervisor.catalogue.model import Row
from rta_wire import keys, limits
from rta_wire.codec import encode
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2

Word = str | bytes | int | float
Call = tuple[Word, ...]

ENTRY_ID_PART_MAX: Final = 2**64 - 1
HIGHEST_ID: Final = f"{ENTRY_ID_PART_MAX}-{ENTRY_ID_PART_MAX}"
FOREVER: Final = 0
"""The end of a lease for what needs none."""


def _session_call(function: str, names: keys.Keys, identity: str, *args: Word) -> Call:
    return ("FCALL", function, 2, names.session(identity), names.state(identity), *args)


def _stream_call(function: str, names: keys.Keys, stream: str, stream_session_id: int, *args: Word) -> Call:
    guarded = (
        keys.stream(stream),
        names.gate(stream, stream_session_id),
        names.marks(stream, stream_session_id),
        names.shown(stream, stream_session_id),
    )
    return ("FCALL", function, len(guarded), *guarded, *args)


def open_session(names: keys.Keys, identity: str, *, further: Mapping[str, Word], **new: Any) -> Call:
    """`further`: more fields of our own state, for a session that is restored."""
    order = ("stream_session_id", "stream", "position", "json", "state", "principal", "now_ms", "ttl_s", "channel")
    pairs = (word for pair in further.items() for word in pair)
    return _session_call("rtas_open_1", names, identity, *(new[name] for name in order), *pairs)


def fold(
    names: keys.Keys,
    reports: Sequence[tuple[tuple[str, int], Mapping[str, Totals]]],
    *,
    principal: str | None = None,
) -> Call:
    """Totals of units of sessions, each session by its identity and stream session id.

    `principal`: who reported it. None: it stands in the stream, so it needs nobody's word.
    """
    states = [names.state(identity) for (identity, _), _ in reports]
    words: list[Word] = [0, "-"] if principal is None else [1, principal]
    for (_, stream_session_id), units in reports:
        words += (stream_session_id, len(units))
        for unit, totals in units.items():
            words.append(unit)
            words += totals.words()
    return ("FCALL", "rtas_fold_2", len(states), *states, *words)


def refresh(names: keys.Keys, sessions: Sequence[tuple[str, int, int]]) -> Call:
    """For each its identity, stream session id and lifetime in seconds; 0 leaves the lifetime as it is."""
    guarded = [key for identity, _, _ in sessions for key in (names.session(identity), names.state(identity))]
    return ("FCALL", "rtas_refresh_3", len(guarded), *guarded, *(word for one in sessions for word in one[1:]))


def put_json(names: keys.Keys, identity: str, version: int, *words: Word) -> Call:
    """`words`: json, state, now_ms, ttl_s, channel, then names and values of our own state."""
    return _session_call("rtas_put_json_1", names, identity, version, *words)


def put_away(names: keys.Keys, identity: str, version: int, *, ttl_s: int, held_ttl_s: int) -> Call:
    """`held_ttl_s`: how long it lives while the archive does not have it; 0: it does not wait for that."""
    return _session_call("rtas_put_away_1", names, identity, version, ttl_s, held_ttl_s)


def archived(names: keys.Keys, note: control_pb2.NoteArchived, *, ttl_s: int) -> Call:
    words = (note.stream_session_id, note.version, note.checksum, ttl_s)
    return _session_call("rtas_archived_1", names, note.identity, *words)


def hold_for_archive(names: keys.Keys, identity: str, stream_session_id: int, *, ttl_s: int) -> Call:
    """`ttl_s`: 0 leaves the lifetime as it is."""
    return _session_call("rtas_hold_for_archive_1", names, identity, stream_session_id, ttl_s)


def note_cut(names: keys.Keys, identity: str, stream_session_id: int) -> Call:
    return _session_call("rtas_note_cut_1", names, identity, stream_session_id)


def hold(names: keys.Keys, identity: str, *, ttl_s: int) -> Call:
    return _session_call("rtas_hold_1", names, identity, ttl_s)


def resurrect(names: keys.Keys, row: Row, *, position: str, now_ms: int, ttl_s: int) -> Call:
    """A session that is closed and in the catalogue, with all that Redis once knew of it but for its units."""
    totals = row.totals.words()
    ours = {
        "state": row.state.value,
        "principal": row.principal,
        "version": row.version,
        "openedMs": row.opened_ms,
        keys.TOTALS: " ".join(totals),
        "safe": row.version,
    }
    readers = (row.stream_session_id, row.stream, position, row.json, now_ms)
    pairs = (word for pair in ours.items() for word in pair)
    return _session_call("rtas_resurrect_1", names, row.identity, *readers, *totals[-2:], ttl_s, *pairs)


def note_loss(names: keys.Keys, identity: str, stream_session_id: int) -> Call:
    return _session_call("rtas_note_loss_1", names, identity, stream_session_id)


def raise_floor(floor: int) -> Call:
    return ("FCALL", "rtas_raise_floor_1", 1, keys.LAST_STREAM_SESSION_ID, floor)


class Told(NamedTuple):
    """Session JSON for the stream, with the version of the session: nothing older is told after it."""

    document: bytes
    version: int


def announce(names: keys.Keys, stream: str, stream_session_id: int, told: Told, *, ttl_s: int) -> Call:
    return _stream_call("rtas_announce_2", names, stream, stream_session_id, *_told(stream_session_id, told), ttl_s)


def tell(names: keys.Keys, stream: str, stream_session_id: int, told: Told, *, ttl_s: int) -> Call:
    """The stream entry that tells readers the new Session JSON."""
    return _stream_call("rtas_tell_2", names, stream, stream_session_id, *_told(stream_session_id, told), ttl_s)


def finish(names: keys.Keys, stream: str, stream_session_id: int, told: Told, *, ttl_s: int) -> Call:
    return _stream_call("rtas_finish_2", names, stream, stream_session_id, *_told(stream_session_id, told), ttl_s)


def _told(stream_session_id: int, told: Told) -> tuple[Word, ...]:
    return stream_session_id, encode.session_json(told.document), told.version


def seal(names: keys.Keys, stream: str, stream_session_id: int, *, ttl_s: int, until_ms: int = FOREVER) -> Call:
    return _stream_call("rtas_seal_1", names, stream, stream_session_id, ttl_s, until_ms)


def keep(names: keys.Keys, stream: str, stream_session_id: int, *, ttl_s: int) -> Call:
    return _stream_call("rtas_keep_1", names, stream, stream_session_id, ttl_s)


def show(names: keys.Keys, stream: str, spans: Sequence[tuple[int, bytes, bytes]], *, ttl_s: int) -> Call:
    """The entries that tell readers what sessions of a stream cover: of each its number, start and end as Redis has
    them."""
    guarded = [key for number, _, _ in spans for key in (names.gate(stream, number), names.shown(stream, number))]
    words = (
        word for number, start, end in spans for word in (number, encode.time_range(int(start), int(end)), start, end)
    )
    return ("FCALL", "rtas_show_3", 1 + len(guarded), keys.stream(stream), *guarded, ttl_s, *words)


def take_lease(key: str, owner: str, *, ttl_ms: int) -> Call:
    return ("FCALL", "rtas_take_1", 1, key, owner, ttl_ms)


def release_lease(key: str, owner: str) -> Call:
    return ("FCALL", "rtas_release_1", 1, key, owner)


def forget(sorted_set: str, scores: Iterable[tuple[Word, Word]]) -> Call:
    """Take members out whose score is still the one that was seen."""
    return ("FCALL", "rtas_forget_1", 1, sorted_set, *(word for pair in scores for word in pair))


def _lane_call(function: str, names: keys.Keys, key: str, *args: Word) -> Call:
    return ("FCALL", function, 2, key, names.lane_count(key), keys.CONTROL_GROUP, *args)


def begin_lane(names: keys.Keys, key: str) -> Call:
    return _lane_call("rtas_begin_1", names, key)


def settle_in_lane(names: keys.Keys, key: str, ids: Sequence[str]) -> Call:
    """`ids` in the order of the stream."""
    return _lane_call("rtas_settle_1", names, key, next_id(ids[-1]), *ids)


def next_id(entry_id: str) -> str:
    """The next id that there can be; the last of all ids has none and stays."""
    ms, _, seq = entry_id.partition("-")
    if int(seq) < ENTRY_ID_PART_MAX:
        return f"{ms}-{int(seq) + 1}"
    return f"{int(ms) + 1}-0" if int(ms) < ENTRY_ID_PART_MAX else entry_id


def missing_in_lane(names: keys.Keys, key: str) -> Call:
    return _lane_call("rtas_missing_1", names, key)


def retire_from_lane(names: keys.Keys, key: str, consumer: str) -> Call:
    return _lane_call("rtas_retire_1", names, key, consumer)


def again(names: keys.Keys, key: str, letter_id: str, raw: bytes, *, ttl_s: int) -> Call:
    words = (raw, limits.CONTROL_MAX_ENTRIES, ttl_s)
    return ("FCALL", "rtas_again_1", 2, key, names.again(key, letter_id), *words)


def reply(names: keys.Keys, request_id: str, raw: bytes, *, ttl_s: int) -> Call:
    return ("FCALL", "rtas_reply_1", 1, names.reply(request_id), raw, ttl_s)


def freeze(stream: str, entry_id: str, before: str, batch: bytes, *, until_ms: int) -> Call:
    """A batch for the cold stream, after the one that ends it now."""
    return ("FCALL", "rtas_freeze_1", 1, keys.cold(stream), entry_id, before, keys.COLD_FIELD, batch, until_ms)


def take_out(stream: str, entry_id: str, *, until_ms: int) -> Call:
    return ("FCALL", "rtas_take_out_1", 1, keys.cold(stream), entry_id, until_ms)


def switch(names: keys.Keys, stream: str, before: bytes, after: bytes, *, until_ms: int) -> Call:
    """What the index says of a stream, if it said `before`; empty: nothing."""
    return ("FCALL", "rtas_switch_1", 1, names.cold_index(), stream, before, after, until_ms)


def shed(stream: str, through: str, *, until_ms: int) -> Call:
    """Entries up to an id, out of the live stream."""
    return ("FCALL", "rtas_shed_1", 1, keys.stream(stream), next_id(through), until_ms)
