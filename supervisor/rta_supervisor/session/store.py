"""The records of sessions in Redis: publishes their time ranges, renews their lifetimes, and finds those that are open,
closed or silent. Changes no state of a session: that is left to `service` and `effects`.

Holds nothing itself: any supervisor may serve any session.
"""

import functools
from collections.abc import Collection, Container, Iterable, Sequence
from typing import Final

from rta_supervisor.diagnostics import counters
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.retention import server_functions as retention_functions
from rta_supervisor.session import server_functions
from rta_supervisor.session.model import Published, SessionRecord, SessionRef
from rta_supervisor.session.records.totals_store import CALL_SESSIONS, TotalsStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import replies, scanning
from rta_supervisor.transport.failures import TemporaryRefusal
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.paging import PAGE_SIZE, map_pages, pages
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import keys
from rta_wire.session import State

SILENT_PAGE: Final = 2000
LOGGED_SESSIONS: Final = 10

NO_TIME_RANGE: Final = b" -"
"""How the totals of a session without data end."""


class SessionStore(TotalsStore):
    """The records of all sessions."""

    def __init__(self, link: Link, config: settings.Settings, clock: Clock = now_ms) -> None:
        super().__init__(link, config, clock)
        self.outage_log = link.outage_log

    async def note_heartbeat(self, refs: Iterable[SessionRef]) -> None:
        """Note that the writers of sessions are alive."""
        at_ms = self._clock()
        calls = [
            ("ZADD", self._keys.session_index(), "XX", "GT", *(part for ref in page for part in (at_ms, ref.identity)))
            for page in pages(list(refs), PAGE_SIZE)
        ]
        try:
            await self._link.do_all(calls)
        except TemporaryRefusal as error:
            # A full Redis refuses it, and messages have to go to make room. No writer counts as silent meanwhile.
            self.outage_log.log_failure(error)

    async def refresh(self, refs: Iterable[SessionRef], *, renewed: Container[SessionRef] = ()) -> list[Published]:
        """Publish new time ranges of open sessions, and renew the lifetimes of the sessions. Gives the totals of each.

        `renewed`: sessions whose lifetime was renewed a moment ago.
        """
        return await map_pages(list(refs), functools.partial(self._refresh_page, renewed))

    async def refresh_and_read(self, ref: SessionRef, properties: Collection[str] = ()) -> SessionRecord | None:
        """Publish the time range of one session as `refresh` does, and give the record with it."""
        call = server_functions.refresh(self._keys, [(ref, self._config.session.open_ttl_s)])
        [text], record = await self.call_and_read(call, ref.identity, properties)
        if text and not text.endswith(NO_TIME_RANGE):
            await self._publish_time_ranges([(ref, text)])
        return record

    async def _refresh_page(self, renewed: Container[SessionRef], refs: Sequence[SessionRef]) -> list[Published]:
        ttl_s = self._config.session.open_ttl_s
        lifetimes_s = [(ref, 0 if ref in renewed else ttl_s) for ref in refs]
        answers = await self._link.do_all(
            [server_functions.refresh(self._keys, page) for page in pages(lifetimes_s, self._call_sessions)]
        )
        totals_texts = (text for page in answers for text in page)
        published = [(ref, text) for ref, text in zip(refs, totals_texts, strict=True) if text]
        await self._publish_time_ranges([(ref, text) for ref, text in published if not text.endswith(NO_TIME_RANGE)])
        return published

    async def _publish_time_ranges(self, published: Sequence[Published]) -> None:
        """Add the time ranges to the streams that do not have them."""
        by_stream: dict[str, list[Published]] = {}
        for ref, totals in published:
            by_stream.setdefault(ref.stream, []).append((ref, totals))
        calls = [(stream, page) for stream, rows in by_stream.items() for page in pages(rows, CALL_SESSIONS)]
        answers = await self._link.try_all(
            [
                server_functions.publish_time_ranges(
                    self._keys,
                    stream,
                    [(ref.stream_session_id, *_time_range(totals)) for ref, totals in page],
                    ttl_s=self._config.session.open_ttl_s,
                )
                for stream, page in calls
            ]
        )
        for (_, page), answer in zip(calls, answers, strict=True):
            outcomes = [answer] * len(page) if isinstance(answer, Exception) else answer
            for (ref, _), outcome in zip(page, outcomes, strict=True):
                if isinstance(outcome, Exception):
                    self.log_spoilt_or_raise(ref.identity, outcome)
                else:
                    counters.counts.ranges_published += outcome

    async def extend_gates(self, refs: Iterable[SessionRef]) -> None:
        """Keep the gates of open sessions from expiring."""
        ttl_s = self._config.session.open_ttl_s
        await self._link.do_all([server_functions.extend_gate(self._keys, ref, ttl_s=ttl_s) for ref in refs])

    async def extend_closed(self, refs: Iterable[SessionRef]) -> None:
        """Keep closed sessions that the catalogue does not have yet from expiring."""
        ttl_s = self._config.session.open_ttl_s
        await self._link.do_all([server_functions.extend_closed(self._keys, ref.identity, ttl_s=ttl_s) for ref in refs])

    async def open_and_closed(self, besides: Container[str] = ()) -> tuple[list[SessionRef], list[SessionRef]]:
        """The sessions in the index but for `besides`: those that are open, and those that are closed and not released
        yet. Sessions that have expired are removed from the index."""
        scores = await scanning.read_sorted_set(self._link, self._keys.session_index())
        identities = [identity for identity in map(bytes.decode, scores) if identity not in besides]
        fields = (keys.STREAM_NAME, keys.STREAM_SESSION_ID, keys.STATE)
        rows = await self._link.try_all(
            [("HMGET", self._keys.session_state(identity), *fields) for identity in identities]
        )
        open_refs: list[SessionRef] = []
        closed_refs: list[SessionRef] = []
        expired: list[str] = []
        for identity, row in zip(identities, rows, strict=True):
            if isinstance(row, Exception):
                self.log_spoilt_or_raise(identity, row)
                continue
            stream, stream_session_id, state = row
            if stream is None:
                expired.append(identity)
                continue
            refs = closed_refs if State(state.decode()).is_closed else open_refs
            refs.append(SessionRef(identity, stream.decode(), int(stream_session_id)))
        if expired:
            self._log.warning("sessions_expired", count=len(expired), sessions=expired[:LOGGED_SESSIONS])
            unchanged = [(identity, scores[identity.encode()]) for identity in expired]
            await self._link.do_all(retention_functions.remove_unchanged(self._keys.session_index(), unchanged))
        return open_refs, closed_refs

    async def owned_by(self, refs: Sequence[SessionRef], principals: Collection[str]) -> list[SessionRef]:
        """Those of some sessions that belong to one of these principals."""
        owners = await self._link.try_all(
            [("HGET", self._keys.session_state(ref.identity), keys.PRINCIPAL) for ref in refs]
        )
        wanted = {principal.encode() for principal in principals}
        return [ref for ref, owner in zip(refs, owners, strict=True) if isinstance(owner, bytes) and owner in wanted]

    async def are_registered(self, refs: Sequence[SessionRef]) -> list[bool]:
        """Whether each has a gate and is in the index, and its stream is in the list of streams."""
        answers = await self._link.do_all(
            [
                call
                for ref in refs
                for call in (
                    ("EXISTS", self._keys.gate(ref.stream, ref.stream_session_id)),
                    ("SISMEMBER", keys.STREAMS, ref.stream),
                    ("ZSCORE", self._keys.session_index(), ref.identity),
                )
            ]
        )
        rows = zip(answers[::3], answers[1::3], answers[2::3], strict=True)
        return [bool(has_gate and has_stream and score is not None) for has_gate, has_stream, score in rows]

    async def silent_since(self, before_ms: int) -> dict[str, int]:
        """Sessions without a report since a time, with the time of their last one."""
        scores: dict[bytes, bytes] = {}
        while True:
            limit = ("LIMIT", len(scores), SILENT_PAGE)
            flat = await self._link.do(
                "ZRANGEBYSCORE", self._keys.session_index(), "-inf", before_ms, "WITHSCORES", *limit
            )
            scores |= pairs_to_dict(flat)
            if len(flat) < 2 * SILENT_PAGE:
                return {identity.decode(): int(score) for identity, score in scores.items()}

    async def published_version(self, ref: SessionRef) -> int:
        """The version of the newest JSON in the stream; 0 where there is none, or a writer spoilt what says it."""
        [text] = await self._link.try_all([("GET", self._keys.published(ref.stream, ref.stream_session_id))])
        if isinstance(text, Exception):
            self.log_spoilt_or_raise(ref.identity, text)
            return 0
        version: bytes = (text or b"").partition(b" ")[0]
        return int(version) if version.isdigit() else 0

    async def last_entry_id(self, stream: str) -> str:
        """Where a stream ends now; `0-0` if there is no such stream."""
        return replies.last_generated_id(await replies.read_stream_info(self._link, keys.stream(stream)))


def _time_range(totals: bytes) -> tuple[bytes, bytes]:
    """Start and end in the text of totals."""
    _, start, end = totals.rsplit(b" ", 2)
    return start, end
