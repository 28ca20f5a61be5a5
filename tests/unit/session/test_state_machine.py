"""The rules of a session's life: states and events, the order of effects, closing with data missing, and the gate."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.session import state_machine
from rta_supervisor.session.state_machine import Effect, Gate, SessionEvent, Transition
from rta_wire import errors
from rta_wire.control import messages
from rta_wire.pb import control_pb2
from rta_wire.session import State

ENDINGS = {
    SessionEvent.CLOSE: State.CLOSED,
    SessionEvent.TRUNCATE: State.TRUNCATED,
    SessionEvent.FAIL: State.FAILED,
    SessionEvent.ABANDON: State.ABANDONED,
}
PAIRS = list(itertools.product(State, SessionEvent))
EFFECTS_ON_STREAM = (Effect.PUBLISH_JSON, Effect.PUBLISH_END)

events = st.lists(st.sampled_from(SessionEvent))


@pytest.mark.parametrize(("state", "event"), PAIRS)
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


@pytest.mark.parametrize("is_stale", [False, True])
@pytest.mark.parametrize(("state", "event"), PAIRS)
def test_a_pair_that_is_not_in_the_table_is_refused_by_name(
    state: State, event: SessionEvent, *, is_stale: bool
) -> None:
    """A transition comes from the table, or an error names state and event. A stale request is no way around it."""
    if (state, event) in state_machine.TRANSITIONS:
        assert state_machine.transition(state, event, is_stale=is_stale)
        return
    with pytest.raises(errors.NoSuchTransition) as refusal:
        state_machine.transition(state, event, is_stale=is_stale)
    assert refusal.value.facts == {"state": state.value, "event": event.value}


@given(state=st.sampled_from(state_machine.INITIAL_STATES), sequence=events)
def test_closed_is_final_whatever_comes_after_it(state: State, sequence: list[SessionEvent]) -> None:
    """Events in any order: the first end counts, and after it a session can only be described anew."""
    for event in sequence:
        if state.is_closed and event is not SessionEvent.DESCRIBE:
            with pytest.raises(errors.NoSuchTransition):
                state_machine.transition(state, event)
            continue
        step = state_machine.transition(state, event)
        assert step.state is state if state.is_closed else step.state is not State.UNKNOWN
        state = step.state


@pytest.mark.parametrize("step", state_machine.TRANSITIONS.values())
def test_the_hash_is_written_before_the_stream(step: Transition) -> None:
    """A reader who joins in between sees the JSON twice, never not at all."""
    order = [Effect.SEAL, Effect.PUBLISH_TIME_RANGE, Effect.PUT_JSON, Effect.PUBLISH_JSON, Effect.PUBLISH_END]
    assert list(step.effects) == sorted(step.effects, key=order.index)
    assert len(set(step.effects)) == len(step.effects)
    assert (Effect.PUT_JSON in step.effects) == any(effect in EFFECTS_ON_STREAM for effect in step.effects)


@pytest.mark.parametrize(("pair", "step"), state_machine.TRANSITIONS.items())
def test_a_state_is_changed_with_its_json_and_an_end_seals_first(
    pair: tuple[State, SessionEvent], step: Transition
) -> None:
    """No other state without new JSON; an end counts and shows all data before the hash says that it is closed."""
    state, _ = pair
    if step.state is not state:
        assert Effect.PUT_JSON in step.effects
    is_end = step.state.is_closed and not state.is_closed
    sealing = (Effect.SEAL, Effect.PUBLISH_TIME_RANGE, Effect.PUT_JSON, Effect.PUBLISH_END)
    assert is_end == (step.effects == sealing)


@pytest.mark.parametrize(("state", "event"), state_machine.TRANSITIONS)
def test_a_stale_request_publishes_and_changes_nothing(state: State, event: SessionEvent) -> None:
    """The state stays, nothing is written to the hash and no gate is shut: the JSON as it stands is published."""
    assert state_machine.transition(state, event, is_stale=True) == (state, (Effect.PUBLISH_JSON,))


@pytest.mark.parametrize("event", SessionEvent)
def test_a_loss_turns_a_close_into_truncated_and_nothing_else(event: SessionEvent) -> None:
    """Without a loss every event stays what it is; with one, all but a close do."""
    assert state_machine.after_loss(event, has_loss=False) is event
    lossy = SessionEvent.TRUNCATE if event is SessionEvent.CLOSE else event
    assert state_machine.after_loss(event, has_loss=True) is lossy


def test_missing_data_is_never_plainly_closed() -> None:
    """Closed becomes truncated; a worse ending stays what it is."""
    assert state_machine.closing_event(State.CLOSED, is_complete=False) is SessionEvent.TRUNCATE
    assert state_machine.closing_event(State.CLOSED, is_complete=True) is SessionEvent.CLOSE
    assert state_machine.closing_event(State.FAILED, is_complete=False) is SessionEvent.FAIL


@pytest.mark.parametrize("is_complete", [True, False])
@pytest.mark.parametrize("requested", [state for state in State if state.is_closed])
def test_a_session_ends_as_requested_but_for_missing_data(requested: State, *, is_complete: bool) -> None:
    """Every final state can be asked for, and a complete session ends in it."""
    ended = state_machine.transition(State.OPEN, state_machine.closing_event(requested, is_complete=is_complete)).state
    assert ended is (State.TRUNCATED if requested is State.CLOSED and not is_complete else requested)


@pytest.mark.parametrize(
    ("is_complete", "is_within_grace", "waits"),
    [(True, True, False), (True, False, False), (False, True, True), (False, False, False)],
)
def test_a_close_waits_for_data_within_its_grace(*, is_complete: bool, is_within_grace: bool, waits: bool) -> None:
    """Only where something is missing, and only as long as it may still come."""
    assert state_machine.waits_for_data(is_complete=is_complete, is_within_grace=is_within_grace) is waits


@pytest.mark.parametrize(("before", "event"), list(state_machine.TRANSITIONS))
def test_an_end_by_another_supervisor_leaves_nothing_to_do(before: State, event: SessionEvent) -> None:
    """An event that was allowed is not refused because another supervisor was faster: it is dropped where that one
    closed the session, and goes on from the new state otherwise."""
    for now in State:
        if now is State.UNKNOWN or (before.is_closed and now is not before):
            continue
        is_dropped = state_machine.was_closed_meanwhile(now, event)
        assert is_dropped == ((now, event) not in state_machine.TRANSITIONS)


@pytest.mark.parametrize("requested", State)
def test_an_update_asks_for_states_in_which_a_session_is_open(requested: State) -> None:
    """The event leads to the state from each state that is not final; other states are no valid update."""
    update = control_pb2.UpdateSession(request_id="r", identity="run", state=requested.value)
    if requested not in state_machine.REQUESTED_EVENTS:
        with pytest.raises(errors.BadMessage):
            messages.check(update)
        return
    messages.check(update)
    event = state_machine.REQUESTED_EVENTS[requested]
    assert {state_machine.transition(state, event).state for state in state_machine.INITIAL_STATES} == {requested}


@pytest.mark.parametrize("state", State)
def test_a_session_begins_in_a_state_that_is_not_final(state: State) -> None:
    """Waiting or open; it can't begin at its end, nor in a state that nobody knows."""
    if state in (State.WAITING, State.OPEN):
        state_machine.check_initial(state)
        return
    with pytest.raises(errors.BadSessionJson):
        state_machine.check_initial(state)


@given(gate=st.none() | st.sampled_from(Gate), effects=st.lists(st.sampled_from(Effect)))
def test_a_gate_is_never_opened_again(gate: Gate | None, effects: list[Effect]) -> None:
    """Effects in any order and number only ever shut it: a writer that was refused stays refused."""
    order = [Gate.OPEN, Gate.SEALED, Gate.FINISHED]
    for effect in effects:
        after = state_machine.GATE_EFFECTS.get((gate, effect), gate)
        if gate is not None:
            assert after is not None
            assert order.index(after) >= order.index(gate)
        else:
            assert after is not Gate.OPEN
        gate = after


@pytest.mark.parametrize("event", ENDINGS)
@pytest.mark.parametrize("gate", [None, *Gate])
def test_an_end_finishes_the_gate_however_often_it_is_repeated(gate: Gate | None, event: SessionEvent) -> None:
    """A supervisor that is killed within an end is followed by one that does all effects again."""
    effects = state_machine.transition(State.OPEN, event).effects
    for killed_after in range(len(effects) + 1):
        after = gate
        for effect in (*effects[:killed_after], *effects):
            after = state_machine.GATE_EFFECTS.get((after, effect), after)
        assert after is Gate.FINISHED
