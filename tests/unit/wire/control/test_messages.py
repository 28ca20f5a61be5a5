"""Rules that need no server: transitions, settings, errors, control messages, judging a server."""

import itertools
import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.control import deadlines
from rta_supervisor.session import state_machine
from rta_supervisor.session.state_machine import Effect, SessionEvent
from rta_supervisor.settings import settings
from rta_supervisor.transport import link, server_check
from rta_wire import errors, session
from rta_wire.control import messages
from rta_wire.pb import control_pb2
from rta_wire.session import State

ROOT = Path(__file__).parents[4]


ENDINGS = {
    SessionEvent.CLOSE: State.CLOSED,
    SessionEvent.TRUNCATE: State.TRUNCATED,
    SessionEvent.FAIL: State.FAILED,
    SessionEvent.ABANDON: State.ABANDONED,
}


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, SessionEvent)))
def test_the_table_of_transitions(state: State, event: SessionEvent) -> None:
    """An open session can do everything; a closed one can only be described anew; an unknown one can do nothing."""
    is_live = state in (State.OPEN, State.WAITING)
    if is_live and event in ENDINGS:
        step = state_machine.transition(state, event)
        assert step.state is ENDINGS[event]
        assert step.effects[0] is Effect.SEAL
        assert step.effects[-1] is Effect.PUBLISH_END
    elif is_live and event in (SessionEvent.PAUSE, SessionEvent.RESUME):
        wanted = State.WAITING if event is SessionEvent.PAUSE else State.OPEN
        step = state_machine.transition(state, event)
        assert step.state is wanted
        assert bool(step.effects) == (state is not wanted)
    elif event is SessionEvent.DESCRIBE and state is not State.UNKNOWN:
        assert state_machine.transition(state, event) == (state, (Effect.PUT_JSON, Effect.PUBLISH_JSON))
    else:
        with pytest.raises(errors.NoSuchTransition):
            state_machine.transition(state, event)


@pytest.mark.parametrize("step", state_machine.TRANSITIONS.values())
def test_the_hash_is_written_before_the_stream(step: state_machine.Transition) -> None:
    """A reader who joins in between sees the JSON twice, never not at all."""
    order = [Effect.SEAL, Effect.PUBLISH_TIME_RANGE, Effect.PUT_JSON, Effect.PUBLISH_JSON, Effect.PUBLISH_END]
    assert list(step.effects) == sorted(step.effects, key=order.index)


def test_silence_counts_from_when_we_could_hear() -> None:
    """A writer is gone after the limit, but not because we were away ourselves."""
    config = settings.SessionSettings(writer_silent_s=90)
    silent = deadlines.Silence(heard_ms=1_000, listening_since_ms=0)
    assert not deadlines.is_abandoned(silent, 90_999, config)
    assert deadlines.is_abandoned(silent, 91_000, config)
    assert not deadlines.is_abandoned(deadlines.Silence(1_000, 50_000), 91_000, config)


def test_late_requests_and_their_limits() -> None:
    """One that nobody picked up is refused early, one that waits for something later."""
    config = settings.ControlSettings(pickup_s=2, expire_s=10, retry_s=1)
    verdicts = [
        deadlines.decide_request(0, now_ms, was_delivered_before=waited, config=config)
        for waited in (False, True)
        for now_ms in (1_999, 2_000, 9_999, 10_000)
    ]
    serve, late = deadlines.RequestDecision.SERVE, deadlines.RequestDecision.TOO_LATE
    assert verdicts == [serve, late, late, late, serve, serve, serve, late]


def test_times_that_are_not_believed() -> None:
    """Before 1970 or more than a day ahead, unless configured."""
    config = settings.SessionSettings()
    now_ms = 1_700_000_000_000
    day_ns = 86_400 * 10**9
    now_ns = now_ms * 10**6
    assert deadlines.plausible_ns(now_ms, config) == (0, now_ns + day_ns)
    wide = settings.SessionSettings(allow_before_1970=True, max_ahead_s=1)
    assert deadlines.plausible_ns(now_ms, wide) == (-(2**63), now_ns + 10**9)


def test_missing_data_is_never_plainly_closed() -> None:
    """Closed becomes truncated; a worse ending stays what it is."""
    assert state_machine.closing_event(State.CLOSED, is_complete=False) is SessionEvent.TRUNCATE
    assert state_machine.closing_event(State.CLOSED, is_complete=True) is SessionEvent.CLOSE
    assert state_machine.closing_event(State.FAILED, is_complete=False) is SessionEvent.FAIL


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
    assert words in str(server_check.find_problem(info, settings.RedisSettings()))


def test_a_good_server_is_taken() -> None:
    """The oldest supported version with no limit of memory will do."""
    assert server_check.find_problem({"redis_version": "7.0.15", "maxmemory": "0"}, settings.RedisSettings()) is None
    evicting = {"redis_version": "7.0.15", "maxmemory_policy": "allkeys-lru"}
    assert server_check.find_problem(evicting, settings.RedisSettings(allow_eviction=True)) is None


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
    raw = messages.pack_reply("r", errors.NoSupervisor(url="u"))
    with pytest.raises(errors.NoSupervisor, match="against u") as caught:
        messages.unpack_reply(raw)
    assert caught.value.retriable


def test_an_error_of_a_newer_supervisor_is_still_an_error() -> None:
    """A code that we do not know keeps its sentence."""
    assert str(errors.from_reply("Novel", "Something new.", retriable=False)) == "Something new."


MESSAGES: list[Any] = [
    control_pb2.OpenSession(request_id="r", identity="i", stream="s", session_json="{}"),
    control_pb2.CloseSession(request_id="r", identity="i", state="closed"),
    control_pb2.Progress(identity="i", stream_session_id=1, unit="u"),
    control_pb2.Heartbeat(identity="i", stream_session_id=1),
    control_pb2.UpdateSession(request_id="r", identity="i", properties_json="{}", state="waiting"),
    control_pb2.CancelRequest(request_id="r", target_request_id="s"),
    control_pb2.ResurrectSession(request_id="r", identity="i"),
]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_control_message_survives_the_wire(message: Any) -> None:
    """Each kind comes back as it was."""
    assert messages.check(messages.unpack(messages.pack(message))) == message


@pytest.mark.parametrize(
    "message",
    [
        control_pb2.OpenSession(request_id="r", identity="i\n", stream="s"),
        control_pb2.OpenSession(request_id="r", identity="i", stream="s{}"),
        control_pb2.CloseSession(request_id="r", identity="i", state="open"),
        control_pb2.CloseSession(request_id="r", identity="i", state=""),
        control_pb2.UpdateSession(request_id="r", identity="i", state="closed"),
        control_pb2.CancelRequest(request_id="r", target_request_id="a b"),
        control_pb2.ResurrectSession(request_id="r", identity="i{}"),
        control_pb2.OpenSession(request_id="r", identity="i", stream="s", external_id="x\n"),
        control_pb2.Progress(identity="i", unit=""),
        control_pb2.Progress(identity="i", unit="u", totals=control_pb2.Totals(start_time=2, end_time=1)),
        control_pb2.Heartbeat(identity=""),
    ],
)
def test_a_control_message_with_bad_names_is_refused(message: Any) -> None:
    """What can't be a key, a state or a range never reaches Redis."""
    with pytest.raises(errors.RtaError):
        messages.check(message)


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
        messages.unpack(raw)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_message_or_a_named_error(raw: bytes) -> None:
    """No input raises anything that is not ours."""
    try:
        message = messages.check(messages.unpack(raw))
    except errors.RtaError:
        return
    assert messages.pack(message)


def test_a_session_is_built_with_what_the_protocol_requires() -> None:
    """The client's short call gives a whole document."""
    document = session.build("run-1", details={"Rig": 4}, group="tests")
    assert document["identifier"] == "run-1"
    assert document["group"] == "tests"
    assert session.parse(session.dump(document)) == document
