"""What viewers can't show of a configuration. It can be published and written all the same."""

from collections.abc import Iterator, Sequence

from rta_wire.channels import model


def warnings(channel_list: model.ChannelList) -> list[str]:
    """A sentence for each channel or range of ids that a viewer can't show, or shows badly."""
    channels = channel_list.channels
    return [*_integers_64(channels), *_gaps(channels), *_without_range(channels)]


def channel_warnings(channels: Sequence[model.Channel]) -> list[str]:
    """The same for some channels of a list: whether its ids have gaps is not known."""
    return [*_integers_64(channels), *_without_range(channels)]


def _integers_64(channels: Sequence[model.Channel]) -> Iterator[str]:
    for channel in channels:
        if channel.type in model.INTEGERS_64:
            yield (
                f"Channel {channel.name!r} is {channel.type.value}: viewers have no integers of 64 bits and won't show "
                "it. Choose int32 or double where its values fit"
            )


def _gaps(channels: Sequence[model.Channel]) -> Iterator[str]:
    """Ids that are left out: viewers want them from 0 or 1 on, without gaps."""
    ids = [channel.id for channel in channels if channel.type not in model.INTEGERS_64]
    if not ids:
        return
    expected = min(ids[0], 1)
    for channel_id in ids:
        if channel_id != expected:
            is_one = channel_id == expected + 1
            missing = f"channel with id {expected}" if is_one else f"channels with ids {expected} to {channel_id - 1}"
            yield f"Viewers find no {missing}: they want ids from 0 or 1 on, without gaps"
        expected = channel_id + 1


def _without_range(channels: Sequence[model.Channel]) -> Iterator[str]:
    for channel in channels:
        if channel.type not in model.INTEGERS_64 and (channel.min is None or channel.max is None):
            yield f"Channel {channel.name!r} has no range: displays don't scale without its min and max"
