"""Sessions that Redis forgot come back from the catalogue on request, of either kind; once, and as they were."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis

import rta_writers
from rta_supervisor.settings import settings
from rta_wire import errors
from rta_wire.control import messages
from rta_wire.pb import control_pb2
from tests.support import postgres, supervisors
from tests.support.commands import refused, run
from tests.support.control import document, fields, folded, write
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until

Config = settings.CatalogueSettings


@pytest.fixture
def environment(catalogue_settings: Config) -> dict[str, str]:
    return {**postgres.environment(catalogue_settings), "RTA_CATALOGUE__PROGRESS_FLUSH_S": "0.05"}


@pytest.fixture
def supervisor(url: str, environment: dict[str, str]) -> Iterator[Supervisor]:
    with supervisors.running(url, environment) as running:
        yield running


def put_away(client: redis.Redis, identity: str) -> None:
    wait_until(lambda: client.zscore("rtas:idx", identity) is None, what=f"{identity} in the catalogue")


def forget(client: redis.Redis, identity: str) -> None:
    """As Redis does once a session's time is over."""
    client.delete(f"sessions:{identity}", f"rtas:st:{{sessions:{identity}}}")


def ask(client: redis.Redis, identity: str, principal: str = "operator") -> control_pb2.SessionReply:
    request = control_pb2.ResurrectSession(request_id=messages.new_request_id(), identity=identity)
    client.xadd(f"rtas:req:{principal}", {"m": messages.pack(request)})
    raw: Any = wait_until(lambda: client.lrange(f"rtas:reply:{request.request_id}", 0, 0), what="a reply")
    return messages.unpack_reply(raw[0])


def ask_for(client: redis.Redis, identity: str, replies: list[control_pb2.SessionReply]) -> None:
    replies.append(ask(client, identity))


def test_a_closed_session_comes_back_as_it_was(
    url: str, client: redis.Redis, supervisor: Supervisor, sessions: rta_writers.SessionClient
) -> None:
    """Hash, JSON, times and totals; it may expire from its first moment on, and its stream is told nothing."""
    opened = sessions.session("run-1", stream="rig", details={"Rig": 4})
    end_ns = write(client, opened, 5).end_ns
    opened.close()
    put_away(client, "run-1")
    before = fields(client, "run-1")
    entries = client.xlen("stream:rig")
    forget(client, "run-1")
    output = run(url, "sessions", "resurrect", "run-1", "--json").json()
    assert (output["state"], output["was_there"], output["samples"]) == ("closed", False, 5)
    after = fields(client, "run-1")
    assert {**after, "lastUpdated": ""} == {**before, "lastUpdated": ""}
    assert after["tEnd"] == str(end_ns)
    assert document(client, "run-1")["state"] == "closed"
    for key in ("sessions:run-1", "rtas:st:{sessions:run-1}"):
        assert 0 < int(str(client.ttl(key))) <= 24 * 3600
    assert client.xlen("stream:rig") == entries
    assert client.zscore("rtas:idx", "run-1") is None
    event = supervisor.wait_for_event("session_resurrected")
    assert (event["session"], event["state"], event["by"]) == ("run-1", "closed", "operator")
    with pytest.raises(errors.SessionClosed):
        sessions.session("run-1", stream="rig")
    sessions.update("run-1", group="found again")
    wait_until(lambda: document(client, "run-1").get("group") == "found again", what="an update")


def test_one_that_is_there_stays_as_it_is(
    url: str, client: redis.Redis, supervisor: Supervisor, sessions: rta_writers.SessionClient
) -> None:
    """Open or closed, and asking twice changes nothing."""
    opened = sessions.session("run-1", stream="rig")
    assert run(url, "sessions", "resurrect", "run-1").out.startswith("run-1 was there all the time: open")
    opened.close()
    put_away(client, "run-1")
    before = fields(client, "run-1")
    assert run(url, "sessions", "resurrect", "run-1", "--json").json()["was_there"]
    assert fields(client, "run-1") == before
    forget(client, "run-1")
    for was_there in (False, True):
        assert run(url, "sessions", "resurrect", "run-1", "--json").json()["was_there"] is was_there
    assert len(supervisor.events("session_resurrected")) == 1


def test_two_at_once_give_one(
    url: str,
    client: redis.Redis,
    supervisor: Supervisor,
    environment: dict[str, str],
    sessions: rta_writers.SessionClient,
) -> None:
    """Two operators and two supervisors: one of them puts it there, all get the same answer."""
    sessions.session("run-1", stream="rig").close()
    put_away(client, "run-1")
    with supervisors.running(url, environment) as other:
        for turn in range(1, 4):
            forget(client, "run-1")
            replies: list[control_pb2.SessionReply] = []
            askers = [threading.Thread(target=ask_for, args=(client, "run-1", replies)) for _ in range(6)]
            for asker in askers:
                asker.start()
            for asker in askers:
                asker.join()
            assert len({reply.SerializeToString() for reply in replies}) == 1
            assert len(replies) == 6
            events = [*supervisor.events("session_resurrected"), *other.events("session_resurrected")]
            assert len(events) == turn


def test_an_open_session_goes_on(
    url: str, client: redis.Redis, supervisor: Supervisor, sessions: rta_writers.SessionClient
) -> None:
    """As after a loss: with its id, marked where data is missing, and it can end."""
    opened = sessions.session("run-1", stream="rig")
    written = write(client, opened, 4)
    wait_until(lambda: folded(client, "run-1").samples == 4, what="the totals")
    wait_until(lambda: known_samples(url) == 4, what="the totals in the catalogue")
    forget(client, "run-1")
    number = opened.target.stream_session_id
    client.delete("stream:rig", *(f"rtas:{kind}:{{stream:rig}}:{number}" for kind in ("dd", "gate", "shown")))
    reply = ask(client, "run-1")
    assert (reply.state, reply.stream_session_id) == ("open", number)
    assert supervisor.wait_for_event("session_lost_data")["samples_reported"] == written.samples
    assert opened.close().state == "truncated"


def known_samples(url: str) -> int:
    """As the catalogue has them."""
    lines = run(url, "sessions", "list", "--all", "--json").json()["sessions"]
    return sum(line["samples"] for line in lines)


@pytest.fixture(autouse=True)
def same_catalogue(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands look where the supervisor writes."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("supervisor")
def test_nobody_knows_it(url: str) -> None:
    """66, and a sentence."""
    refused(run(url, "sessions", "resurrect", "nobody"), 66, "Neither Redis nor the catalogue knows a session 'nobody'")


@pytest.mark.usefixtures("supervisor")
def test_only_operators_may_ask(client: redis.Redis) -> None:
    """A writer that asks gets a named error."""
    with pytest.raises(errors.OperatorsOnly, match="only operators can"):
        ask(client, "run-1", principal="default")


def test_a_stream_that_was_made_anew(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """Its ids may be lower than those of before: a position from then would hide entries."""
    sessions.session("first", stream="rig").close()
    later = sessions.session("run-1", stream="rig")
    later.close()
    put_away(client, "run-1")
    position = fields(client, "run-1")["streamPosition"]
    assert position != "0-0"
    forget(client, "run-1")
    client.delete("stream:rig")
    client.xadd("stream:rig", {"id": 1, "data": b""}, id="5-1")
    ask(client, "run-1")
    assert fields(client, "run-1")["streamPosition"] == "0-0"
    client.delete("stream:rig")


def test_a_later_session_of_that_name_is_left_alone(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """The catalogue has an older one: what Redis has counts."""
    sessions.session("run-1", stream="rig").close()
    put_away(client, "run-1")
    forget(client, "run-1")
    later = sessions.session("run-1", stream="rig")
    assert ask(client, "run-1").stream_session_id == later.target.stream_session_id
    assert ask(client, "run-1").state == "open"
