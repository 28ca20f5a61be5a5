"""A deployment under test: one Redis, a network in front of it, supervisors, sessions and their writers, in a directory
of its own.
"""

import contextlib
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeVar

import redis

import rta_writers
from rta_supervisor.embedded import server
from rta_wire import errors
from rta_wire.control.totals import Totals
from rta_writers.connection import redis_client
from rta_writers.control.session import ClosedSession
from tests.chaos import oracle, processes, stamps
from tests.chaos.network import Network
from tests.support.waiting import wait_until

STREAM: Final = "rig"
PATIENCE_S: Final = 90
LAST_WORDS: Final = 1000
KEEPS: Final = {"appendonly": "yes", "appendfsync": "everysec", "auto-aof-rewrite-percentage": "0"}
T = TypeVar("T")

FORGETS: Final = {"appendonly": "no", "save": "", "dbfilename": "dump.rdb"}


class World:
    """Everything that a run needs, and what was done to it."""

    def __init__(
        self,
        seed: str,
        options: Mapping[str, str],
        *,
        is_plain: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self._settings = settings
        self.seed = seed
        self.is_plain = is_plain
        self.chooser = random.Random(seed)  # noqa: S311 - a run that can be repeated needs no secrets
        self.counts: Counter[str] = Counter()
        self.directory = Path(tempfile.mkdtemp(prefix="rtas-chaos-"))
        self.server = server.EmbeddedServer(port=server.free_port(), options=options)
        self.server.start()
        self.network = Network(self.server.socket_path, self.chooser)
        self.address = f"redis://127.0.0.1:{self.network.port}"
        """Where supervisors and writers look for Redis: through the network, unless somebody changes it."""
        self.supervisors: list[processes.Supervisor] = []
        self.fallen: list[processes.Supervisor] = []
        self.sessions: dict[int, rta_writers.Session] = {}
        self.writers: list[processes.Writer] = []
        self._started = 0
        self.stop_path = self.directory / "stop"

    @property
    def port(self) -> int:
        """Of the server itself."""
        assert self.server.port is not None
        return self.server.port

    @property
    def url(self) -> str:
        """With a short patience for single answers."""
        return f"{self.address}?socket_timeout=0.7&socket_connect_timeout=0.7"

    @property
    def patient_url(self) -> str:
        """The same for somebody who waits for replies."""
        return f"{self.address}?socket_timeout=3&socket_connect_timeout=0.7"

    @property
    def client(self) -> redis.Redis:
        """Past the network."""
        return redis_client.connect(self.server.url)

    def start_supervisor(self) -> processes.Supervisor:
        self._started += 1
        supervisor = processes.Supervisor(self.address, self.directory, self._started, self._settings)
        self.supervisors.append(supervisor)
        return supervisor

    def start_supervisors(self, count: int) -> None:
        """Some that are ready."""
        for _ in range(count):
            self.start_supervisor()
        wait_until(lambda: len(self.ready_supervisors()) == count, timeout_s=PATIENCE_S, what="supervisors")

    def ready_supervisors(self) -> list[processes.Supervisor]:
        return [supervisor for supervisor in self.supervisors if supervisor.is_ready and not supervisor.is_frozen]

    def fell(self, supervisor: processes.Supervisor) -> None:
        self.supervisors.remove(supervisor)
        self.fallen.append(supervisor)

    def revive_supervisors(self) -> None:
        """What ends by itself is started again, as systemd does it. Its last words say why."""
        for supervisor in list(self.supervisors):
            if supervisor.exit_code is not None:
                self.counts[f"supervisor ended by itself ({supervisor.exit_code})"] += 1
                print(supervisor.log_path.read_text()[-LAST_WORDS:])
                self.fell(supervisor)
                self.start_supervisor()

    def asker(self) -> rta_writers.SessionClient:
        return rta_writers.SessionClient(self.patient_url, timeout_s=PATIENCE_S)

    def open(self, name: str, units: range, *, stream: str = STREAM) -> rta_writers.Session:
        """A session for some units."""
        session = patiently(lambda: self.asker().session(name, stream=stream), self.revive_supervisors)
        for unit in units:
            self.sessions[unit] = session
        return session

    def notes(self, unit: int) -> Path:
        return self.directory / f"unit-{unit}.notes"

    def start_writer(self, unit: int, *arguments: str) -> processes.Writer:
        options = {**self.sessions[unit].options, "redisUrl": self.url}
        all_arguments = [
            "--seed",
            self.seed,
            "--stop",
            str(self.stop_path),
            *arguments,
            *(["--plain"] if self.is_plain else []),
        ]
        writer = processes.Writer(options, self.notes(unit), unit, *all_arguments)
        self.writers.append(writer)
        return writer

    def judged(self, session: rta_writers.Session) -> oracle.Verdict:
        """What stands in Redis now, against what the writers of a session noted."""
        sessions = oracle.follow(oracle.read(self.port, session.target.stream))
        return oracle.judge(sessions.get(session.target.stream_session_id), self.acknowledged(session))

    def acknowledged(self, session: rta_writers.Session) -> stamps.Codes:
        return oracle.acknowledged([self.notes(unit) for unit, other in self.sessions.items() if other is session])

    def close(self, session: rta_writers.Session, expected_samples: int | None) -> ClosedSession:
        expected = None if expected_samples is None else Totals(samples=expected_samples)
        return patiently(lambda: session.close(expected=expected), self.revive_supervisors)

    def restart_server(self) -> None:
        """Kill -9, and a start on what it left."""
        self.server.kill()
        self.server.start()

    def replace_server(self, other: server.EmbeddedServer) -> None:
        """Another server takes over, and the network leads there from now on."""
        old, self.server = self.server, other
        self.network.target = other.socket_path
        self.network.reset()
        old.stop()

    def events(self, name: str) -> list[dict[str, object]]:
        return [event for supervisor in (*self.supervisors, *self.fallen) for event in supervisor.events(name)]

    def end(self) -> None:
        for process in (*self.supervisors, *self.writers):
            if process.exit_code is None:
                process.kill()
        self.network.close()
        self.sessions.clear()
        self.server.stop()
        if not os.environ.get("CHAOS_KEEP"):
            shutil.rmtree(self.directory)


def patiently(ask: Callable[[], T], meanwhile: Callable[[], None]) -> T:
    """As a careful user does: what may succeed later is asked again."""
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except errors.RtaError as error:
            if not error.retriable or time.monotonic() > deadline_s:
                raise
            meanwhile()
            time.sleep(0.1)


@contextlib.contextmanager
def running(
    seed: str,
    options: Mapping[str, str],
    *,
    supervisors: int,
    is_plain: bool = False,
    settings: Mapping[str, str] | None = None,
) -> Iterator[World]:
    """A world for the length of a block, with supervisors that are ready."""
    world = World(seed, options, is_plain=is_plain, settings=settings)
    try:
        world.start_supervisors(supervisors)
        yield world
    finally:
        world.end()
