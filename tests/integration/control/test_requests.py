"""Requests that wait and requests that are cancelled."""

import threading
from typing import Any

import pytest
import redis

import rta_writers
from rta_wire import errors
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from tests.support import supervisors
from tests.support.control import document, fields
from tests.support.waiting import wait_until


def test_waiting_for_a_state(sessions: rta_writers.SessionClient) -> None:
    """`wait` returns when the state comes, at once where it is there, and says what it found where it never comes."""
    waiter = threading.Thread(target=sessions.wait, args=("run-1", "closed"), kwargs={"timeout_s": 20})
    waiter.start()
    session = sessions.session("run-1", stream="rig")
    sessions.wait("run-1", "open", timeout_s=5)
    with pytest.raises(errors.NotInTime, match="is open, and was not waiting"):
        sessions.wait("run-1", "waiting", timeout_s=0.1)
    session.close()
    waiter.join(10)
    assert not waiter.is_alive()
    with pytest.raises(errors.SessionClosed):
        sessions.wait("run-1", "open", timeout_s=5)
    with pytest.raises(errors.NotInTime, match="unknown"):
        sessions.wait("nobody", "open", timeout_s=0.1)


def test_cancelling_after_pickup(url: str, client: redis.Redis) -> None:
    """A close that waits for data is taken back: the session stays open and whoever waited is told."""
    with supervisors.running(url, {"RTA_SESSION__CLOSE_GRACE_S": "60"}):
        sessions = rta_writers.SessionClient(url)
        session = sessions.session("run-1", stream="rig")
        outcome: list[Exception] = []

        def close() -> None:
            try:
                sessions.close("run-1", expected=Totals(bursts=1), request_id="to-cancel")
            except errors.RtaError as error:
                outcome.append(error)

        closer = threading.Thread(target=close)
        closer.start()
        pending: Any = wait_until(
            lambda: client.xpending("rtas:req:default", "supervisors")["pending"],
            what="the close being picked up",
        )
        assert pending == 1
        sessions.cancel("to-cancel")
        closer.join(10)
        assert [type(error) for error in outcome] == [errors.RequestCancelled]
        wait_until(lambda: client.xlen("rtas:req:default") == 0, what="an empty control stream")
        assert document(client, "run-1")["state"] == "open"
        with pytest.raises(errors.RequestAnswered):
            sessions.cancel("to-cancel")
        session.close()


def test_cancelling_before_pickup(url: str, client: redis.Redis) -> None:
    """A request and its cancellation that both wait for a supervisor: nothing is done."""
    open_ = control_pb2.OpenSession(request_id="o", identity="run-1", stream="rig", session_json="{}")
    client.xadd("rtas:req:default", {"m": messages.pack(open_)})
    cancel = control_pb2.CancelRequest(request_id="c", target_request_id="o")
    client.xadd("rtas:req:default", {"m": messages.pack(cancel)})
    with supervisors.running(url):
        wait_until(lambda: client.xlen("rtas:req:default") == 0, what="an empty control stream")
        answer: Any = client.lrange("rtas:reply:o", 0, -1)
        with pytest.raises(errors.RequestCancelled):
            messages.unpack_reply(answer[0])
    assert fields(client, "run-1") == {}
