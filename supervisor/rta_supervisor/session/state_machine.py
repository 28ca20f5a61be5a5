"""All rules of a session's life: what an event does in each state, in which order, and what becomes of the gate. Pure.

A transition lists its effects in the order in which they have to happen; `effects` brings them about. Each may be
repeated: a supervisor that is killed between two of them is followed by one that does all of them again.
"""

import enum
from typing import Final, NamedTuple

from rta_wire import errors
from rta_wire.session import State


class SessionEvent(enum.StrEnum):
    """What can happen to a session. The values complete "A session that is closed can't ..."."""

    DESCRIBE = "be described anew"
    PAUSE = "pause"
    RESUME = "resume"
    CLOSE = "close"
    TRUNCATE = "be truncated"
    FAIL = "fail"
    ABANDON = "be abandoned"


class Effect(enum.StrEnum):
    """A change in Redis."""

    SEAL = "seal"
    """Shut the gate, so that no burst is taken any more, and fold the marks of what was taken."""

    PUBLISH_TIME_RANGE = "publish_time_range"
    """Publish the time range in the hash and in the stream."""

    PUT_JSON = "put_json"
    """Write the new state and JSON into the hash."""

    PUBLISH_JSON = "publish_json"
    """Publish the JSON in the stream."""

    PUBLISH_END = "publish_end"
    """Publish the JSON in the stream as the session's last entry, once."""


class Transition(NamedTuple):
    """The state to which an event leads, and the effects that lead there."""

    state: State
    effects: tuple[Effect, ...]


INITIAL_STATES: Final = (State.WAITING, State.OPEN)
"""States in which a session can begin, and which are not final."""

REQUESTED_EVENTS: Final = {State.WAITING: SessionEvent.PAUSE, State.OPEN: SessionEvent.RESUME}
"""The event of an update that asks for a state."""

CLOSING_EVENTS: Final = {
    State.CLOSED: SessionEvent.CLOSE,
    State.TRUNCATED: SessionEvent.TRUNCATE,
    State.FAILED: SessionEvent.FAIL,
    State.ABANDONED: SessionEvent.ABANDON,
}
"""The event that leads to each final state."""

_CHANGE: Final = (Effect.PUT_JSON, Effect.PUBLISH_JSON)
_END: Final = (Effect.SEAL, Effect.PUBLISH_TIME_RANGE, Effect.PUT_JSON, Effect.PUBLISH_END)

TRANSITIONS: Final[dict[tuple[State, SessionEvent], Transition]] = {
    (State.OPEN, SessionEvent.PAUSE): Transition(State.WAITING, _CHANGE),
    (State.WAITING, SessionEvent.PAUSE): Transition(State.WAITING, ()),
    (State.WAITING, SessionEvent.RESUME): Transition(State.OPEN, _CHANGE),
    (State.OPEN, SessionEvent.RESUME): Transition(State.OPEN, ()),
    # Metadata may change at any time, even after closing; the state may not.
    **{(state, SessionEvent.DESCRIBE): Transition(state, _CHANGE) for state in (*INITIAL_STATES, *CLOSING_EVENTS)},
    **{(state, event): Transition(final, _END) for state in INITIAL_STATES for final, event in CLOSING_EVENTS.items()},
}


class Gate(enum.StrEnum):
    """Whether bursts of a session are taken: the value of the key `gate`, which writers watch."""

    OPEN = "open"
    SEALED = "sealed"
    """Closing: no burst is taken any more, and the last entry is still to come."""

    FINISHED = "finished"
    """The last entry is in the stream."""


GATE_EFFECTS: Final[dict[tuple[Gate | None, Effect], Gate]] = {
    (Gate.OPEN, Effect.SEAL): Gate.SEALED,
    (Gate.SEALED, Effect.SEAL): Gate.SEALED,
    (Gate.FINISHED, Effect.SEAL): Gate.FINISHED,
    # A gate that Redis lost is made anew, and shut: no writer may go on.
    (None, Effect.SEAL): Gate.SEALED,
    (Gate.OPEN, Effect.PUBLISH_END): Gate.FINISHED,
    (Gate.SEALED, Effect.PUBLISH_END): Gate.FINISHED,
    (Gate.FINISHED, Effect.PUBLISH_END): Gate.FINISHED,
}
"""What effects do to the gate, where None means that there is no key. No other pair changes it. Only the publication of
an opening makes a gate that is open. `stream.lua` does all of this in Redis."""


def check_initial(state: State) -> None:
    """Refuse a session that would begin in a final state."""
    if state not in INITIAL_STATES:
        raise errors.BadSessionJson(where="$.state", reason=f"a session can't begin as {state}")


def transition(state: State, event: SessionEvent, *, is_stale: bool = False) -> Transition:
    """What an event does to a session in a state. Raises `NoSuchTransition` where it is not allowed.

    `is_stale`: the event comes from a request that a newer one has overtaken, or that another supervisor has applied,
    perhaps without publishing it. It changes nothing, and the JSON as it stands is published.
    """
    try:
        step = TRANSITIONS[state, event]
    except KeyError:
        raise errors.NoSuchTransition(state=state.value, event=event.value) from None
    return Transition(state, (Effect.PUBLISH_JSON,)) if is_stale else step


def closing_event(requested: State, *, is_complete: bool) -> SessionEvent:
    """The event of a request that a session ends as `requested`. `is_complete`: all expected data has arrived."""
    return after_loss(CLOSING_EVENTS[requested], has_loss=not is_complete)


def after_loss(event: SessionEvent, *, has_loss: bool) -> SessionEvent:
    """The event that ends a session of which data is lost: truncated takes the place of closed. Other ends stay."""
    return SessionEvent.TRUNCATE if has_loss and event is SessionEvent.CLOSE else event


def state_after_loss(state: State) -> State:
    """The final state of a session of which not everything could be counted: truncated takes the place of closed."""
    return State.TRUNCATED if state is State.CLOSED else state


def waits_for_data(*, is_complete: bool, is_within_grace: bool) -> bool:
    """Whether a close waits for data that is expected and missing."""
    return not is_complete and is_within_grace


def was_closed_meanwhile(now: State, event: SessionEvent) -> bool:
    """Whether an event has nothing left to do because another supervisor has closed the session since the event was
    allowed: the first end counts. A description can still be applied."""
    return now.is_closed and event is not SessionEvent.DESCRIBE
