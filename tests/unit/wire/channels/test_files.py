"""Files of channels: each form comes back, and each mistake is named with its line."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rta_wire import errors
from rta_wire.channels import files, model
from rta_wire.channels.conversions import RationalConversion, TableConversion, TextConversion
from rta_wire.channels.files import FileForm
from rta_wire.codec.layout import Kind, SampleType
from tests.support.channel_lists import channel_lists

_TOML = """\
application = "engine"

[[channels]]
name = "rpm"
unit = "1/min"
type = "float"
min = 0
max = 12000
group = "engine/crank"

[[channels]]
name = "gear"
id = 7
type = "int8"
conversion = { text = { 0 = "neutral", "1" = "first" }, default = "higher" }

[[channels]]
name = "oil"
kind = "periodic"
interval_ns = 1000
conversion = { table = [[0, 0.0], [10, 1.5]], interpolated = true }

[[events]]
id = 3
text = "Gear change"
priority = "high"
"""


@settings(max_examples=40, deadline=None)
@given(channel_lists, st.sampled_from([FileForm.TOML, FileForm.JSON]))
def test_a_list_comes_back_from_toml_and_json(channel_list: model.ChannelList, form: FileForm) -> None:
    """With its events, conversions and groups."""
    assert files.parse(files.dump(channel_list, form), form, name="x") == channel_list


@settings(max_examples=40, deadline=None)
@given(channel_lists)
def test_channels_come_back_from_a_csv(channel_list: model.ChannelList) -> None:
    """Conversions too; a CSV has no application."""
    channels = model.build(channel_list.channels)
    assert files.parse(files.dump(channels, FileForm.CSV), FileForm.CSV, name="x") == channels


def test_a_csv_has_no_place_for_events() -> None:
    """They are not left out without a word."""
    with pytest.raises(errors.BadChannels, match="no place for its events"):
        files.dump(model.build([], [model.EventDefinition(id=1, text="a")]), FileForm.CSV)


def test_a_file_by_hand_says_what_it_means() -> None:
    """Ids are given to channels without one, after the highest."""
    channel_list = files.parse(_TOML, FileForm.TOML, name="engine.toml")
    rpm, gear, oil = (channel_list.by_name[name] for name in ("rpm", "gear", "oil"))
    assert (gear.id, rpm.id, oil.id) == (7, 8, 9)
    assert (rpm.type, rpm.min, rpm.max, rpm.group) == (SampleType.FLOAT, 0.0, 12000.0, ("engine", "crank"))
    assert gear.conversion == TextConversion((0.0, 1.0), ("neutral", "first"), "higher")
    assert (oil.kind, oil.interval_ns) == (Kind.PERIODIC, 1000)
    assert oil.conversion == TableConversion((0.0, 10.0), (0.0, 1.5), interpolated=True)
    assert channel_list.events == (model.EventDefinition(id=3, text="Gear change", priority=model.Priority.HIGH),)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_csv_of_a_spreadsheet_is_read(separator: str) -> None:
    """With a byte order mark, capitals, empty lines, cells and columns, and the separator of the country."""
    lines = ["Name,unit,max,type,conversion,", "rpm,1/min,9000,float,,", ",,,,,", "oil,°C,,,,", ""]
    text = "\ufeff" + "\r\n".join(lines).replace(",", separator)
    channel_list = files.parse(text, FileForm.CSV, name="x.csv")
    assert [(channel.id, channel.name, channel.unit, channel.max) for channel in channel_list.channels] == [
        (1, "rpm", "1/min", 9000.0),
        (2, "oil", "°C", None),
    ]
    rational = files.parse('name,conversion\na,"{""rational"": [0,1,0,0,0,1]}"\n', FileForm.CSV, name="x")
    assert rational.by_id[1].conversion == RationalConversion((0.0, 1.0, 0.0, 0.0, 0.0, 1.0))


_JSON = """{
  "channels": [
    {"name": "rpm", "id": 1},
    {
      "name": "speed",
      "unit": "km/h",
      %s
    }
  ]
}"""


@pytest.mark.parametrize(
    ("form", "text", "line", "reason"),
    [
        (FileForm.TOML, _TOML.replace("max = 12000", "max = -1"), 8, "channel 'rpm': its min 0 is above its max -1"),
        (FileForm.TOML, _TOML.replace("max = 12000", 'max = "x"'), 8, "channel 'rpm': its max is 'x', not a number"),
        (FileForm.TOML, _TOML.replace('"int8"', '"int9"'), 14, "channel 'gear': its type is 'int9', not one of"),
        (FileForm.TOML, _TOML.replace("unit =", "units ="), 5, "'units', which is not known. Did you mean 'unit'?"),
        (FileForm.TOML, _TOML.replace('name = "gear"', 'name = "rpm"'), 12, "'rpm': its name stands there twice"),
        (FileForm.TOML, _TOML.replace("[[0, 0.0], [10", "[[0, 0.0], [0"), 21, "have to rise"),
        (FileForm.TOML, _TOML.replace("priority", "prio"), 26, "event 3: it has a key 'prio', which is not known"),
        (FileForm.TOML, _TOML.replace('"high"', '"higher"'), 26, "event 3: its priority is 'higher'"),
        (FileForm.TOML, _TOML.replace("id = 7", "id = "), 13, "Invalid value"),
        (FileForm.TOML, _TOML.replace('"engine"', '"1 engine"'), 1, "application '1 engine'"),
        (FileForm.TOML, _TOML.replace("{ 0 =", "{ x ="), 15, "a text for what is no number"),
        (FileForm.TOML, _TOML.replace("table =", "text = {}, table ="), 21, "one of rational, table and text"),
        (FileForm.TOML, 'channels = [{ name = "a" }, { id = 2 }]', 1, "channel 2: it has no 'name'"),
        (FileForm.JSON, _JSON % '"min": []', 7, "channel 'speed': its min is [], not a number"),
        (FileForm.JSON, _JSON % '"kind": "rows"', 7, "channel 'speed': its kind is 'rows'"),
        (FileForm.JSON, _JSON % '"id": 1', 7, "channel 'speed': its id 1 is that of 'rpm'"),
        (FileForm.JSON, _JSON % '"unit": ', 8, "Expecting value"),
        (FileForm.JSON, "[]", 1, "it has to be a table"),
        (FileForm.JSON, _JSON % '"group": "/rig"', 7, "'speed': its group '/rig' has an empty name beside '/'"),
        (FileForm.TOML, '[channels]\nname = "a"\n', 1, "no list. In TOML each of them begins with [[channels]]"),
        (FileForm.JSON, _JSON % '"unit": "m/s"', 7, "its key 'unit' stands there twice"),
        (FileForm.CSV, "name,min\na,1\nb,x\n", 3, "channel 'b': its min is 'x', not a number"),
        (FileForm.CSV, 'name,description\n"a","x\ny"\nb,\n', 2, "channel 'a': its description"),
        (FileForm.CSV, "name,min,max\na,1,2\n\nb,2,1\n", 4, "channel 'b': its min 2 is above its max 1"),
        (FileForm.CSV, "name,unit\na,b,c\n", 2, "it has 3 cells"),
        (FileForm.CSV, "nam,unit\na,b\n", 1, "there is none called 'name'"),
        (FileForm.CSV, "name;min\na;1\nb;0,5\n", 3, "'b': its min is '0,5', not a number. Write it with a point"),
        (FileForm.CSV, "name,units\na,b\n", 1, "there is no column 'units'"),
        (FileForm.CSV, "name,name\na,b\n", 1, "stands there twice"),
        (FileForm.CSV, "name,unit\na,V\na,V\n", 3, "channel 'a': its name stands there twice"),
        (FileForm.CSV, "name,conversion\na,{\n", 2, "channel 'a': its conversion is not JSON"),
        (FileForm.CSV, 'name\nb\n"a\n\nc\n', 3, "perhaps a quote is missing"),
        (FileForm.CSV, 'name\nb\n"a\n' + "c\n" * 100_000, 3, "perhaps a quote is missing"),
        (FileForm.CSV, 'name,unit\n"a\nb"c,d\n', 3, "expected after"),
        (FileForm.CSV, "", 1, "none called 'name'"),
        (
            FileForm.CSV,
            "name,unit,,\na,V,,\nb,V,,x\n",
            3,
            "'b': its cell 4 has 'x', and the first line names no column",
        ),
        (
            FileForm.CSV,
            'name,conversion\na,"{""text"":{""1"":""x"",""1"":""y""}}"\n',
            2,
            "'a': a key stands twice in its",
        ),
        (FileForm.CSV, 'name,conversion\na,"{""\\ud800"": 1}"\n', 2, "'a': its conversion has a key '\\\\ud800'"),
        (FileForm.JSON, _JSON % r'"\ud800": 1', 7, r"channel 'speed': it has a key '\\ud800', which is not known"),
        (FileForm.JSON, _JSON % '"conversion": {"text": {"1": "a",\n"x": "b"}}', 8, "a text for what is no number"),
        (FileForm.JSON, _JSON % f'"id": {"1" * 5000}', 7, "a number has thousands of digits"),
        (FileForm.TOML, _TOML.replace("id = 7", f"id = 0x{'f' * 5000}"), 13, "a number has thousands of digits"),
        (FileForm.TOML, _TOML.replace("id = 7", f"id = {'1' * 4000}"), 13, "characters), not between 0 and"),
        (
            FileForm.TOML,
            _TOML.replace("min = 0", "conversion.text.1 = ''\nconversion.text.x = ''"),
            8,
            "is no number: ",
        ),
        (FileForm.TOML, _TOML.replace("min = 0", "conversion.rational = [1]"), 7, "6 coefficients, not 1"),
        (
            FileForm.TOML,
            _TOML.replace("[[channels]]", "[['channels']]").replace("int8", "int9"),
            14,
            "'gear': its type",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(form: FileForm, text: str, line: int, reason: str) -> None:
    """The file, the line, the channel and what is wrong."""
    with pytest.raises(errors.BadChannels) as caught:
        files.parse(text, form, name=f"engine.{form}")
    assert reason in str(caught.value)
    assert str(caught.value).startswith(f"engine.{form}, line {line}")


@pytest.mark.parametrize("form", FileForm)
def test_a_mistake_in_a_file_of_windows_is_named_with_its_line(form: FileForm) -> None:
    """Lines that end with a carriage return too, as its editors write them."""
    channels = [model.Channel(id=1, name="a"), model.Channel(id=2, name="b", unit="zq-mark")]
    text = files.dump(model.build(channels), form)
    windows = text.replace("zq-mark", "x" * 65).replace("\n", "\r\n")
    [mistake] = files.check(windows, form, name="x").mistakes
    [line] = [number for number, part in enumerate(windows.split("\n"), 1) if "x" * 65 in part]
    assert mistake.facts["line"] == line > 1


_MANY_TOML = """\
application = "1 engine"
# [[channels]] of the engine
[[channels]]
name = "rpm"
units = "1/min"
type = "flaot"
min = "x"

[channels.conversion]
tabel = [[0, 1]]

[[channels]]
name = "gear"
kind = "rows"
interval_ns = 5
min = 5
max = 1
description = \"\"\"
[[channels]]
id = 3\"\"\"
id = -1

[[channels]]
name = "gear"

[[events]]
text = "Gear change"
prio = 3

[[events]]
id = 1
text = 5
"""

_MANY_INLINE = """\
channels = [
  { name = "a" },  # [ { = }
  { id = 1 }, { name = "b", min = [
    1] },
  { name = 'c', conversion.text.0 = 5 },
  7,
]
"""

_MANY_JSON = """{
  "channels": [
    {"name": "rpm", "id": 1, "id": 2},
    {
      "name": "speed",
      "min": 5, "max": 1,
      "id": 2, "foo":
      3
    }, 7,
    {"type": "int8",
     "conversion": {"text": {"x": "a"}}}
  ],
  "events": {}
}"""

_MANY_CSV = """\
name,unit,units,min,max,conversion
a,V,,1,x,

b,V,,3,2,{
"c",V,,3,4,,,,
a,,,,,
,V,,,,
"""

_HIGH_ID_CSV = """\
name,id,min
a,4294967296,
b,,
c,,x
"""


@pytest.mark.parametrize(
    ("form", "text", "expected"),
    [
        (
            FileForm.TOML,
            _MANY_TOML,
            [
                (1, "its name begins with"),
                (5, "'units', which is not known"),
                (6, "its type is 'flaot'"),
                (7, "its min is 'x'"),
                (10, "its conversion has a key 'tabel'"),
                (14, "its kind is 'rows'"),
                (17, "its min 5 is above its max 1"),
                (18, "its description"),
                (21, "its id is -1"),
                (24, "its name stands there twice"),
                (26, "it has no 'id'"),
                (28, "'prio'"),
                (32, "its text is 5, not a text"),
            ],
        ),
        (
            FileForm.TOML,
            _MANY_INLINE,
            [
                (3, "it has no 'name'"),
                (3, "its min is [1], not a number"),
                (5, "its conversion: Expected `str`"),
                (6, "it has to be a table"),
            ],
        ),
        (
            FileForm.JSON,
            _MANY_JSON,
            [
                (3, "its key 'id' stands there twice"),
                (6, "its min 5 is above its max 1"),
                (7, "its id 2 is that of 'rpm'"),
                (8, "'foo', which is not known"),
                (9, "it has to be a table"),
                (10, "it has no 'name'"),
                (11, "a text for what is no number"),
                (13, "its events are no list"),
            ],
        ),
        (
            FileForm.CSV,
            _MANY_CSV,
            [
                (1, "there is no column 'units'"),
                (2, "its max is 'x', not a number"),
                (4, "its conversion is not JSON"),
                (4, "its min 3 is above its max 2"),
                (5, "it has 9 cells"),
                (6, "its name stands there twice"),
                (7, "it has no 'name'"),
            ],
        ),
        (FileForm.CSV, _HIGH_ID_CSV, [(2, "its id is 4294967296"), (4, "its min is 'x'")]),
        (FileForm.TOML, 'names = 1\n\n[[channel]]\nname = "a"\n', [(1, "'names'"), (3, "Did you mean 'channels'")]),
    ],
)
def test_every_mistake_of_a_file_is_named(form: FileForm, text: str, expected: list[tuple[int, str]]) -> None:
    """With its line, in their order; none is only there because of another."""
    checked = files.check(text, form, name="x")
    found = [(error.facts["line"], error.facts["reason"]) for error in checked.mistakes]
    assert [line for line, _ in found] == [line for line, _ in expected]
    for (_, reason), (_, part) in zip(found, expected, strict=True):
        assert part in reason
    with pytest.raises(errors.BadChannels, match=f"It has {len(expected) - 1} more mistake"):
        files.parse(text, form, name="x")


@settings(max_examples=40, deadline=None)
@given(channel_lists, st.sampled_from(FileForm), st.data())
def test_wrong_values_are_found_where_they_stand(
    channel_list: model.ChannelList, form: FileForm, data: st.DataObject
) -> None:
    """Whatever stands around them: the lines are those on which the marks are."""
    mark = "zq-mark"
    channels = [
        msgspec.structs.replace(channel, unit=mark if is_wrong else "")
        for channel in channel_list.channels
        if mark not in repr(channel) and (is_wrong := data.draw(st.booleans())) is not None
    ]
    text = files.dump(model.build(channels), form).replace(mark, "x" * 65)
    found = files.check(text, form, name="x").mistakes
    marked = [number for number, line in enumerate(text.split("\n"), 1) if "x" * 65 in line]
    assert [error.facts["line"] for error in found] == marked


def test_the_form_is_that_of_the_suffix() -> None:
    """In any case; another suffix is an error with those that there are."""
    assert files.form_of("a/b.TOML") is FileForm.TOML
    for path in ("channels.xlsx", "channels", "csv"):
        with pytest.raises(errors.BadChannels, match=r"ends in \.toml, \.json, \.csv"):
            files.form_of(path)


@given(st.text(max_size=60), st.sampled_from(FileForm))
def test_any_text_is_a_list_or_a_named_error(text: str, form: FileForm) -> None:
    """No input raises anything that is not ours."""
    try:
        files.parse(text, form, name="x")
    except errors.BadChannels:
        return
