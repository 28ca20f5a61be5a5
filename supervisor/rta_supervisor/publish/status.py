"""How publishing goes, as whoever publishes writes it to Redis for `doctor`, `publish status` and metrics."""

from typing import Final

import msgspec

from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.publish import server_functions
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link
from rta_wire import keys

STATUS_S: Final = 2.0
STALE_S: Final = 30.0
"""Nobody publishes any more where nothing was written for so long."""


class PublishStatus(msgspec.Struct, frozen=True):
    """The state of publishing. Field names are part of the output of `publish status --json`."""

    node: str
    at_ms: int
    period_s: float
    """How often time ranges are told now."""
    waiting: int
    """Sessions with changes that are not delivered."""
    oldest_s: float
    """How long ago the service was told last of the session that waits longest."""
    refused: int
    problem: str
    """Why the Session Service, or else the Config Service, is left alone; empty while both take calls."""

    @property
    def is_stale(self) -> bool:
        return now_ms() - self.at_ms > STALE_S * 1000

    @property
    def oldest_now_s(self) -> float:
        """The age of the oldest unpublished change. It goes on growing while nothing can be published, as without the
        catalogue, and no newer status comes."""
        return self.oldest_s + (max(0, now_ms() - self.at_ms) / 1000 if self.is_stale else 0.0)


def write(names: keys.Keys, status: PublishStatus) -> commands.Command:
    """The command that writes a status."""
    return server_functions.write_status(names, msgspec.json.encode(status))


async def read(link: Link, names: keys.Keys) -> PublishStatus | None:
    """The last status that was written; None where nobody ever published."""
    raw = await link.do("HGET", names.publishing(), keys.PUBLISHING_STATUS)
    try:
        return None if raw is None else msgspec.json.decode(raw, type=PublishStatus)
    except msgspec.DecodeError:
        return None
