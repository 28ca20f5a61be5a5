"""The gate of a session: the table of the state machine agrees with what `stream.lua` does on a real server."""

import itertools
from collections.abc import Callable

import pytest
import redis

from rta_supervisor.session import server_functions as session_server_functions
from rta_supervisor.session import state_machine
from rta_supervisor.session.state_machine import Effect, Gate
from rta_supervisor.transport import commands
from rta_wire import keys
from tests.support.session_values import session_record

NAMES = keys.Keys()
RECORD = session_record(version=2)
REF = RECORD.ref
TTL_S = 100
GATE = NAMES.gate(REF.stream, REF.stream_session_id)

CALLS: dict[Effect, Callable[[], commands.Command]] = {
    Effect.SEAL: lambda: session_server_functions.seal(NAMES, REF, ttl_s=TTL_S),
    Effect.PUBLISH_TIME_RANGE: lambda: session_server_functions.publish_time_ranges(
        NAMES, REF.stream, [(REF.stream_session_id, b"5", b"9")], ttl_s=TTL_S
    ),
    Effect.PUBLISH_JSON: lambda: session_server_functions.publish_json(NAMES, RECORD, ttl_s=TTL_S),
    Effect.PUBLISH_END: lambda: session_server_functions.publish_end(NAMES, RECORD, ttl_s=TTL_S),
}
"""The server function of each effect on a stream. PUT_JSON is none: its function does not get the gate's key."""


@pytest.fixture
def stream(raw: redis.Redis) -> redis.Redis:
    """A server with one session that is published and has no gate yet."""
    raw.execute_command("FLUSHALL")
    raw.execute_command(*session_server_functions.publish_opening(NAMES, session_record(), ttl_s=TTL_S))
    raw.execute_command("DEL", GATE)
    return raw


def set_gate(stream: redis.Redis, gate: Gate | None) -> None:
    if gate is not None:
        stream.execute_command("SET", GATE, gate.value, "EX", TTL_S)


def gate_of(stream: redis.Redis) -> Gate | None:
    text = stream.execute_command("GET", GATE)
    return None if text is None else Gate(text.decode())


@pytest.mark.parametrize(("gate", "effect"), list(itertools.product([None, *Gate], CALLS)))
def test_the_server_does_to_a_gate_what_the_table_says(stream: redis.Redis, gate: Gate | None, effect: Effect) -> None:
    """From every state of the gate; a pair that is not in the table leaves it as it is."""
    set_gate(stream, gate)
    stream.execute_command(*CALLS[effect]())
    assert gate_of(stream) is state_machine.GATE_EFFECTS.get((gate, effect), gate)


def test_an_end_without_a_gate_writes_nothing(stream: redis.Redis) -> None:
    """The table has no such pair, and the server neither makes a gate nor adds an entry."""
    assert (None, Effect.PUBLISH_END) not in state_machine.GATE_EFFECTS
    length = stream.execute_command("XLEN", keys.stream(REF.stream))
    assert stream.execute_command(*CALLS[Effect.PUBLISH_END]()) == b""
    assert gate_of(stream) is None
    assert stream.execute_command("XLEN", keys.stream(REF.stream)) == length


@pytest.mark.parametrize("gate", [None, *Gate])
def test_only_an_opening_makes_a_gate_that_is_open(stream: redis.Redis, gate: Gate | None) -> None:
    """An opening that is repeated leaves a gate as it is, and no effect of a transition opens one."""
    set_gate(stream, gate)
    stream.execute_command(*session_server_functions.publish_opening(NAMES, RECORD, ttl_s=TTL_S))
    assert gate_of(stream) is (gate or Gate.OPEN)
    assert Gate.OPEN not in state_machine.GATE_EFFECTS.values()


def test_every_pair_of_the_table_is_compared() -> None:
    """The table speaks of no effect whose server function is not called here."""
    assert {effect for _, effect in state_machine.GATE_EFFECTS} <= CALLS.keys()
