"""The configuration JSON: back without loss, canonical, valid for viewers, and warnings of what they can't show."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rta_wire import errors, limits, name_checks
from rta_wire.channels import config_json, model, viewer_warnings
from rta_wire.codec.layout import SampleType
from tests.support.channel_lists import ENGINE, channel_lists, numbered

_TYPES = {"u8", "s8", "u16", "s16", "u32", "s32", "f32", "3f32", "f64"}
_NUMBER = (int, float)
_OWN_PROPERTY = "rtaSupervisor"
_BITS = {"format": str, "byteOrder": str, "offset": int, "mask": str, "shift": int}


def _are_all(values: list[Any], kind: Any) -> bool:
    return all(isinstance(value, kind) and not isinstance(value, bool) for value in values)


def _check_shape(value: Any, required: dict[str, Any], optional: dict[str, Any]) -> None:
    """Whether a value has the keys that it needs, others only of those that it may have, and each of its type."""
    assert isinstance(value, dict)
    assert value.keys() <= required.keys() | optional.keys()
    for name, kind in required.items():
        assert isinstance(value.get(name), kind), name
    for name, kind in optional.items():
        assert name not in value or isinstance(value[name], kind), name


def check_for_viewers(document: Any) -> dict[str, Any]:
    """Whether a document is what viewers expect, by their documents alone. Gives its one application."""
    assert len(document) == 1
    [(app, application)] = document.items()
    lists = dict.fromkeys(("parameters", "channels", "conversions", "events"), list)
    _check_shape(application, {"desc": str, "tree": dict, **lists}, {_OWN_PROPERTY: dict})
    conversions = set()
    for conversion in application["conversions"]:
        kinds = {"rational": dict, "table": dict, "text": dict, "formula": str}
        _check_shape(conversion, {"name": str}, {"unit": str, "format": str, **kinds})
        assert conversion["name"].endswith(f":{app}")
        conversions.add(conversion["name"])
        rules = conversion.keys() & kinds
        assert len(rules) <= 1
        if "rational" in rules:
            _check_shape(conversion["rational"], {"coeffs": list}, {})
            assert _are_all(conversion["rational"]["coeffs"], _NUMBER)
            assert len(conversion["rational"]["coeffs"]) == 6
        if "table" in rules:
            table = conversion["table"]
            _check_shape(table, {"raw": list, "calibrated": list}, {"interpolated": bool})
            assert len(table["raw"]) == len(table["calibrated"])
            assert _are_all(table["raw"] + table["calibrated"], _NUMBER)
        if "text" in rules:
            texts = conversion["text"]
            _check_shape(texts, {"keys": list, "values": list}, {"default": str})
            assert len(texts["keys"]) == len(texts["values"])
            assert _are_all(texts["keys"], _NUMBER)
            assert _are_all(texts["values"], str)
    assert len(conversions) == len(application["conversions"])
    channels = set()
    for channel in application["channels"]:
        _check_shape(channel, {"id": int}, {"name": str, "source": str, "type": str, "interval": int})
        assert channel.get("source", "row") in {"row", "timestamped", "periodic"}
        assert channel.get("type", "f64") in _TYPES
        channels.add(channel["id"])
    parameters = set()
    for parameter in application["parameters"]:
        _check_shape(
            parameter,
            {"id": str, "name": str, "desc": str, "conv": str},
            {**dict.fromkeys(("min", "max", "warnMin", "warnMax"), _NUMBER), "unit": str, "channels": list, **_BITS},
        )
        assert re.fullmatch(rf"[A-Za-z_][A-Za-z0-9_]*:{app}", parameter["id"])
        assert parameter["conv"] in conversions
        assert set(parameter["channels"]) <= channels
        parameters.add(parameter["id"])
    assert len(parameters) == len(application["parameters"])
    for event in application["events"]:
        _check_shape(event, {"id": int, "code": str, "desc": str, "pri": str}, {"convs": list})
        assert event["pri"] in {"debug", "low", "medium", "high"}
        assert event["desc"].startswith(f"{event['id']:04X}:{app} ")
        assert int(event["code"], 16) == event["id"]
    _check_shape(application["tree"], {}, {"groups": list, "params": list})
    in_tree = list(_parameters_in(application["tree"]))
    assert sorted(in_tree) == sorted(parameters)
    return dict(application)


def _parameters_in(group: dict[str, Any]) -> Any:
    yield from group.get("params", [])
    for inner in group.get("groups", []):
        _check_shape(inner, {"id": str, "desc": str}, {"groups": list, "params": list})
        yield from _parameters_in(inner)


@settings(max_examples=40, deadline=None)
@given(channel_lists)
def test_a_list_comes_back_and_is_valid_for_viewers(channel_list: model.ChannelList) -> None:
    """Without loss; viewers see every channel but integers of 64 bits, of which they see nothing."""
    data = config_json.encode(channel_list)
    assert config_json.decode(data) == channel_list
    assert config_json.encode(config_json.decode(data)) == data
    application = check_for_viewers(json.loads(data))
    shown = {channel["id"]: channel["name"] for channel in application["channels"]}
    large = {SampleType.INT64, SampleType.UINT64}
    assert shown == {channel.id: channel.name for channel in channel_list.channels if channel.type not in large}
    assert sorted(id_ for parameter in application["parameters"] for id_ in parameter["channels"]) == sorted(shown)


@settings(max_examples=40, deadline=None)
@given(channel_lists, st.randoms())
def test_the_form_is_canonical(channel_list: model.ChannelList, random: Any) -> None:
    """The order in which channels are given changes nothing, and the identifier is a hash of the bytes."""
    channels = list(channel_list.channels)
    random.shuffle(channels)
    same = model.build(
        channels, channel_list.events, application=channel_list.application, description=channel_list.description
    )
    data = config_json.encode(same)
    assert data == config_json.encode(channel_list)
    assert name_checks.check_config_identifier(config_json.identifier(data))


def test_what_is_equal_has_equal_bytes() -> None:
    """Whole numbers as floats or not, and both zeros."""
    floats, integers = (
        model.build([model.Channel(id=1, name="rpm", min=low, max=high)]) for low, high in [(-0.0, 7.0), (0, 7)]
    )
    assert config_json.encode(floats) == config_json.encode(integers)


def test_names_that_are_no_identifiers_get_ids_that_differ() -> None:
    """Names of channels stay as they are; parameters have C identifiers."""
    names = ["Öl °C", "_l _C", "öl °C", "1st", "_l__C_2"]
    channel_list = model.build(model.Channel(id=number, name=name) for number, name in enumerate(names))
    application = check_for_viewers(json.loads(config_json.encode(channel_list)))
    assert [channel["name"] for channel in application["channels"]] == names
    assert len({parameter["name"] for parameter in application["parameters"]}) == len(names)


_VALID = json.loads(config_json.encode(ENGINE))


def _changed(change: Any) -> bytes:
    document = json.loads(json.dumps(_VALID))
    change(document["engine"])
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "truncated"),
        (b"[]", "Expected `object`"),
        (b"{}", "0 applications"),
        (b"\xff", "the configuration"),
        (b'{"a":' * 5000, "the configuration"),
        (_changed(lambda app: app["channels"][0].update(type="3f32")), "channel 'rpm': its type is '3f32'"),
        (_changed(lambda app: app["parameters"].pop(0)), "channel 'rpm': no parameter has its id 1"),
        (_changed(lambda app: app["conversions"].clear()), "there is no conversion"),
        (_changed(lambda app: app["parameters"][0].update(mask="FF")), "mask"),
        (_changed(lambda app: app["parameters"][0].update(channels=[1, 2])), "'rpm:engine': it has 2 channels"),
        (_changed(lambda app: app["parameters"][0].update(channels=[2])), "'speed:engine': channel 2 has another"),
        (_changed(lambda app: app["channels"].pop(0)), "'rpm:engine': there is no channel with its id 1"),
        (_changed(lambda app: app["parameters"][0].update(unit="Hz")), "'rpm': its unit is 'Hz', and that of its conv"),
        (_changed(lambda app: app["conversions"][2].update(rational={"coeffs": [0] * 6})), "it has 2 rules"),
        (_changed(lambda app: app["events"][0].update(desc="x")), "event 7: its desc does not begin with"),
        (_changed(lambda app: app["channels"][1].update(name="rpm")), "channel 'rpm': its name stands there twice"),
        (b" " * (limits.CONFIG_MAX_BYTES + 1), "more than"),
    ],
)
def test_what_is_no_configuration_is_refused(data: bytes, reason: str) -> None:
    """With the channel where one is wrong, and nothing that would be lost is taken."""
    with pytest.raises(errors.BadChannels) as caught:
        config_json.decode(data)
    assert reason in str(caught.value)


def test_a_unit_may_stand_at_the_conversion_alone() -> None:
    """As other programs write it."""
    data = _changed(lambda app: [parameter.pop("unit", None) for parameter in app["parameters"]])
    assert config_json.decode(data) == ENGINE


@given(st.binary(max_size=100) | st.text(max_size=100).map(lambda text: json.dumps({"a": text}).encode()))
def test_any_bytes_are_a_configuration_or_a_named_error(data: bytes) -> None:
    """No input raises anything that is not ours."""
    try:
        config_json.decode(data)
    except errors.BadChannels:
        return


def test_ten_thousand_channels_fit() -> None:
    """With room to spare, and they come back."""
    channel_list = numbered(10_000, description="A channel among many others", group=("rig", "rack"))
    data = config_json.encode(channel_list)
    assert len(data) < limits.CONFIG_MAX_BYTES // 2
    assert config_json.decode(data) == channel_list


def test_what_viewers_can_not_show_is_said() -> None:
    """Each channel of 64-bit integers, each gap of ids, each channel without a range; of others nothing."""
    ranged: dict[str, Any] = {"min": 0.0, "max": 1.0}
    channel_list = model.build(
        [
            model.Channel(id=2, name="a", **ranged),
            model.Channel(id=3, name="b", type=SampleType.UINT64),
            model.Channel(id=4, name="c", min=1.0),
            model.Channel(id=9, name="d", **ranged),
        ]
    )
    sentences = viewer_warnings.warnings(channel_list)
    assert [sentence.split(":")[0] for sentence in sentences] == [
        "Channel 'b' is uint64",
        "Viewers find no channel with id 1",
        "Viewers find no channel with id 3",
        "Viewers find no channels with ids 5 to 8",
        "Channel 'c' has no range",
    ]
    assert viewer_warnings.warnings(ENGINE) == viewer_warnings.warnings(model.EMPTY) == []
    assert viewer_warnings.warnings(model.build([model.Channel(id=0, name="a", **ranged)])) == []


@given(st.lists(st.sampled_from(["é", "è", "é_2", "_", "__2", "__3", "__2_2", "a_2"]), max_size=8, unique=True))
def test_parameters_have_identifiers_of_their_own(names: list[str]) -> None:
    """Whatever their channels are called: the first of a name has it as it is, others get the next number that is
    free."""
    channels = [model.Channel(id=number, name=name) for number, name in enumerate(names)]
    [application] = json.loads(config_json.encode(model.build(channels))).values()
    used: list[str] = []
    identifiers = [re.sub(r"[^A-Za-z0-9_]", "_", name) for name in names]
    for identifier in identifiers:
        numbered_ones = (f"{identifier}_{number}" for number in range(2, 99))
        free = (name for name in numbered_ones if name not in used and name not in identifiers)
        used.append(next(free) if identifier in used else identifier)
    assert [parameter["name"] for parameter in application["parameters"]] == used


def test_names_without_a_letter_of_ascii_cost_no_more_than_others() -> None:
    """20,000 of them are one identifier: where each counts up from 2, this takes minutes."""
    names = [f"{chr(0x4E00 + number // 150)}{chr(0x4E00 + number % 150)}" for number in range(20_000)]
    channels = [model.Channel(id=number, name=name) for number, name in enumerate(names)]
    [application] = json.loads(config_json.encode(model.build(channels))).values()
    assert application["parameters"][-1]["name"] == "___20000"
