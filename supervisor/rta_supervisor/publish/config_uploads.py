"""Puts the configurations of sessions into the Config Service, each once, before a session that is bound to it."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import anyio
import msgspec

from rta_supervisor.diagnostics import log
from rta_supervisor.publish.toolkit_client import CallFailed, CallRefused, SessionMissing, ToolkitClient
from rta_supervisor.webhooks.breaker import Breaker

KNOWN_MAX: Final = 10_000
"""Configurations that are remembered as stored. Of others the service is asked again."""

MISSING_PAUSE_S: Final = 30.0
"""How long until a configuration is looked for again that neither the service nor we have."""

ConfigSource = Callable[[str], Awaitable[bytes | None]]
"""Gives a configuration by its identifier; None where there is none."""


class EnsuredConfigs(msgspec.Struct, frozen=True):
    """What came of configurations that sessions are bound to; those in none of the three are stored."""

    failed: dict[str, str]
    """Those that could not be stored now, with the reason: a session that is bound to one of them has to wait."""
    unreached: set[str]
    """Those for which there was no time."""
    missing: set[str]
    """Those that nobody has. They keep no session waiting: another program may publish them."""


class ConfigUploads:
    """The configurations that the Config Service has, as far as this process knows."""

    def __init__(
        self,
        client: ToolkitClient,
        source: ConfigSource,
        breaker: Breaker,
        on_refused: Callable[[str, str], Awaitable[None]],
    ) -> None:
        """`on_refused`: called with the identifier of a configuration that the service will never take, and why."""
        self._client = client
        self._source = source
        self._breaker = breaker
        self._on_refused = on_refused
        self._known: set[str] = set()
        self._missing: dict[str, float] = {}
        self.stored = 0
        self.problem = ""
        """Why the service is left alone; empty while it takes calls."""
        self._log = log.get()

    def forget(self) -> None:
        """Ask the service again for every configuration: it was away, and may have lost some, or take one that it
        refused."""
        self._known.clear()
        self._missing.clear()

    async def ensure(self, identifiers: Iterable[str], until_s: float) -> EnsuredConfigs:
        """Store what the service does not have, one after the other, until a time."""
        outcome = EnsuredConfigs({}, set(), set())
        if not self._client.has_config_service:
            return outcome
        for identifier in dict.fromkeys(identifiers):
            now_s = anyio.current_time()
            if identifier in self._known:
                continue
            if self._missing.get(identifier, 0.0) > now_s:
                outcome.missing.add(identifier)
            elif self._breaker.wait_s(now_s) > 0:
                outcome.failed[identifier] = f"it is left alone for a while. {self.problem}"
            elif now_s > until_s:
                outcome.unreached.add(identifier)
            else:
                await self._try_store(identifier, outcome)
        return outcome

    async def _try_store(self, identifier: str, outcome: EnsuredConfigs) -> None:
        try:
            is_stored = await self._store(identifier)
        except (CallFailed, SessionMissing) as error:
            outcome.failed[identifier] = f"configuration {identifier!r}: {error}"
            if self._breaker.record_failure(anyio.current_time()):
                self.problem = f"Config Service: {error}"
                self._log.warning("publish_paused", service="config", reason=str(error))
            return
        if not is_stored:
            outcome.missing.add(identifier)
        if self._breaker.record_success():
            self.problem = ""
            self.forget()
            self._log.info("publish_resumed", service="config")

    async def _store(self, identifier: str) -> bool:
        """Store a configuration where the service does not have it. Gives whether there is one."""
        try:
            if not await self._client.has_config(identifier):
                data = await self._source(identifier)
                if data is None:
                    if identifier not in self._missing:
                        self._log.warning("publish_config_missing", config=identifier)
                    self._missing[identifier] = anyio.current_time() + MISSING_PAUSE_S
                    return False
                await self._client.put_config(identifier, data)
                self.stored += 1
                self._log.info("publish_config_stored", config=identifier, bytes=len(data))
        except CallRefused as error:
            await self._on_refused(identifier, str(error))
        self._missing.pop(identifier, None)
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known.add(identifier)
        return True
