"""All viewers of a gateway: how many there may be, what may wait for them, which are let go, and who they are."""

import time
from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec
from websockets.frames import CloseCode

from rta_supervisor.diagnostics import log
from rta_supervisor.gateway.access.control import AccessControl, Refusal
from rta_supervisor.gateway.access.grant import Grant
from rta_supervisor.gateway.live.viewer import Viewer
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections.servers.gateway import QUEUE_MIN_BYTES
from rta_wire import entry_ids

PING_S: Final = 30.0
"""How long a viewer may be silent before it is asked whether it is there; less where it is let go soon."""

PINGS_BEFORE_STUCK: Final = 4


class ViewerLine(msgspec.Struct, frozen=True):
    """One viewer, as `rta-supervisor viewers` shows it."""

    identity: str
    stream: str
    token: str
    address: str
    since_s: float
    is_live: bool
    behind_s: float
    queued_bytes: int
    sent_bytes: int
    gap_entries: int
    channels: str


class ViewerTable:
    """The viewers that are connected."""

    def __init__(self, config: settings.Settings, access: AccessControl) -> None:
        self._config = config
        self._access = access
        self._viewers: dict[Viewer, None] = {}
        self._by_token: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()
        self._log = log.get()

    def __len__(self) -> int:
        return len(self._viewers)

    def __iter__(self) -> Iterator[Viewer]:
        return iter(list(self._viewers))

    def limit(self, grant: Grant, address: str) -> Refusal | None:
        """Why there is no room for another viewer; None: there is."""
        config = self._config.gateway
        if len(self._viewers) >= config.viewers:
            return Refusal(503, "As many viewers are connected as gateway.viewers allows. Try again later.")
        if self._by_token[grant.name] >= config.token_viewers:
            return Refusal(429, "As many viewers of this token are connected as gateway.token_viewers allows.")
        if self._by_address[address] >= config.address_viewers:
            return Refusal(429, "As many viewers of this address are connected as gateway.address_viewers allows.")
        return None

    def add(self, viewer: Viewer) -> None:
        self._viewers[viewer] = None
        self._by_token[viewer.grant.name] += 1
        self._by_address[viewer.address] += 1
        self._set_queue_limit(viewer)

    def remove(self, viewer: Viewer) -> bool:
        """Forget a viewer. Whether it was there."""
        if viewer not in self._viewers:
            return False
        del self._viewers[viewer]
        for counter, key in ((self._by_token, viewer.grant.name), (self._by_address, viewer.address)):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]
        return True

    def sweep(self) -> None:
        """Let go of viewers that take nothing, say nothing, or may not look any more."""
        now_s = time.monotonic()
        stuck_s = self._config.gateway.stuck_s
        ping_s = min(PING_S, stuck_s / PINGS_BEFORE_STUCK)
        for viewer in self:
            queued = viewer.queued_bytes
            if viewer.written - queued > viewer.taken or not queued:
                viewer.taken, viewer.taken_s = viewer.written - queued, now_s
            if now_s - viewer.taken_s >= stuck_s:
                name = viewer.grant.name
                self._log.warning("gateway_viewer_stuck", session=viewer.identity, token=name, queued_bytes=queued)
                viewer.abort("stuck")
            elif now_s - viewer.heard_s >= stuck_s + ping_s:
                viewer.abort("silent")
            elif not self._access.is_valid(viewer.grant):
                viewer.close(CloseCode.POLICY_VIOLATION, "The token is not valid any more.", left="token_ended")
            elif not queued and now_s - max(viewer.heard_s, viewer.pinged_s) >= ping_s:
                viewer.ping()
            self._set_queue_limit(viewer)

    def gauges(self) -> Iterator[tuple[str, str, float]]:
        """What is measured at a scrape."""
        behind = [viewer for viewer in self if not viewer.is_live]
        lag_s = max(map(_behind_s, behind), default=0.0)
        yield "rta_gateway_viewers", "Viewers that are connected.", len(self)
        yield "rta_gateway_viewers_behind", "Viewers that are served from Redis.", len(behind)
        yield "rta_gateway_lag_seconds", "How far the slowest viewer is behind.", lag_s
        queued = sum(viewer.queued_bytes for viewer in self)
        yield "rta_gateway_queued_bytes", "Bytes that wait for viewers.", queued

    def lines(self, grant: Grant) -> list[ViewerLine]:
        """All viewers of sessions that a grant may see."""
        return [_line(viewer) for viewer in self if viewer.hub is not None and grant.may_see(viewer.hub.stream)]

    def _set_queue_limit(self, viewer: Viewer) -> None:
        """Divide what may wait in all among the viewers, where that is less than each may have."""
        config = self._config.gateway
        share = config.queued_bytes // max(len(self._viewers), 1)
        high = max(QUEUE_MIN_BYTES, min(config.queue_bytes, share))
        if viewer.queue_limit != high and not viewer.transport.is_closing():
            viewer.queue_limit = high
            # Less than the bound: the bursts that fill the queue come on top, and what holds it is an eighth larger.
            viewer.transport.set_write_buffer_limits(high=high // 2, low=high // 4)


def _line(viewer: Viewer) -> ViewerLine:
    wish = viewer.wish
    return ViewerLine(
        identity=viewer.identity,
        stream=viewer.hub.stream if viewer.hub is not None else "",
        token=viewer.grant.name,
        address=viewer.address,
        since_s=round(time.time() - viewer.joined_s, 1),
        is_live=viewer.is_live,
        behind_s=round(_behind_s(viewer), 3),
        queued_bytes=viewer.queued_bytes,
        sent_bytes=viewer.written - viewer.queued_bytes,
        gap_entries=viewer.gap_entries,
        channels="all" if wish.all_channels else str(len(wish.channel_ids)),
    )


def _behind_s(viewer: Viewer) -> float:
    if viewer.is_live or viewer.hub is None:
        return 0.0
    return max(entry_ids.ms_of(viewer.hub.position) - entry_ids.ms_of(viewer.cursor), 0) / 1000
