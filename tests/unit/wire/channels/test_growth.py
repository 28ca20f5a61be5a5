"""A list that changes: ids stay, new channels are appended, and what can't be changed is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rta_wire import errors
from rta_wire.channels import growth, model
from rta_wire.codec.layout import Kind, SampleType
from tests.support.channel_lists import ENGINE, channel_lists


@settings(max_examples=40, deadline=None)
@given(channel_lists, st.lists(st.sampled_from(["a", "b", "c d", "rpm"]), unique=True))
def test_known_channels_keep_their_ids(known: model.ChannelList, names: list[str]) -> None:
    """Whatever the order of the new ones; and growing twice changes nothing more."""
    wanted = model.build(
        model.Channel(id=number, name=name, type=known.by_name[name].type if name in known.by_name else SampleType.INT8)
        for number, name in enumerate(names, 1)
    )
    grown = growth.extend(known, wanted, keeps_known=True)
    assert all(grown.by_name[channel.name] == channel for channel in known.channels)
    assert set(grown.by_name) == {*known.by_name, *names}
    assert growth.extend(grown, wanted, keeps_known=True) == grown


def test_after_the_last_id_there_is_come_those_that_are_left() -> None:
    """A list may have the highest one."""
    known = model.build([model.Channel(id=number, name=f"c{number}") for number in (1, 3, 2**32 - 2)])
    wanted = model.build([model.Channel(id=number, name=name) for number, name in enumerate(["a", "b"], 1)])
    grown = growth.extend(known, wanted, keeps_known=True)
    assert (grown.by_name["a"].id, grown.by_name["b"].id) == (2**32 - 1, 2)


def test_a_name_that_is_a_number_keeps_its_id() -> None:
    """New channels beside it get the ids that it leaves."""
    wanted = model.build([model.Channel(id=1, name="a"), model.Channel(id=4, name="4"), model.Channel(id=5, name="b")])
    grown = growth.extend(ENGINE, wanted, keeps_known=True)
    assert [(name, grown.by_name[name].id) for name in ("a", "4", "b")] == [("a", 5), ("4", 4), ("b", 6)]


@pytest.mark.parametrize(
    ("channel", "keeps_known", "message"),
    [
        (model.Channel(id=9, name="rpm"), True, "'rpm' is known with type 'float', and can't get type 'double'"),
        (model.Channel(id=9, name="speed"), False, "'speed' is known with id 2, and can't get id 9"),
        (model.Channel(id=2, name="speed", kind=Kind.ROW), False, "with kind 'timestamped', and can't get kind 'row'"),
    ],
)
def test_what_samples_in_the_stream_have_can_not_change(
    channel: model.Channel, keeps_known: bool, message: str
) -> None:
    """The error names the channel, what was and what was wanted."""
    with pytest.raises(errors.ChannelConflict, match=message):
        growth.extend(ENGINE, model.build([channel]), keeps_known=keeps_known)


def test_a_list_with_its_own_ids_changes_all_else() -> None:
    """Unit and range are as the new list has them; channels that it lacks stay."""
    changed = model.build([model.Channel(id=2, name="speed", unit="m/s", max=100)], application="car")
    grown = growth.extend(ENGINE, changed, keeps_known=False)
    assert (grown.by_name["speed"].unit, grown.application, len(grown.channels)) == ("m/s", "car", 3)
