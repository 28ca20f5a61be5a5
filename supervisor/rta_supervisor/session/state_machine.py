"""The life of a session as a table: (state, event) -> (state, effects). Pure: decides, does nothing.

Effects stand in the order in which they have to happen. Each may be repeated: a supervisor that is killed between two
of them is followed by one that does all of them again.
"""

import enum
from typing import Final, NamedTuple

from rta_wire import errors
from rta_wire.session import State


class Event(enum.StrEnum):
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

    SHOW = "show"
    """Show readers the time range."""

    PUT_JSON = "put_json"
    """Write the new state and JSON."""

    STREAM_JSON = "stream_json"
    """Put the JSON into the stream."""

    FINISH = "finish"
    """Put the JSON into the stream as the session's last entry, once."""


class Step(NamedTuple):
    """Where an event leads, and how."""

    state: State
    effects: tuple[Effect, ...]


_CHANGE: Final = (Effect.PUT_JSON, Effect.STREAM_JSON)
_END: Final = (Effect.SEAL, Effect.SHOW, Effect.PUT_JSON, Effect.FINISH)
_LIVE: Final = (State.WAITING, State.OPEN)
ENDINGS: Final = {
    State.CLOSED: Event.CLOSE,
    State.TRUNCATED: Event.TRUNCATE,
    State.FAILED: Event.FAIL,
    State.ABANDONED: Event.ABANDON,
}

TRANSITIONS: Final[dict[tuple[State, Event], Step]] = {
    (State.OPEN, Event.PAUSE): Step(State.WAITING, _CHANGE),
    (State.WAITING, Event.PAUSE): Step(State.WAITING, ()),
    (State.WAITING, Event.RESUME): Step(State.OPEN, _CHANGE),
    (State.OPEN, Event.RESUME): Step(State.OPEN, ()),
    # Metadata may change at any time, even after closing; the state may not.
    **{(state, Event.DESCRIBE): Step(state, _CHANGE) for state in (*_LIVE, *ENDINGS)},
    **{(state, event): Step(ended, _END) for state in _LIVE for ended, event in ENDINGS.items()},
}


def step(state: State, event: Event) -> Step:
    """What an event does to a session. Closed is final."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise errors.NoSuchTransition(state=state.value, event=event.value) from None


def ending(asked: State, *, complete: bool) -> Event:
    """What a request to close amounts to: one that misses data can't end as plainly closed."""
    event = ENDINGS[asked]
    return Event.TRUNCATE if event is Event.CLOSE and not complete else event
