"""Settings as a whole: the file that we ship, the order of sources, and what is refused."""

from pathlib import Path

import msgspec
import pytest

from rta_supervisor.settings import settings
from rta_wire import errors

ROOT = Path(__file__).parents[3]


def test_the_configuration_file_shows_every_key_with_its_default() -> None:
    """The file that we ship holds every setting with its default, and nothing else."""
    path = ROOT / "conf" / "supervisor.toml"
    assert settings.load(path, environ={}) == settings.Settings()
    file = msgspec.toml.decode(path.read_bytes())
    defaults = msgspec.to_builtins(settings.Settings())
    assert {name: set(section) for name, section in file.items()} == {
        name: set(section) for name, section in defaults.items()
    }


def test_the_last_source_wins(tmp_path: Path) -> None:
    """A value on the command line counts more than one in the environment, and that more than one in the file."""
    path = tmp_path / "x.toml"
    path.write_text('[redis]\nurl = "redis://file"\ntimeout_s = 1.5\n[node]\nttl_s = 90\n')
    environ = {"RTA_REDIS__URL": "redis://environment", "RTA_NODE__TTL_S": "99", "OTHER": "x"}
    loaded = settings.load(path, environ, {"redis.url": "redis://command-line", "log.level": None})
    assert (loaded.redis.url, loaded.redis.timeout_s, loaded.node.ttl_s) == ("redis://command-line", 1.5, 99)


@pytest.mark.parametrize(
    "text",
    [
        "[redis]\nulr = 'x'",
        "[nodes]\n",
        "[redis]\ntimeout_s = 'soon'",
        "not toml",
        "[log]\nlevel = 'loud'",
        "[log]\nformat = 'xml'",
        "[node]\nttl_s = 10\nrenew_s = 9.0",
        "[control]\nprincipals = []",
        "[keys]\nsession_template = 'x'",
        "[session]\nopen_ttl_s = 1",
        "[catalogue]\nflush_s = 0",
        "[trim]\nmax_entries = 0",
        "[trim]\nevery_s = 0",
        "[trim]\nmax_bytes = -1",
        "[trim]\nidle_stream_s = 60",
        "[trim.streams.rig]\nmax_entries = 0",
        "[trim.streams.rig]\nevery_s = 1",
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path: Path, text: str) -> None:
    """Unknown keys, wrong types and impossible relations end in one error."""
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(errors.BadConfiguration):
        settings.load(path, environ={})


WRONG_VALUES = {
    "redis.startup_patience_s": -1,
    "keys.prefix": "{",
    "control.batch": 0,
    "limits.open_sessions": 0,
    "session.refresh_ms": 0,
    "trim.every_s": 0,
    "other_producers.remove_sessions_after_s": -1,
    "days.partition": "hour",
    "compact.every_s": 0,
    "catalogue.flush_s": 0,
    "archive.level": 0,
    "node.ttl_s": 0,
    "http.port": -1,
    "gateway.port": -1,
    "metrics.survey_s": 0,
    "webhooks.tries": 0,
    "publish.every_s": 31,
    "log.level": "loud",
}


def test_every_section_is_checked() -> None:
    """A wrong value of each section is refused by its dotted name."""
    assert [name.partition(".")[0] for name in WRONG_VALUES] == list(settings.Settings.__struct_fields__)
    for name, value in WRONG_VALUES.items():
        with pytest.raises(errors.BadConfiguration, match=name):
            settings.load(None, {}, {name: value})


@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"redis.timeout_s": 1}, r"redis\.timeout_s: it is not above 1, the seconds that a read waits for news"),
        (
            {"session.close_grace_s": 60, "control.expire_s": 60},
            r"session\.close_grace_s.* control\.expire_s: the close",
        ),
        ({"trim.idle_stream_s": 9, "session.closed_ttl_s": 10}, r"trim\.idle_stream_s.* sessions would outlive"),
        ({"days.keep_days": 1, "session.closed_ttl_s": 86_401}, r"days\.keep_days.* sessions would outlive"),
        ({"session.open_ttl_s": 15}, r"session\.open_ttl_s: .* node\.lease_s together"),
        (
            {"session.closed_ttl_s": 60, "catalogue.flush_s": 61},
            r"catalogue\.flush_s: it is more than session\.closed_ttl_s",
        ),
        ({"control.reply_ttl_s": 30}, r"control\.reply_ttl_s: it is not more than control\.retry_s"),
    ],
)
def test_values_that_two_sections_exclude_are_refused(values: dict[str, int], where: str) -> None:
    """Each is named by the setting that is too small or too large for the other section."""
    with pytest.raises(errors.BadConfiguration, match=where):
        settings.load(None, {}, values)


def test_a_missing_configuration_file_is_named(tmp_path: Path) -> None:
    """The error for a file that does not exist holds its path."""
    with pytest.raises(errors.BadConfiguration, match=r"gone\.toml"):
        settings.load(tmp_path / "gone.toml", environ={})


def test_trimming_of_a_source_holds_for_its_days() -> None:
    """A day has the limits of its source, unless it has its own."""
    streams = {
        "rig": settings.StreamTrimSettings(max_entries=70),
        "rig.20260102": settings.StreamTrimSettings(max_entries=20),
    }
    trim = settings.TrimSettings(max_entries=10, streams=streams)
    max_entries = {
        name: trim.limits_for(name).max_entries for name in ("rig", "rig.20260101", "rig.20260102", "rig.x", "other")
    }
    assert max_entries == {"rig": 70, "rig.20260101": 70, "rig.20260102": 20, "rig.x": 10, "other": 10}


@pytest.mark.parametrize(
    ("values", "setting", "reason"),
    [
        ({"compact.after_s": 3600}, "compact.after_s", "readers that don't read cold streams miss data"),
        ({"compact.after_s": 700_000}, "compact.after_s", "streams are removed before they are compacted"),
        ({"redis.timeout_s": 60}, "redis.timeout_s", "the supervisor counts as gone"),
        ({"control.expire_s": 100}, "control.pickup_s", "it is more than control.expire_s"),
    ],
)
def test_doubtful_values_are_warned_about(values: dict[str, float], setting: str, reason: str) -> None:
    """They can work, and are probably not meant. The defaults are not doubtful."""
    [(where, why)] = settings.load(None, {}, values).warnings()
    assert where == setting
    assert reason in why
    assert not list(settings.Settings().warnings())


@pytest.mark.parametrize(
    ("prefixes", "doubtful"),
    [
        ({}, []),
        ({"a": "rig-4.", "b": "rig-44."}, []),
        ({"a": "rig-4", "b": "rig-44"}, ["control.stream_prefixes.a"]),
        ({"a": "rig-4.", "b": "rig-4.x."}, ["control.stream_prefixes.a"]),
        ({"a": "rig.", "b": "rig."}, ["control.stream_prefixes.a", "control.stream_prefixes.b"]),
    ],
)
def test_principals_that_own_streams_of_others_are_warned_about(prefixes: dict[str, str], doubtful: list[str]) -> None:
    """A prefix may be the beginning of another one on purpose, and mostly is by mistake."""
    config = settings.load(None, {}, {"control.principals": ["a", "b"], "control.stream_prefixes": prefixes})
    warnings = dict(config.warnings())
    assert list(warnings) == doubtful
    for reason in warnings.values():
        assert "'a'" in reason
        assert "'b'" in reason
