"""Errors that cross processes: pickled, in replies, and of a newer version."""

import pickle

import pytest

from rta_wire import errors
from rta_wire.control import messages


def test_an_error_crosses_processes() -> None:
    """Spark pickles errors; a reply names them."""
    error = errors.SessionClosed(identity="a", state="closed")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (type(again), str(again), again.facts) == (errors.SessionClosed, str(error), error.facts)
    raw = messages.pack_reply("r", errors.NoSupervisor(url="u", prefix="p"))
    with pytest.raises(errors.NoSupervisor, match="against u") as caught:
        messages.unpack_reply(raw)
    assert caught.value.retriable


def test_an_error_of_a_newer_supervisor_is_still_an_error() -> None:
    """A code that we do not know keeps its sentence."""
    assert str(errors.from_reply("Novel", "Something new.", retriable=False)) == "Something new."
