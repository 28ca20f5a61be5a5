"""External ids: whatever two opens do at once, and wherever one of them dies, each principal gets its own session."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import anyio
import pytest
import redis
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rta_supervisor.session.model import SessionRecord
from rta_supervisor.session.opening.external_ids import ExternalId, ExternalIds
from rta_supervisor.session.opening.open_rules import Binding, BindingState
from rta_supervisor.session.refresher import Refresher
from rta_supervisor.session.service import SessionService
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections.days import DaysSettings, SourceDaysSettings
from rta_supervisor.transport import commands, function_loader
from rta_supervisor.transport.link import Link
from rta_wire import errors, keys, session
from rta_wire.pb import control_pb2
from rta_wire.session import State
from tests.support.session_values import control_entry
from tests.support.supervisor_parts import config, service

NAMES = keys.Keys()
MOST_COMMANDS = 20
"""More than an open with an external id sends."""


class Opening(NamedTuple):
    """One open, as a client asks for it."""

    principal: str
    identity: str
    external_id: str
    stream: str = "rig"

    def request(self) -> control_pb2.OpenSession:
        document = session.dump(session.build(self.identity)).decode()
        return control_pb2.OpenSession(
            identity=self.identity, stream=self.stream, session_json=document, external_id=self.external_id
        )


Outcome = control_pb2.SessionReply | errors.RtaError | None
"""None: the supervisor died on the way."""


class Killed(BaseException):
    """The process ends here."""


class Turns:
    """Whose command is next. After the last turn the first open runs to its end, then the second."""

    def __init__(self, turns: Sequence[int], kill: tuple[int, int] | None) -> None:
        """`kill`: which open dies, and before which of its commands."""
        self._turns = list(turns)
        self._kill = kill
        self._sent = [0, 0]
        self._running = {0, 1}
        self._changed = anyio.Condition()

    async def wait_for(self, number: int) -> None:
        """Wait until the open may send its next command."""
        async with self._changed:
            while self._next() != number:
                await self._changed.wait()
            self._sent[number] += 1
            if self._kill == (number, self._sent[number]):
                raise Killed

    async def done(self) -> None:
        """A command was answered."""
        async with self._changed:
            if self._turns:
                self._turns.pop(0)
            self._changed.notify_all()

    async def end(self, number: int) -> None:
        async with self._changed:
            self._running.discard(number)
            self._changed.notify_all()

    def _next(self) -> int:
        while self._turns and self._turns[0] not in self._running:
            self._turns.pop(0)
        return self._turns[0] if self._turns else min(self._running)


class SteppedLink(Link):
    """A connection shared with another open, that sends each command alone, when it is its turn."""

    def __init__(self, link: Link, turns: Turns, number: int) -> None:
        self.__dict__.update(link.__dict__)
        self._stepped = link, turns, number

    async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
        link, turns, number = self._stepped
        answers = []
        for command in batch:
            await turns.wait_for(number)
            answers += await link.try_all([command])
            await turns.done()
        return answers


BY_DAY = config(days=DaysSettings(sources={"daily": SourceDaysSettings(partition="day")}))


def new_service(link: Link) -> SessionService:
    return service(link, BY_DAY, SessionStore(link, BY_DAY))


async def serve(link: Link, opening: Opening) -> Outcome:
    try:
        return await new_service(link).open(control_entry(opening.principal), opening.request())
    except errors.RtaError as error:
        return error


async def serve_both(
    link: Link, openings: tuple[Opening, Opening], turns: Sequence[int], kill: tuple[int, int] | None = None
) -> list[Outcome]:
    """Two supervisors serve an open each, at once."""
    schedule = Turns(turns, kill)
    outcomes: list[Outcome] = [None, None]

    async def run(number: int) -> None:
        try:
            outcomes[number] = await serve(SteppedLink(link, schedule, number), openings[number])
        except Killed:
            pass
        finally:
            await schedule.end(number)

    async with anyio.create_task_group() as tasks:
        for number in (0, 1):
            tasks.start_soon(run, number)
    return outcomes


async def check(link: Link, openings: Sequence[Opening], outcomes: Sequence[Outcome]) -> None:
    """The oracle: a reply is about an open session of that principal in that stream, and one external id has one."""
    store = SessionStore(link, config())
    first: dict[tuple[str, str], tuple[str, int]] = {}
    for opening, outcome in zip(openings, outcomes, strict=True):
        if not isinstance(outcome, control_pb2.SessionReply):
            continue
        record = await store.read(outcome.identity)
        assert record is not None
        assert (record.principal, record.ref.stream) == (opening.principal, opening.stream)
        assert (record.ref.stream_session_id, record.state) == (outcome.stream_session_id, State.OPEN)
        assert record.external_id == opening.external_id
        if opening.external_id:
            key = (opening.principal, opening.external_id)
            assert first.setdefault(key, (outcome.identity, outcome.stream_session_id)) == (
                outcome.identity,
                outcome.stream_session_id,
            )
    for opening in openings:
        bound = await ExternalIds(link, config(), store).find(ExternalId(opening.principal, opening.external_id))
        key = (opening.principal, opening.external_id)
        if key in first:
            assert bound is not None
            assert (bound.binding, bound.state) == (Binding(*first[key]), BindingState.LIVE)


async def check_refused_binds_nothing(link: Link, openings: Sequence[Opening], outcomes: Sequence[Outcome]) -> None:
    """Where nobody died, an external id whose opens were all refused is free."""
    for opening in openings:
        of_id = [
            outcome for other, outcome in zip(openings, outcomes, strict=True) if other[::2][:2] == opening[::2][:2]
        ]
        if all(isinstance(outcome, errors.RtaError) for outcome in of_id):
            assert await link.do("GET", NAMES.external(opening.principal, opening.external_id)) is None


SCENARIOS = {
    "two principals, one identity": (Opening("p", "run", "x"), Opening("q", "run", "x")),
    "two principals, one external id": (Opening("p", "run-1", "x"), Opening("q", "run-2", "x")),
    "one external id, two identities": (Opening("p", "run-1", "x"), Opening("p", "run-2", "x")),
    "one external id, two streams": (Opening("p", "run-1", "x", "a"), Opening("p", "run-2", "x", "b")),
    "one identity, two external ids": (Opening("p", "run", "x"), Opening("p", "run", "y")),
    "taken by another principal": (Opening("p", "taken", "x"), Opening("p", "run", "x")),
}


def schedules() -> Iterator[list[int]]:
    """One open is interrupted at every place, by the whole of the other one and by several beginnings of it."""
    for first, second in itertools.product(range(14), (2, 5, 8, MOST_COMMANDS)):
        yield [0] * first + [1] * second


@pytest.mark.parametrize("openings", SCENARIOS.values(), ids=SCENARIOS.keys())
async def test_two_opens_at_once_get_sessions_of_their_own(
    link: Link, client: redis.Redis, openings: tuple[Opening, Opening]
) -> None:
    """Every way in which one open interrupts the other, on two supervisors."""
    for turns in schedules():
        client.flushdb()
        await serve(link, Opening("other", "taken", ""))
        outcomes = await serve_both(link, openings, turns)
        await check(link, openings, outcomes)
        await check_refused_binds_nothing(link, openings, outcomes)
        assert any(isinstance(outcome, control_pb2.SessionReply) for outcome in outcomes), turns


@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    openings=st.tuples(
        *[
            st.builds(
                Opening,
                principal=st.sampled_from(["p", "q", "p:x"]),
                identity=st.sampled_from(["run-1", "run-2", "taken"]),
                external_id=st.sampled_from(["x", "y", "x:y", "y:x"]),
                stream=st.sampled_from(["rig", "test"]),
            )
        ]
        * 2
    ),
    turns=st.lists(st.sampled_from([0, 1]), max_size=2 * MOST_COMMANDS),
    kill=st.none() | st.tuples(st.sampled_from([0, 1]), st.integers(1, MOST_COMMANDS)),
    is_served_again=st.booleans(),
)
def test_a_supervisor_killed_anywhere_gives_nobody_a_session_of_another(
    url: str,
    client: redis.Redis,
    openings: tuple[Opening, Opening],
    turns: list[int],
    kill: tuple[int, int] | None,
    is_served_again: bool,
) -> None:
    """Kill -9 between any two commands of either open; another supervisor serves it again, or nobody does. After it
    each principal opens its external id with a new identity, and gets a session of its own."""

    async def play() -> None:
        link = Link(settings.RedisSettings(url=url))
        try:
            await function_loader.load(link)
            client.flushdb()
            await serve(link, Opening("other", "taken", ""))
            outcomes = await serve_both(link, openings, turns, kill)
            if is_served_again:
                outcomes = [
                    await serve(link, opening) if outcome is None else outcome
                    for opening, outcome in zip(openings, outcomes, strict=True)
                ]
            later = [
                Opening(opening.principal, f"later-{at}", opening.external_id, opening.stream)
                for at, opening in enumerate(openings)
            ]
            outcomes += [await serve(link, opening) for opening in later]
            everything = [*openings, *later]
            await check(link, everything, outcomes)
            for outcome in outcomes[2:]:
                if isinstance(outcome, errors.RtaError):
                    # The id stands for a session of this principal in another stream, which an earlier open made.
                    assert isinstance(outcome, errors.SessionConflict), outcome
                    assert "with the stream" in str(outcome), outcome
        finally:
            await link.close()

    anyio.run(play)


async def close(link: Link, identity: str, principal: str = "p") -> None:
    request = control_pb2.CloseSession(identity=identity, state=State.CLOSED)
    await new_service(link).close(control_entry(principal), request)


async def test_after_the_end_an_external_id_is_taken_until_its_lifetime_is_over(
    link: Link, client: redis.Redis
) -> None:
    """Also when Redis has forgotten the session, or has another one of that identity by then."""
    opening = Opening("p", "run-1", "job")
    await serve(link, opening)
    await close(link, "run-1")
    for identity in ("run-1", "run-2"):
        ended = await serve(link, opening._replace(identity=identity))
        assert isinstance(ended, errors.ExternalIdEnded)
        assert "session 'run-1', which is closed, and is taken for another 172800 s" in str(ended)
    client.delete("sessions:run-1", NAMES.session_state("run-1"))
    for identity in ("run-1", "run-2"):
        assert "gone from Redis" in str(await serve(link, opening._replace(identity=identity)))
    await serve(link, Opening("p", "run-1", ""))
    assert isinstance(await serve(link, opening), errors.ExternalIdEnded)
    client.delete(NAMES.external("p", "job"), NAMES.external_created("p", "job"))
    later = await serve(link, opening._replace(identity="run-2"))
    assert isinstance(later, control_pb2.SessionReply)
    assert later.identity == "run-2"


async def test_bindings_of_an_older_supervisor_are_verified(link: Link, client: redis.Redis) -> None:
    """It binds before it checks: what its refused opens left is replaced, and what is right is honoured."""
    await serve(link, Opening("q", "run-q", ""))
    await serve(link, Opening("p", "run-p", ""))
    client.set("rtas:ext:p:refused", "run-q", ex=60)
    client.set("rtas:ext:p:right", "run-p", ex=60)
    client.set("rtas:ext:p:x:y", "run-q", ex=60)
    client.set("rtas:ext:p:never", "run-never", ex=60)
    for external_id, identity in (
        *(("refused", "new-refused"), ("right", "run-p"), ("x:y", "new-x:y"), ("never", "run-never")),
    ):
        reply = await serve(link, Opening("p", f"new-{external_id}", external_id))
        assert isinstance(reply, control_pb2.SessionReply), reply
        assert reply.identity == identity
        assert client.get(f"rtas:ext:p:{external_id}") == identity.encode(), "and an older supervisor sees it"


async def test_two_principals_never_share_the_key_of_an_external_id(link: Link) -> None:
    """`a:b` and `c` are not `a` and `b:c`."""
    first = await serve(link, Opening("a:b", "run-1", "c"))
    second = await serve(link, Opening("a", "run-2", "b:c"))
    assert isinstance(first, control_pb2.SessionReply)
    assert isinstance(second, control_pb2.SessionReply)
    assert (first.identity, second.identity) == ("run-1", "run-2")


async def test_an_external_id_lives_as_long_as_its_session_is_open(link: Link, client: redis.Redis) -> None:
    """The lifetime of an id counts from the end: a session may be open for longer than it."""
    await serve(link, Opening("p", "run-1", "job"))
    await serve(link, Opening("p", "run-2", "gone"))
    await close(link, "run-2")
    names = [name for job in ("job", "gone") for name in (NAMES.external("p", job), NAMES.external_created("p", job))]
    for name in names:
        client.expire(name, 10)
    service_ = new_service(link)
    refresher = Refresher(SessionStore(link, config()), service_, config(), lambda _: None)
    await refresher._refresh_idle(until_ms=1)
    assert [client.ttl(name) for name in names] == [172800, 172800, 10, 10]


async def test_an_open_that_is_refused_leaves_the_external_id_free(link: Link, client: redis.Redis) -> None:
    """Identity of somebody else, closed, in another stream, or a stream that can't be opened: nothing is bound."""
    await serve(link, Opening("q", "theirs", ""))
    await serve(link, Opening("p", "closed", ""))
    await close(link, "closed")
    await serve(link, Opening("p", "elsewhere", "", "test"))
    refused = [await serve(link, Opening("p", identity, "job")) for identity in ("theirs", "closed", "elsewhere")]
    refused.append(await serve(link, Opening("p", "new", "job", "daily.20261116")))
    kinds = [type(error) for error in refused]
    assert kinds == [errors.SessionConflict, errors.SessionClosed, errors.SessionConflict, errors.StreamOfDay]
    assert not list(client.scan_iter("rtas:ext*"))


async def test_a_supervisor_that_stood_still_gives_the_session_that_the_id_stands_for_by_then(
    link: Link, client: redis.Redis
) -> None:
    """The id expired between its binding and the session, and another open took it."""
    service_ = new_service(link)
    has_stood_still = False

    async def open_late(principal: str, request: control_pb2.OpenSession, document: session.Json) -> SessionRecord:
        nonlocal has_stood_still
        if not has_stood_still:
            has_stood_still = True
            client.delete(NAMES.external("p", "job"))
            await serve(link, Opening("p", "run-2", "job"))
        return await service_._open_identity(principal, request, document)

    request = Opening("p", "run-1", "job").request()
    document = session.parse(request.session_json)
    record = await service_.external_ids.open(ExternalId("p", "job"), request, document, open_late)
    assert record.ref.identity == "run-2"
