"""Random lives of sessions against a model, on a real server, with supervisors that die between effects.

The model knows nothing of Redis: a session is a state, the totals of its units, and its properties.
"""

import json
import os
from collections.abc import Sequence
from typing import Any

import anyio.from_thread
import hypothesis
import hypothesis.stateful
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rta_supervisor.control.waiting_requests import Wait
from rta_supervisor.embedded import server
from rta_supervisor.session.progress_reader import SessionProgress
from rta_supervisor.session.silence_watchdog import SilenceWatchdog
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, function_loader
from rta_supervisor.transport.link import Link
from rta_wire import errors, session
from rta_wire.codec.encode import Burst
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_writers.connection import redis_client
from rta_writers.options.target import Target
from rta_writers.write.delivery.exactly_once import ExactlyOnceAppender
from tests.support import samples, supervisor_parts
from tests.support.session_values import control_entry

EXAMPLES = 5000 if os.environ.get("RTA_SOAK") else 300
STEPS = 15

identities = st.sampled_from(["a", "b"])
units = st.sampled_from(["u", "v"])
endings = st.sampled_from(["closed", "failed", "abandoned", "truncated"])


class Killed(Exception):
    """The supervisor died here."""


class MortalLink(Link):
    """Dies before its n-th command that changes something."""

    lives = 0

    async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
        answers = []
        for call in batch:
            self._maybe_die(call)
            answers += await super().try_all([call])
        return answers

    def _maybe_die(self, call: Sequence[Any]) -> None:
        if self.lives and call[0] in ("FCALL", "XADD", "SADD", "ZADD", "INCRBY", "HSET", "SET"):
            self.lives -= 1
            if self.lives == 0:
                raise Killed


class Modelled:
    """What a session should be."""

    def __init__(self, number: int, group: str) -> None:
        self.number = number
        self.state = "open"
        self.group = group
        self.units: dict[str, Totals] = {}
        self.rows: dict[str, int] = {}
        self.reported_ms = 0

    @property
    def is_closed(self) -> bool:
        return self.state not in ("open", "waiting")

    @property
    def totals(self) -> Totals:
        total = Totals()
        for totals in self.units.values():
            total = total.sum_of(totals)
        return total


class Lives(RuleBasedStateMachine):
    """Everything that can happen, in any order."""

    portal: anyio.from_thread.BlockingPortal
    url: str
    link: MortalLink

    @initialize()
    def start(self) -> None:
        self.now_ms = 1_750_000_000_000
        self.order = 0
        self.model: dict[str, Modelled] = {}
        self.used: set[int] = set()
        self.spans: dict[str, tuple[int, int]] = {}
        self.client = redis_client.connect(self.url)
        self.client.flushall()
        self.new_supervisor()

    def new_supervisor(self) -> None:
        """Whoever comes after one that died knows nothing but what is in Redis."""
        config = settings.Settings(redis=settings.RedisSettings(url=self.url))
        self.link.lives = 0
        self.sessions = SessionStore(self.link, config, clock=lambda: self.now_ms)
        self.service = supervisor_parts.service(self.link, config, self.sessions, clock=lambda: self.now_ms)
        self.watchdog = SilenceWatchdog(self.sessions, self.service, config, lambda: 0, clock=lambda: self.now_ms)

    def serve(self, work: Any, lives: int) -> Any:
        """Do it; a supervisor that dies on the way is followed by another that does it again."""
        self.link.lives = lives
        try:
            return self.portal.call(work)
        except Killed:
            self.new_supervisor()
            return self.portal.call(work)

    def entry_id(self) -> str:
        self.order += 1
        return f"{self.order}-0"

    @rule(identity=identities, stream=st.sampled_from(["rig", "rig", "rig", "other"]), lives=st.integers(0, 8))
    def open(self, identity: str, stream: str, lives: int) -> None:
        """New, the same again, a conflict, or closed for good."""
        document = session.dump(session.build(identity, group="new")).decode()
        request = control_pb2.OpenSession(identity=identity, stream=stream, session_json=document)
        modelled = self.model.get(identity)
        try:
            reply = self.serve(lambda: self.service.open(control_entry("p"), request), lives)
        except errors.SessionConflict:
            assert modelled is not None
            assert stream == "other"
            return
        except errors.SessionClosed:
            assert modelled is not None
            assert modelled.is_closed
            return
        if modelled is None:
            assert stream in ("rig", "other")
            if stream == "other":
                self.model[identity] = Modelled(reply.stream_session_id, "new")
                self.end_as_other(identity)
                return
            assert reply.stream_session_id not in self.used, "ids never repeat"
            self.used.add(reply.stream_session_id)
            modelled = self.model[identity] = Modelled(reply.stream_session_id, "new")
        assert reply.stream_session_id == modelled.number
        modelled.reported_ms = self.now_ms

    def end_as_other(self, identity: str) -> None:
        """Sessions of the other stream only have to be in the way: take them out of the game."""
        self.client.delete(f"sessions:{identity}", f"rtas:st:{{sessions:{identity}}}")
        self.client.zrem("rtas:idx", identity)
        del self.model[identity]

    @rule(identity=identities, unit=units, count=st.integers(1, 4), is_reported=st.booleans())
    def write(self, identity: str, unit: str, count: int, is_reported: bool) -> None:
        """Rows get in while the session lives and not after."""
        if (modelled := self.model.get(identity)) is None:
            return
        target = Target(self.url, identity, "rig", modelled.number)
        first = modelled.rows.get(unit, 0)
        appender = ExactlyOnceAppender(self.client, target, unit=unit, epoch=0)
        appender.rows_done = first
        bursts = samples.bursts(count, first=first, channel=modelled.number)
        try:
            appender.append(count, lambda skip: bursts[skip:])
            appender.flush()
        except errors.SessionClosed:
            assert modelled.is_closed
            return
        finally:
            appender.close()
        assert not modelled.is_closed
        modelled.rows[unit] = first + count
        totals = self.grown(modelled.units.get(unit, Totals()), bursts)
        modelled.units[unit] = totals
        if is_reported:
            self.report(identity, unit, totals)

    def grown(self, totals: Totals, bursts: list[Burst]) -> Totals:
        for burst in bursts:
            totals = totals.with_burst(burst)
        return totals

    def report(self, identity: str, unit: str, totals: Totals) -> None:
        modelled = self.model[identity]
        key = identity, modelled.number
        results = self.serve(lambda: self.sessions.fold({key: {unit: totals}}), 0)
        self.serve(lambda: self.sessions.note_heartbeat([result.ref for result in results]), 0)
        modelled.reported_ms = self.now_ms

    @rule(identity=identities, unit=units, lives=st.integers(0, 4))
    def report_late(self, identity: str, unit: str, lives: int) -> None:
        """An old report comes again, perhaps after the end."""
        modelled = self.model.get(identity)
        if modelled is None or unit not in modelled.units:
            return
        old = Totals(1, 1, 1, 1, samples.START_NS, samples.START_NS)
        key = identity, modelled.number
        [result] = self.serve(lambda: self.sessions.fold({key: {unit: old}}), lives)
        assert (result.outcome == "closed") == modelled.is_closed

    @rule(identity=identities, group=st.sampled_from(["x", "y"]), is_late=st.booleans(), lives=st.integers(0, 6))
    def update(self, identity: str, group: str, is_late: bool, lives: int) -> None:
        """The newest update counts, whenever it is handled."""
        if (modelled := self.model.get(identity)) is None:
            return
        request = control_pb2.UpdateSession(identity=identity, properties_json=json.dumps({"group": group}))
        entry_id = "0-0" if is_late else self.entry_id()
        self.serve(lambda: self.service.update(control_entry("p", entry_id), request), lives)
        if not is_late:
            modelled.group = group

    @rule(identity=identities, state=st.sampled_from(["waiting", "open"]), lives=st.integers(0, 6))
    def pause_or_resume(self, identity: str, state: str, lives: int) -> None:
        """Back and forth while the session lives; closed is final."""
        if (modelled := self.model.get(identity)) is None:
            return
        request = control_pb2.UpdateSession(identity=identity, state=state)
        entry_id = self.entry_id()
        try:
            self.serve(lambda: self.service.update(control_entry("p", entry_id), request), lives)
        except errors.NoSuchTransition:
            assert modelled.is_closed
            return
        assert not modelled.is_closed
        modelled.state = state

    @rule(
        identity=identities, state=endings, surplus=st.integers(-2, 2), is_late=st.booleans(), lives=st.integers(0, 10)
    )
    def close(self, identity: str, state: str, surplus: int, is_late: bool, lives: int) -> None:
        """Waits for what is expected, ends as asked or truncated, and tells an ended one how it ended."""
        if (modelled := self.model.get(identity)) is None:
            return
        expected = max(0, modelled.totals.samples + surplus)
        request = control_pb2.CloseSession(
            identity=identity, state=state, expected=control_pb2.Totals(samples=expected, bursts=expected)
        )
        sent_ms = self.now_ms - (100_000 if is_late else 0)
        reply = self.serve(lambda: self.service.close(control_entry("p", sent_ms=sent_ms), request), lives)
        if not modelled.is_closed:
            is_complete = modelled.totals.samples >= expected
            if not is_complete and not is_late:
                assert isinstance(reply, Wait)
                assert not reply.is_met(SessionProgress(is_closed=False, totals=modelled.totals))
                return
            modelled.state = state if is_complete or state != "closed" else "truncated"
        assert reply.state == modelled.state

    @rule(seconds=st.integers(1, 200), lives=st.integers(0, 12))
    def time_passes(self, seconds: int, lives: int) -> None:
        """Writers that are silent for too long lose their sessions, unless data came all the same."""
        self.now_ms += seconds * 1000
        unseen = {
            identity
            for identity, modelled in self.model.items()
            if (record := self.portal.call(self.sessions.read, identity)) is None or record.totals != modelled.totals
        }
        self.serve(self.watchdog.check, lives)
        for identity, modelled in self.model.items():
            if not modelled.is_closed and self.now_ms - modelled.reported_ms >= 90_000:
                if identity in unseen:
                    modelled.reported_ms = self.now_ms
                else:
                    modelled.state = "abandoned"

    @precondition(lambda self: self.model)
    @invariant()
    def redis_is_as_the_model_says(self) -> None:
        """State, properties and rules of the protocol, after every step."""
        if not hasattr(self, "model"):
            return
        for identity, modelled in self.model.items():
            record = self.portal.call(self.sessions.read, identity)
            assert record is not None
            document = json.loads(record.document)
            assert (record.state, document["state"], document["group"]) == (
                modelled.state,
                modelled.state,
                modelled.group,
            )
            if modelled.is_closed:
                assert record.totals == modelled.totals
                assert document.get("timeRange") == (
                    None
                    if modelled.totals.start_ns is None
                    else {"startTime": modelled.totals.start_ns, "endTime": modelled.totals.end_ns}
                )
            self.check_range(identity)
            self.check_stream(modelled)

    def check_range(self, identity: str) -> None:
        """Never narrower than before, never wider than the data."""
        raw: Any = self.client.hmget(f"sessions:{identity}", "tStart", "tEnd")
        if raw[0] is None:
            return
        start, end = int(raw[0]), int(raw[1])
        before = self.spans.get(identity, (start, end))
        assert start <= before[0]
        assert end >= before[1]
        self.spans[identity] = start, end
        totals = self.model[identity].totals
        assert totals.start_ns is not None
        assert totals.end_ns is not None
        assert totals.start_ns <= start <= end <= totals.end_ns

    def check_stream(self, modelled: Modelled) -> None:
        """JSON first, JSON last once it is closed, every row once."""
        order = samples.kinds(self.client, "rig", modelled.number)
        assert order[0] == "session_json"
        assert order.count("timestamped_data") == sum(modelled.rows.values())
        if modelled.is_closed:
            assert order[-1] == "session_json"

    def teardown(self) -> None:
        if hasattr(self, "client"):
            self.client.close()


@pytest.mark.timeout(14_400)
def test_random_lives_follow_the_model() -> None:
    """Opens, writes, reports, updates, pauses, closes, deaths and time in any order end as the model says."""
    with server.running() as running, anyio.from_thread.start_blocking_portal() as portal:
        Lives.portal, Lives.url = portal, running.url
        Lives.link = portal.call(MortalLink, settings.RedisSettings(url=running.url))
        portal.call(function_loader.load, Lives.link)
        hypothesis.stateful.run_state_machine_as_test(
            Lives,
            settings=hypothesis.settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                deadline=None,
                suppress_health_check=list(hypothesis.HealthCheck),
            ),
        )
        portal.call(Lives.link.close)
