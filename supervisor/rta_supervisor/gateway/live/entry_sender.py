"""Sends one viewer what is read for it alone."""

from rta_supervisor.gateway.counts import GatewayCounts
from rta_supervisor.gateway.live.live_burst import LiveBurst
from rta_supervisor.gateway.live.viewer import Viewer
from rta_supervisor.gateway.live.wish import Wish
from rta_wire import errors
from rta_wire.stream import cursor


class EntrySender:
    """Makes frames of entries, and counts them."""

    def __init__(self, counts: GatewayCounts) -> None:
        self._counts = counts

    def send_entry(self, viewer: Viewer, entry: cursor.StreamEntry, wish: Wish, *, notices: bool) -> None:
        """Send what a wish wants of an entry. `notices`: Session JSON and time ranges too, which may say the end."""
        try:
            burst = LiveBurst(entry.id, entry.data, self._counts)
        except errors.BadBurst:
            self._counts.bad_entries += 1
            return
        if frame := burst.frame_for(wish, notices=notices):
            self.send_frame(viewer, frame)
        if notices and burst.index.session_json and burst.is_end:
            viewer.is_ending = True

    def send_frame(self, viewer: Viewer, frame: bytes) -> None:
        if not viewer.is_over:
            viewer.send(frame)
            self._counts.frames += 1
            self._counts.bytes += len(frame)
