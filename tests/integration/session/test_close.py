"""Closing sessions: endings, what a close waits for, missing data, and that closed is final."""

import threading

import pytest
import redis

import rta_writers
from rta_wire import errors
from rta_wire.control.totals import Totals
from tests.support import samples
from tests.support.control import document, fields, progress, send, write


def test_marks_count_even_where_no_report_came(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """A task that died between its append and its report still shows in the totals and the time range."""
    session = sessions.session("run-1", stream="rig")
    write(client, session, 5, report=False)
    assert session.close().totals.samples == 5
    assert fields(client, "run-1")["tEnd"] == str(samples.START_NS + 4)


@pytest.mark.parametrize("requested", ["failed", "abandoned", "truncated"])
def test_other_endings(client: redis.Redis, sessions: rta_writers.SessionClient, requested: str) -> None:
    """A writer may say that the session did not end well."""
    assert sessions.session("run-1", stream="rig").close(state=requested).state == requested
    assert document(client, "run-1")["state"] == requested


def test_a_block_that_raises_fails_the_session(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """The error goes on its way and the session says that it failed."""
    with pytest.raises(ZeroDivisionError), sessions.session("run-1", stream="rig"):
        _ = 1 / 0
    assert document(client, "run-1")["state"] == "failed"


def test_a_close_waits_for_what_it_expects(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """The barrier opens when the last burst has arrived."""
    session = sessions.session("run-1", stream="rig")
    total = write(client, session, 2)
    late = threading.Thread(target=write, args=(client, session, 3), kwargs={"unit": "late"})
    late.start()
    ended = session.close(expected=Totals(bursts=5, samples=5))
    late.join()
    assert (ended.state, ended.totals.samples) == ("closed", 5)
    assert total.samples == 2


def test_missing_data_makes_it_truncated(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """After the grace period the session says that it is not complete."""
    session = sessions.session("run-1", stream="rig")
    write(client, session, 2)
    ended = session.close(expected=Totals(bursts=3, samples=3))
    assert (ended.state, ended.totals.samples) == ("truncated", 2)
    assert document(client, "run-1")["state"] == "truncated"


def test_closed_is_final(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """No opening again, no burst, no report changes a closed session; closing again tells how it ended."""
    session = sessions.session("run-1", stream="rig")
    write(client, session, 1)
    session.close()
    before = fields(client, "run-1")
    with pytest.raises(errors.SessionClosed):
        sessions.session("run-1", stream="rig")
    assert write(client, session, 1).samples == 1, "a retry of what stands there is no news"
    with pytest.raises(errors.SessionClosed):
        write(client, session, 2)
    send(client, progress(session, "u", Totals(9, 9, 9, 9, 1, 2**62)))
    assert sessions.close("run-1", state="failed").state == "closed"
    assert fields(client, "run-1") == before
    assert samples.kinds(client, "rig", session.target.stream_session_id)[-1] == "session_json"
