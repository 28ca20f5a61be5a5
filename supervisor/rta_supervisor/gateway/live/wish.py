"""What a viewer has subscribed to, and what it has to be sent for that from before. Subscriptions add up. Pure."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from rta_wire import entry_ids
from rta_wire.pb import stream_pb2


class Wish(NamedTuple):
    """Channels and events that somebody wants. Equal wishes share their frames."""

    all_events: bool = False
    all_channels: bool = False
    channel_ids: frozenset[int] = frozenset()

    def __or__(self, other: "Wish") -> "Wish":
        """What either wants."""
        all_channels = self.all_channels or other.all_channels
        channel_ids = frozenset() if all_channels else self.channel_ids | other.channel_ids
        return Wish(self.all_events or other.all_events, all_channels, channel_ids)

    def minus(self, other: "Wish") -> "Wish":
        """What this wants and the other does not. Who wants all channels besides some gets those again."""
        all_channels = self.all_channels and not other.all_channels
        channel_ids = frozenset() if other.all_channels else self.channel_ids - other.channel_ids
        return Wish(self.all_events and not other.all_events, all_channels, channel_ids)

    @property
    def is_everything(self) -> bool:
        return self.all_events and self.all_channels


NOTHING: Final = Wish()


class Backfill:
    """What a viewer still has to be sent from before: entries after one id, up to another."""

    def __init__(
        self, wish: Wish, after: str, until: str, *, is_begun: bool = False, archived_until: str = entry_ids.MIN
    ) -> None:
        """`is_begun`: the last values need not be sent before it."""
        self.wish = wish
        self.after = after
        self.until = until
        self.is_begun = is_begun
        self.archived_until = archived_until
        """Up to here the stream has nothing any more, and the archive is read."""
        self.last_frames: Iterator[bytes] = iter(())
        """Frames with the last values that were not sent yet."""


def of_subscription(subscription: stream_pb2.StreamSubscription) -> Wish:
    """The wish of one request of a viewer."""
    return Wish(subscription.all_events, subscription.all_data_channels, frozenset(subscription.data_channel_ids))
