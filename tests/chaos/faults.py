"""Everything that can be done to a world whose Redis keeps its data. A fault acts at once; what ends it comes later.

Each gives whether it could act: a supervisor that is still starting or a writer that has not written is not worth
killing, and a fault that hit nothing is not counted.
"""

import os
import signal
import time
from collections.abc import Callable
from typing import Final

from rta_wire.control import messages
from rta_wire.pb import control_pb2
from tests.chaos.agenda import Agenda
from tests.chaos.processes import Process, Writer
from tests.chaos.world import STREAM, World

AHEAD_MS: Final = 3_600_000
JUMPS_S: Final = (-7200, -3600, -120, 120, 3600, 7200)
FROZEN_S: Final = (0.1, 1.5)


class Faults:
    """The faults of one world."""

    def __init__(self, world: World, agenda: Agenda, restart: Callable[[int], Writer]) -> None:
        self._world = world
        self._agenda = agenda
        self._restart = restart
        self._choose = world.chooser
        self._is_full = False

    def act(self, name: str) -> bool:
        """Do it, if it can be done now."""
        acted: bool = getattr(self, f"_{name.replace(' ', '_')}")()
        if acted:
            self._world.counts[name] += 1
        return acted

    def _freeze(self, process: Process) -> None:
        process.freeze()
        self._agenda.after(self._choose.uniform(*FROZEN_S), process.thaw)

    def _writing(self) -> list[Writer]:
        return [writer for writer in self._world.writers if writer.is_writing and not writer.is_frozen]

    def _supervisor_killed(self) -> bool:
        if not (ready := self._world.ready_supervisors()):
            return False
        victim = self._choose.choice(ready)
        victim.kill()
        self._world.fell(victim)
        self._world.start_supervisor()
        return True

    def _supervisor_frozen(self) -> bool:
        if not (ready := self._world.ready_supervisors()):
            return False
        self._freeze(self._choose.choice(ready))
        return True

    def _supervisor_clock_jumped(self) -> bool:
        if not (ready := self._world.ready_supervisors()):
            return False
        self._choose.choice(ready).jump_clock(self._choose.choice(JUMPS_S))
        return True

    def _writer_killed(self) -> bool:
        if not (writing := self._writing()):
            return False
        victim = self._choose.choice(writing)
        victim.kill()
        self._world.writers.remove(victim)
        self._restart(victim.unit)
        return True

    def _writer_frozen(self) -> bool:
        if not (writing := self._writing()):
            return False
        self._freeze(self._choose.choice(writing))
        return True

    def _writer_doubled(self) -> bool:
        """A twin writes the same unit while the first is frozen, and then with it."""
        if not (writing := self._writing()):
            return False
        first = self._choose.choice(writing)
        if sum(writer.unit == first.unit for writer in self._world.writers) > 1:
            return False
        first.freeze()
        twin = self._restart(first.unit)
        self._agenda.when(lambda: twin.is_writing or twin.exit_code is not None, first.thaw)
        return True

    def _redis_killed(self) -> bool:
        self._world.restart_server()
        return True

    def _redis_frozen(self) -> bool:
        os.kill(self._world.server.pid, signal.SIGSTOP)
        time.sleep(self._choose.uniform(0.05, 0.4))
        os.kill(self._world.server.pid, signal.SIGCONT)
        return True

    def _redis_full(self) -> bool:
        with self._world.client as client:
            client.config_set("maxmemory", "1mb")
        self._is_full = True
        self._agenda.after(self._choose.uniform(0.1, 0.6), self._make_room)
        return True

    def _make_room(self) -> None:
        with self._world.client as client:
            client.config_set("maxmemory", "0")
        self._is_full = False

    def _redis_clock_jumped(self) -> bool:
        """Entries with ids from the future, as by a server whose clock was ahead: later ones go on from there."""
        if self._is_full:
            return False
        with self._world.client as client:
            seconds, _ = client.time()
            entry_id = f"{int(seconds) * 1000 + AHEAD_MS * (1 + self._world.counts['redis clock jumped'])}-0"
            heartbeat = control_pb2.Heartbeat(identity="nobody", stream_session_id=1)
            client.xadd("rtas:ctl:default", {"m": messages.pack(heartbeat)}, id=entry_id)
            client.xadd(f"stream:{STREAM}", {"id": 0, "data": b"\x00"}, id=entry_id)
        return True

    def _replies_cut(self) -> bool:
        """Replies to the next commands that change something, here and there."""
        self._world.network.replies_to_cut += 1
        return True

    def _connections_reset(self) -> bool:
        self._world.network.reset()
        return True

    def _network_slow(self) -> bool:
        self._world.network.delay_s = self._choose.uniform(0.005, 0.1)
        self._agenda.after(self._choose.uniform(0.1, 0.5), lambda: setattr(self._world.network, "delay_s", 0.0))
        return True

    def _network_throttled(self) -> bool:
        self._world.network.bytes_per_s = self._choose.choice((50_000, 500_000))
        self._agenda.after(self._choose.uniform(0.1, 0.5), lambda: setattr(self._world.network, "bytes_per_s", 0))
        return True

    def _network_gone(self) -> bool:
        """A black hole, shorter or longer than the patience of a client; then what was under way arrives late."""
        self._world.network.hold()
        self._agenda.after(self._choose.choice((0.1, 0.3, 1.0, 1.6)), self._world.network.flow)
        return True
