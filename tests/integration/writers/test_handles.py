"""Handles of sessions, clients and groups: what they refuse by name, whatever Python itself would have said."""

import copy
import datetime as dt
import pickle

import pytest

import rta_writers
from rta_wire import errors


@pytest.mark.parametrize("name", ["identity", "external_id"])
def test_a_session_keeps_its_names(sessions: rta_writers.SessionClient, name: str) -> None:
    """An update that would change one of them says so. A property may be called as Python calls an argument."""
    with sessions.open("run", stream="rig", self="z") as session:
        with pytest.raises(errors.BadSessionJson, match=rf"at \$\.{name}: a session keeps the names"):
            session.update(**{name: "other"})
        session.update(self="x")
        sessions.update("run", self="y")


def test_handles_stay_in_their_process(sessions: rta_writers.SessionClient) -> None:
    """A function of Spark that has one of them in it fails with the sentence that says what to pass instead."""
    with sessions.open("run", stream="rig") as session, rta_writers.sessions(sessions, stream="rig") as group:
        for handle, instead in ((session, "session.options"), (group, "group.options"), (sessions, "in each task")):
            for call in (pickle.dumps, copy.deepcopy):
                with pytest.raises(errors.Usage, match=instead):
                    call(handle)


def test_sentences_about_states_and_times(sessions: rta_writers.SessionClient) -> None:
    """They name what is meant as a user writes it."""
    with pytest.raises(errors.Usage, match=r"Did you mean 'open'\?$"):
        sessions.list(state="opne")
    with pytest.raises(errors.Usage, match="it has to be a state, or several in a list"):
        sessions.list(state=5)  # type: ignore[arg-type]
    for wrong in (dt.date(2026, 11, 19), 0.5):
        with pytest.raises(errors.Usage, match=r"it has to be a date or a time .* or a datetime"):
            sessions.list(since=wrong)  # type: ignore[arg-type]
