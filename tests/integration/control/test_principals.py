"""Who may do what to whose session: the control stream that a message came from decides."""

from collections.abc import Iterator

import pytest
import redis

import rta_writers
from rta_wire import errors
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from tests.support import control as support
from tests.support import samples, supervisors
from tests.support.waiting import wait_until

TWO = {
    "RTA_CONTROL__PRINCIPALS": '["alice", "bob"]',
    "RTA_SESSION__WRITER_SILENT_S": "2",
    "RTA_CONTROL__STREAM_PREFIXES__BOB": "bob.",
}
FAR = Totals(7, 7, 7, 7, samples.START_NS, samples.START_NS + 7)


@pytest.fixture
def daemon(url: str) -> Iterator[supervisors.Supervisor]:
    with supervisors.running(url, TWO) as running:
        yield running


def progress(session: rta_writers.Session, unit: str, totals: Totals) -> bytes:
    return messages.pack(support.progress(session, unit, totals))


def test_nobody_changes_the_session_of_another(
    alice: rta_writers.SessionClient, bob: rta_writers.SessionClient
) -> None:
    """Close, update, pause and open again are each refused, and the session is as it was."""
    session = alice.open("run", stream="rig")
    for attempt in (
        lambda: bob.close("run"),
        lambda: bob.update("run", identifier="mine now"),
        lambda: bob.update("run", state="waiting"),
    ):
        with pytest.raises(errors.SessionConflict, match="'alice', not 'bob'"):
            attempt()
    assert session.close().state == "closed"
    with pytest.raises(errors.SessionConflict):
        bob.update("run", identifier="mine now")


def test_reports_about_the_session_of_another_are_refused(
    client: redis.Redis, alice: rta_writers.SessionClient
) -> None:
    """Progress and heartbeats by somebody else change nothing and go to the dead letters with their reason."""
    session = alice.open("run", stream="rig")
    heartbeat = messages.pack(control_pb2.Heartbeat(identity="run", stream_session_id=session.target.stream_session_id))
    pipe = client.pipeline(transaction=True)
    # In one batch with a good report of the same unit: they must not be joined.
    pipe.xadd("rtas:ctl:alice", {"m": progress(session, "u", Totals(1, 1, 1, 1, samples.START_NS, samples.START_NS))})
    pipe.xadd("rtas:ctl:bob", {"m": progress(session, "u", FAR)})
    pipe.xadd("rtas:ctl:bob", {"m": heartbeat})
    pipe.execute()
    letter = wait_until(lambda: support.dead_letters(client), what="a dead letter")[0]
    assert letter[b"source"] == b"rtas:ctl:bob"
    assert letter[b"code"] == b"SessionConflict"
    assert b"'alice', not 'bob'" in letter[b"reason"]
    wait_until(lambda: support.fields(client, "run").get("tEnd"), what="alice's report")
    assert support.folded(client, "run").samples == 1
    assert support.fields(client, "run")["tEnd"] == str(samples.START_NS)
    session.close()


def test_heartbeats_of_another_keep_no_session_alive(
    client: redis.Redis, alice: rta_writers.SessionClient, daemon: supervisors.Supervisor
) -> None:
    """A session whose own writer is silent is abandoned, however much somebody else speaks for it."""
    session = alice.open("run", stream="rig")
    message = control_pb2.Heartbeat(identity="run", stream_session_id=session.target.stream_session_id)

    def is_abandoned() -> bool:
        client.xadd("rtas:ctl:bob", {"m": messages.pack(message)})
        return bool(daemon.events("writer_silent"))

    wait_until(is_abandoned, what="an abandoned session")


def test_sessions_begin_in_streams_of_ones_own(
    bob: rta_writers.SessionClient, alice: rta_writers.SessionClient
) -> None:
    """Where the settings say what a principal's streams are called, others are refused."""
    with pytest.raises(errors.ForeignStream, match=r"'rig': its streams begin with 'bob\.'"):
        bob.open("run", stream="rig")
    bob.open("run", stream="bob.rig").close()
    alice.open("other", stream="rig").close()


def test_an_external_id_never_gives_the_session_of_another(
    client: redis.Redis, alice: rta_writers.SessionClient, bob: rta_writers.SessionClient
) -> None:
    """Bob opens alice's identity with an external id, is refused, and opens another with it: his samples are his."""
    theirs = alice.open("run", stream="bob.rig")
    with pytest.raises(errors.SessionConflict, match="'alice', not 'bob'"):
        bob.open("run", stream="bob.rig", external_id="job")
    mine = bob.open("run-2", stream="bob.rig", external_id="job")
    assert mine.identity == "run-2"
    with rta_writers.BurstWriter(mine.options) as writer:
        writer.samples([1] * 1000, [samples.START_NS + at for at in range(1000)], [0.5] * 1000)
    assert (mine.close().totals.samples, theirs.close().totals.samples) == (1000, 0)
    assert support.folded(client, "run").samples == 0
    with pytest.raises(errors.ExternalIdEnded, match="'run-2', which is closed, and is taken for another"):
        bob.open("run-3", stream="bob.rig", external_id="job")
    assert alice.open("run-4", stream="rig", external_id="job").identity == "run-4"
    with pytest.raises(errors.UnknownExternalId, match="principal 'bob'"):
        bob.update(external_id="unknown")
