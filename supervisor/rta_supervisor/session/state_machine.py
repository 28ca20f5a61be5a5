"""The life of a session as a table: (state, event) -> (state, effects). Pure: decides, does nothing.

Effects stand in the order in which they have to happen. Each may be repeated: a supervisor that is killed between two
of them is followed by one that does all of them again.
"""

import enum
from typing import Final, NamedTuple

from rta_wire import errors
from rta_wire.session import State


class SessionEvent(enum.StrEnum):
    """What can happen to a session, in words that follow 'can't'."""

    DESCRIBE = "be described anew"
    PAUSE = "pause"
    RESUME = "resume"
    CLOSE = "close"
    TRUNCATE = "be truncated"
    FAIL = "fail"
    ABANDON = "be abandoned"


class Effect(enum.StrEnum):
    """What has to happen in Redis."""

    SEAL = "seal"
    """Shut the gate: no burst gets in any more. Count what got in."""

    PUBLISH_TIME_RANGE = "show"
    """Show readers the time range."""

    PUT_JSON = "put_json"
    """Write the new state and JSON."""

    PUBLISH_JSON = "stream_json"
    """Put the JSON into the stream."""

    PUBLISH_END = "finish"
    """Put the JSON into the stream as the session's last entry, once."""


class Transition(NamedTuple):
    """Where an event leads, and how."""

    state: State
    effects: tuple[Effect, ...]


_CHANGE: Final = (Effect.PUT_JSON, Effect.PUBLISH_JSON)
_END: Final = (Effect.SEAL, Effect.PUBLISH_TIME_RANGE, Effect.PUT_JSON, Effect.PUBLISH_END)
_LIVE: Final = (State.WAITING, State.OPEN)
CLOSING_EVENTS: Final = {
    State.CLOSED: SessionEvent.CLOSE,
    State.TRUNCATED: SessionEvent.TRUNCATE,
    State.FAILED: SessionEvent.FAIL,
    State.ABANDONED: SessionEvent.ABANDON,
}

TRANSITIONS: Final[dict[tuple[State, SessionEvent], Transition]] = {
    (State.OPEN, SessionEvent.PAUSE): Transition(State.WAITING, _CHANGE),
    (State.WAITING, SessionEvent.PAUSE): Transition(State.WAITING, ()),
    (State.WAITING, SessionEvent.RESUME): Transition(State.OPEN, _CHANGE),
    (State.OPEN, SessionEvent.RESUME): Transition(State.OPEN, ()),
    # Metadata may change at any time, even after closing; the state may not.
    **{(state, SessionEvent.DESCRIBE): Transition(state, _CHANGE) for state in (*_LIVE, *CLOSING_EVENTS)},
    **{(state, event): Transition(ended, _END) for state in _LIVE for ended, event in CLOSING_EVENTS.items()},
}


def transition(state: State, event: SessionEvent) -> Transition:
    """What an event does to a session. Closed is final."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise errors.NoSuchTransition(state=state.value, event=event.value) from None


def closing_event(asked: State, *, complete: bool) -> SessionEvent:
    """What a request to close amounts to: one that misses data can't end as plainly closed."""
    event = CLOSING_EVENTS[asked]
    return SessionEvent.TRUNCATE if event is SessionEvent.CLOSE and not complete else event
