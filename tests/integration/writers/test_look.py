"""`SessionClient.get` and `list`: what they show, of whose sessions, and what an older supervisor makes of them."""

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
import redis

import rta_writers
from rta_supervisor.catalogue import session_queries
from rta_supervisor.control.payloads import unread_replies
from rta_wire import errors, keys, limits, session
from rta_wire.control import messages
from rta_wire.pb import control_pb2
from tests.support import supervisors
from tests.support.samples import START_NS
from tests.support.waiting import wait_until

TWO = {"RTA_CONTROL__PRINCIPALS": '["alice", "bob"]', "RTA_LIMITS__UNREAD_REPLY_BYTES": str(limits.MIB)}


@pytest.fixture
def daemon(url: str) -> Iterator[supervisors.Supervisor]:
    with supervisors.running(url, TWO) as running:
        yield running


def identities(sessions: Any) -> list[str]:
    return [shown.identity for shown in sessions]


def facts(shown: rta_writers.SessionInfo) -> rta_writers.SessionInfo:
    """What does not change while nobody changes the session."""
    return msgspec.structs.replace(shown, updated=shown.opened)


def test_a_session_is_shown_from_its_opening_until_redis_has_forgotten_it(
    client: redis.Redis, alice: rta_writers.SessionClient
) -> None:
    """State, totals, time range and JSON as they stand, out of Redis and then out of the catalogue."""
    before = datetime.now(UTC) - timedelta(seconds=5)
    run = alice.open("run", stream="rig", external_id="job: 7", details={"Rig": 4}, identifier="Run 17")
    shown = alice.get("run")
    assert (shown.identity, shown.stream, shown.state, shown.principal) == ("run", "rig", "open", "alice")
    assert shown.stream_session_id == run.target.stream_session_id
    assert shown.is_in_redis
    assert shown.archive is None
    assert shown.time_range_ns is None
    assert before < shown.opened <= shown.updated < datetime.now(UTC) + timedelta(seconds=5)
    assert shown.json is not None
    assert shown.json["details"] == {"Rig": 4}
    assert facts(shown) == facts(alice.get(external_id="job: 7")) == facts(alice.list()[0])
    with rta_writers.BurstWriter(run.options) as writer:
        writer.samples([1, 1], [START_NS, START_NS + 1], [1.0, 2.0])
    alice.update("run", group="night")
    run.close()
    ended = alice.get("run")
    assert (ended.state, ended.totals.samples, ended.time_range_ns) == ("closed", 2, (START_NS, START_NS + 1))
    assert ended.json is not None
    assert ended.json["group"] == "night"
    assert ended.json["timeRange"] == {"startTime": START_NS, "endTime": START_NS + 1}
    assert repr(ended).startswith("SessionInfo('run', state='closed', stream='rig', 2 samples in 1 bursts from 20")
    assert repr(ended).endswith(", in Redis)")
    wait_until(lambda: client.hget("rtas:st:{sessions:run}", keys.SAFE), what="the catalogue to have it")
    client.delete("sessions:run", "rtas:st:{sessions:run}", keys.Keys().external("alice", "job: 7"))
    forgotten = alice.get("run")
    assert not forgotten.is_in_redis
    assert repr(forgotten).endswith(", in the catalogue)")
    assert (forgotten.state, forgotten.totals, forgotten.json) == (ended.state, ended.totals, ended.json)
    assert facts(forgotten) == facts(alice.get(external_id="job: 7")) == facts(alice.list(text="run 17")[0])


def test_a_principal_sees_its_own_sessions_and_an_operator_all(
    url: str, alice: rta_writers.SessionClient, bob: rta_writers.SessionClient
) -> None:
    """What others have is as unknown as what nobody has."""
    operator = rta_writers.SessionClient(url, principal="operator", timeout_s=20)
    alice.open("a", stream="rig", external_id="same").close()
    bob.open("b", stream="rig", external_id="same")
    assert (identities(alice.list()), identities(bob.list()), identities(operator.list())) == (["a"], ["b"], ["b", "a"])
    with pytest.raises(errors.UnknownSession) as of_other:
        bob.get("a")
    with pytest.raises(errors.UnknownSession) as of_nobody:
        bob.get("c")
    assert str(of_other.value).replace("'a'", "'c'") == str(of_nobody.value)
    assert operator.get("a").principal == "alice"
    assert bob.get(external_id="same").identity == "b"
    with pytest.raises(errors.AmbiguousExternalId, match="'alice', 'bob'"):
        operator.get(external_id="same")
    with pytest.raises(errors.UnknownExternalId):
        bob.get(external_id="other")


def test_a_list_follows_its_filters(client: redis.Redis, alice: rta_writers.SessionClient) -> None:
    """Each by itself and all together, the newest first, by what Redis has now."""
    early = alice.open("early", stream="rig", details={"Rig": 4, "Car": "red"})
    with rta_writers.BurstWriter(early.options) as writer:
        writer.samples([1], [START_NS], [1.0])
    early.close()
    alice.open("late", stream="other", details={"Rig": 4})
    paused = alice.open("paused", stream="rig")
    paused.pause()
    start = datetime.fromtimestamp(START_NS // 10**9, UTC)
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["paused", "late", "early"]),
        ({"state": "waiting"}, ["paused"]),
        ({"state": ["waiting", "open"]}, ["paused", "late"]),
        ({"stream": "rig"}, ["paused", "early"]),
        ({"details": {"Rig": 4}}, ["late", "early"]),
        ({"details": {"Rig": "4", "Car": "red"}, "text": "car=r", "state": "closed", "stream": "rig"}, ["early"]),
        ({"text": "LAT", "since": "1h"}, ["late"]),
        ({"until": start, "since": START_NS - 5}, ["early"]),
        ({"since": start + timedelta(days=1)}, ["paused", "late"]),
        ({"text": "nowhere"}, []),
    ]
    for filters, found in cases:
        assert identities(alice.list(**filters)) == found, filters
    assert identities(alice.list(limit=1)) == ["paused"]
    # As if another supervisor had done it a moment ago: it is in Redis, and not in this catalogue yet.
    document = client.hget("sessions:late", "json")
    assert isinstance(document, bytes)
    client.hset("sessions:late", "json", document.replace(b'"open"', b'"waiting"'))
    client.hset("rtas:st:{sessions:late}", mapping={keys.STATE: "waiting", keys.VERSION: 99})
    assert alice.list(state="open") == []
    shown = alice.list()[1]
    assert shown.json is not None
    assert (shown.identity, shown.state, shown.json["state"]) == ("late", "waiting", "waiting")


def test_a_list_of_many_comes_in_pages(alice: rta_writers.SessionClient) -> None:
    """More sessions than a page has, then fewer that have more bytes; a large JSON is left out of the list."""
    documents: dict[str, dict[str, Any]] = {
        f"many-{number:03}": {"n": number} for number in range(session_queries.PAGE_SESSIONS * 2 + 5)
    }
    documents |= {f"wide-{number}": {"x": "y" * 30_000} for number in range(9)}
    documents["large"] = {"x": "y" * 40_000}
    opens = [
        control_pb2.OpenSession(
            request_id=messages.new_request_id(),
            identity=name,
            stream="rig",
            session_json=session.dump(session.build(name, details=details)).decode(),
        )
        for name, details in documents.items()
    ]
    for reply in alice.ask_all(opens):
        assert isinstance(reply, control_pb2.SessionReply), reply
    sessions = alice.list(limit=None)
    assert sorted(identities(sessions)) == sorted(documents)
    assert [shown.stream_session_id for shown in sessions] == list(range(len(documents), 0, -1))
    large = [shown for shown in sessions if shown.json is None]
    assert identities(large) == ["large"]
    for shown in sessions:
        assert shown.json is None or shown.json["details"] == documents[shown.identity]
    whole = alice.get("large")
    assert whole.json is not None
    assert whole.json["details"] == documents["large"]
    assert identities(alice.list(limit=70)) == identities(sessions)[:70]


def test_replies_that_were_read_are_removed_and_those_that_nobody_reads_are_limited(
    client: redis.Redis, url: str, daemon: supervisors.Supervisor, alice: rta_writers.SessionClient
) -> None:
    """A client that asks again and again gets its replies; one that reads none is refused and named, others are not."""
    alice.open("run", stream="rig", details={"x": "y" * 120_000})
    for _ in range(12):
        alice.get("run")
    assert len(list(client.scan_iter("rtas:reply:*"))) == 1, "that of the open"
    requests = [control_pb2.GetSession(request_id=f"r{number}", identity="run") for number in range(12)]
    for request in requests:
        client.xadd("rtas:req:alice", {keys.CONTROL_FIELD: messages.pack(request)})
    wait_until(lambda: client.exists("rtas:reply:r11"), what="the last reply")
    replies = [client.lindex(f"rtas:reply:r{number}", 0) for number in range(12)]
    assert [b"LimitReached" in (reply or b"") for reply in replies] == [False] * 8 + [True] * 4
    assert 0 < client.ttl("rtas:reply:r0") <= unread_replies.PAGE_TTL_S
    assert daemon.events("limit_reached")[0]["principal"] == "alice"
    assert rta_writers.SessionClient(url, principal="bob", timeout_s=20).list() == []
    client.delete(*(f"rtas:reply:r{number}" for number in range(12)))
    wait_until(lambda: _is_served(alice), what="room for another reply")


def _is_served(client: rta_writers.SessionClient) -> bool:
    try:
        client.get("run")
    except errors.LimitReached:
        return False
    return True


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda client: client.get(), "say one of them"),
        (lambda client: client.get("a", external_id="b"), "say one of them"),
        (lambda client: client.get(7), "'identity' is 7"),
        (lambda client: client.list(state="ajar"), "'state' is 'ajar'"),
        (lambda client: client.list(state=7), "'state' is 7"),
        (lambda client: client.list(since="yesterday"), "'since' is 'yesterday'.* how long ago"),
        (lambda client: client.list(until=1.5), "'until' is 1.5"),
        (lambda client: client.list(limit=0), "'limit' is 0"),
        (lambda client: client.list(details=["a"]), "'details' is"),
        (lambda client: client.list(text=b"x"), "'text' is"),
    ],
)
def test_wrong_arguments_are_named(url: str, call: Any, match: str) -> None:
    """Before anything is sent."""
    with pytest.raises(errors.Usage, match=match):
        call(rta_writers.SessionClient(url))


LARGE = {"text": "x" * 300_000}


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.get("run"),
        lambda client: client.list(),
        lambda client: client.open("run", stream="rig", details=LARGE),
        lambda client: client.update("run", details=LARGE),
    ],
)
def test_an_older_supervisor_is_named_at_once(client: redis.Redis, url: str, call: Any) -> None:
    """Also beside a newer one: any of them may get the request. Nothing is sent."""
    client.hset("rtas:node:old", mapping={keys.NODE_VERSION: "0.1.0", keys.NODE_SEEN_MS: 1})
    client.expire("rtas:node:old", 60)
    client.zadd("rtas:nodes", {"old": 1})
    with pytest.raises(errors.SupervisorTooOld, match=r"version 0\.2 or newer, and one of version 0\.1\.0 is running"):
        call(rta_writers.SessionClient(url))
    assert not client.exists("rtas:req:default")


def test_an_older_supervisor_whose_version_nobody_may_read_is_named_too(client: redis.Redis, url: str) -> None:
    """It drops the message, as version 0.1.0 does, and the client does not wait for the rest of its timeout."""
    client.hset("rtas:node:old", keys.NODE_SEEN_MS, 1)
    client.expire("rtas:node:old", 60)
    client.zadd("rtas:nodes", {"old": 1})
    raised: list[Exception] = []

    def ask() -> None:
        try:
            rta_writers.SessionClient(url).list()
        except errors.RtaError as error:
            raised.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    entries: Any = wait_until(lambda: client.xrange("rtas:req:default"), what="the request")
    client.xdel("rtas:req:default", entries[0][0])
    asking.join(10)
    [error] = raised
    assert isinstance(error, errors.SupervisorTooOld)
