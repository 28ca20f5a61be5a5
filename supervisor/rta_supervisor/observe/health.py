"""Whether the supervisor can do its work, for `/health` and metrics, and how much it does, for `systemctl status`.

Redis is probed on a connection of its own: one that is busy with the supervisor's work would say nothing about Redis.
One probe that fails is an accident, two in a row are an outage.
"""

from collections.abc import Callable, Mapping
from typing import Final

import anyio
import msgspec
import redis.exceptions

from rta_supervisor.diagnostics import counters
from rta_supervisor.nodes import periodic
from rta_supervisor.observe.sampler import Observation
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import RETRIABLE_ERRORS
from rta_supervisor.transport.link import Link

EVERY_S: Final = 1.0
TIMEOUT_S: Final = 2.0
OUTAGE_PROBES: Final = 2
"""Probes that have to fail in a row before Redis counts as away."""

MIB: Final = 1024 * 1024


class Readiness(msgspec.Struct, frozen=True):
    """Whether the supervisor is ready, and why not."""

    is_ready: bool
    reason: str
    round_trip_ms: float | None = None

    def to_json(self) -> dict[str, object]:
        """The body of `/health`."""
        status = "ready" if self.is_ready else "unavailable"
        return {"status": status, "reason": self.reason, "redisRoundTripMs": self.round_trip_ms}


class Health:
    """Probes Redis every second, and knows the readiness of the supervisor: asking for it costs nothing."""

    def __init__(self, config: settings.RedisSettings, stuck_loops: Callable[[], Mapping[str, float]]) -> None:
        """`stuck_loops`: gives the loops that get nowhere, by name."""
        self._stuck_loops = stuck_loops
        self._link = Link(msgspec.structs.replace(config, timeout_s=min(TIMEOUT_S, config.timeout_s)))
        self._failed_probes = OUTAGE_PROBES
        self._error = "nobody has asked Redis yet"
        self._round_trip_ms: float | None = None
        self._not_ready_reason = "starting"

    @property
    def round_trip_ms(self) -> float | None:
        return self._round_trip_ms

    @property
    def is_redis_up(self) -> bool:
        """Whether the last probe succeeded, or failed after one that did."""
        return self._failed_probes < OUTAGE_PROBES

    def set_not_ready(self, reason: str) -> None:
        """Note why the supervisor is not ready, besides failed probes of Redis and stuck loops."""
        self._not_ready_reason = reason

    def set_ready(self) -> None:
        """Note that the supervisor has started: it is ready while Redis answers and no loop is stuck."""
        self._not_ready_reason = ""

    def readiness(self) -> Readiness:
        if not self.is_redis_up:
            return Readiness(False, f"Redis does not answer: {self._error}")
        if stuck := self._stuck_loops():
            return Readiness(False, f"loops get nowhere: {', '.join(stuck)}", self._round_trip_ms)
        return Readiness(not self._not_ready_reason, self._not_ready_reason, self._round_trip_ms)

    async def run(self) -> None:
        """Probe until cancelled."""
        try:
            await periodic.every(lambda: EVERY_S, self.probe, self._link.outage_log, at_once=True)
        finally:
            with anyio.CancelScope(shield=True):
                await self._link.close()

    async def probe(self) -> None:
        """Make one round trip, and note how long it took or why it failed."""
        began_s = anyio.current_time()
        try:
            with anyio.fail_after(self._link.config.timeout_s):
                await self._link.do("PING")
        except (redis.exceptions.RedisError, OSError, *RETRIABLE_ERRORS) as error:
            self._failed_probes += 1
            self._error = str(error) or type(error).__name__
            self._round_trip_ms = None
            return
        self._failed_probes = 0
        self._round_trip_ms = round((anyio.current_time() - began_s) * 1000, 3)


def status_line(observation: Observation, counts: counters.Counts) -> str:
    """The supervisor in one line, for `systemctl status`."""
    states = ", ".join(f"{count} {state}" for state, count in observation.sessions.items() if count) or "no sessions"
    waiting = sum(stream.waiting + stream.unacknowledged for stream in observation.control_streams)
    parts = [
        states,
        f"{counts.opened} opened and {sum(counts.closed.values())} closed here",
        f"{counts.reports} reports",
    ]
    if waiting:
        parts.append(f"{waiting} messages waiting")
    if observation.dead_letters:
        parts.append(f"{observation.dead_letters} dead letters")
    if (server := observation.server) is not None:
        limit = f" of {server.max_bytes // MIB}" if server.max_bytes else ""
        parts.append(f"Redis {server.used_bytes // MIB}{limit} MiB")
    return "; ".join(parts)
