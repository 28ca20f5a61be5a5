"""Lists of channels for tests: any that are valid, and one that people would write."""

from typing import Any, Final

from hypothesis import strategies as st

from rta_wire.channels import model
from rta_wire.channels.conversions import Conversion, RationalConversion, TableConversion, TextConversion
from rta_wire.codec.layout import Kind, SampleType

_FINITE: Final = st.floats(allow_nan=False, allow_infinity=False)


def texts(max_size: int, *, min_size: int = 0, without: str = "") -> st.SearchStrategy[str]:
    """Texts that can be printed and neither begin nor end with a space."""
    characters = st.characters(exclude_categories=["C", "Z"], exclude_characters=without) | st.just(" ")
    text = st.text(characters, min_size=min_size, max_size=max_size).map(str.strip)
    return text.filter(lambda text: len(text) >= min_size and text.isprintable())


def _table(draw: st.DrawFn) -> Conversion:
    raw = sorted(draw(st.sets(_FINITE, min_size=1, max_size=4)))
    calibrated = draw(st.lists(_FINITE, min_size=len(raw), max_size=len(raw)))
    return TableConversion(tuple(raw), tuple(calibrated), draw(st.booleans()))


def _text(draw: st.DrawFn) -> Conversion:
    keys = draw(st.sets(_FINITE | st.integers(-3, 3).map(float), min_size=1, max_size=4))
    values = draw(st.lists(texts(10), min_size=len(keys), max_size=len(keys)))
    return TextConversion(tuple(keys), tuple(values), draw(texts(5)))


conversions: Final[st.SearchStrategy[Conversion]] = st.one_of(
    st.tuples(*[_FINITE] * 6).filter(lambda numbers: any(numbers[3:])).map(RationalConversion),
    st.composite(_table)(),
    st.composite(_text)(),
)


def _range(draw: st.DrawFn) -> tuple[float | None, float | None]:
    low, high = sorted(draw(st.tuples(_FINITE, _FINITE)))
    return draw(st.sampled_from([(low, high), (None, high), (low, None), (None, None)]))


_ranges: Final = st.composite(_range)()


def _channel_list(draw: st.DrawFn) -> model.ChannelList:
    names = texts(20, min_size=1).filter(lambda name: name != "*" and not name.isdecimal())
    ids = draw(st.lists(st.integers(0, 20) | st.integers(0, 2**32 - 1), unique=True, max_size=6))
    unique_names = draw(st.lists(names, min_size=len(ids), max_size=len(ids), unique=True))
    channels = []
    for number, name in zip(ids, unique_names, strict=True):
        kind = draw(st.sampled_from(Kind))
        (low, high), (warn_low, warn_high) = draw(_ranges), draw(_ranges)
        channels.append(
            model.Channel(
                id=number,
                name=name,
                unit=draw(texts(6)),
                description=draw(texts(20)),
                type=draw(st.sampled_from(SampleType)),
                kind=kind,
                interval_ns=draw(st.integers(0, 2**63 - 1)) if kind is Kind.PERIODIC else 0,
                min=low,
                max=high,
                warn_min=warn_low,
                warn_max=warn_high,
                group=tuple(draw(st.lists(texts(5, min_size=1, without="/"), max_size=3))),
                conversion=draw(st.none() | conversions),
            )
        )
    event_ids = draw(st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=3))
    return model.build(
        channels,
        [
            model.EventDefinition(id=number, text=draw(texts(20)), priority=draw(st.sampled_from(model.Priority)))
            for number in event_ids
        ],
        application=draw(st.sampled_from(["rta", "engine", "_a1"])),
        description=draw(texts(20)),
    )


channel_lists: Final[st.SearchStrategy[model.ChannelList]] = st.composite(_channel_list)()


def numbered(count: int, **fields: Any) -> model.ChannelList:
    """A list of channels with the ids 1 to `count`, called `c1` and so on, each with the same other fields."""
    return model.build(
        [
            model.Channel(id=number, name=f"c{number}", **{"unit": "V", "min": 0.0, "max": 5.0, **fields})
            for number in range(1, count + 1)
        ]
    )


ENGINE: Final = model.build(
    [
        model.Channel(id=1, name="rpm", unit="1/min", min=0, max=12_000, group=("engine",), type=SampleType.FLOAT),
        model.Channel(id=2, name="speed", unit="km/h", description="Wheel speed", min=0, max=360, warn_max=340),
        model.Channel(
            id=3,
            name="gear",
            type=SampleType.INT8,
            min=0,
            max=8,
            conversion=TextConversion((0.0, 1.0), ("neutral", "first"), "higher"),
        ),
    ],
    [model.EventDefinition(id=7, text="Gear change", priority=model.Priority.MEDIUM)],
    application="engine",
)
"""Three channels and an event."""
