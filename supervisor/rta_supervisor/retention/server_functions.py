"""Calls of the server functions that trim and remove streams, keep the index of days, and keep closed sessions until
the archive has them.

The limits of a stream by number, bytes and age go to `rtas_trim_2` as arguments. They are applied in
`session/stream.lua`, which also has `rtas_remove_2`; the other functions are in the .lua files of this package.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from rta_supervisor.retention.day_sweep_rules import DayCutoff
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, paging
from rta_wire import day_streams, keys
from rta_wire.pb import control_pb2

CALL_MAX_ENTRIES: Final = 1000
"""Removed in one call at most: more would keep Redis from serving others for too long."""

CALL_MAX_MEMBERS: Final = 100
"""Members of a sorted set that one call looks at and takes out."""

DAY_INDEX_TTL_S: Final = 30 * day_streams.DAY_S
"""How long the newest day of a source is remembered after its last stream is gone."""


def trim(
    stream: str,
    limits: settings.TrimLimits,
    below: str,
    *,
    until_ms: int = commands.FOREVER,
    most: int = CALL_MAX_ENTRIES,
) -> commands.Command:
    """Remove the oldest entries of a stream that are over its limits and have an id below `below`, at most `most`.

    The reply is how many were removed; 0: no further call is needed.
    """
    arguments = (limits.max_entries, limits.max_bytes, int(limits.max_age_s * 1000))
    return (
        *("FCALL", "rtas_trim_2", 1, keys.stream(stream), *arguments),
        *(below, most, int(limits.exact), until_ms),
    )


def remove_if_idle(key: str, limits: settings.TrimLimits) -> commands.Command:
    """Remove a live or cold stream that got no entry for `idle_stream_s`.

    The reply is 0 if the key is gone, else the time of its last entry in ms.
    """
    return ("FCALL", "rtas_remove_2", 1, key, int(limits.idle_stream_s * 1000))


def remove_if_old(key: str, cutoff: DayCutoff, *, until_ms: int) -> commands.Command:
    """Remove the live or cold stream of a day unless its last entry is kept by `cutoff`.

    The reply is 1 if the key is gone, 0 if it is kept, -1 if the lease is over.
    """
    return ("FCALL", "rtas_day_remove_1", 1, key, cutoff.before_ms, cutoff.plausible_until_ms, until_ms)


def unlist_stream(stream: str, *, until_ms: int) -> commands.Command:
    """Take a stream out of the set of all streams. The reply is 0 if the lease is over, else 1."""
    return ("FCALL", "rtas_unlist_1", 1, keys.STREAMS, stream, until_ms)


def remove_if_unchanged(
    sorted_set: str, scores: Iterable[tuple[commands.Argument, commands.Argument]]
) -> commands.Command:
    """Take members out of a sorted set whose score is still the one that was read."""
    return ("FCALL", "rtas_forget_1", 1, sorted_set, *(argument for pair in scores for argument in pair))


def remove_unchanged(
    sorted_set: str, scores: Sequence[tuple[commands.Argument, commands.Argument]]
) -> list[commands.Command]:
    """Calls of `remove_if_unchanged` for many members: Redis serves others in between."""
    return [remove_if_unchanged(sorted_set, page) for page in paging.pages(scores, CALL_MAX_MEMBERS)]


def choose_day(names: keys.Keys, today: day_streams.Day) -> commands.Command:
    """Put today into the index of its source, unless the index has a later day.

    The reply is the stream of the newest day, and whether that day was added by this call.
    """
    return ("FCALL", "rtas_day_choose_1", 1, names.days(today.source), today.number, today.stream, DAY_INDEX_TTL_S)


def keep_days(names: keys.Keys, source: str, missing: Iterable[day_streams.Day]) -> commands.Command:
    """Keep the index of a source from expiring, and add days to it."""
    arguments = (argument for day in missing for argument in (day.number, day.stream))
    return ("FCALL", "rtas_day_keep_1", 1, names.days(source), DAY_INDEX_TTL_S, *arguments)


def drop_day(names: keys.Keys, day: day_streams.Day) -> commands.Command:
    """Take a day out of the index of its source, unless it is the newest."""
    return ("FCALL", "rtas_day_drop_1", 1, names.days(day.source), day.stream)


def release_closed(
    names: keys.Keys, identity: str, version: int, *, ttl_s: int, unarchived_ttl_s: int
) -> commands.Command:
    """Let a closed session expire that the catalogue has in this version.

    `unarchived_ttl_s`: its lifetime while the archive does not have it; 0: it does not wait for the archive.
    """
    return ("FCALL", "rtas_put_away_1", 2, *keys.session_hashes(names, identity), version, ttl_s, unarchived_ttl_s)


def mark_archived(names: keys.Keys, note: control_pb2.NoteArchived, *, ttl_s: int) -> commands.Command:
    """Note that the archive has a session in this version, and let it expire after `ttl_s` at the latest."""
    arguments = (note.stream_session_id, note.version, note.checksum, ttl_s)
    return ("FCALL", "rtas_archived_1", 2, *keys.session_hashes(names, note.identity), *arguments)


def mark_archived_until(
    names: keys.Keys, identity: str, stream_session_id: int, before: str, value: str
) -> commands.Command:
    """Note how far the archive has an open session, unless that has changed since `before` was read."""
    return (
        *("FCALL", "rtas_archived_until_1", 2, *keys.session_hashes(names, identity)),
        *(stream_session_id, before, value),
    )


def extend_unarchived(names: keys.Keys, identity: str, stream_session_id: int, *, ttl_s: int) -> commands.Command:
    """Extend the lifetime of a session that the archive does not have; `ttl_s` 0 leaves it as it is.

    The reply is whether the session is there.
    """
    return ("FCALL", "rtas_hold_for_archive_1", 2, *keys.session_hashes(names, identity), stream_session_id, ttl_s)


def note_cut(names: keys.Keys, identity: str, stream_session_id: int) -> commands.Command:
    """Note that entries of a session were removed before the archive had them."""
    return ("FCALL", "rtas_note_cut_1", 2, *keys.session_hashes(names, identity), stream_session_id)


def remove_other_session(names: keys.Keys, identity: str, last_updated: str) -> commands.Command:
    """Remove the hash of a session that is not ours, if it was last updated then. The reply is whether it was."""
    return ("FCALL", "rtas_remove_other_1", 2, *keys.session_hashes(names, identity), last_updated)
