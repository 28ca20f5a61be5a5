"""Calls of the server functions that trim streams, remove keys, and hold sessions for the archive."""

from collections.abc import Iterable
from typing import Final

from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_wire import keys
from rta_wire.pb import control_pb2

CALL_MAX_ENTRIES: Final = 1000
"""Removed in one call at most: more would keep Redis from serving others for too long."""


def trim(name: str, limits: settings.TrimLimits, below: str, *, until_ms: int = commands.FOREVER) -> commands.Command:
    """Gives how many entries it removed; 0 means that there is nothing more to do."""
    bounds = (limits.max_entries, limits.max_bytes, int(limits.max_age_s * 1000))
    way = (below, CALL_MAX_ENTRIES, int(limits.exact), until_ms)
    return ("FCALL", "rtas_trim_1", 1, keys.stream(name), *bounds, *way)


def remove(key: str, limits: settings.TrimLimits) -> commands.Command:
    """Gives 0 if the stream is gone, else the time of its last entry in ms."""
    return ("FCALL", "rtas_remove_1", 1, key, int(limits.idle_stream_s * 1000))


def release_closed(names: keys.Keys, identity: str, version: int, *, ttl_s: int, held_ttl_s: int) -> commands.Command:
    """`held_ttl_s`: how long it lives while the archive does not have it; 0: it does not wait for that."""
    return commands.session_call("rtas_put_away_1", names, identity, version, ttl_s, held_ttl_s)


def mark_archived(names: keys.Keys, note: control_pb2.NoteArchived, *, ttl_s: int) -> commands.Command:
    words = (note.stream_session_id, note.version, note.checksum, ttl_s)
    return commands.session_call("rtas_archived_1", names, note.identity, *words)


def extend_unarchived(names: keys.Keys, identity: str, stream_session_id: int, *, ttl_s: int) -> commands.Command:
    """`ttl_s`: 0 leaves the lifetime as it is."""
    return commands.session_call("rtas_hold_for_archive_1", names, identity, stream_session_id, ttl_s)


def note_cut(names: keys.Keys, identity: str, stream_session_id: int) -> commands.Command:
    return commands.session_call("rtas_note_cut_1", names, identity, stream_session_id)


def remove_if_unchanged(
    sorted_set: str, scores: Iterable[tuple[commands.Argument, commands.Argument]]
) -> commands.Command:
    """Take members out whose score is still the one that was seen."""
    return ("FCALL", "rtas_forget_1", 1, sorted_set, *(word for pair in scores for word in pair))
