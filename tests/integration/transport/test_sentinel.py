"""Sentinels promote a replica that lagged: everybody follows, and what was lost is reported."""

import contextlib
import datetime
import time
from collections.abc import Iterator

import pytest

import rta_writers
from rta_wire import errors
from rta_writers.connection import redis_client
from rta_writers.write.delivery.exactly_once import ExactlyOnceAppender
from tests.support import samples, sentinels, supervisors
from tests.support.control import document, folded, progress, send, write
from tests.support.waiting import wait_until

STEADY = {"RTA_NODE__BEAT_S": "1.0", "RTA_CATALOGUE__FLUSH_S": "1.0"}
"""The values of production: with the quick settings of other tests a loss would be found sooner."""


@pytest.fixture
def watched() -> Iterator[sentinels.Watched]:
    with sentinels.running() as running:
        yield running


@pytest.mark.timeout(180)
def test_a_failover_that_loses_acknowledged_writes_is_reported(watched: sentinels.Watched) -> None:
    """Within two seconds of the promotion the session is marked, and its writer is refused."""
    with (
        supervisors.running(watched.url, STEADY) as watching,
        contextlib.closing(redis_client.connect(watched.url)) as client,
    ):
        sessions = rta_writers.SessionClient(watched.url, timeout_s=60)
        session = sessions.session("run-1", stream="rig")
        other = sessions.session("spared", stream="other")
        write(client, session, 5)
        write(client, other, 5)
        appender = ExactlyOnceAppender(client, session.target, unit="v", epoch=0)
        appender.append(4, lambda skip: samples.bursts(4 - skip, first=10 + skip))
        appender.flush()
        assert client.wait(1, 10_000) == 1
        watched.between.cut()
        appender.append(6, lambda skip: samples.bursts(6 - skip, first=14 + skip))
        totals = appender.totals()
        send(client, progress(session, "v", totals))
        wait_until(lambda: folded(client, "run-1").samples == 15, what="the report")
        watched.master.kill()
        wait_until(lambda: watched.replica_role() == "master", timeout_s=60, what="the promotion")
        promoted_s = time.time()
        loss = watching.wait_for_event("redis_lost_data")
        noticed_s = datetime.datetime.fromisoformat(str(loss["timestamp"])).timestamp()
        assert noticed_s - promoted_s < 2
        event = watching.wait_for_event("session_lost_data")
        assert event["session"] == "run-1"
        assert [event["session"] for event in watching.events("session_lost_data")] == ["run-1"]
        with pytest.raises(errors.AppendGap):
            append_more(appender)
        appender.close()
        assert session.close().state == "truncated"
        assert other.close().state == "closed"
        assert document(client, "run-1")["state"] == "truncated"


def append_more(appender: ExactlyOnceAppender) -> None:
    appender.append(1, lambda _: samples.bursts(1, first=20))
    appender.flush()
