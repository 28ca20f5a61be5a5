"""One burst of a followed session, and the frames that viewers are sent for it: made once for each distinct wish."""

import time

import msgspec

from rta_supervisor.gateway.counts import GatewayCounts
from rta_supervisor.gateway.live import frames
from rta_supervisor.gateway.live.burst_index import BurstIndex, parse_entry
from rta_supervisor.gateway.live.wish import NOTHING, Wish
from rta_wire.session import State


class _JsonState(msgspec.Struct):
    """What is looked at in Session JSON."""

    state: str = ""


_decode_state = msgspec.json.Decoder(_JsonState).decode


class LiveBurst:
    """A burst as it stands in an entry. Its index is made when it is needed, and dropped when everybody was served."""

    __slots__ = ("_counts", "_frames", "_index", "_whole", "entry_id")

    def __init__(self, entry_id: str, data: bytes, counts: GatewayCounts) -> None:
        """Raises `BadBurst` for data that no viewer could read."""
        self.entry_id = entry_id
        self._counts = counts
        self._frames: dict[tuple[Wish, bool], bytes] = {}
        self._index: BurstIndex | None
        block, self._index = parse_entry(data, entry_id)
        self._whole = frames.binary(block)

    def __len__(self) -> int:
        return len(self._whole)

    @property
    def index(self) -> BurstIndex:
        if self._index is None:
            header = 2 if len(self._whole) < 128 else 4 if self._whole[1] == 126 else 10
            _, self._index = parse_entry(self._whole[header:], self.entry_id)
        return self._index

    @property
    def is_end(self) -> bool:
        """Whether this is the last burst of its session: the JSON of a closed state."""
        return any(is_closed(document) for document in self.index.session_json)

    def frame_for(self, wish: Wish, *, notices: bool = True) -> bytes:
        """The frame for a wish; empty where the burst holds nothing of it. `notices`: JSON and time ranges too."""
        key = (wish, notices)
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = self._make_frame(wish, notices=notices)
        return frame

    def forget_index(self) -> None:
        """Keep only what was in the entry: the index holds the burst uncompressed."""
        self._index = None
        self._frames.clear()

    def _make_frame(self, wish: Wish, *, notices: bool) -> bytes:
        index = self.index
        if (
            (wish.all_events or not index.events)
            and (wish.all_channels or not index.has_data)
            and (notices or not index.notices)
        ):
            return self._whole
        if wish == NOTHING and not index.notices:
            return b""
        began_s = time.perf_counter()
        raw = index.cut(
            all_events=wish.all_events,
            all_channels=wish.all_channels,
            channel_ids=wish.channel_ids,
            notices=notices,
        )
        frame = frames.compressed(raw) if raw else b""
        self._counts.filter_s += time.perf_counter() - began_s
        self._counts.filtered_frames += bool(frame)
        return frame


def is_closed(document: bytes | str) -> bool:
    """Whether Session JSON has a closed state."""
    try:
        return State(_decode_state(document).state).is_closed
    except (msgspec.DecodeError, ValueError, RecursionError):
        # Anybody may have written it, nested without end.
        return False
