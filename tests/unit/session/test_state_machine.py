"""The transitions of a session: a table of states and events, and the order of effects."""

import itertools

import pytest

from rta_supervisor.session import state_machine
from rta_supervisor.session.state_machine import Effect, SessionEvent
from rta_wire import errors
from rta_wire.session import State

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


def test_missing_data_is_never_plainly_closed() -> None:
    """Closed becomes truncated; a worse ending stays what it is."""
    assert state_machine.closing_event(State.CLOSED, is_complete=False) is SessionEvent.TRUNCATE
    assert state_machine.closing_event(State.CLOSED, is_complete=True) is SessionEvent.CLOSE
    assert state_machine.closing_event(State.FAILED, is_complete=False) is SessionEvent.FAIL
