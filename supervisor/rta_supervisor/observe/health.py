"""Whether the supervisor can do its work: asks Redis on a connection of its own, so that a busy one says nothing.

One answer that does not come is an accident, two in a row are an outage.
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
STRIKES: Final = 2


class Readiness(msgspec.Struct, frozen=True):
    """What `/health` says."""

    is_ready: bool
    reason: str
    round_trip_ms: float | None = None

    def to_json(self) -> dict[str, object]:
        status = "ready" if self.is_ready else "unavailable"
        return {"status": status, "reason": self.reason, "redisRoundTripMs": self.round_trip_ms}


class Health:
    """Looks at Redis all the time; asking costs nothing."""

    def __init__(self, config: settings.RedisSettings, stuck: Callable[[], Mapping[str, float]]) -> None:
        """`stuck`: loops that get nowhere."""
        self._stuck = stuck
        self._link = Link(msgspec.structs.replace(config, timeout_s=min(TIMEOUT_S, config.timeout_s)))
        self._strikes = STRIKES
        self._error = "nobody has asked Redis yet"
        self._round_trip_ms: float | None = None
        self._hindrance = "starting"

    @property
    def round_trip_ms(self) -> float | None:
        return self._round_trip_ms

    @property
    def is_redis_there(self) -> bool:
        return self._strikes < STRIKES

    def set_not_ready(self, reason: str) -> None:
        """Not ready for another reason than Redis; empty: no more."""
        self._hindrance = reason

    def readiness(self) -> Readiness:
        if not self.is_redis_there:
            return Readiness(False, f"Redis does not answer: {self._error}")
        if stuck := self._stuck():
            return Readiness(False, f"loops get nowhere: {', '.join(stuck)}", self._round_trip_ms)
        return Readiness(not self._hindrance, self._hindrance, self._round_trip_ms)

    async def run(self) -> None:
        """Until cancelled."""
        try:
            await periodic.every(lambda: EVERY_S, self.probe, self._link.outage_log, at_once=True)
        finally:
            with anyio.CancelScope(shield=True):
                await self._link.close()

    async def probe(self) -> None:
        """One round trip."""
        began_s = anyio.current_time()
        try:
            with anyio.fail_after(self._link.config.timeout_s):
                await self._link.do("PING")
        except (redis.exceptions.RedisError, OSError, *RETRIABLE_ERRORS) as error:
            self._strikes += 1
            self._error = str(error) or type(error).__name__
            self._round_trip_ms = None
            return
        self._strikes = 0
        self._round_trip_ms = round((anyio.current_time() - began_s) * 1000, 3)


MIB = 1024 * 1024


def status_line(seen: Observation, counts: counters.Counts) -> str:
    states = ", ".join(f"{count} {state}" for state, count in seen.sessions.items() if count) or "no sessions"
    waiting = sum(lane.waiting + lane.unacknowledged for lane in seen.lanes)
    words = [
        states,
        f"{counts.opened} opened and {sum(counts.closed.values())} closed here",
        f"{counts.reports} reports",
    ]
    if waiting:
        words.append(f"{waiting} messages waiting")
    if seen.dead_letters:
        words.append(f"{seen.dead_letters} dead letters")
    if seen.server is not None:
        limit = f" of {seen.server.max_bytes // MIB}" if seen.server.max_bytes else ""
        words.append(f"Redis {seen.server.used_bytes // MIB}{limit} MiB")
    return "; ".join(words)
