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
from tests.chaos import world
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

    def __init__(self, own: World) -> None:
        self._own = own

    def strike(self, kind: str) -> None:
        getattr(self, f"_{kind.replace(' ', '_')}")()

    def _empty_restart(self) -> None:
        go_on(self._own)
        self._restart(None)

    def _stale_snapshot(self) -> None:
        with self._own.client as client:
            client.save()
        old = self._own.directory / "old.rdb"
        shutil.copy(self._own.server.directory / "dump.rdb", old)
        go_on(self._own)
        self._restart(old)

    def _restart(self, snapshot: Path | None) -> None:
        self._own.server.kill()
        kept = self._own.server.directory / "dump.rdb"
        kept.unlink(missing_ok=True)
        if snapshot is not None:
            shutil.copy(snapshot, kept)
        self._own.server.start()

    def _flushall(self) -> None:
        go_on(self._own)
        with self._own.client as client:
            client.flushall()

    def _failover(self) -> None:
        """A replica behind a network that stops, then takes over: it never saw the last acknowledged samples."""
        between = Network(self._own.server.socket_path, self._own.chooser)
        replica = server.EmbeddedServer(port=server.free_port(), options=world.FORGETS)
        replica.start()
        with redis_client.connect(replica.url) as client:
            client.replicaof("127.0.0.1", str(between.port))
            wait_until(lambda: client.info("replication")["master_link_status"] == "up", what="the replica")
            between.hold()
            go_on(self._own)
            client.replicaof("NO", "ONE")
        self._own.replace_server(replica)
        between.close()


def run(seed: str, advance: Callable[[], None], *, kinds: tuple[str, ...], is_plain: bool = False) -> Result:
    """Losses one after the other on the same supervisors, each with sessions of its own."""
    total = Result(runs=0)
    with world.made(seed, world.FORGETS, supervisors=SUPERVISORS, is_plain=is_plain) as own:
        for number, kind in enumerate(kinds):
            total.add(lose(own, number, kind, partial(Loss(own).strike, kind)))
            advance()
        total.counts = own.counts
        total.runs = 1
    return total


def go_on(own: World) -> None:
    """Samples are acknowledged meanwhile."""
    before = [writer.noted_bytes for writer in own.writers]
    time.sleep(own.chooser.uniform(*BEFORE_S))
    wait_until(
        lambda: all(one.noted_bytes > size for one, size in zip(own.writers, before, strict=True)),
        timeout_s=END_PATIENCE_S,
        what="acknowledged samples",
    )


def lose(own: World, number: int, kind: str, strike: Callable[[], None]) -> Result:
    """A session of its own, its writers, a loss while they write, and what became of it."""
    first = number * UNITS
    session = own.open(f"session-{number}", range(first, first + UNITS), stream=f"rig-{number}")
    own.stop_path.unlink(missing_ok=True)
    own.writers.clear()
    for unit in range(first, first + UNITS):
        own.start_writer(unit, "--pause-s", str(PAUSE_S), "--groups", str(own.chooser.choice((3, 10, 40))))
    wait_until(lambda: all(one.is_writing for one in own.writers), timeout_s=END_PATIENCE_S, what="writers")
    strike()
    own.counts[kind] += 1
    time.sleep(own.chooser.uniform(*AFTER_S))
    own.stop_path.touch()
    for writer in own.writers:
        writer.wait(END_PATIENCE_S)
    ended = own.close(session, None)
    return _judge(own, session, ended.state.value, kind)


def _judge(own: World, session: rta_writers.Session, state: str, kind: str) -> Result:
    verdict = own.judged(session)
    is_logged = any(event["session"] == session.identity for event in own.events("session_lost_data"))
    is_refused = any("AppendGap" in writer.refusals() for writer in own.writers)
    told = [
        name for name, is_so in (("readers", state == "truncated"), ("log", is_logged), ("writer", is_refused)) if is_so
    ]
    result = Result(verdict=verdict, lossy=int(verdict.lost > 0))
    result.ended[state] += 1
    result.unreported = int(verdict.lost > 0 and not told)
    result.false_alarms = int(verdict.lost == 0 and "readers" in told)
    own.counts[f"{kind}: told {' and '.join(told) or 'nobody'}{'' if verdict.lost else ' (nothing lost)'}"] += 1
    return result
