"""What a feed remembers for viewers that join."""

import lz4.block
import pytest

from rta_supervisor.gateway.counts import GatewayCounts
from rta_supervisor.gateway.live import session_feed
from rta_supervisor.gateway.live.live_burst import LiveBurst
from rta_supervisor.gateway.live.session_feed import SessionFeed
from rta_supervisor.gateway.live.watched_session import WatchedSession
from rta_supervisor.gateway.live.wish import Wish
from rta_wire import entry_ids
from rta_wire.pb import data_pb2, stream_pb2

MAX = 20


def remembered(feed: SessionFeed) -> list[int]:
    """The channels whose last message a newcomer gets."""
    [frame] = feed.last_frames(Wish(all_channels=True))
    raw = lz4.block.decompress(frame[4 if frame[1] == 126 else 2 :], uncompressed_size=1 << 20)
    return [message.timestamped_data.channel_id for message in stream_pb2.StreamDataBurst.FromString(raw).data]


def test_ever_new_channels_take_no_memory_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest of them are remembered, up to a number."""
    monkeypatch.setattr(session_feed, "LAST_MESSAGES_MAX", MAX)
    counts = GatewayCounts()
    feed = SessionFeed(WatchedSession("s", "rig", 1, entry_ids.MIN, "{}", None, 0), entry_ids.MIN, counts)
    for number in range(1, 10 * MAX):
        data = data_pb2.TimestampedData(channel_id=number, start_timestamp=7, buffer=bytes(8))
        burst = stream_pb2.StreamDataBurst(data=[stream_pb2.StreamData(timestamped_data=data)])
        block = lz4.block.compress(burst.SerializeToString(), store_size=False)
        feed.publish([LiveBurst(f"{number}-0", block, counts)], 1 << 20)
        channels = remembered(feed)
        assert len(channels) <= MAX
        assert channels == list(range(number - len(channels) + 1, number + 1))
