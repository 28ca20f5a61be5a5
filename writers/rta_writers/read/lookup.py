"""Finds what a read is about: the stream of a session, the streams of a source, the names of sessions, and the template
of their keys. What is not there is an error with a name.

Does not import Spark.
"""

import functools
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import redis
import redis.exceptions

from rta_wire import day_streams, entry_ids, errors, keys, redis_url
from rta_wire.stream import source_cursor
from rta_wire.stream.live_then_cold import StreamCounters
from rta_writers.connection import retry
from rta_writers.control import supervisors
from rta_writers.options.read import NO_ARCHIVE, ReadForm, ReadOptions
from rta_writers.read import archive_files
from rta_writers.read import stream as read_stream

log: Final = logging.getLogger("rta_writers")

SESSIONS_PER_CALL: Final = 1_000


class ReadPosition(msgspec.Struct, frozen=True):
    """Where a read begins: after an entry of a stream, for one session or for all."""

    stream: str
    after: str = entry_ids.MIN
    stream_session_id: int | None = None


class ReadSource(msgspec.Struct, frozen=True):
    """What is read: a session in its stream, or a whole source with all of its streams in the order of reading."""

    name: str
    streams: tuple[str, ...]
    stream_session_id: int | None = None
    after: str = entry_ids.MIN
    """Where the session begins."""
    stored: archive_files.StoredSession | None = None
    """What the archive has of the session."""

    @property
    def archived_until(self) -> str:
        """Entries up to this id are in the archive."""
        return entry_ids.MIN if self.stored is None else self.stored.archive.until

    def position(self, stream: str, after: str = entry_ids.MIN) -> ReadPosition:
        """A position in one of the streams: after an id, and not before the session begins."""
        return ReadPosition(stream, max(after, self.after, key=entry_ids.parse), self.stream_session_id)


NOTHING_YET: Final = ReadSource("", ())
"""A session that is not there yet."""


def learn_names(client: redis.Redis, options: ReadOptions) -> ReadOptions:
    """The options with the template of session keys that supervisors registered, unless they name one.

    Raises where a prefix was chosen under which no supervisor ever registered: nothing would be found there.
    """
    if not options.learns_template:
        return options
    template = call_redis(options, lambda: _registered_template(client, options))
    if template is None:
        return msgspec.structs.replace(options, learns_template=False)
    return msgspec.structs.replace(options, names=msgspec.structs.replace(options.names, session_template=template))


def _registered_template(client: redis.Redis, options: ReadOptions) -> str | None:
    """The registered template; None where the user may not ask for it."""
    names = options.names
    try:
        is_registered = names.prefix == keys.Keys().prefix or _is_registered(client, names)
        template = supervisors.registered_template(client, names)
    except redis.exceptions.NoPermissionError:
        # The ACL file of readers before 0.2 has no access to registrations.
        return None
    if not is_registered:
        raise errors.NoSupervisor(
            f"No supervisor is registered at {redis_url.redact(options.redis_url)} under the key prefix "
            f"{names.prefix!r}. Set option 'keyPrefix' to what their setting keys.prefix says.",
            url=redis_url.redact(options.redis_url),
            prefix=names.prefix,
        )
    return template


def _is_registered(client: redis.Redis, names: keys.Keys) -> bool:
    """Whether a supervisor ever registered. Versions before 0.2 are only in the list of those that run."""
    seen: Any = client.hmget(names.last_registration(), [keys.NODE_SEEN_MS])
    return seen[0] is not None or bool(client.zrange(names.nodes(), 0, 0))


def find_source(
    client: redis.Redis, options: ReadOptions, find_archived: archive_files.FindSession = archive_files.find_session
) -> ReadSource:
    """The session of the options, by its hash, or the streams of their source."""
    if options.session is not None:
        return _find_session(client, options, options.session, find_archived)
    assert options.stream is not None
    streams = _read_days(client, options, options.stream) if options.follow_days else ()
    return ReadSource(options.stream, tuple(source_cursor.ordered_streams(options.stream, streams)))


def _find_session(
    client: redis.Redis, options: ReadOptions, identity: str, find_archived: archive_files.FindSession
) -> ReadSource:
    fields = [keys.STREAM_NAME, keys.STREAM_SESSION_ID, keys.STREAM_POSITION]
    stream, number, after = call_redis(options, lambda: client.hmget(options.names.session(identity), fields))
    stored = find_stored(client, options, identity, None if number is None else int(number), find_archived)
    if stored is not None and (stream is None or number is None):
        part = stored.first_part
        return ReadSource(part.stream, (part.stream,), part.stream_session_id, stored=stored)
    if stream is None or number is None:
        if options.wait_for_stream:
            return NOTHING_YET
        raise errors.UnknownSession(
            f"There is no session {identity!r} in Redis, nor in an archive that is known here: it was never there, or "
            "it has expired.",
            identity=identity,
        )
    if options.stream is not None and not day_streams.is_stream_of(stream.decode(), options.stream):
        raise errors.Usage(reason=f"Session {identity!r} is in stream {stream.decode()!r}, not in {options.stream!r}")
    name = stream.decode()
    position = after.decode() if after else entry_ids.MIN
    return ReadSource(name, (name,), int(number), _begin(position, stored), stored)


def _begin(position: str, stored: archive_files.StoredSession | None) -> str:
    """Where a session begins. After a loss of Redis its hash says where it went on, which is behind what was archived
    before."""
    if stored is None:
        return position
    first = stored.first_part
    if first.number == 1:
        return min(position, first.after, key=entry_ids.parse)
    return position if entry_ids.is_after(first.after, position) else entry_ids.MIN


def find_stored(
    client: redis.Redis,
    options: ReadOptions,
    identity: str,
    number: int | None = None,
    find_archived: archive_files.FindSession = archive_files.find_session,
) -> archive_files.StoredSession | None:
    """What the archive has of a session, None where it has nothing, or where there is no archive.

    `number`: its stream session id. Without it, the newest session of that identity is meant.
    """
    if options.archive == NO_ARCHIVE or options.form is ReadForm.ENTRIES:
        return None
    path = options.archive
    if path is None:
        path = call_redis(options, lambda: _registered_archive(client, options))
        if not path or not Path(path).is_dir():
            return None
    elif not Path(path).is_dir():
        raise errors.Usage(reason=f"Option 'archive': there is no folder {path!r}")
    return find_archived(path, identity, number)


def _registered_archive(client: redis.Redis, options: ReadOptions) -> str:
    """The folder of the archive that supervisors registered, empty where there is none."""
    try:
        raw: Any = client.hget(options.names.last_registration(), keys.NODE_ARCHIVE.decode())
    except redis.exceptions.NoPermissionError:
        return ""
    return "" if raw is None else raw.decode()


def _read_days(client: redis.Redis, options: ReadOptions, source: str) -> list[str]:
    """The streams in the index of days of a source."""

    def read() -> Any:
        key = options.names.days(source)
        try:
            return client.zrange(key, 0, -1)
        except redis.exceptions.NoPermissionError:
            # The ACL file of readers before 0.2 lacks the index. The list of all streams has the same days.
            _warn_of_acl(options.names.days("*"))
            return client.smembers(keys.STREAMS)

    return [raw.decode() for raw in call_redis(options, read)]


@functools.cache
def _warn_of_acl(pattern: str) -> None:
    """Log once in a process which line is missing in an ACL."""
    log.warning("The ACL of this user lacks %%R~%s: days are looked for among the names of all streams", pattern)


def read_counters(client: redis.Redis, options: ReadOptions, streams: Sequence[str]) -> dict[str, StreamCounters]:
    """Counters of streams. One that does not exist is an empty one."""
    counters: dict[str, StreamCounters] = call_redis(
        options, lambda: read_stream.counters(client, options.names, streams)
    )
    return counters


def check_known(
    client: redis.Redis, options: ReadOptions, source: ReadSource, counters: Mapping[str, StreamCounters]
) -> None:
    """Raise where there is no such stream: no entries, live or cold, no days, and it is not in the list of streams."""
    if options.session is not None or options.wait_for_stream:
        return
    if len(source.streams) > 1 or any(now.added for now in counters.values()):
        return
    if not call_redis(options, lambda: client.sismember(keys.STREAMS, source.name)):
        raise errors.UnknownStream(stream=source.name)


def read_identities(
    client: redis.Redis, options: ReadOptions, source: ReadSource, streams: Collection[str]
) -> dict[int, str]:
    """Names of the sessions of some streams by their numbers, from the index: entries have the numbers only."""
    if options.session is not None and source.stream_session_id is not None:
        return {source.stream_session_id: options.session}
    identities: dict[int, str] = {}
    members = call_redis(options, lambda: client.zrange(options.names.session_index(), 0, -1))
    indexed = [member.decode() for member in members]
    for first in range(0, len(indexed), SESSIONS_PER_CALL):
        page = indexed[first : first + SESSIONS_PER_CALL]
        pipe = client.pipeline(transaction=False)
        for identity in page:
            pipe.hmget(options.names.session(identity), [keys.STREAM_NAME, keys.STREAM_SESSION_ID])
        for identity, (stream, number) in zip(page, call_redis(options, pipe.execute), strict=True):
            if number is not None and stream is not None and stream.decode() in streams:
                identities[int(number)] = identity
    return identities


def call_redis(options: ReadOptions, call: Callable[[], Any]) -> Any:
    """The result of a call that reads from Redis. Errors of Redis are raised as those of `rta_wire`."""
    try:
        return call()
    except retry.REDIS_ERRORS as error:
        raise retry.to_rta_error(options.redis_url, error) from error
