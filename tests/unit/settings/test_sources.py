"""Where settings come from, and what is said about those that are wrong."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.settings import settings, sources
from rta_wire import errors

ROOT = Path(__file__).parents[3]
DEFAULTS: dict[str, dict[str, Any]] = msgspec.to_builtins(settings.Settings())
NAMES = [(section, name) for section, values in DEFAULTS.items() for name in values if values[name] != {}]


def problems(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> list[tuple[str, str]]:
    path = tmp_path / "s.toml"
    path.write_text(text)
    with pytest.raises(errors.BadConfiguration) as caught:
        settings.load(path, environ or {})
    listed: list[tuple[str, str]] = caught.value.facts["problems"]
    return [(where.replace(f"{tmp_path}/", ""), reason.replace(f"{tmp_path}/", "")) for where, reason in listed]


def toml(value: Any) -> str:
    return msgspec.json.encode(value).decode()


@given(chosen=st.lists(st.sampled_from(NAMES), unique=True), filler=st.lists(st.sampled_from(["", "# x = 1", "  "])))
def test_each_value_knows_its_line(
    tmp_path_factory: pytest.TempPathFactory, chosen: list[tuple[str, str]], filler: list[str]
) -> None:
    """Whatever is set in whatever order, the line is the one on which it was written; the rest is the default."""
    lines: list[str] = []
    expected: dict[tuple[str, ...], int] = {}
    for section in sorted({section for section, _ in chosen}):
        lines += [*filler, f"[{section}] # here"]
        for name in [name for table, name in chosen if table == section]:
            lines += [*filler, f"  {name} = {toml(DEFAULTS[section][name])}  # why"]
            expected[section, name] = len(lines)
    path = tmp_path_factory.getbasetemp() / "lines.toml"
    path.write_text("\n".join(lines))
    loaded = settings.load_traced(path, environ={})
    assert loaded.settings == settings.Settings()
    for section, name in NAMES:
        line = expected.get((section, name))
        assert loaded.sources.origin((section, name)) == (f"{path}:{line}" if line else "default")


def test_everything_that_is_wrong_is_named(tmp_path: Path) -> None:
    """All wrong settings at once, each with its line or variable and the setting whose name is nearest."""
    text = '[redis]\nulr = "x"\n\ntimeout_s = "5"\n[sesion]\nopen_ttl_s = 5\n[trim.streams."a.b"]\nmax_entrys = 1\n'
    assert problems(tmp_path, text, {"RTA_NODE__TTL": "5", "RTA_HTTP__PORT": "many"}) == [
        ("s.toml:2: redis.ulr", "there is no such setting. Did you mean redis.url?"),
        ("s.toml:4: redis.timeout_s", "expected `float`, got `str`"),
        ("s.toml:6: sesion.open_ttl_s", "there is no such setting. Did you mean session.open_ttl_s?"),
        (
            's.toml:8: trim.streams."a.b".max_entrys',
            'there is no such setting. Did you mean trim.streams."a.b".max_entries?',
        ),
        ("RTA_NODE__TTL: node.ttl", "there is no such setting. Did you mean RTA_NODE__TTL_S?"),
        ("RTA_HTTP__PORT: http.port", "expected `int`, got `str`"),
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("redis.timeout_s", 1.0),
        ("control.retry_s", 0),
        ("control.expire_s", 30.0),
        ("control.batch", 0),
        ("session.close_grace_s", 600.0),
        ("session.idle_refresh_s", 0),
        ("session.refresh_ms", 0),
        ("session.writer_silent_s", 0),
        ("node.renew_s", 31.0),
        ("node.beat_s", 60.0),
        ("node.drain_s", -1),
        ("http.port", 70000),
        ("trim.every_s", 0),
        ("trim.idle_stream_s", 3600.0),
    ],
)
def test_impossible_times_are_named_with_their_line(tmp_path: Path, name: str, value: float) -> None:
    """An impossible time is refused with the line on which it is set."""
    section, key = name.split(".")
    [(where, reason)] = problems(tmp_path, f"# settings\n[{section}]\n{key} = {toml(value)}\n")
    assert where == f"s.toml:3: {name}"
    assert reason


def test_the_other_side_of_a_relation_is_named_too(tmp_path: Path) -> None:
    """A time that is too short for a default is named with the line on which it is set."""
    [(where, reason)] = problems(tmp_path, "[control]\nretry_s = 5.0\nexpire_s = 20.0\n")
    assert where == "session.close_grace_s"
    assert reason.endswith("(control.expire_s is set at s.toml:3)")


def test_a_credential_is_a_setting_that_no_file_shows(tmp_path: Path) -> None:
    """systemd's directory comes after the file and before the environment; what is not ours in it is left alone."""
    (tmp_path / "rta.http.token").write_text("from-systemd\n")
    (tmp_path / "ca.pem").write_text("not ours")
    file = tmp_path / "s.toml"
    file.write_text('[http]\ntoken = "from-file"\n')
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    loaded = settings.load_traced(file, environ)
    assert loaded.settings.http.token == "from-systemd"  # noqa: S105
    assert loaded.sources.origin(("http", "token")) == "credential rta.http.token"
    assert settings.load(file, {**environ, "RTA_HTTP__TOKEN": "other"}).http.token == "other"  # noqa: S105
    (tmp_path / "rta.http.tokn").write_text("x")
    assert problems(tmp_path, "", environ)[0][0] == "credential rta.http.tokn: http.tokn"


def test_a_table_where_a_value_should_be(tmp_path: Path) -> None:
    """A table in place of a value and a value in place of a table are each named with their line."""
    [(where, _)] = problems(tmp_path, "[redis.url]\nx = 1\n")
    assert where == "s.toml:2: redis.url.x"
    [(where, _)] = problems(tmp_path, "redis = 5\n")
    assert where == "s.toml:1: redis"


def test_dotted_names_are_quoted_where_they_have_to_be() -> None:
    """A name that has a dot is quoted, as in the file."""
    assert sources.dotted(("trim", "streams", "rig-4", "a.b")) == 'trim.streams.rig-4."a.b"'


@pytest.mark.parametrize(
    ("variable", "sentence"),
    [
        ("RTA_HTTP__TOKN", "RTA_HTTP__TOKN: http.tokn: there is no such setting. Did you mean RTA_HTTP__TOKEN?"),
        ("RTA_NODES__TTL_S", "RTA_NODES__TTL_S: nodes.ttl_s: there is no such setting. Did you mean RTA_NODE__TTL_S?"),
        ("RTA_QQQQ__X", "RTA_QQQQ__X: qqqq.x: there is no such setting. There is redis, keys, "),
        (
            "RTA_HTTP_TOKEN",
            "RTA_HTTP_TOKEN: it sets nothing: two underscores divide section and key. Did you mean RTA_",
        ),
        ("RTA__", "RTA__: _: there is no such setting. There is redis, "),
        ("RTA_REDIS__URL__X", "RTA_REDIS__URL__X: redis.url.x: redis.url is one value and has no 'x'"),
        ("RTA_HTTP__\udcff", "RTA_HTTP__\\udcff: it is not valid UTF-8"),
    ],
)
def test_variables_that_set_nothing_are_refused(variable: str, sentence: str) -> None:
    """Each with the variable that is meant, as far as there is one."""
    with pytest.raises(errors.BadConfiguration) as caught:
        settings.load(None, {variable: "x"})
    assert str(caught.value).startswith(sentence)


def test_variables_for_others_are_left_alone() -> None:
    """Passwords, variables of tests, and those of other programs with the same beginning."""
    names = ("RTA_REDIS_PASSWORD", "RTA_CATALOGUE_PASSWORD", "RTA_SOAK", "RTA_JDK", "RTA_TEST_CLOCK", "RTA", "RTA_HOME")
    assert settings.load(None, dict.fromkeys(names, "x")) == settings.Settings()


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    """Editors on Windows write one."""
    path = tmp_path / "s.toml"
    path.write_bytes(b"\xef\xbb\xbf[node]\nttl_s = 99\n")
    loaded = settings.load_traced(path, {})
    assert (loaded.settings.node.ttl_s, loaded.sources.origin(("node", "ttl_s"))) == (99, f"{path}:2")


@pytest.mark.parametrize("content", [b"\xff", b"x = " + b"[" * 5000, b"x", b"\x00"])
def test_a_file_that_is_no_toml_is_named(tmp_path: Path, content: bytes) -> None:
    """Bytes that are no UTF-8, values in values without end, and what is no TOML otherwise."""
    path = tmp_path / "s.toml"
    path.write_bytes(content)
    with pytest.raises(errors.BadConfiguration, match=r"s\.toml: it is not TOML: "):
        settings.load(path, {})


def test_a_credential_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are no setting."""
    (tmp_path / "rta.http.token").write_bytes(b"\xff")
    with pytest.raises(errors.BadConfiguration, match=r"credential rta\.http\.token: it can't be read: it is not text"):
        settings.load(None, {"CREDENTIALS_DIRECTORY": str(tmp_path)})
