"""The life of a session as a table. Pure: decides, does nothing."""

import enum
from typing import Final

from rta_wire import errors
from rta_wire.session import State


class Event(enum.StrEnum):
    """What can happen to a session."""

    CLOSE = "close"
    TRUNCATE = "be truncated"
    FAIL = "fail"
    ABANDON = "be abandoned"


TRANSITIONS: Final = {
    (state, event): after
    for state in (State.WAITING, State.OPEN)
    for event, after in (
        (Event.CLOSE, State.CLOSED),
        (Event.TRUNCATE, State.TRUNCATED),
        (Event.FAIL, State.FAILED),
        (Event.ABANDON, State.ABANDONED),
    )
}

_ENDINGS: Final = {
    State.CLOSED: Event.CLOSE,
    State.TRUNCATED: Event.TRUNCATE,
    State.FAILED: Event.FAIL,
    State.ABANDONED: Event.ABANDON,
}


def after(state: State, event: Event) -> State:
    """Where an event leads. Closed is final."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise errors.NoSuchTransition(state=state.value, event=event.value) from None


def ending(asked: State, *, complete: bool) -> Event:
    """What a request to close amounts to: one that misses data can't end as plainly closed."""
    event = _ENDINGS[asked]
    return Event.TRUNCATE if event is Event.CLOSE and not complete else event
