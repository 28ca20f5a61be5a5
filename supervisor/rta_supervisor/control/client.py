"""Sends requests to a supervisor as an operator, through a control stream as clients do, and waits for the reply."""

from typing import Final

import anyio

from rta_supervisor.nodes import registry
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import OUTAGE_ERRORS
from rta_supervisor.transport.link import Link
from rta_supervisor.transport.replies import pairs_to_dict
from rta_wire import errors, keys, limits, redis_url
from rta_wire.control import messages
from rta_wire.pb import control_pb2

BLOCK_S: Final = 2.0
OUTAGE_PAUSE_S: Final = 0.2
TIMEOUT_S: Final = 60.0


class OperatorClient:
    """Sends requests in the name of the first operator of the settings."""

    def __init__(self, link: Link, config: settings.Settings, *, timeout_s: float = TIMEOUT_S) -> None:
        self._link = link
        self._keys = config.keys
        self._timeout_s = timeout_s
        if not config.control.operators:
            raise errors.BadConfiguration(where="control.operators", reason="it names nobody who could ask for this")
        self.principal = config.control.operators[0]

    async def request(self, request: messages.SessionRequest) -> control_pb2.SessionReply:
        """Send a request and give its reply. One that may not have arrived is sent again: an id is served once."""
        raw = messages.pack(messages.check(request))
        control_stream, reply_key = self._keys.requests(self.principal), self._keys.reply(request.request_id)
        with anyio.move_on_after(self._timeout_s):
            while True:
                try:
                    await self.check_is_served()
                    bound = ("MAXLEN", "~", limits.CONTROL_MAX_ENTRIES)
                    await self._link.do("XADD", control_stream, *bound, "*", keys.CONTROL_FIELD, raw)
                    return messages.unpack_reply(await self._wait_for_reply(reply_key))
                except OUTAGE_ERRORS:
                    await anyio.sleep(OUTAGE_PAUSE_S)
        raise errors.NoReply(request=type(request).__name__, identity=request.identity, timeout_s=self._timeout_s)

    async def _wait_for_reply(self, key: str) -> bytes:
        while True:
            # Moved onto itself: the reply stays in the list, for a request that is sent again.
            raw: bytes | None = await self._link.do("BLMOVE", key, key, "LEFT", "RIGHT", BLOCK_S)
            if raw is not None:
                return raw
            await self.check_is_served()

    async def check_is_served(self) -> None:
        """Raise where no supervisor runs or none reads our control stream: at once, not after the timeout."""
        if not await registry.running_nodes(self._link, self._keys):
            raise errors.NoSupervisor(url=redis_url.redact(self._link.config.url), prefix=self._keys.prefix)
        if not await self._is_consumed(self._keys.requests(self.principal)):
            raise errors.BadConfiguration(
                where="control.operators",
                reason=f"no running supervisor reads requests of {self.principal!r}. "
                "Name it in their settings and start them again",
            )

    async def _is_consumed(self, control_stream: str) -> bool:
        """Whether supervisors have created their consumer group on a control stream."""
        [groups] = await self._link.try_all([("XINFO", "GROUPS", control_stream)])
        if isinstance(groups, Exception):
            return False
        return any(pairs_to_dict(group)[b"name"] == keys.CONTROL_GROUP.encode() for group in groups)
