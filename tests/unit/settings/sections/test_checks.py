"""What no number, text or name may be, whichever section it stands in."""

import contextlib
import datetime
import math
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rta_supervisor.settings import settings
from rta_supervisor.settings.sections import checks
from rta_wire import errors

DEFAULTS: dict[str, dict[str, Any]] = msgspec.to_builtins(settings.Settings())
NAMES = [f"{section}.{name}" for section, values in DEFAULTS.items() for name in values]
NUMBERS = [
    f"{section}.{name}"
    for section, values in DEFAULTS.items()
    for name, value in values.items()
    if isinstance(value, int | float) and not isinstance(value, bool)
]
FLOATS = [name for name in NUMBERS if isinstance(DEFAULTS[name.split(".")[0]][name.split(".")[1]], float)]
TIMES = [name for name in NUMBERS if name.endswith(("_s", "_ms", "_days"))]


def load(path: Path, name: str, literal: str) -> settings.Settings:
    section, key = name.split(".")
    path.write_text(f"[{section}]\n{key} = {literal}\n")
    return settings.load(path, environ={})


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_no_float_is_infinite_or_none(tmp_path: Path, name: str, value: str) -> None:
    """In the file and in the environment; the line and the variable are named."""
    path = tmp_path / "s.toml"
    sentence = f"{name}: it is {value}, not a finite number. Write one"
    with pytest.raises(errors.BadConfiguration) as caught:
        load(path, name, value)
    assert str(caught.value) == f"{path}:2: {sentence}"
    variable = f"RTA_{name.upper().replace('.', '__')}"
    with pytest.raises(errors.BadConfiguration) as caught:
        settings.load(None, {variable: value})
    assert str(caught.value) == f"{variable}: {sentence}"


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("literal", ["true", "false", '"5"', "[5]", "{a = 5}", str(2**63), str(10**400), "1e300"])
def test_no_number_is_of_another_type_or_too_large(tmp_path: Path, name: str, literal: str) -> None:
    """Booleans are no numbers, and Redis could not take such lifetimes and counts."""
    with pytest.raises(errors.BadConfiguration, match=name):
        load(tmp_path / "s.toml", name, literal)


@pytest.mark.parametrize("name", TIMES)
def test_no_time_is_longer_than_a_hundred_years(tmp_path: Path, name: str) -> None:
    """Redis refuses a lifetime whose milliseconds don't fit into 64 bits."""
    with pytest.raises(errors.BadConfiguration, match=f"{name}: it is more than a hundred years"):
        load(tmp_path / "s.toml", name, str(checks.SECONDS_MAX * 1000 + 1))


@pytest.mark.parametrize("text", ["a\\nb", "\\u0000", "\\u009f", "\\u2028"])
@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(("path", "_file", "url", "host", "token"))])
def test_no_text_holds_control_characters(tmp_path: Path, name: str, text: str) -> None:
    """No file, host or token does."""
    with pytest.raises(errors.BadConfiguration, match=f"{name}: it holds a control character"):
        load(tmp_path / "s.toml", name, f'"{text}"')


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('[control]\nprincipals = ["a", "b*"]', r"s\.toml:2: control\.principals: Principal 'b\*' is not valid"),
        ('[control]\noperators = ["a:b"]', r"s\.toml:2: control\.operators: Principal 'a:b' is not valid"),
        ('[trim.streams."a b"]\nmax_entries = 5', r'trim\.streams\."a b": Stream name'),
        ('[archive.sources."a b"]\nsample_type = "int"', r'archive\.sources\."a b": Stream name'),
        ('[days.sources."a b"]\nkeep_days = 5', r'days\.sources\."a b": Stream name'),
        ('[control.stream_prefixes]\ndefault = "a:"', r"s\.toml:2: control\.stream_prefixes\.default: Stream name"),
        (
            '[control.stream_prefixes]\nother = "a"',
            r"s\.toml:2: control\.stream_prefixes\.other: it is for a principal",
        ),
        ('[trim.streams."rig-4"]\nmax_entries = 0', r"s\.toml:2: trim\.streams\.rig-4\.max_entries: it is not above 0"),
        ("[limits.weights]\ndefault = 0.001", r"s\.toml:2: limits\.weights\.default: it is not between 0\.01 and 100"),
        ('[redis]\nurl = "localhost"', r"s\.toml:2: redis\.url: it has no scheme"),
        ('[redis]\nurl = "redis://host:99999/0"', r"s\.toml:2: redis\.url: Port out of range"),
        ('[redis]\nurl = "redis://u:secret/@host:x/0"', r"s\.toml:2: redis\.url: it is no URL of a Redis"),
    ],
)
def test_bad_names_are_mistakes_in_the_configuration(tmp_path: Path, text: str, where: str) -> None:
    """Named with the setting and its line, and never with a password."""
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(errors.BadConfiguration, match=where) as caught:
        settings.load(path, environ={})
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "redis+cluster://a:1,b:2",
        "rediss+sentinel://u:p@a:1,b:2/main/0",
        "unix:///run/redis.sock?db=1",
        "redis://[::1]:6379/0",
        "redis://user@host",
    ],
)
def test_every_form_of_url_is_taken(url: str) -> None:
    """One server, Sentinels, a Cluster and a socket."""
    assert settings.load(None, {"RTA_REDIS__URL": url}).redis.url == url


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalars = st.one_of(
    st.booleans(),
    st.integers(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    texts,
    st.sampled_from(["*", "{identity}", "stream:", "a:b", "\x00", "redis://[", "postgresql://x"]),
    st.datetimes(),
    st.dates(),
    st.times(),
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=5
)


def toml(value: Any) -> str:
    """A value as TOML. JSON's strings are TOML's, but for DEL."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(name)} = {toml(item)}" for name, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, datetime.datetime | datetime.date | datetime.time):
        return value.isoformat()
    return (
        msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
        if not isinstance(value, int)
        else str(value).lower()
    )


@given(name=st.sampled_from(NAMES), value=values)
@example(name="node.ttl_s", value=10**400)
@example(name="control.principals", value=[1])
@example(name="trim.streams", value={"a b": {}})
@example(name="webhooks.to", value={"": {"url": "http://[", "secret": ""}})
def test_any_value_loads_or_is_refused(tmp_path_factory: pytest.TempPathFactory, name: str, value: Any) -> None:
    """Whatever stands in a file that is TOML, there is no other error."""
    path = tmp_path_factory.getbasetemp() / "any.toml"
    with contextlib.suppress(errors.BadConfiguration):
        load(path, name, toml(value))
    tomllib.loads(path.read_text())


@given(name=st.sampled_from(NAMES), text=st.text(max_size=20))
@example(name="control.principals", text="[" * 5000)
@example(name="redis.url", text="\udcff")
def test_any_text_of_the_environment_loads_or_is_refused(name: str, text: str) -> None:
    """Lone surrogates included, which Python makes of bytes that are no UTF-8."""
    with contextlib.suppress(errors.BadConfiguration):
        settings.load(None, {f"RTA_{name.upper().replace('.', '__')}": text})
