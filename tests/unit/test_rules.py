"""Rules that need no server: transitions, settings, errors, control messages, judging a server."""

import itertools
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor import lifecycle, link, settings
from rta_supervisor.lifecycle import Event
from rta_wire import control, control_pb2, errors, session
from rta_wire.session import State

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)))
def test_closed_is_final(state: State, event: Event) -> None:
    """An open session can end in every way; a closed one, and an unknown one, can't do anything."""
    if state in (State.OPEN, State.WAITING):
        assert lifecycle.after(state, event).is_closed
    else:
        with pytest.raises(errors.NoSuchTransition):
            lifecycle.after(state, event)


def test_missing_data_is_never_plainly_closed() -> None:
    """Closed becomes truncated; a worse ending stays what it is."""
    assert lifecycle.ending(State.CLOSED, complete=False) is Event.TRUNCATE
    assert lifecycle.ending(State.CLOSED, complete=True) is Event.CLOSE
    assert lifecycle.ending(State.FAILED, complete=False) is Event.FAIL


def test_the_configuration_file_shows_every_key_with_its_default() -> None:
    """The file that we ship is the defaults, no more and no less."""
    path = ROOT / "conf" / "supervisor.toml"
    assert settings.load(path, environ={}) == settings.Settings()
    shown = msgspec.toml.decode(path.read_bytes())
    known = msgspec.to_builtins(settings.Settings())
    assert {name: set(section) for name, section in shown.items()} == {
        name: set(section) for name, section in known.items()
    }


def test_the_last_source_wins(tmp_path: Path) -> None:
    """File, then environment, then command line."""
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
    ],
)
def test_a_wrong_configuration_is_refused(tmp_path: Path, text: str) -> None:
    """Unknown keys, wrong types and impossible relations end in one error."""
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(errors.BadConfiguration):
        settings.load(path, environ={})


def test_a_missing_configuration_file_is_named(tmp_path: Path) -> None:
    """The error holds the path."""
    with pytest.raises(errors.BadConfiguration, match=r"gone\.toml"):
        settings.load(tmp_path / "gone.toml", environ={})


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ({"redis_version": "6.2.14"}, "Redis 6.2.14"),
        ({"redis_version": "7.2.4", "valkey_version": "7.0.1"}, "Valkey 7.0.1"),
        ({"redis_version": "7.4.0", "maxmemory_policy": "allkeys-lru"}, "noeviction"),
        ({"redis_version": "7.0.0", "role": "slave", "slave_read_only": "1"}, "replica"),
        ({"redis_version": "7.0.0", "maxmemory": "100", "used_memory": "100"}, "full"),
    ],
)
def test_a_server_that_would_lose_sessions_is_refused(info: dict[str, str], words: str) -> None:
    """Too old, evicting, read-only and full servers are each named as such."""
    assert words in str(link.unsuitable(info, settings.RedisSettings()))


def test_a_good_server_is_taken() -> None:
    """The oldest supported version with no limit of memory will do."""
    assert link.unsuitable({"redis_version": "7.0.15", "maxmemory": "0"}, settings.RedisSettings()) is None
    evicting = {"redis_version": "7.0.15", "maxmemory_policy": "allkeys-lru"}
    assert link.unsuitable(evicting, settings.RedisSettings(allow_eviction=True)) is None


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h:1", "redis://h:1"),
        ("redis://:secret@h", "redis://:***@h"),
        ("rediss://me:se@cret@h/0", "rediss://me:***@h/0"),
    ],
)
def test_passwords_stay_out_of_what_people_see(url: str, shown: str) -> None:
    """A URL in a log or an error has no password."""
    assert link.safe_url(url) == shown


def test_an_error_crosses_processes() -> None:
    """Spark pickles errors; a reply names them."""
    error = errors.SessionClosed(identity="a", state="closed")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (type(again), str(again), again.facts) == (errors.SessionClosed, str(error), error.facts)
    raw = control.pack_reply("r", errors.NoSupervisor(url="u"))
    with pytest.raises(errors.NoSupervisor, match="against u") as caught:
        control.unpack_reply(raw)
    assert caught.value.retriable


def test_an_error_of_a_newer_supervisor_is_still_an_error() -> None:
    """A code that we do not know keeps its sentence."""
    assert str(errors.from_reply("Novel", "Something new.", retriable=False)) == "Something new."


MESSAGES: list[Any] = [
    control_pb2.OpenSession(request_id="r", identity="i", stream="s", session_json="{}"),
    control_pb2.CloseSession(request_id="r", identity="i", state="closed"),
    control_pb2.Progress(identity="i", stream_session_id=1, unit="u"),
    control_pb2.Heartbeat(identity="i", stream_session_id=1),
]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_control_message_survives_the_wire(message: Any) -> None:
    """Each kind comes back as it was."""
    assert control.check(control.unpack(control.pack(message))) == message


@pytest.mark.parametrize(
    "message",
    [
        control_pb2.OpenSession(request_id="r", identity="i\n", stream="s"),
        control_pb2.OpenSession(request_id="r", identity="i", stream="s{}"),
        control_pb2.CloseSession(request_id="r", identity="i", state="open"),
        control_pb2.CloseSession(request_id="r", identity="i", state=""),
        control_pb2.Progress(identity="i", unit=""),
        control_pb2.Progress(identity="i", unit="u", totals=control_pb2.Totals(start_time=2, end_time=1)),
        control_pb2.Heartbeat(identity=""),
    ],
)
def test_a_control_message_with_bad_names_is_refused(message: Any) -> None:
    """What can't be a key, a state or a range never reaches Redis."""
    with pytest.raises(errors.RtaError):
        control.check(message)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        b"",
        b"\xff" * 20,
        b"x" * (256 * 1024 + 1),
        control_pb2.Control(version=2, heartbeat=control_pb2.Heartbeat(identity="i")).SerializeToString(),
        control_pb2.Control(version=1).SerializeToString(),
        control_pb2.Control(version=1, open=control_pb2.OpenSession(identity="i")).SerializeToString(),
    ],
)
def test_bytes_that_are_no_control_message_are_refused(raw: bytes | None) -> None:
    """Absent, empty, junk, too large, of another version, without body or request id."""
    with pytest.raises(errors.BadMessage):
        control.unpack(raw)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_message_or_a_named_error(raw: bytes) -> None:
    """No input raises anything that is not ours."""
    try:
        message = control.check(control.unpack(raw))
    except errors.RtaError:
        return
    assert message.identity


def test_a_session_is_built_with_what_the_protocol_requires() -> None:
    """The client's short call gives a whole document."""
    document = session.build("run-1", details={"Rig": 4}, group="tests")
    assert document["identifier"] == "run-1"
    assert document["group"] == "tests"
    assert session.parse(session.dump(document)) == document
