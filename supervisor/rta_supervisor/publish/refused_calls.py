"""Keeps calls that will never work among the dead letters, with the reason of the service."""

from typing import Final

from rta_supervisor.catalogue.publications.model import RefusedPublication
from rta_supervisor.control import dead_letters
from rta_supervisor.control.dead_letters import NewLetter
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link

REFUSED: Final = "PublishRefused"
"""The code of the dead letter of a call that will never work."""

CONFIG_OWNER: Final = "publish"
"""Stands for the principal in the dead letter of a configuration: sessions of several may be bound to it."""


class RefusedCalls:
    """Where calls go that the services will never take."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._config = config
        self._log = log.get()

    async def add_session(self, refusal: RefusedPublication) -> None:
        """Keep what was told of a session, or would have been."""
        due, reason = refusal.due, refusal.reason
        self._log.error("publish_refused", session=due.identity, principal=due.principal, reason=reason)
        text = f"Session {due.identity!r} can't be published as it is: {reason}"
        await self._add(due.principal, due.identity, text, refusal.message)

    async def add_config(self, identifier: str, reason: str) -> None:
        """Keep that a configuration was refused."""
        self._log.error("publish_refused", config=identifier, reason=reason)
        text = f"The Config Service refuses configuration {identifier!r}: {reason}"
        await self._add(CONFIG_OWNER, identifier, text, b"")

    async def _add(self, owner: str, entry: str, reason: str, message: bytes) -> None:
        source = self._config.keys.publishing()
        await dead_letters.add_letter(
            self._link, self._config, NewLetter(owner, source, entry, REFUSED, reason, message)
        )
        counters.counts.publications["refused"] += 1
        counters.counts.dead_letters[REFUSED] += 1
