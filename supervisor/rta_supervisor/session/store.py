"""What Redis knows of sessions: reads it, folds reports into it, shows it to readers. How a session lives is `life`'s.

Holds no state of its own: any supervisor may serve any session.
"""

import functools
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Final

from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes.server_clock import Clock, now_ms
from rta_supervisor.retention import functions as retention_functions
from rta_supervisor.session import functions, model
from rta_supervisor.session.model import FoldResult, Published, SessionRecord, SessionRef
from rta_supervisor.settings import settings
from rta_supervisor.transport import replies
from rta_supervisor.transport.failures import TemporaryRefusal, classify, is_key_specific
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.paging import map_pages, pages
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import errors, keys
from rta_wire.control.totals import Mark, Totals
from rta_wire.session import State

UNCHANGED_WORDS: Final = 3
"""Words of an answer to a fold that held no news."""

CALL_SESSIONS: Final = 50
"""Sessions that one call is about where they live on one server: a call costs as much as what it does for one of them,
and keeps Redis from serving others meanwhile."""

NO_TIME: Final = b" -"


class SessionStore:
    """Reading and folding."""

    def __init__(self, link: Link, config: settings.Settings, clock: Clock = now_ms) -> None:
        self._link = link
        self._keys = config.keys
        self._config = config
        self._clock = clock
        self._log = log.get()
        self.outage_log = link.outage_log

    @property
    def _at_once(self) -> int:
        """Sessions that one call can be about."""
        return CALL_SESSIONS if self._link.is_one_server else 1

    async def read(self, identity: str) -> SessionRecord | None:
        """What is known of a session, None where there is none."""
        [known] = await self.read_all([identity])
        return known

    async def read_all(self, identities: Sequence[str]) -> list[SessionRecord | None]:
        """The same for many, in one round trip."""
        answers = await self._link.do_all(
            [
                call
                for identity in identities
                for call in (
                    ("HGETALL", self._keys.session_state(identity)),
                    ("HGET", self._keys.session(identity), keys.JSON),
                )
            ]
        )
        found = zip(identities, answers[::2], answers[1::2], strict=True)
        return [
            model.parse_record(identity, pairs_to_dict(flat), document) if flat else None
            for identity, flat, document in found
        ]

    async def fold(
        self, reports: Mapping[tuple[str, int], Mapping[str, Totals]], *, principal: str | None = None
    ) -> list[FoldResult]:
        """Join reports into sessions, keyed by (identity, stream session id). Only those of `principal`, if given."""
        return await map_pages(list(reports.items()), functools.partial(self._fold_slice, principal))

    async def _fold_slice(
        self, principal: str | None, reports: Sequence[tuple[tuple[str, int], Mapping[str, Totals]]]
    ) -> list[FoldResult]:
        parts = pages(reports, self._at_once)
        folded = await self._link.do_all([functions.fold(self._keys, some, principal=principal) for some in parts])
        answers = [answer for some in folded for answer in some]
        _count(answers)
        return [
            model.parse_fold_result(
                SessionRef(identity, answer[1].decode(), number), model.FoldOutcome(answer[0].decode()), answer[2]
            )
            for ((identity, number), _), answer in zip(reports, answers, strict=True)
        ]

    async def marks(self, ref: SessionRef) -> dict[str, Totals]:
        """What stands in the stream, by unit. Marks are written with the data and never lag behind it."""
        [marks] = await self._link.try_all([("HGETALL", self._keys.marks(ref.stream, ref.stream_session_id))])
        if isinstance(marks, Exception):
            self.log_spoilt_or_raise(ref.identity, marks)
            return {}
        return self._totals(ref, marks)

    def log_spoilt_or_raise(self, identity: str, error: Exception) -> None:
        """Go on without what a writer spoilt in its own keys, and say so. Any other error is raised."""
        if not is_key_specific(error):
            raise classify(error)
        self._log.error("session_spoilt", session=identity, error=str(error))

    async def fold_marks(self, ref: SessionRef, marks: Sequence[bytes] | None = None) -> bool:
        """Fold what stands in the stream like reports. Whether it held news."""
        units = await self.marks(ref) if marks is None else self._totals(ref, marks)
        if not units:
            return False
        [folded] = await self.fold({(ref.identity, ref.stream_session_id): units})
        if folded.implausible_units:
            self._log.error("marks_implausible", session=ref.identity, units=folded.implausible_units)
        return folded.outcome is model.FoldOutcome.CHANGED

    def _totals(self, ref: SessionRef, marks: Sequence[bytes]) -> dict[str, Totals]:
        """Marks are the writers' to write: one that makes no sense is left out, and keeps nobody from anything."""
        found: dict[str, Totals] = {}
        wrong: list[Exception] = []
        for unit, mark in pairs_to_dict(marks).items():
            try:
                found[unit.decode()] = Mark.from_text(mark.decode()).totals
            except (errors.BadMessage, UnicodeDecodeError) as error:
                wrong.append(error)
        if wrong:
            self._log.error("marks_unreadable", session=ref.identity, count=len(wrong), first=str(wrong[0]))
        return found

    async def note_heartbeat(self, refs: Iterable[SessionRef]) -> None:
        """Note that the writers of sessions are alive."""
        at_ms = self._clock()
        words = [word for ref in refs for word in (at_ms, ref.identity)]
        if not words:
            return
        try:
            await self._link.do("ZADD", self._keys.session_index(), "XX", "GT", *words)
        except TemporaryRefusal as error:
            # A full Redis takes no notes, and messages have to go to make room. The watchdog knows that it was full.
            self.outage_log.log_failure(error)

    async def refresh(self, refs: Iterable[SessionRef], *, renewed: Container[SessionRef] = ()) -> list[Published]:
        """Show readers the time ranges that they have not seen, and keep open sessions alive.

        `renewed`: those whose lifetime was set a moment ago. Gives what stands of each that is open.
        """
        return await map_pages(list(refs), functools.partial(self._refresh_slice, renewed))

    async def _refresh_slice(self, renewed: Container[SessionRef], refs: Sequence[SessionRef]) -> list[Published]:
        ttl_s = self._config.session.open_ttl_s
        wanted = [(ref.identity, ref.stream_session_id, 0 if ref in renewed else ttl_s) for ref in refs]
        answers = await self._link.do_all(
            [functions.refresh(self._keys, some) for some in pages(wanted, self._at_once)]
        )
        found = zip(refs, (answer for some in answers for answer in some), strict=True)
        shown = [(ref, totals) for ref, totals in found if totals]
        await self._publish_time_ranges([(ref, totals) for ref, totals in shown if not totals.endswith(NO_TIME)])
        return shown

    async def _publish_time_ranges(self, shown: Sequence[Published]) -> None:
        """Tell streams the time ranges that they were not told."""
        streams: dict[str, list[Published]] = {}
        for one in shown:
            streams.setdefault(one[0].stream, []).append(one)
        parts = [(stream, some) for stream, all_ in streams.items() for some in pages(all_, CALL_SESSIONS)]
        answers = await self._link.try_all(
            [
                functions.publish_time_ranges(
                    self._keys,
                    stream,
                    [
                        (ref.stream_session_id, start, end)
                        for ref, totals in some
                        for _, start, end in (totals.rsplit(b" ", 2),)
                    ],
                    ttl_s=self._config.session.open_ttl_s,
                )
                for stream, some in parts
            ]
        )
        for (_, some), answer in zip(parts, answers, strict=True):
            each = [answer] * len(some) if isinstance(answer, Exception) else answer
            for (ref, _), one in zip(some, each, strict=True):
                if isinstance(one, Exception):
                    self.log_spoilt_or_raise(ref.identity, one)
                else:
                    counters.counts.ranges_published += one

    async def extend_gates(self, refs: Iterable[SessionRef]) -> None:
        """Keep the gates of open sessions from expiring."""
        ttl_s = self._config.session.open_ttl_s
        await self._link.do_all(
            [functions.extend_gate(self._keys, ref.stream, ref.stream_session_id, ttl_s=ttl_s) for ref in refs]
        )

    async def extend_closed(self, closed: Iterable[SessionRef]) -> None:
        """Keep closed sessions that no catalogue has yet, for as long as that takes."""
        ttl_s = self._config.session.open_ttl_s
        await self._link.do_all([functions.extend_closed(self._keys, ref.identity, ttl_s=ttl_s) for ref in closed])

    async def open_and_closed(self, besides: Container[str] = ()) -> tuple[list[SessionRef], list[SessionRef]]:
        """Every session in the index: those that are open, and those that are closed and still have to be put away."""
        scores = pairs_to_dict(await self._link.do("ZRANGE", self._keys.session_index(), 0, -1, "WITHSCORES"))
        identities = [identity for identity in map(bytes.decode, scores) if identity not in besides]
        names = (keys.STREAM_NAME, keys.STREAM_SESSION_ID, keys.STATE)
        places = await self._link.do_all(
            [("HMGET", self._keys.session_state(identity), *names) for identity in identities]
        )
        open_refs: list[SessionRef] = []
        closed_refs: list[SessionRef] = []
        gone: list[str] = []
        for identity, (stream, number, state) in zip(identities, places, strict=True):
            if stream is None:
                gone.append(identity)
                continue
            refs = closed_refs if State(state.decode()).is_closed else open_refs
            refs.append(SessionRef(identity, stream.decode(), int(number)))
        if gone:
            self._log.warning("sessions_expired", sessions=gone)
            seen = [(identity, scores[identity.encode()]) for identity in gone]
            await self._link.do(*retention_functions.remove_if_unchanged(self._keys.session_index(), seen))
        return open_refs, closed_refs

    async def are_registered(self, refs: Sequence[SessionRef]) -> list[bool]:
        """Whether each is listed, its stream is, and writers may append to it."""
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
        found = zip(answers[::3], answers[1::3], answers[2::3], strict=True)
        return [bool(gate and stream and score is not None) for gate, stream, score in found]

    async def silent_since(self, before_ms: int) -> dict[str, int]:
        """Sessions that were last heard of before a time, with that time."""
        flat = await self._link.do("ZRANGEBYSCORE", self._keys.session_index(), "-inf", before_ms, "WITHSCORES")
        return {identity.decode(): int(score) for identity, score in pairs_to_dict(flat).items()}

    async def note_loss(self, ref: SessionRef) -> None:
        """Note that Redis lost data of a session: it can't end as complete."""
        await self._link.do(*functions.note_loss(self._keys, ref.identity, ref.stream_session_id))

    async def published_version(self, ref: SessionRef) -> int:
        """The version of the newest JSON that its stream was told. What does not read so tells nothing."""
        told = await self._link.do("GET", self._keys.published(ref.stream, ref.stream_session_id))
        version: bytes = (told or b"").partition(b" ")[0]
        return int(version) if version.isdigit() else 0

    async def last_entry_id(self, stream: str) -> str:
        """Where a stream ends now; `0-0` if it is new."""
        return replies.last_generated_id(await replies.read_stream_info(self._link, keys.stream(stream)))


def _count(folded: Sequence[Sequence[Any]]) -> None:
    """By how much streams grew: what changed says it in its last four words."""
    grown: dict[bytes, list[Sequence[int]]] = {}
    for answer in folded:
        if len(answer) > UNCHANGED_WORDS:
            grown.setdefault(answer[1], []).append(answer[UNCHANGED_WORDS:])
    for stream, rows in grown.items():
        counters.counts.add_reported(stream.decode(), [sum(column) for column in zip(*rows, strict=True)])
