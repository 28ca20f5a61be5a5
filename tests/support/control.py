"""What tests say to a supervisor, and what they look at in Redis."""

import json
from typing import Any

import redis

import rta_writers
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_writers.write.delivery.exactly_once import ExactlyOnceAppender
from tests.support import samples


def fields(client: redis.Redis, identity: str) -> dict[str, str]:
    raw: Any = client.hgetall(f"sessions:{identity}")
    return {name.decode(): value.decode() for name, value in raw.items()}


def folded(client: redis.Redis, identity: str) -> Totals:
    """What the supervisors have counted of a session."""
    words: Any = client.hget(f"rtas:st:{{sessions:{identity}}}", "totals")
    return Totals.from_strings(words.decode().split()) if words else Totals()


def document(client: redis.Redis, identity: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(fields(client, identity)["json"])
    return found


def write(
    client: redis.Redis, session: rta_writers.Session, count: int, *, unit: str = "u", report: bool = True
) -> Totals:
    appender = ExactlyOnceAppender(client, session.target, unit=unit, epoch=0)
    appender.append(count, lambda skip: samples.bursts(count - skip, first=skip))
    totals = appender.totals()
    appender.close()
    if report:
        send(client, progress(session, unit, totals))
    return totals


def progress(session: rta_writers.Session, unit: str, totals: Totals) -> control_pb2.Progress:
    number = session.target.stream_session_id
    return control_pb2.Progress(
        identity=session.identity, stream_session_id=number, unit=unit, totals=totals.to_message()
    )


def send(client: redis.Redis, message: messages.Message, *, kind: str = "ctl") -> None:
    client.xadd(f"rtas:{kind}:default", {"m": messages.pack(message)})


def dead_letters(client: redis.Redis) -> list[dict[bytes, bytes]]:
    entries: Any = client.xrange("rtas:dlq")
    return [entry for _, entry in entries]
