"""Writes sessions to Redis: a new session, the effects of a transition in the order that the state machine gives, and
the notes for webhooks and the catalogue. Decides nothing.

Order matters across slots: the hash before the stream entry, so that a reader who joins between the two sees the new
JSON twice rather than never.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

import msgspec
import redis.exceptions

from rta_supervisor.diagnostics import principal_limits
from rta_supervisor.nodes import leases
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.session import config_bindings, id_counter, patch, server_functions, state_machine
from rta_supervisor.session.model import SessionRecord, SessionRef
from rta_supervisor.session.records.totals_store import MarksResult
from rta_supervisor.session.state_machine import Effect, Transition
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, oversized_entries, replies
from rta_supervisor.transport.failures import classify, is_key_specific
from rta_supervisor.transport.link import Link
from rta_wire import errors, keys, redis_errors, session
from rta_wire.session import State

EXPIRING_FIELDS_MAX: Final = 10_000
"""Fields of a hash that may expire: Redis needs less than a millisecond to free them."""


class StateChangeOutbox(Protocol):
    """Where changes of state are queued for webhooks."""

    @property
    def has_targets(self) -> bool:
        """Whether there is any webhook."""

    def note_for(self, version: int, state: State, previous: State | None, at_ms: int) -> str | None:
        """The note to be written with a change of state; None where no webhook wants it."""

    async def enqueue_pending(self, record: SessionRecord) -> None:
        """Queue the changes that are noted in a record."""


class SessionEffects:
    """Writes to the hash, the folded state and the stream of a session."""

    def __init__(
        self,
        link: Link,
        config: settings.Settings,
        sessions: SessionStore,
        on_change: Callable[[str], None],
        *,
        outbox: StateChangeOutbox | None = None,
        remove_hash: Callable[[str, str], None] = lambda _key, _prefix: None,
        clock: Clock = now_ms,
    ) -> None:
        """`on_change`: called with the identity of each session that changed.

        `remove_hash`: called with a hash of very many fields that nobody needs any more, and how their names begin.
        """
        self._link = link
        self._config = config
        self._keys = config.keys
        self._sessions = sessions
        self._on_change = on_change
        self._outbox = outbox
        self._remove_hash = remove_hash
        self._clock = clock

    async def allocate_id(self, stream: str) -> tuple[int, str]:
        """A stream session id that no session has, and the entry id at which the stream ends now."""
        stream_session_id, raw_info = await self._link.try_all(
            [("INCRBY", keys.LAST_STREAM_SESSION_ID, 1), replies.stream_info_command(keys.stream(stream))]
        )
        if isinstance(stream_session_id, Exception):
            if is_key_specific(stream_session_id):
                await id_counter.read_last_id(self._link)
            raise classify(stream_session_id)
        info = replies.parse_stream_info(raw_info)
        await oversized_entries.remove(self._link, keys.stream(stream), info)
        return stream_session_id, replies.last_generated_id(info)

    async def create(self, record: SessionRecord, *, position: str, at_ms: int) -> SessionRecord | None:
        """Write a new session. Gives it as it stands then; None where there is a session of that identity.

        `position`: the entry id at which its stream ends. `at_ms`: the time now.
        """
        record = msgspec.structs.replace(
            record, unqueued_changes=self._change_note(record.version, record.state, None, at_ms)
        )
        ttl_s = self._config.session.open_ttl_s
        is_new, *_ = await self._link.do(
            *server_functions.open_session(self._keys, record, position=position, now_ms=at_ms, ttl_s=ttl_s)
        )
        return record if is_new else None

    async def publish_opening(self, record: SessionRecord) -> None:
        """Publish the first entry of a session, and add the session to every list that it belongs to."""
        ref = record.ref
        at_ms = self._clock()
        try:
            await self._link.do_in_order(
                [
                    server_functions.publish_opening(self._keys, record, ttl_s=self._config.session.open_ttl_s),
                    ("SADD", keys.STREAMS, ref.stream),
                    ("ZADD", self._keys.session_index(), "GT", at_ms, ref.identity),
                    ("ZADD", self._keys.streams_used(), "GT", at_ms, ref.stream),
                ]
            )
        except redis.exceptions.ResponseError as error:
            raise _stream_error(ref, error) from error
        await self.announce_change(record)

    async def perform(
        self, record: SessionRecord, step: Transition, update: patch.Patch | None, until_ms: int
    ) -> SessionRecord | None:
        """Bring about all effects of a transition. Gives the session as it stands then; None where another supervisor
        changed it first, and the rest is left undone."""
        properties = () if update is None else update.names
        state = step.state
        fences: Sequence[str] = ()
        for effect in step.effects:
            if effect is Effect.SEAL:
                marks = await self._seal(record.ref, until_ms)
                state = state_machine.state_after_loss(state) if marks.problem else state
                fences = marks.fences
                if marks.mark_count > EXPIRING_FIELDS_MAX:
                    self._remove_hash(self._keys.marks(record.ref.stream, record.ref.stream_session_id), "")
            elif effect is Effect.PUBLISH_TIME_RANGE:
                record = await self._sessions.refresh_and_read(record.ref, properties) or record
            elif effect is Effect.PUT_JSON:
                changed = await self._put_json(record, state, update)
                if changed is None:
                    return None
                record = changed
            elif effect is Effect.PUBLISH_JSON:
                await self._publish_json(record)
            else:
                await self.publish_end(record, fences)
        return record

    async def publish_end(self, record: SessionRecord, fences: Sequence[str] = ()) -> None:
        """Publish the last entry of a closed session. Repeating it changes nothing. A stream that can't take it keeps
        no session from ending.

        `fences`: of units of the session, to be removed.
        """
        ttl_s = self._config.session.closed_ttl_s
        calls: list[commands.Command] = [server_functions.publish_end(self._keys, record, ttl_s=ttl_s)]
        if fences:
            calls.append(("UNLINK", *fences))
        mistake, *_ = await self._link.do_all(calls)
        if mistake:
            await self._sessions.note_spoilt(record.ref, keys.stream(record.ref.stream), mistake.decode())
        if record.unit_count > EXPIRING_FIELDS_MAX:
            self._remove_hash(self._keys.session_state(record.ref.identity), keys.UNIT_PREFIX)

    async def replace_json(self, record: SessionRecord, document: str, version: int) -> None:
        """Write JSON that is newer than the record's, from the catalogue, with the version after it.

        For a Redis that lost data and holds an older version.
        """
        properties = session.parse(document)
        raw = session.dump(session.with_supervisor_properties(properties, record.state, record.totals.time_range_ns))
        if await self._write_json(record, raw, record.state, {keys.VERSION: version}) is not None:
            await self._publish_json(msgspec.structs.replace(record, document=raw, version=version + 1))

    async def queue_webhooks(self, record: SessionRecord) -> None:
        """Queue the changes of state that are noted in a record and not queued yet."""
        if self._outbox is None or not self._outbox.has_targets:
            return
        if not record.unqueued_changes:
            unqueued = await self._sessions.unqueued_changes(record)
            record = msgspec.structs.replace(record, unqueued_changes=unqueued)
        await self._outbox.enqueue_pending(record)

    async def announce_change(self, record: SessionRecord) -> None:
        """Queue webhooks about a session that changed, and report it to `on_change`."""
        await self.queue_webhooks(record)
        self._on_change(record.ref.identity)

    async def _seal(self, ref: SessionRef, until_ms: int) -> MarksResult:
        """Shut the gate, and count what is in the stream by then."""
        ttl_s = self._config.session.open_ttl_s
        reply = await self._link.do(*server_functions.seal(self._keys, ref, ttl_s=ttl_s, until_ms=until_ms))
        if reply is None:
            raise leases.LeaseExpired
        return await self._sessions.fold_final_marks(ref, reply[1])

    async def _publish_json(self, record: SessionRecord) -> None:
        ttl_s = self._config.session.open_ttl_s
        try:
            await self._link.do(*server_functions.publish_json(self._keys, record, ttl_s=ttl_s))
        except redis.exceptions.ResponseError as error:
            raise _stream_error(record.ref, error) from error

    async def _put_json(self, record: SessionRecord, state: State, update: patch.Patch | None) -> SessionRecord | None:
        """The session with its new JSON; None where somebody changed it since the record was read."""
        document, updated = patch.apply(record, state, update)
        fields: dict[str, commands.Argument] = {
            keys.property_field(name): entry_id for name, entry_id in updated.items()
        }
        if new_properties := updated.keys() - record.property_entry_ids.keys() - {patch.STATE}:
            fields[keys.PROPERTY_COUNT] = self._check_properties(record, len(new_properties))
        changes = self._change_note(record.version + 1, state, record.state, self._clock())
        fields |= {keys.change_field(version): note for version, note in changes.items()}
        if update is not None and update.config and config_bindings.PROPERTY in updated:
            fields[keys.CONFIG] = update.config
        return await self._write_json(record, document, state, fields, () if update is None else update.names)

    def _check_properties(self, record: SessionRecord, new: int) -> int:
        """How many properties a session has with some new ones, refused where they are too many."""
        limit = self._config.limits.session_properties
        if record.property_count + new > limit:
            principal_limits.note_reached(record.principal, "session_properties")
            raise errors.LimitReached(
                principal=record.principal,
                what=f"updated {record.property_count} properties of session {record.ref.identity!r}",
                setting="limits.session_properties",
                limit=limit,
                remedy="Use fewer names: properties that are removed count too.",
            )
        return record.property_count + new

    async def _write_json(
        self,
        record: SessionRecord,
        document: bytes,
        state: State,
        fields: Mapping[str, commands.Argument],
        properties: Collection[str] = (),
    ) -> SessionRecord | None:
        """The session as it stands after new JSON was written; None where it was not, because the session changed."""
        fields = {**fields, **config_bindings.changed_fields(record.document, document)}
        lifetime = {"now_ms": self._clock(), "ttl_s": self._config.session.open_ttl_s}
        call = server_functions.put_json(self._keys, record, document, state, **lifetime, extra_fields=fields)
        has_webhooks = self._outbox is not None and self._outbox.has_targets
        is_written, latest = await self._sessions.call_and_read(
            call, record.ref.identity, properties, changes_until=record.version + 1 if has_webhooks else 0
        )
        return (latest or record) if is_written else None

    def _change_note(self, version: int, state: State, previous: State | None, at_ms: int) -> dict[str, str]:
        """The note of a change of state by version, to be written with the change: webhooks are queued from it, even if
        this supervisor dies in between."""
        note = None if self._outbox is None else self._outbox.note_for(version, state, previous, at_ms)
        return {} if note is None else {str(version): note}


def _stream_error(ref: SessionRef, error: redis.exceptions.ResponseError) -> Exception:
    """The error of a stream that takes no entry because a writer spoilt it; any other error as it is."""
    if not is_key_specific(error):
        return error
    return errors.SpoiltKey(key=keys.stream(ref.stream), reason=redis_errors.first_line(error))
