"""A list of channels that changes: what was known keeps its id, what is new gets the next one."""

from collections.abc import Iterator, Set

import msgspec

from rta_wire import errors, limits
from rta_wire.channels import model


def extend(known: model.ChannelList, wanted: model.ChannelList, *, keeps_known: bool) -> model.ChannelList:
    """All channels of both lists. Raises `ChannelConflict` where a name has another type, kind or id in each.

    `keeps_known`: the ids in `wanted` only tell its channels apart. A channel that is known stays as it is, and a new
    one gets the id after the highest. Otherwise ids have to agree, and all else is as `wanted` has it.
    """
    channels = dict(known.by_name)
    for channel in _numbered(known, wanted) if keeps_known else wanted.channels:
        if (before := known.by_name.get(channel.name)) is None:
            channels[channel.name] = channel
            continue
        _check(before, channel, checks_all=not keeps_known)
        if not keeps_known:
            channels[channel.name] = channel
    is_new = not known.channels and not known.events
    return model.build(
        channels.values(),
        {**known.event_by_id, **wanted.event_by_id}.values(),
        application=wanted.application if is_new or not keeps_known else known.application,
        description=wanted.description or known.description,
    )


def missing_in(wanted: model.ChannelList, known: model.ChannelList) -> str:
    """What `wanted` does not have, or has differently, of what `known` says about samples; empty where it has all.

    Units, ranges and texts may differ: samples that are written already mean the same.
    """
    for channel in known.channels:
        other = wanted.by_name.get(channel.name)
        if other is None:
            return f"channel {channel.name!r} has id {channel.id}"
        if (other.id, other.type, other.kind) != (channel.id, channel.type, channel.kind):
            return (
                f"channel {channel.name!r} has id {channel.id}, type {channel.type.value} and kind "
                f"{channel.kind.value}, not id {other.id}, type {other.type.value} and kind {other.kind.value}"
            )
    for event in known.events:
        if event.id not in wanted.event_by_id:
            return f"event {event.id} is {event.text!r}"
    return ""


def _numbered(known: model.ChannelList, wanted: model.ChannelList) -> Iterator[model.Channel]:
    if not known.channels:
        yield from wanted.channels
        return
    ids = _free_ids(known, {channel.id for channel in wanted.channels if channel.name.isdecimal()})
    for channel in wanted.channels:
        is_given = channel.name in known.by_name or channel.name.isdecimal()
        yield channel if is_given else msgspec.structs.replace(channel, id=next(ids))


def _free_ids(known: model.ChannelList, taken: Set[int]) -> Iterator[int]:
    """Ids after the highest one; where there are no more, those that are left below it."""
    highest = known.channels[-1].id
    yield from (id_ for id_ in range(highest + 1, limits.CHANNEL_ID_MAX + 1) if id_ not in taken)
    yield from (id_ for id_ in range(1, highest) if id_ not in known.by_id and id_ not in taken)


def _check(before: model.Channel, after: model.Channel, *, checks_all: bool) -> None:
    remedy = "Cast the column to the type that it had, or give the channel another name."
    if before.type is not after.type:
        raise errors.ChannelConflict(
            channel=after.name, what="type", known=before.type.value, wanted=after.type.value, remedy=remedy
        )
    if not checks_all:
        return
    for what, was, wants in (("id", before.id, after.id), ("kind", before.kind.value, after.kind.value)):
        if was != wants:
            raise errors.ChannelConflict(
                channel=after.name,
                what=what,
                known=was,
                wanted=wants,
                remedy="Samples in the stream have it: give the channel another name, or open another session.",
            )
