"""Checks publishing to the Session Service and the Config Service that are set."""

from typing import Final

from rta_supervisor.observe.doctor.findings import Finding, bad, ok, warn
from rta_supervisor.publish import status
from rta_supervisor.publish.pace import TOLERANCE
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import errors

CHECK: Final = "publishing"

BEHIND_S: Final = 300.0
"""The age of a change that something is wrong with, as in the alert `RtaPublishingBehind`."""


class PublishingChecks:
    """The check of publishing."""

    def __init__(self, link: Link, config: settings.Settings) -> None:
        self._link = link
        self._config = config

    async def publishing(self) -> Finding:
        """Whether somebody publishes, and the services take it, in time."""
        config = self._config.publish
        if not config.is_on:
            return ok(CHECK, "not set up")
        current = await status.read(self._link, self._config.keys)
        if current is None or current.is_stale:
            remedy = "See the logs of supervisors that have [publish] for publish_interrupted and publisher_ended."
            return bad(CHECK, "nobody publishes", remedy, errors.Unavailable.exit_code)
        found = f"{current.waiting:,} sessions wait, the oldest for {current.oldest_s:.1f} s"
        if current.problem:
            remedy = "Look at the service and at [publish]. Nothing is lost: it gets everything when it is back."
            return bad(CHECK, f"{found}: {current.problem}", remedy, errors.Unavailable.exit_code)
        if current.refused:
            remedy = "See rta-supervisor publish status; then: rta-supervisor publish retry"
            return warn(CHECK, f"{found}; the service refuses {current.refused:,}", remedy)
        if current.oldest_s > max(BEHIND_S, config.heartbeat_s * 2):
            remedy = "Calls about it fail, and others don't: see publish_failed in a log of level debug."
            return warn(CHECK, found, remedy)
        if current.period_s > config.every_s * TOLERANCE:
            remedy = "The service or this host can't keep up: time ranges are told less often."
            return warn(CHECK, f"{found}; every {current.period_s:g} s", remedy)
        return ok(CHECK, found)
