"""A run with faults in the network, supervisors and writers, while Redis keeps its data: every acknowledged sample has
to be in the stream once.
"""

import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

import redis

import rta_writers
from rta_wire import errors
from tests.chaos import oracle
from tests.chaos import world as chaos_world
from tests.chaos.agenda import Agenda
from tests.chaos.faults import Faults
from tests.chaos.processes import Writer
from tests.chaos.result import Result
from tests.chaos.tail import Tail
from tests.chaos.world import STREAM, World
from tests.support.waiting import wait_until

UNITS: Final = 4
SUPERVISORS: Final = 3
GAP_S: Final = (0.01, 0.08)
TICK_S: Final = 0.01
PAUSE_S: Final = 0.03
END_PATIENCE_S: Final = 120

WATCHFUL: Final = {"RTA_SESSION__WRITER_SILENT_S": "45"}
"""Writers report all the time here, even on a slow machine. Who takes them for silent has a clock that jumped."""

FAULTS: Final[Mapping[str, int]] = {
    "supervisor killed": 8,
    "supervisor frozen": 4,
    "supervisor clock jumped": 2,
    "writer killed": 4,
    "writer frozen": 4,
    "writer doubled": 3,
    "redis killed": 4,
    "redis frozen": 2,
    "redis full": 2,
    "redis clock jumped": 1,
    "replies cut": 80,
    "connections reset": 6,
    "network slow": 3,
    "network throttled": 2,
    "network gone": 2,
}
"""What one storm holds."""


class Clerk:
    """Leads short lives of sessions through the storm, one after the other, as drivers do."""

    def __init__(self, url: str) -> None:
        self.ended: dict[int, str] = {}
        self.asked_again = 0
        self._client = rta_writers.SessionClient(url, timeout_s=10)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="clerk", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        self._over.set()
        self._thread.join(END_PATIENCE_S)

    def _run(self) -> None:
        number = 0
        while not self._over.is_set():
            number += 1
            name = f"short-{number}"
            session = self._insist(lambda name=name: self._client.session(name, stream=STREAM))  # type: ignore[misc]
            self._insist(lambda name=name: self._client.update(name, group="storm"))  # type: ignore[misc]
            ended = self._insist(session.close)
            self.ended[session.target.stream_session_id] = ended.state.value

    def _insist(self, ask: Callable[[], chaos_world.T]) -> chaos_world.T:
        while True:
            try:
                return ask()
            except (errors.RtaError, redis.exceptions.RedisError) as error:
                if isinstance(error, errors.RtaError) and not error.retriable:
                    raise
                self.asked_again += 1
                time.sleep(TICK_S)


def run(seed: str, advance: Callable[[], None], *, faults: Mapping[str, int], is_plain: bool = False) -> Result:
    """One storm, from calm to calm."""
    with chaos_world.running(
        seed, chaos_world.KEEPS, supervisors=SUPERVISORS, is_plain=is_plain, settings=WATCHFUL
    ) as world:
        tail = Tail(world.port, STREAM)
        for first in range(0, UNITS, 2):
            world.open(f"long-{first // 2}", range(first, first + 2))
        for unit in world.sessions:
            _start(world, unit)
        wait_until(lambda: all(writer.is_writing for writer in world.writers), timeout_s=END_PATIENCE_S, what="writers")
        clerk = Clerk(world.patient_url)
        agenda = Agenda()
        _blow(world, faults, agenda, advance)
        agenda.do_all()
        world.network.calm()
        clerk.finish()
        _stop_writers(world)
        return _judge(world, tail, clerk)


def _start(world: World, unit: int) -> Writer:
    return world.start_writer(unit, "--pause-s", str(PAUSE_S))


def _blow(world: World, faults: Mapping[str, int], agenda: Agenda, advance: Callable[[], None]) -> None:
    deck = [name for name, count in faults.items() for _ in range(count)]
    world.chooser.shuffle(deck)
    acting = Faults(world, agenda, lambda unit: _start(world, unit))
    next_s = time.monotonic()
    while deck or world.network.replies_to_cut:
        time.sleep(TICK_S)
        agenda.do_due()
        _revive(world)
        if not deck or time.monotonic() < next_s:
            continue
        name = deck.pop()
        if acting.act(name):
            advance()
            next_s = time.monotonic() + world.chooser.uniform(*GAP_S)
        else:
            deck.insert(world.chooser.randint(0, len(deck)), name)


def _revive(world: World) -> None:
    """What ends by itself is started again, as systemd and Spark do it."""
    world.revive_supervisors()
    for writer in list(world.writers):
        if writer.exit_code is not None:
            world.counts[f"writer ended by itself ({writer.exit_code})"] += 1
            world.writers.remove(writer)
            if not any(other.unit == writer.unit for other in world.writers):
                _start(world, writer.unit)


def _stop_writers(world: World) -> None:
    world.stop_path.touch()
    deadline_s = time.monotonic() + END_PATIENCE_S
    for writer in world.writers:
        writer.thaw()
        writer.wait(max(0.0, deadline_s - time.monotonic()))


def _judge(world: World, tail: Tail, clerk: Clerk) -> Result:
    result = Result(counts=world.counts)
    world.counts["replies cut"] = world.network.counts["reply cut"]
    acknowledged = {session: world.acknowledged(session) for session in set(world.sessions.values())}
    for session, codes in acknowledged.items():
        ended = world.close(session, None if world.is_plain else len(codes))
        result.ended[ended.state.value] += 1
    with world.client as client:
        last = client.xrevrange(f"stream:{STREAM}", count=1)[0][0]
    followed = [entry for entry in tail.finish(last) if entry[1] != b"0"]
    sessions = oracle.follow(followed)
    for session, codes in acknowledged.items():
        result.verdict += oracle.judge(sessions.get(session.target.stream_session_id), codes)
    for number, state in clerk.ended.items():
        result.ended[state] += 1
        short = sessions.get(number)
        result.verdict += oracle.Verdict(malformed=int(short is None or not short.is_well_formed))
    for event in world.events("writer_silent"):
        world.counts[f"session called silent for {event['silent_s']} s"] += 1
    world.counts["short sessions"] = len(clerk.ended)
    world.counts["requests asked again"] = clerk.asked_again
    stored = [entry for entry in oracle.read(world.port, STREAM) if entry[1] != b"0"]
    result.is_tail_right = stored[: len(followed)] == followed
    return result
