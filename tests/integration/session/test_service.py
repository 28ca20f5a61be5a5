"""Updates, pauses, external ids and implausible reports, on a running supervisor."""

import threading
from typing import Any

import pytest
import redis

import rta_writers
from rta_supervisor.transport.link import Link
from rta_wire import errors
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from tests.support import samples, supervisors
from tests.support.control import dead_letters, document, fields, progress, send, write
from tests.support.session_values import control_entry
from tests.support.supervisor_parts import opened
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until


def test_properties_are_merged_and_streamed(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """An update replaces what it names, takes away what it sets to None and keeps the rest, unknown ones included."""
    session = sessions.session("run-1", stream="rig", details={"a": 1}, group="g", vendor={"x": [1]})
    session.update(details={"b": 2}, group=None, quality=0.5)
    properties = document(client, "run-1")
    assert (properties["details"], properties["quality"], properties["vendor"]) == ({"b": 2}, 0.5, {"x": [1]})
    assert "group" not in properties
    order = samples.kinds(client, "rig", session.target.stream_session_id)
    assert order == ["session_json", "session_json"]
    last = samples.messages(client, "rig")[-1][1].data[0].session_json
    assert last == fields(client, "run-1")["json"]
    session.close()


def test_a_late_update_changes_nothing_that_a_newer_one_set(
    client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """Updates are ordered by their place in the control stream, however late they are handled."""
    session = sessions.session("run-1", stream="rig")
    session.update(group="new")
    late = control_pb2.UpdateSession(
        request_id="late", identity="run-1", properties_json='{"group": "old", "type": "only here"}'
    )
    # As after a fail-over to a server whose clock is behind: the stream begins anew with lower ids.
    client.delete("rtas:req:default")
    now: Any = client.time()
    early_id = f"{(now[0] - 60) * 1000}-0"
    client.execute_command("XADD", "rtas:req:default", early_id, "m", messages.pack(late))
    wait_until(lambda: client.exists("rtas:reply:late"), what="the reply")
    properties = document(client, "run-1")
    assert (properties["group"], properties["type"]) == ("new", "only here")
    session.close()


@pytest.mark.parametrize(
    ("properties", "where"),
    [
        ('{"state": "closed"}', "state"),
        ('{"identity": "x"}', "identity"),
        ('{"timeRange": {}}', "timeRange"),
        ('{"quality": 7}', "quality"),
        ('{"identifier": null}', "identifier"),
        ("[]", "not an object"),
        ('{"a": NaN}', "NaN"),
    ],
)
def test_an_update_that_breaks_the_json_is_refused(
    client: redis.Redis, sessions: rta_writers.SessionClient, properties: str, where: str
) -> None:
    """What the supervisor owns, and what the protocol forbids, can't be set; nothing changes."""
    sessions.session("run-1", stream="rig")
    before = fields(client, "run-1")["json"]
    request = control_pb2.UpdateSession(
        request_id=messages.new_request_id(), identity="run-1", properties_json=properties
    )
    with pytest.raises(errors.BadSessionJson, match=where):
        sessions.ask(request)
    assert fields(client, "run-1")["json"] == before
    sessions.close("run-1")


def test_metadata_may_change_after_closing_and_the_state_may_not(
    client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """A closed session can get a better name; it can't be paused or opened."""
    session = sessions.session("run-1", stream="rig")
    session.close()
    assert sessions.update("run-1", identifier="Better name") == "closed"
    properties = document(client, "run-1")
    assert (properties["identifier"], properties["state"]) == ("Better name", "closed")
    for state in ("waiting", "open"):
        with pytest.raises(errors.NoSuchTransition, match="closed"):
            sessions.update("run-1", state=state)
    assert samples.kinds(client, "rig", session.target.stream_session_id)[-1] == "session_json"


def test_pause_and_resume(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """Waiting and open, as often as one likes; repeating one changes nothing."""
    session = sessions.session("run-1", stream="rig")
    for step, state in ((session.pause, "waiting"), (session.pause, "waiting"), (session.resume, "open")):
        step()
        assert document(client, "run-1")["state"] == state
    assert len(samples.kinds(client, "rig", session.target.stream_session_id)) == 3
    write(client, session, 1)
    session.pause()
    assert session.close().state == "closed"


def test_a_session_may_begin_as_waiting(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """Acquisition is starting; but nothing begins as closed."""
    session = sessions.session("run-1", stream="rig", state="waiting")
    assert document(client, "run-1")["state"] == "waiting"
    session.close()
    with pytest.raises(errors.BadSessionJson, match="can't begin as closed"):
        sessions.session("run-2", stream="rig", state="closed")


def test_an_external_id_gives_the_first_session_again(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """Whatever identity comes with it later; another external id is another session."""
    first = sessions.session("run-1", stream="rig", external_id="job 7")
    again = sessions.session("run-2", stream="rig", external_id="job 7")
    assert (again.identity, again.target.stream_session_id) == ("run-1", first.target.stream_session_id)
    assert fields(client, "run-2") == {}
    assert sessions.session("run-3", stream="rig", external_id="job 8").identity == "run-3"
    assert 0 < int(str(client.ttl("rtas:ext:default:job 7"))) <= 2 * 24 * 3600
    for identity in ("run-1", "run-3"):
        sessions.close(identity)


def test_a_session_is_updated_waited_for_and_closed_by_its_external_id(
    client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """Wherever an identity works, and never in place of one."""
    sessions.session("run-1", stream="rig", external_id="job 7")
    sessions.update(external_id="job 7", group="g")
    assert document(client, "run-1")["group"] == "g"
    with pytest.raises(errors.UnknownSession):
        sessions.update("job 7", group="h")
    sessions.wait(state="open", external_id="job 7", timeout_s=5)
    assert sessions.close(external_id="job 7").identity == "run-1"
    assert sessions.update(external_id="job 7", identifier="Better name") == "closed"
    with pytest.raises(errors.UnknownExternalId, match="'job 8' of principal 'default'"):
        sessions.close(external_id="job 8")
    with pytest.raises(errors.Usage, match="say one of them"):
        sessions.close()
    with pytest.raises(errors.Usage, match="say one of them"):
        sessions.close("run-1", external_id="job 7")
    for wrong in ("", "a\n", "x" * 300):
        with pytest.raises(errors.BadName, match="External id"):
            sessions.update(external_id=wrong)
    for wrong_type in (b"job 7", 7):
        with pytest.raises(errors.Usage, match="external_id"):
            sessions.update(external_id=wrong_type)  # type: ignore[arg-type]


def test_an_older_supervisor_that_knows_no_external_ids_in_requests(url: str, client: redis.Redis) -> None:
    """It refuses the empty identity: the client says what that means."""
    client.zadd("rtas:nodes", {"old": 2**50})
    client.hset("rtas:node:old", mapping={"version": "0.1.0", "seenMs": 1})
    client.expire("rtas:node:old", 60)

    def answer() -> None:
        entries: Any = wait_until(lambda: client.xrange("rtas:req:default"), what="the request")
        request = messages.unpack(entries[0][1][b"m"])
        assert isinstance(request, control_pb2.UpdateSession)
        refusal = errors.BadName(
            what="Identity", value=request.identity, reason="it has 0 bytes of UTF-8, not 1 to 256"
        )
        key = f"rtas:reply:{request.request_id}"
        client.rpush(key, messages.pack_reply(request.request_id, refusal))
        client.expire(key, 60)

    thread = threading.Thread(target=answer)
    thread.start()
    with pytest.raises(errors.ExternalIdUnsupported, match="older than this program"):
        rta_writers.SessionClient(url, timeout_s=20).close(external_id="job")
    thread.join()
    client.flushdb()


def test_implausible_reports_change_nothing(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """Times before 1970 or far ahead, and totals that fall, go to the dead letters: a maximum can't be undone."""
    session = sessions.session("run-1", stream="rig")
    send(client, progress(session, "u", Totals(5, 50, 500, 50, 10, 20)))
    wait_until(lambda: fields(client, "run-1").get("tEnd") == "20", what="the first report")
    send(client, progress(session, "u", Totals(6, 60, 600, 60, -5, 20)))
    send(client, progress(session, "u", Totals(6, 60, 600, 60, 10, 2**62)))
    send(client, progress(session, "u", Totals(6, 40, 600, 60, 10, 20)))
    wait_until(lambda: len(dead_letters(client)) == 3, what="three dead letters")
    assert {entry[b"code"] for entry in dead_letters(client)} == {b"ImplausibleReport"}
    ended = session.close()
    assert (ended.totals.samples, fields(client, "run-1")["tEnd"]) == (50, "20")


def test_a_session_is_in_the_catalogue_before_it_may_go(url: str, client: redis.Redis, tmp_path: Any) -> None:
    """While the catalogue can't be written a closed session keeps its long life; afterwards it gets its short one."""
    path = tmp_path / "missing" / "catalogue.sqlite"
    with supervisors.running(url, {"RTA_CATALOGUE__PATH": str(path)}) as supervisor:
        sessions = rta_writers.SessionClient(url)
        sessions.session("run-1", stream="rig").close()
        supervisor.wait_for_event("catalogue_behind")
        assert int(str(client.ttl("sessions:run-1"))) > 24 * 3600
        path.parent.mkdir()
        wait_until(lambda: int(str(client.ttl("sessions:run-1"))) <= 24 * 3600, what="the short life")
        supervisor.wait_for_event("catalogue_caught_up")
        wait_until(lambda: client.zcard("rtas:idx") == 0, what="an empty index")


def test_truncated_says_what_is_missing(
    client: redis.Redis, sessions: rta_writers.SessionClient, supervisor: Supervisor
) -> None:
    """In the reply and in the log."""
    session = sessions.session("run-1", stream="rig")
    write(client, session, 2)
    ended = session.close(expected=Totals(bursts=5, samples=9))
    assert ended.missing == Totals(bursts=3, samples=7)
    event = supervisor.wait_for_event("session_closed")
    assert (event["state"], event["missing_samples"]) == ("truncated", 7)


async def test_a_pause_that_comes_late_does_not_undo_a_resume(link: Link, client: redis.Redis) -> None:
    """Pauses and resumes are ordered as they were asked for, however late they are handled."""
    _, service = await opened(link)

    async def change(state: str, entry_id: str) -> None:
        request = control_pb2.UpdateSession(identity="run-1", state=state)
        await service.update(control_entry(entry_id=entry_id), request)

    await change("waiting", "1-0")
    await change("open", "3-0")
    entries = client.xlen("stream:rig")
    await change("waiting", "1-0")
    await change("waiting", "2-0")
    assert document(client, "run-1")["state"] == "open"
    assert client.xlen("stream:rig") == entries, "and tells nobody"
    await change("waiting", "4-0")
    assert document(client, "run-1")["state"] == "waiting"
