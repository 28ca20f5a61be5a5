"""Lists of channels: what is refused, with the channel and the reason, and what conversions give."""

import math
from typing import Any

import numpy as np
import pytest

from rta_wire import errors
from rta_wire.channels import model
from rta_wire.channels.conversions import RationalConversion, TableConversion, TextConversion
from rta_wire.codec.layout import Kind, Layout, SampleType
from tests.support.channel_lists import ENGINE


def _one(**fields: Any) -> model.ChannelList:
    return model.build([model.Channel(**{"id": 1, "name": "rpm", **fields})])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"name": ""}, "its name is empty"),
        ({"name": "a\nb"}, "characters that can't be printed"),
        ({"name": " a"}, "begins or ends with a space"),
        ({"name": "x" * 129}, "129 characters"),
        ({"name": "*"}, "stands for all channels"),
        ({"name": "7"}, "its name is a number, which stands for an id, and its id is 1"),
        ({"id": -1}, "its id is -1"),
        ({"id": 2**32}, "its id is 4294967296"),
        ({"unit": "x" * 65}, "its unit has 65 characters"),
        ({"description": "x" * 1001}, "its description has 1001"),
        ({"group": ("a",) * 9}, "9 levels deep"),
        ({"group": ("a/b",)}, "stands between groups"),
        ({"group": ("",)}, "has an empty name"),
        ({"interval_ns": 5}, "it has an interval but is timestamped"),
        ({"interval_ns": -5, "kind": Kind.PERIODIC}, "its interval is -5 ns"),
        ({"min": 2, "max": 1}, "its min 2 is above its max 1"),
        ({"warn_min": 2, "warn_max": 1}, "its warn_min 2 is above its warn_max 1"),
        ({"max": math.inf}, "its max is inf"),
        ({"min": math.nan}, "its min is nan"),
        ({"conversion": RationalConversion((1.0,))}, "6 coefficients, not 1"),
        ({"conversion": RationalConversion((1.0,) * 3 + (0.0,) * 3)}, "divisor, and all are 0"),
        ({"conversion": TableConversion((1.0, 1.0), (0.0, 1.0))}, "have to rise"),
        ({"conversion": TableConversion((1.0,), (0.0, 1.0))}, "1 values and 2 results"),
        ({"conversion": TableConversion((), ())}, "1 to 1000 values, not 0"),
        ({"conversion": TextConversion((1.0, 1.0), ("a", "b"))}, "the same value twice"),
        ({"conversion": TextConversion((math.nan,), ("a",))}, "is nan"),
        ({"conversion": TextConversion((1.0,), ("a\n",))}, "not printable"),
    ],
)
def test_a_channel_that_can_not_be_is_refused_by_its_name(fields: dict[str, Any], reason: str) -> None:
    """The error says which channel and why."""
    with pytest.raises(errors.BadChannels, match="channel ") as caught:
        _one(**fields)
    assert reason in str(caught.value)


def test_names_and_ids_are_unique() -> None:
    """The error names the second one."""
    with pytest.raises(errors.BadChannels, match="channel 'rpm': its name stands there twice"):
        model.build([model.Channel(id=1, name="rpm"), model.Channel(id=2, name="rpm")])
    with pytest.raises(errors.BadChannels, match="channel 'speed': its id 1 is that of 'rpm'"):
        model.build([model.Channel(id=1, name="rpm"), model.Channel(id=1, name="speed")])
    with pytest.raises(errors.BadChannels, match="event 7: its id stands there twice"):
        model.build([], [model.EventDefinition(id=7, text="a"), model.EventDefinition(id=7, text="b")])
    with pytest.raises(errors.BadChannels, match="application '1a'"):
        model.build([], application="1a")


def test_a_list_is_looked_up_by_id_and_by_name() -> None:
    """In the order of ids, with layouts for the codec."""
    shuffled = model.build(reversed(ENGINE.channels), ENGINE.events, application="engine")
    assert shuffled == ENGINE
    assert ENGINE.by_name["gear"] is ENGINE.by_id[3]
    assert ENGINE.event_by_id[7].text == "Gear change"
    assert ENGINE.layouts().layout(1) == Layout(SampleType.FLOAT)
    assert ENGINE.layouts().layout(99) == Layout()
    assert ENGINE.shifted(10).by_id[13].name == "gear"


def test_a_name_that_is_a_number_moves_with_its_id() -> None:
    """A list that has one was refused, and all of its names were lost."""
    moved = model.build([model.Channel(id=5, name="5"), model.Channel(id=6, name="a")]).shifted(100)
    assert [(channel.id, channel.name) for channel in moved.channels] == [(105, "105"), (106, "a")]


def test_of_several_lists_the_later_one_wins() -> None:
    """By id and by name: no id and no name stands there twice."""
    later = model.build([model.Channel(id=9, name="rpm"), model.Channel(id=2, name="torque")])
    merged = model.merge([ENGINE, later])
    assert {channel.id: channel.name for channel in merged.channels} == {2: "torque", 3: "gear", 9: "rpm"}
    assert model.merge([]) == model.EMPTY


def test_conversions_give_what_their_rules_say() -> None:
    """Rational, table with and without interpolation, text."""
    raw = np.array([0.0, 1.0, 2.5, 99.0, -5.0])
    rational = RationalConversion((0.0, 2.0, 1.0, 0.0, 0.0, 2.0))
    assert rational.convert(raw).tolist() == [(2 * sample + 1) / 2 for sample in raw]
    steps = TableConversion((0.0, 2.0, 3.0), (10.0, 20.0, 40.0))
    assert steps.convert(raw).tolist() == [10.0, 10.0, 20.0, 40.0, 10.0]
    assert TableConversion(steps.raw, steps.calibrated, interpolated=True).convert(raw).tolist() == [10, 15, 30, 40, 10]
    assert math.isnan(steps.convert(np.array([math.nan]))[0])
    gears = TextConversion((0.0, 1.0), ("neutral", "first"), "higher")
    assert [gears.text(sample) for sample in (0, 1, 2)] == ["neutral", "first", "higher"]
