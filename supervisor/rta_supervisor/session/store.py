"""What Redis knows of sessions: reads it, folds reports into it, shows it to readers. How a session lives is `life`'s.

Holds no state of its own: any supervisor may serve any session.
"""

import functools
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any, Final

from rta_supervisor.catalogue.model import Row
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes.time_sync import Clock, now_ms
from rta_supervisor.session import model
from rta_supervisor.session.model import Folded, Known, Ref, Shown
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link, Refused, checked, is_about_keys, pairs
from rta_supervisor.transport.paging import chunks, in_slices
from rta_wire import errors, keys
from rta_wire.control.totals import Mark, Totals
from rta_wire.session import State
from rta_wire.stream import cold_index

UNCHANGED_WORDS: Final = 3
"""Words of an answer to a fold that held no news."""

CALL_SESSIONS: Final = 50
"""Sessions that one call is about where they live on one server: a call costs as much as what it does for one of them,
and keeps Redis from serving others meanwhile."""

NO_TIME: Final = b" -"


class Sessions:
    """Reading and folding."""

    def __init__(self, link: Link, config: settings.Settings, clock: Clock = now_ms) -> None:
        self._link = link
        self._keys = config.keys
        self._config = config.session
        self._clock = clock
        self._log = log.get()
        self.complaints = link.complaints

    def reconfigure(self, config: settings.Settings) -> None:
        self._config = config.session

    @property
    def _at_once(self) -> int:
        """Sessions that one call can be about."""
        return CALL_SESSIONS if self._link.is_one_server else 1

    async def read(self, identity: str) -> Known | None:
        """What is known of a session, None where there is none."""
        [known] = await self.read_all([identity])
        return known

    async def read_all(self, identities: Sequence[str]) -> list[Known | None]:
        """The same for many, in one round trip."""
        answers = await self._link.do_all(
            [
                call
                for identity in identities
                for call in (
                    ("HGETALL", self._keys.state(identity)),
                    ("HGET", self._keys.session(identity), keys.JSON),
                )
            ]
        )
        found = zip(identities, answers[::2], answers[1::2], strict=True)
        return [model.known(identity, pairs(flat), document) if flat else None for identity, flat, document in found]

    async def rows(self, identities: Sequence[str]) -> list[Row]:
        """What the catalogue keeps of those that there are. Less than all that is known, and quicker to read."""
        answers = await self._link.do_all(
            [
                call
                for identity in identities
                for call in (
                    ("HMGET", self._keys.state(identity), *model.ROW_FIELDS),
                    ("HMGET", self._keys.session(identity), keys.JSON, keys.STREAM_POSITION),
                )
            ]
        )
        at_ms = self._clock()
        found = zip(identities, answers[::2], answers[1::2], strict=True)
        return [model.row(identity, fields, shown, at_ms) for identity, fields, shown in found if fields[0] is not None]

    async def fold(
        self, reports: Mapping[tuple[str, int], Mapping[str, Totals]], *, principal: str | None = None
    ) -> list[Folded]:
        """Join reports into sessions, keyed by (identity, stream session id). Only those of `principal`, if given."""
        return await in_slices(list(reports.items()), functools.partial(self._fold_slice, principal))

    async def _fold_slice(
        self, principal: str | None, reports: Sequence[tuple[tuple[str, int], Mapping[str, Totals]]]
    ) -> list[Folded]:
        parts = chunks(reports, self._at_once)
        folded = await self._link.do_all([commands.fold(self._keys, some, principal=principal) for some in parts])
        answers = [answer for some in folded for answer in some]
        _count(answers)
        return [
            model.folded(Ref(identity, answer[1].decode(), number), answer[0].decode(), answer[2])
            for ((identity, number), _), answer in zip(reports, answers, strict=True)
        ]

    async def marks(self, ref: Ref) -> dict[str, Totals]:
        """What stands in the stream, by unit. Marks are written with the data and never lag behind it."""
        [marks] = await self._link.try_all([("HGETALL", self._keys.marks(ref.stream, ref.stream_session_id))])
        if isinstance(marks, Exception):
            self.give_up(ref.identity, marks)
            return {}
        return self._totals(ref, marks)

    def give_up(self, identity: str, error: Exception) -> None:
        """Go on without what a writer spoilt in its own keys, and say so. Any other error is raised."""
        if not is_about_keys(error):
            raise checked(error)
        self._log.error("session_spoilt", session=identity, error=str(error))

    async def fold_marks(self, ref: Ref, marks: Sequence[bytes] | None = None) -> bool:
        """Fold what stands in the stream like reports. Whether it held news."""
        units = await self.marks(ref) if marks is None else self._totals(ref, marks)
        if not units:
            return False
        [folded] = await self.fold({(ref.identity, ref.stream_session_id): units})
        if folded.implausible_units:
            self._log.error("marks_implausible", session=ref.identity, units=folded.implausible_units)
        return folded.outcome == "changed"

    def _totals(self, ref: Ref, marks: Sequence[bytes]) -> dict[str, Totals]:
        """Marks are the writers' to write: one that makes no sense is left out, and keeps nobody from anything."""
        found: dict[str, Totals] = {}
        wrong: list[Exception] = []
        for unit, mark in pairs(marks).items():
            try:
                found[unit.decode()] = Mark.from_text(mark.decode()).totals
            except (errors.BadMessage, UnicodeDecodeError) as error:
                wrong.append(error)
        if wrong:
            self._log.error("marks_unreadable", session=ref.identity, count=len(wrong), first=str(wrong[0]))
        return found

    async def heard_of(self, refs: Iterable[Ref]) -> None:
        """Note that the writers of sessions are alive."""
        at_ms = self._clock()
        words = [word for ref in refs for word in (at_ms, ref.identity)]
        if not words:
            return
        try:
            await self._link.do("ZADD", self._keys.index(), "XX", "GT", *words)
        except Refused as error:
            # A full Redis takes no notes, and messages have to go to make room. The watchdog knows that it was full.
            self.complaints.note(error)

    async def refresh(self, refs: Iterable[Ref], *, renewed: Container[Ref] = ()) -> list[Shown]:
        """Show readers the time ranges that they have not seen, and keep open sessions alive.

        `renewed`: those whose lifetime was set a moment ago. Gives what stands of each that is open.
        """
        return await in_slices(list(refs), functools.partial(self._refresh_slice, renewed))

    async def _refresh_slice(self, renewed: Container[Ref], refs: Sequence[Ref]) -> list[Shown]:
        ttl_s = self._config.open_ttl_s
        wanted = [(ref.identity, ref.stream_session_id, 0 if ref in renewed else ttl_s) for ref in refs]
        answers = await self._link.do_all(
            [commands.refresh(self._keys, some) for some in chunks(wanted, self._at_once)]
        )
        found = zip(refs, (answer for some in answers for answer in some), strict=True)
        shown = [(ref, totals) for ref, totals in found if totals]
        await self._show([(ref, totals) for ref, totals in shown if not totals.endswith(NO_TIME)])
        return shown

    async def _show(self, shown: Sequence[Shown]) -> None:
        """Tell streams the time ranges that they were not told."""
        streams: dict[str, list[Shown]] = {}
        for one in shown:
            streams.setdefault(one[0].stream, []).append(one)
        parts = [(stream, some) for stream, all_ in streams.items() for some in chunks(all_, CALL_SESSIONS)]
        answers = await self._link.try_all(
            [
                commands.show(
                    self._keys,
                    stream,
                    [
                        (ref.stream_session_id, start, end)
                        for ref, totals in some
                        for _, start, end in (totals.rsplit(b" ", 2),)
                    ],
                    ttl_s=self._config.open_ttl_s,
                )
                for stream, some in parts
            ]
        )
        for (_, some), answer in zip(parts, answers, strict=True):
            each = [answer] * len(some) if isinstance(answer, Exception) else answer
            for (ref, _), one in zip(some, each, strict=True):
                if isinstance(one, Exception):
                    self.give_up(ref.identity, one)
                else:
                    counters.counts.ranges_shown += one

    async def keep(self, refs: Iterable[Ref]) -> None:
        """Keep the gates of open sessions from expiring."""
        ttl_s = self._config.open_ttl_s
        await self._link.do_all(
            [commands.keep(self._keys, ref.stream, ref.stream_session_id, ttl_s=ttl_s) for ref in refs]
        )

    async def hold(self, closed: Iterable[Ref]) -> None:
        """Keep closed sessions that no catalogue has yet, for as long as that takes."""
        ttl_s = self._config.open_ttl_s
        await self._link.do_all([commands.hold(self._keys, ref.identity, ttl_s=ttl_s) for ref in closed])

    async def live(self, besides: Container[str] = ()) -> tuple[list[Ref], list[Ref]]:
        """Every session in the index: those that are open, and those that are closed and still have to be put away."""
        scores = pairs(await self._link.do("ZRANGE", self._keys.index(), 0, -1, "WITHSCORES"))
        identities = [identity for identity in map(bytes.decode, scores) if identity not in besides]
        names = (keys.STREAM_NAME, keys.STREAM_SESSION_ID, "state")
        places = await self._link.do_all([("HMGET", self._keys.state(identity), *names) for identity in identities])
        open_refs: list[Ref] = []
        closed_refs: list[Ref] = []
        gone: list[str] = []
        for identity, (stream, number, state) in zip(identities, places, strict=True):
            if stream is None:
                gone.append(identity)
                continue
            refs = closed_refs if State(state.decode()).is_closed else open_refs
            refs.append(Ref(identity, stream.decode(), int(number)))
        if gone:
            self._log.warning("sessions_expired", sessions=gone)
            seen = [(identity, scores[identity.encode()]) for identity in gone]
            await self._link.do(*commands.forget(self._keys.index(), seen))
        return open_refs, closed_refs

    async def are_in_place(self, refs: Sequence[Ref]) -> list[bool]:
        """Whether each is listed, its stream is, and writers may append to it."""
        answers = await self._link.do_all(
            [
                call
                for ref in refs
                for call in (
                    ("EXISTS", self._keys.gate(ref.stream, ref.stream_session_id)),
                    ("SISMEMBER", keys.STREAMS, ref.stream),
                    ("ZSCORE", self._keys.index(), ref.identity),
                )
            ]
        )
        found = zip(answers[::3], answers[1::3], answers[2::3], strict=True)
        return [bool(gate and stream and score is not None) for gate, stream, score in found]

    async def silent_since(self, before_ms: int) -> dict[str, int]:
        """Sessions that were last heard of before a time, with that time."""
        flat = await self._link.do("ZRANGEBYSCORE", self._keys.index(), "-inf", before_ms, "WITHSCORES")
        return {identity.decode(): int(score) for identity, score in pairs(flat).items()}

    async def note_loss(self, ref: Ref) -> None:
        """Note that Redis lost data of a session: it can't end as complete."""
        await self._link.do(*commands.note_loss(self._keys, ref.identity, ref.stream_session_id))

    async def told_version(self, ref: Ref) -> int:
        """The version of the newest JSON that its stream was told. What does not read so tells nothing."""
        told = await self._link.do("GET", self._keys.shown(ref.stream, ref.stream_session_id))
        version: bytes = (told or b"").partition(b" ")[0]
        return int(version) if version.isdigit() else 0

    async def highest_cold_id(self) -> int:
        """The highest stream session id that the index of cold streams remembers."""
        found: list[int] = [0]
        for stream, raw in pairs(await self._link.do("HGETALL", self._keys.cold_index())).items():
            try:
                one = cold_index.parse(raw)
            except errors.BadBatch as error:
                self._log.error("stream_spoilt", stream=stream.decode(), error=str(error))
                continue
            found.append(one.number if one is not None else 0)
        return max(found)

    async def last_entry_id(self, stream: str) -> str:
        """Where a stream ends now; `0-0` if it is new."""
        [info] = await self._link.try_all([end_of(stream)])
        return last_id_in(info)


def end_of(stream: str) -> commands.Call:
    """Asks where a stream ends; `last_id_in` reads the answer."""
    return ("XINFO", "STREAM", keys.stream(stream))


def last_id_in(info: Sequence[bytes] | Exception) -> str:
    if not isinstance(info, Exception):
        return pairs(info)[b"last-generated-id"].decode()
    if "no such key" in str(info):
        return "0-0"
    raise info


def _count(folded: Sequence[Sequence[Any]]) -> None:
    """By how much streams grew: what changed says it in its last four words."""
    grown: dict[bytes, list[Sequence[int]]] = {}
    for answer in folded:
        if len(answer) > UNCHANGED_WORDS:
            grown.setdefault(answer[1], []).append(answer[UNCHANGED_WORDS:])
    for stream, rows in grown.items():
        counters.counts.grow(stream.decode(), [sum(column) for column in zip(*rows, strict=True)])
