"""Session JSON that is too large for a message: stored in pieces and used once; whatever is wrong changes nothing."""

import json
from collections.abc import Iterator

import pytest
import redis

import rta_writers
from rta_wire import errors, keys, limits, session
from rta_wire.control import messages, payload
from rta_wire.pb import control_pb2
from tests.support import control as support
from tests.support import http_client as web
from tests.support import stream_content, supervisors
from tests.support.waiting import wait_until

DETAILS = {f"detail {number:05}": f'väl"ue\\ {number} ' + "x" * 60 for number in range(9500)}
TWO = {
    "RTA_CONTROL__PRINCIPALS": '["default", "bob"]',
    "RTA_LIMITS__PAYLOAD_BYTES": str(limits.MIB),
}


@pytest.fixture
def small(url: str) -> Iterator[supervisors.Supervisor]:
    """A supervisor with room for little."""
    with supervisors.running(url, TWO) as running:
        yield running


def stored_payloads(client: redis.Redis) -> list[bytes]:
    return sorted(key for pattern in ("rtas:payload:*", "rtas:payloads:*") for key in client.scan_iter(pattern))


def test_session_json_of_almost_900_kib_goes_all_the_way(
    client: redis.Redis, sessions: rta_writers.SessionClient, supervisor: supervisors.Supervisor
) -> None:
    """Opened, shown to readers of the hash, the stream, the page and the API, updated, closed, forgotten and shown."""
    run = sessions.open("run", stream="rig", details=DETAILS)
    text = support.fields(client, "run")["json"]
    assert 850 * limits.KIB < len(text.encode()) <= limits.SESSION_JSON_MAX_BYTES
    assert json.loads(text)["details"] == DETAILS
    changed = {**DETAILS, "detail 00000": 7}
    sessions.update("run", details=changed)
    run.close()
    assert sessions.get("run").json == support.document(client, "run")
    assert support.document(client, "run")["details"] == changed
    published = stream_content.decoded(client, "rig", run.target.stream_session_id).session_json
    opening, ending = json.loads(published[0]), json.loads(published[-1])
    assert (opening["details"], ending["details"], ending["state"]) == (DETAILS, changed, "closed")
    page = web.get(web.address(supervisor), "/ui/session?identity=run")
    assert page.status == 200
    assert json.loads(page.json()["json"])["details"] == changed
    wait_until(lambda: client.hget("rtas:st:{sessions:run}", keys.SAFE), what="the catalogue to have it")
    client.delete("sessions:run", "rtas:st:{sessions:run}")
    forgotten = sessions.get("run")
    assert not forgotten.is_in_redis
    assert forgotten.json is not None
    assert forgotten.json["details"] == changed
    wait_until(lambda: not stored_payloads(client), what="payloads to be removed")


def test_what_is_larger_is_refused_and_a_repeated_request_has_its_first_reply(
    client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """Nothing is sent of a document that is too large; a payload is gone when its request comes again."""
    with pytest.raises(errors.BadSessionJson, match="more than 921600"):
        sessions.open("run", stream="rig", details=DETAILS | {"more": "x" * 60_000})
    run = sessions.open("run", stream="rig", group="x" * 500_000)
    with pytest.raises(errors.BadSessionJson, match="more than 921600"):
        sessions.update("run", details={"more": "x" * 500_000})
    assert support.document(client, "run") == sessions.get("run").json
    run.close()
    named = stored(sessions, session.dump(session.build("other")).decode())
    request = control_pb2.OpenSession(request_id="once", identity="other", stream="rig", payload=named)
    first = sessions.ask(request)
    wait_until(lambda: not stored_payloads(client), what="the payload to be removed")
    assert sessions.ask(request) == first


def stored(client: rta_writers.SessionClient, text: str) -> control_pb2.Payload:
    """A payload whose pieces are all stored."""
    named, pieces = payload.split(messages.new_request_id(), text.encode())
    for piece in pieces:
        piece.request_id = messages.new_request_id()
        client.ask(piece)
    return named


def open_with(client: rta_writers.SessionClient, named: control_pb2.Payload) -> control_pb2.SessionReply:
    request_id = messages.new_request_id()
    return client.ask(control_pb2.OpenSession(request_id=request_id, identity="run", stream="rig", payload=named))


def test_pieces_that_are_not_what_was_stored_change_nothing(
    client: redis.Redis, url: str, small: supervisors.Supervisor
) -> None:
    """Missing, changed, of another principal, used before, and too many: each has its name, and no session is there."""
    default = rta_writers.SessionClient(url, timeout_s=20)
    bob = rta_writers.SessionClient(url, principal="bob", timeout_s=20)
    text = session.dump(session.build("run", details={"x": "y" * 200_000})).decode()
    named = stored(default, text)
    key = keys.Keys().payload("default", named.id)
    assert 0 < client.pttl(key) <= 600_000
    with pytest.raises(errors.PayloadMissing, match="0 of 2 pieces"):
        open_with(bob, named)
    _, [first, _] = payload.split(named.id, text.replace("y", "z").encode())
    first.request_id = messages.new_request_id()
    with pytest.raises(errors.PayloadDamaged, match="another piece 0 was stored before"):
        default.ask(first)
    client.hset(key, "1", b"spoilt")
    with pytest.raises(errors.PayloadDamaged, match="the checksum of piece 1"):
        open_with(default, named)
    wait_until(lambda: not stored_payloads(client), what="a payload that was named to be removed")
    with pytest.raises(errors.PayloadMissing, match="0 of 2 pieces"):
        open_with(default, named)
    assert not client.exists("sessions:run")
    assert not client.exists("stream:rig")
    assert open_with(default, stored(default, text)).identity == "run"
    check_limit(client, default, bob)
    event = small.events("limit_reached")[0]
    assert (event["principal"], event["limit"]) == ("default", "limits.payload_bytes")


def check_limit(client: redis.Redis, default: rta_writers.SessionClient, bob: rta_writers.SessionClient) -> None:
    """A principal that stores and never names is refused; others are not, and it has room again once pieces expire."""
    _, [piece] = payload.split("x", b"x")
    pieces = [
        control_pb2.StorePiece(
            request_id=f"p{number}", payload_id=f"p{number}", data=piece.data, checksum=piece.checksum
        )
        for number in range(70)
    ]
    outcomes = list(default.ask_all(pieces))
    refused = [outcome for outcome in outcomes if isinstance(outcome, errors.LimitReached)]
    assert len(refused) == 70 - 64, "a small piece counts as 16 KiB"
    assert "limits.payload_bytes = 1048576" in str(refused[0])
    assert client.hlen("rtas:payloads:{rtas:req:default}") == 64
    stored(bob, "x")
    index = "rtas:payloads:{rtas:req:default}"
    client.hset(index, mapping={f"p{number}": "1700000000000 16384" for number in range(10)})
    stored(default, "x" * 150_000)
    assert client.hlen(index) == 64 - 10 + 1, "what has expired counts no more"
