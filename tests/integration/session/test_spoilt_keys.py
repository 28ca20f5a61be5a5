"""A session whose keys somebody made something else of: it can be ended, and what can't be read is named."""

from typing import Any

import pytest
import redis

from rta_supervisor.session.model import SessionRef
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, errors, keys
from rta_wire.control.totals import Mark, Totals
from rta_wire.pb import control_pb2
from tests.support.control import document, fields
from tests.support.session_values import control_entry
from tests.support.supervisor_parts import opened

NAMES = keys.Keys()
KEYS = {
    "marks": NAMES.marks("rig", 1),
    "gate": NAMES.gate("rig", 1),
    "published": NAMES.published("rig", 1),
    "stream": keys.stream("rig"),
    "hash": NAMES.session("run-1"),
}
CLOSE = control_pb2.CloseSession(identity="run-1", state="closed")


def spoil(client: redis.Redis, key: str, type_: str) -> None:
    """Put something else in place of a key."""
    commands = {"string": "APPEND", "list": "RPUSH", "hash": "HSET", "set": "SADD"}
    client.delete(key)
    client.execute_command(commands[type_], key, "junk", *(["junk"] if type_ == "hash" else []))
    client.expire(key, 1000)


@pytest.mark.parametrize("principal", ["default", "operator"])
@pytest.mark.parametrize(
    ("which", "type_", "state"),
    [
        ("marks", "string", "truncated"),
        ("marks", "set", "truncated"),
        ("gate", "hash", "closed"),
        ("gate", "list", "closed"),
        ("published", "hash", "closed"),
        ("published", "string", "closed"),
        ("stream", "string", "closed"),
        ("stream", "hash", "closed"),
        ("hash", "string", "closed"),
        ("hash", "set", "closed"),
    ],
)
async def test_a_session_with_a_key_of_another_type_can_be_ended(
    link: Link, client: redis.Redis, which: str, type_: str, state: str, principal: str
) -> None:
    """By its owner and by an operator. Only where marks can't be read is it not sure that everything was counted."""
    sessions, service = await opened(link)
    await sessions.fold({("run-1", 1): {"u": Totals(1, 10, 1, 1, 5, 9)}})
    spoil(client, KEYS[which], type_)
    reply = await service.close(control_entry(principal), CLOSE)
    assert isinstance(reply, control_pb2.SessionReply)
    assert (reply.state, reply.totals.samples) == (state, 10)
    assert client.get(KEYS["gate"]) == b"finished"
    assert document(client, "run-1")["state"] == state
    assert fields(client, "run-1")["streamSessionId"] == "1"
    record = await sessions.read("run-1")
    assert record is not None
    assert record.spoilt.startswith(KEYS[which]) is (which in ("marks", "stream"))
    again = await service.close(control_entry(principal), CLOSE)
    assert isinstance(again, control_pb2.SessionReply)
    assert again.state == state
    assert 0 < int(str(client.ttl(KEYS["gate"]))) <= settings.SessionSettings().closed_ttl_s


async def test_a_stream_whose_ids_are_used_up_keeps_no_session_from_ending(link: Link, client: redis.Redis) -> None:
    """Its last entry can't be written; its hash says how it ended, and nobody can open another one there."""
    sessions, service = await opened(link)
    client.xadd("stream:rig", {"id": "1", "data": b"x"}, id=entry_ids.MAX)
    reply = await service.close(control_entry(), CLOSE)
    assert isinstance(reply, control_pb2.SessionReply)
    assert reply.state == "closed"
    record = await sessions.read("run-1")
    assert record is not None
    assert record.spoilt.startswith("stream:rig: ERR")
    request = control_pb2.OpenSession(
        identity="run-2", stream="rig", session_json=fields(client, "run-1")["json"].replace("run-1", "run-2")
    )
    request.session_json = request.session_json.replace('"closed"', '"open"')
    with pytest.raises(errors.SpoiltKey, match=r"stream:rig.*doctor --repair"):
        await service.open(control_entry(), request)


async def test_a_state_of_another_type_is_named(link: Link, client: redis.Redis) -> None:
    """Nothing says whose session it is: the request gets the key and what to do, and no other session suffers."""
    sessions, service = await opened(link)
    _, _ = await opened(link, "run-2")
    spoil(client, NAMES.session_state("run-1"), "string")
    with pytest.raises(errors.SpoiltKey, match=r"rtas:st:\{sessions:run-1\}.*doctor --repair"):
        await service.close(control_entry(), CLOSE)
    open_refs, closed_refs = await sessions.open_and_closed()
    assert ([ref.identity for ref in open_refs], closed_refs) == (["run-2"], [])
    refs = [SessionRef(identity, "rig", number) for number, identity in ((1, "run-1"), (2, "run-2"))]
    assert [ref.identity for ref, _ in await sessions.refresh(refs)] == ["run-2"]
    results = await sessions.fold({(ref.identity, ref.stream_session_id): {"u": Totals(1)} for ref in refs})
    assert [result.outcome for result in results] == ["spoilt", "changed"]
    await sessions.extend_gates(refs)


async def test_marks_that_cant_be_read_are_left_out(link: Link, client: redis.Redis) -> None:
    """The others count, and the session does not end as complete."""
    _, service = await opened(link)
    marks: Any = {
        "good": Mark(0, 1, Totals(1, 7, 1, 1, 5, 9)).text(),
        "half": "1.5 1 1 1 1 1 5 9",
        b"\xff": Mark(0, 1, Totals(1, 7, 1, 1, 5, 9)).text(),
        "n" * 300: Mark(0, 1, Totals(1, 7, 1, 1, 5, 9)).text(),
    }
    client.hset(KEYS["marks"], mapping=marks)
    client.expire(KEYS["marks"], 1000)
    reply = await service.close(control_entry(), CLOSE)
    assert isinstance(reply, control_pb2.SessionReply)
    assert (reply.state, reply.totals.samples) == ("truncated", 7)


async def test_marks_that_take_too_much_memory_are_not_read(link: Link, client: redis.Redis) -> None:
    """A mark has a hundred bytes. A megabyte each would keep Redis and the supervisor busy."""
    sessions, service = await opened(link)
    client.hset(KEYS["marks"], mapping={f"unit-{number}": "x" * 1_000_000 for number in range(5)})
    client.expire(KEYS["marks"], 1000)
    reply = await service.close(control_entry(), CLOSE)
    assert isinstance(reply, control_pb2.SessionReply)
    assert reply.state == "truncated"
    record = await sessions.read("run-1")
    assert record is not None
    assert "more than marks need" in record.spoilt
