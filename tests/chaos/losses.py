"""Redis loses what it had acknowledged: started empty, from an old snapshot, flushed, or a lagging replica took over.

Nobody can bring that back. But somebody has to be told: the session ends as truncated, a supervisor names it in its
log, or its writer is refused. A session that ends as closed and misses a sample is a loss that nobody reported.
"""

import shutil
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import rta_writers
from rta_supervisor.embedded import server
from rta_writers.connection import redis_client
from tests.chaos import world as chaos_world
from tests.chaos.network import Network
from tests.chaos.result import Result
from tests.chaos.world import World
from tests.support.waiting import wait_until

KINDS: Final = ("empty restart", "stale snapshot", "flushall", "failover")
UNITS: Final = 2
SUPERVISORS: Final = 2
PAUSE_S: Final = 0.03
BEFORE_S: Final = (0.05, 1.5)
"""How long there are acknowledged samples that the replica or the snapshot does not have."""
AFTER_S: Final = (0.0, 1.5)
END_PATIENCE_S: Final = 120


class Loss:
    """The losses of one world. Each is one call, from the moment before to the moment after."""

    def __init__(self, world: World) -> None:
        self._world = world

    def strike(self, kind: str) -> None:
        getattr(self, f"_{kind.replace(' ', '_')}")()

    def _empty_restart(self) -> None:
        go_on(self._world)
        self._restart(None)

    def _stale_snapshot(self) -> None:
        with self._world.client as client:
            client.save()
        old = self._world.directory / "old.rdb"
        shutil.copy(self._world.server.directory / "dump.rdb", old)
        go_on(self._world)
        self._restart(old)

    def _restart(self, snapshot: Path | None) -> None:
        self._world.server.kill()
        kept = self._world.server.directory / "dump.rdb"
        kept.unlink(missing_ok=True)
        if snapshot is not None:
            shutil.copy(snapshot, kept)
        self._world.server.start()

    def _flushall(self) -> None:
        go_on(self._world)
        with self._world.client as client:
            client.flushall()

    def _failover(self) -> None:
        """A replica behind a network that stops, then takes over: it never saw the last acknowledged samples."""
        between = Network(self._world.server.socket_path, self._world.chooser)
        replica = server.EmbeddedServer(port=server.free_port(), options=chaos_world.FORGETS)
        replica.start()
        with redis_client.connect(replica.url) as client:
            client.replicaof("127.0.0.1", str(between.port))
            wait_until(lambda: client.info("replication")["master_link_status"] == "up", what="the replica")
            between.hold()
            go_on(self._world)
            client.replicaof("NO", "ONE")
        self._world.replace_server(replica)
        between.close()


def run(seed: str, advance: Callable[[], None], *, kinds: tuple[str, ...], is_plain: bool = False) -> Result:
    """Losses one after the other on the same supervisors, each with sessions of its own."""
    total = Result(runs=0)
    with chaos_world.running(seed, chaos_world.FORGETS, supervisors=SUPERVISORS, is_plain=is_plain) as world:
        for number, kind in enumerate(kinds):
            total.add(lose(world, number, kind, partial(Loss(world).strike, kind)))
            advance()
        total.counts = world.counts
        total.runs = 1
    return total


def go_on(world: World) -> None:
    """Samples are acknowledged meanwhile."""
    before = [writer.noted_bytes for writer in world.writers]
    time.sleep(world.chooser.uniform(*BEFORE_S))
    wait_until(
        lambda: all(writer.noted_bytes > size for writer, size in zip(world.writers, before, strict=True)),
        timeout_s=END_PATIENCE_S,
        what="acknowledged samples",
    )


def lose(world: World, number: int, kind: str, strike: Callable[[], None]) -> Result:
    """A session of its own, its writers, a loss while they write, and what became of it."""
    first = number * UNITS
    session = world.open(f"session-{number}", range(first, first + UNITS), stream=f"rig-{number}")
    world.stop_path.unlink(missing_ok=True)
    world.writers.clear()
    for unit in range(first, first + UNITS):
        world.start_writer(unit, "--pause-s", str(PAUSE_S), "--groups", str(world.chooser.choice((3, 10, 40))))
    wait_until(lambda: all(writer.is_writing for writer in world.writers), timeout_s=END_PATIENCE_S, what="writers")
    strike()
    world.counts[kind] += 1
    time.sleep(world.chooser.uniform(*AFTER_S))
    world.stop_path.touch()
    for writer in world.writers:
        writer.wait(END_PATIENCE_S)
    ended = world.close(session, None)
    return _judge(world, session, ended.state.value, kind)


def _judge(world: World, session: rta_writers.Session, state: str, kind: str) -> Result:
    verdict = world.judged(session)
    is_logged = any(event["session"] == session.identity for event in world.events("session_lost_data"))
    is_refused = any("AppendGap" in writer.refusals() for writer in world.writers)
    informed = [
        name for name, is_so in (("readers", state == "truncated"), ("log", is_logged), ("writer", is_refused)) if is_so
    ]
    result = Result(verdict=verdict, lossy=int(verdict.lost > 0))
    result.ended[state] += 1
    result.unreported = int(verdict.lost > 0 and not informed)
    result.false_alarms = int(verdict.lost == 0 and "readers" in informed)
    world.counts[f"{kind}: told {' and '.join(informed) or 'nobody'}{'' if verdict.lost else ' (nothing lost)'}"] += 1
    return result
