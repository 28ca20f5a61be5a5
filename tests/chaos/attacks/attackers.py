"""What one principal does to all others, as an ordinary program with its own rights in Redis: a function per attack.

An attack sends and does not wait for what becomes of it. As a program it runs one of them, at any size.
"""

import argparse
import contextlib
import dataclasses
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Final
from urllib.parse import urlsplit

import redis

import rta_writers
from rta_wire import entry_ids, errors
from rta_wire import session as session_json
from rta_wire.control import messages, payload
from rta_wire.control.totals import Mark, Totals
from rta_wire.pb import control_pb2
from rta_writers.connection import redis_client
from tests.chaos import die_with_parent

PAGE: Final = 1000
HOUR_MS: Final = 3_600_000
DAY_NS: Final = 86_400 * 10**9
NEVER: Final = Totals(bursts=1 << 40)
REQUEST_ID_BYTES: Final = 200_000
JUNK_BYTES: Final = 1_000_000
UPDATES: Final = 40
HELD_S: Final = 10.0
POLL_S: Final = 0.2
REFUSED: Final = 3
"""The exit code of an attack that was refused in the middle of it."""

SOURCE_ADDRESS: Final = "127.0.0.2"
"""Connections come from another address than those of people who look at the page."""


FIELDS: Final[Mapping[type, str]] = {
    control_pb2.OpenSession: "open",
    control_pb2.UpdateSession: "update",
    control_pb2.CloseSession: "close",
    control_pb2.CancelRequest: "cancel",
    control_pb2.Progress: "progress",
    control_pb2.Heartbeat: "heartbeat",
    control_pb2.StorePiece: "piece",
    control_pb2.ListSessions: "list",
}


@dataclasses.dataclass(frozen=True)
class Attacker:
    """A principal's program."""

    url: str
    principal: str
    http_address: str = ""
    taken: str = ""
    """The identity of a session that another principal has open."""

    timeout_s: float = 60

    def redis(self) -> redis.Redis:
        return redis_client.connect(self.url)

    def sessions(self) -> rta_writers.SessionClient:
        return rta_writers.SessionClient(self.url, principal=self.principal, timeout_s=self.timeout_s)

    def open(self, name: str) -> rta_writers.Session:
        """A session of its own in a stream of its own, with a new name each time."""
        unique = f"{self.principal}-{name}-{messages.new_request_id()[:8]}"
        return self.sessions().open(unique, stream=f"{self.principal}.{name}")

    def send(self, sent: Iterator[tuple[str, messages.Message]], kind: str = "req") -> list[bytes]:
        """Append messages under entry ids of its choice, as many at a time as a pipeline takes."""
        key = f"rtas:{kind}:{self.principal}"
        ids: list[bytes] = []
        with self.redis() as client:
            pipe = client.pipeline(transaction=False)
            for entry_id, message in sent:
                pipe.xadd(key, {b"m": _packed(message)}, id=entry_id)
                if len(pipe) >= PAGE:
                    ids += pipe.execute()
            ids += pipe.execute()
        return ids


def _packed(message: messages.Message) -> bytes:
    """Without any check of ours."""
    control = control_pb2.Control(version=messages.VERSION)
    getattr(control, FIELDS[type(message)]).CopyFrom(message)
    return control.SerializeToString()


Attack = Callable[[Attacker, int], None]


def future_closes(attacker: Attacker, count: int) -> None:
    """Closes of its own session that wait for what never comes, with entry ids from the future."""
    session = attacker.open("future")
    start_ms = int(time.time() * 1000) + HOUR_MS
    attacker.send((entry_ids.format_id(start_ms + n), _close(session.identity)) for n in range(count))


def waiting_closes(attacker: Attacker, count: int) -> None:
    """Ordinary closes that wait for what never comes."""
    session = attacker.open("waiting")
    attacker.send(("*", _close(session.identity)) for _ in range(count))


def _close(identity: str, expected: Totals | None = NEVER) -> control_pb2.CloseSession:
    request = control_pb2.CloseSession(request_id=messages.new_request_id(), identity=identity, state="closed")
    if expected is not None:
        request.expected.CopyFrom(expected.to_message())
    return request


def many_marks(attacker: Attacker, count: int) -> None:
    """Marks of units that never wrote, put into its own hash, and a close that has to look at them."""
    session = attacker.open("marks")
    key = f"rtas:dd:{{stream:{session.target.stream}}}:{session.target.stream_session_id}"
    mark = Mark(0, 1, Totals(1, 1, 100, 50, DAY_NS * 20_000, DAY_NS * 20_000)).text()
    with attacker.redis() as client:
        pipe = client.pipeline(transaction=False)
        for first in range(0, count, PAGE):
            pipe.hset(key, mapping={f"unit-{n}": mark for n in range(first, min(first + PAGE, count))})
            if len(pipe) >= 20:
                pipe.execute()
        pipe.expire(key, 3600)
        pipe.execute()
    attacker.send(iter([("*", _close(session.identity, None))]))


def many_units(attacker: Attacker, count: int) -> None:
    """Reports about units that never wrote, then updates of that session."""
    session = attacker.open("units")
    number = session.target.stream_session_id
    totals = Totals(1, 1, 100, 50, DAY_NS * 20_000, DAY_NS * 20_000).to_message()
    attacker.send(
        (
            (
                "*",
                control_pb2.Progress(
                    identity=session.identity, stream_session_id=number, unit=f"unit-{n}", totals=totals
                ),
            )
            for n in range(count)
        ),
        kind="ctl",
    )
    attacker.send(("*", _update(session.identity, f'{{"comment": "{n}"}}')) for n in range(UPDATES))


def many_properties(attacker: Attacker, count: int) -> None:
    """Properties that are set and removed again: each leaves its name behind."""
    session = attacker.open("properties")
    for value in ('"x"', "null"):
        attacker.send(
            (
                "*",
                _update(session.identity, "{" + ", ".join(f'"p{n}": {value}' for n in range(first, first + 100)) + "}"),
            )
            for first in range(0, count, 100)
        )


def _update(identity: str, properties_json: str = "{}", state: str = "") -> control_pb2.UpdateSession:
    return control_pb2.UpdateSession(
        request_id=messages.new_request_id(), identity=identity, properties_json=properties_json, state=state
    )


def large_request_ids(attacker: Attacker, count: int) -> None:
    """Messages whose request id is as long as a message may be."""
    for n in range(count):
        request = control_pb2.UpdateSession(request_id=f"{n}" + "#" * REQUEST_ID_BYTES, identity="x")
        attacker.send(iter([("*", request)]))


def many_opens(attacker: Attacker, count: int) -> None:
    """Opens of new sessions, all at once."""
    batch = messages.new_request_id()[:8]
    attacker.send(
        ("*", _open(f"{attacker.principal}-{batch}-{n}", f"{attacker.principal}.opens")) for n in range(count)
    )


def _open(identity: str, stream: str) -> control_pb2.OpenSession:
    document = session_json.dump(session_json.build(identity)).decode()
    return control_pb2.OpenSession(
        request_id=messages.new_request_id(), identity=identity, stream=stream, session_json=document
    )


def many_cancels(attacker: Attacker, count: int) -> None:
    """Cancellations of requests that nobody sent."""
    attacker.send(
        (
            "*",
            control_pb2.CancelRequest(
                request_id=messages.new_request_id(), target_request_id=messages.new_request_id()
            ),
        )
        for _ in range(count)
    )


def trimmed_requests(attacker: Attacker, count: int) -> None:
    """Updates of sessions that there are not, and its own control stream trimmed while they are served."""
    for first in range(0, count, PAGE):
        attacker.send(("*", _update(f"nothing-{first}-{n}")) for n in range(min(PAGE, count - first)))
        with attacker.redis() as client:
            client.xadd(f"rtas:req:{attacker.principal}", {"x": ""}, maxlen=0, approximate=False)
        time.sleep(POLL_S)


def many_pauses(attacker: Attacker, count: int) -> None:
    """Pauses and resumes of one session: each is a change that webhooks are told of."""
    session = attacker.open("pauses")
    attacker.send(("*", _update(session.identity, state="waiting" if n % 2 == 0 else "open")) for n in range(count))


def spoilt_keys(attacker: Attacker, count: int) -> None:
    """Sessions whose marks are no hash, or whose stream has the highest id, and closes of them."""
    for n in range(count):
        session = attacker.open(f"spoilt{n}")
        spoil(attacker, session, n)
        attacker.send(iter([("*", _close(session.identity, None))]))


def spoil(attacker: Attacker, session: rta_writers.Session, number: int) -> None:
    """Put a string in place of a session's marks (an even number), or use up the ids of its stream."""
    stream, stream_session_id = session.target.stream, session.target.stream_session_id
    with attacker.redis() as client:
        if number % 2 == 0:
            client.set(f"rtas:dd:{{stream:{stream}}}:{stream_session_id}", "no hash", ex=3600)
        else:
            client.xadd(f"stream:{stream}", {"id": str(stream_session_id), "data": b"\xff"}, id=entry_ids.MAX)


def highest_request_id(attacker: Attacker, count: int) -> None:
    """A request with the highest entry id of all: nothing can be appended to that control stream any more."""
    del count
    session = attacker.open("highest")
    with attacker.redis() as client:
        client.xadd(f"rtas:req:{attacker.principal}", {b"m": _packed(_close(session.identity))}, id=entry_ids.MAX)


def entries_without_message(attacker: Attacker, count: int) -> None:
    """Large entries in both of its control streams that have no message at all."""
    with attacker.redis() as client:
        for _ in range(count):
            for kind in ("req", "ctl"):
                client.xadd(f"rtas:{kind}:{attacker.principal}", {"x": b"x" * JUNK_BYTES})


def unknown_sessions(attacker: Attacker, count: int) -> None:
    """Heartbeats, each about another session that there is not."""
    attacker.send(
        (("*", control_pb2.Heartbeat(identity=f"nothing-{n}", stream_session_id=1)) for n in range(count)), kind="ctl"
    )


def many_streams(attacker: Attacker, count: int) -> None:
    """Opens of new sessions, each in a stream of its own with an external id, then a close of each."""
    batch = messages.new_request_id()[:8]
    names = [f"{attacker.principal}.{batch}-{n}" for n in range(count)]
    opens = (_open(name.replace(".", "-", 1), name) for name in names)
    attacker.send(("*", _with_external_id(request)) for request in opens)
    attacker.send(("*", _close(name.replace(".", "-", 1), None)) for name in names)


def _with_external_id(request: control_pb2.OpenSession) -> control_pb2.OpenSession:
    request.external_id = request.identity
    return request


def unfinished_payloads(attacker: Attacker, count: int) -> None:
    """Pieces of payloads, each of another one, that no request ever names."""
    _, [piece] = payload.split(messages.new_request_id(), b"x")
    attacker.send(("*", _piece(piece)) for _ in range(count))


def _piece(piece: control_pb2.StorePiece) -> control_pb2.StorePiece:
    other = control_pb2.StorePiece()
    other.CopyFrom(piece)
    other.request_id = other.payload_id = messages.new_request_id()
    return other


def many_searches(attacker: Attacker, count: int) -> None:
    """Searches for what no session has."""
    attacker.send(
        ("*", control_pb2.ListSessions(request_id=messages.new_request_id(), text="nothing like this"))
        for _ in range(count)
    )


def wrong_times(attacker: Attacker, count: int) -> None:
    """Samples of 30 days ahead and of 1938, and closes that have to look at their marks."""
    for n in range(count):
        session = attacker.open(f"times{n}")
        time_ns = time.time_ns() + 30 * DAY_NS if n % 2 == 0 else -32 * 365 * DAY_NS
        with rta_writers.BurstWriter(session.options, unit="u") as writer:
            writer.samples([1], [time_ns], [1.0])
        attacker.send(iter([("*", _close(session.identity, None))]))


def taken_identities(attacker: Attacker, count: int) -> None:
    """Opens of a taken identity with an external id, which are refused, then of an own one with the same id; a
    thousand samples go to whatever session that gives."""
    sessions = attacker.sessions()
    for n in range(count):
        name = f"{attacker.principal}-{messages.new_request_id()[:8]}"
        stream = f"{attacker.principal}.external{n % 10}"
        with contextlib.suppress(errors.SessionConflict):
            sessions.open(attacker.taken, stream=stream, external_id=name)
        with sessions.open(name, stream=stream, external_id=name) as session:
            if session.identity != name:
                raise AssertionError(f"{name} was given {session.identity}")
            with rta_writers.BurstWriter(session.options, unit="u") as writer:
                times_ns = [time.time_ns() + index for index in range(PAGE)]
                writer.samples([1] * PAGE, times_ns, [0.0] * PAGE)


def unreadable_marks(attacker: Attacker, count: int) -> None:
    """Marks of epochs and units that can't be, beside those of a unit that is in order, and a close that looks at
    them."""
    for n in range(count):
        session = attacker.open(f"epochs{n % 10}")
        key = f"rtas:dd:{{stream:{session.target.stream}}}:{session.target.stream_session_id}"
        rest = "1 1 1 100 50 0 0"
        marks: dict[str | bytes, str] = {
            f"unit-{epoch}": f"{epoch} {rest}" for epoch in ("1.5", "-1", f"{2**70}", "nan", "")
        }
        with attacker.redis() as client:
            client.hset(key, mapping=marks | {"": f"0 {rest}", b"\xff": f"0 {rest}"})
            client.expire(key, 3600)
        with rta_writers.BurstWriter(session.options, unit="u") as writer:
            writer.samples([1], [time.time_ns()], [1.0])
        attacker.send(iter([("*", _close(session.identity, None))]))


def half_requests(attacker: Attacker, count: int) -> None:
    """Connections to the HTTP port that send half a request line, held as long as they are let."""
    with half_open(attacker, count) as connections:
        deadline_s = time.monotonic() + HELD_S
        while time.monotonic() < deadline_s and not all(map(is_closed, connections)):
            time.sleep(POLL_S)


@contextlib.contextmanager
def half_open(attacker: Attacker, count: int) -> Iterator[list[socket.socket]]:
    """As many such connections as are accepted."""
    parts = urlsplit(attacker.http_address)
    with contextlib.ExitStack() as stack:
        connections = []
        for _ in range(count):
            with contextlib.suppress(OSError):  # refused: what a limit of connections is for
                connection = socket.create_connection(
                    (parts.hostname or "", parts.port or 0), timeout=5, source_address=(SOURCE_ADDRESS, 0)
                )
                connections.append(stack.enter_context(connection))
                connection.sendall(b"GET /hea")
                connection.settimeout(0)
        yield connections


def is_closed(connection: socket.socket) -> bool:
    """Whether the other end has closed a connection, in whatever words."""
    try:
        while connection.recv(4096):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


@dataclasses.dataclass(frozen=True)
class Kind:
    """One attack, whose it is, and how large it was when it hurt."""

    principal: str
    attack: Attack
    full: int


ATTACKS: Final[Mapping[str, Kind]] = {
    "closes from the future": Kind("attacker-1", future_closes, 10_500),
    "closes that wait": Kind("attacker-2", waiting_closes, 1000),
    "marks": Kind("attacker-3", many_marks, 200_000),
    "more marks": Kind("attacker-3", many_marks, 1_500_000),
    "units": Kind("attacker-4", many_units, 200_000),
    "properties": Kind("attacker-4", many_properties, 100_000),
    "large request ids": Kind("attacker-5", large_request_ids, 1500),
    "opens": Kind("attacker-6", many_opens, 20_000),
    "cancels": Kind("attacker-6", many_cancels, 20_000),
    "trimmed requests": Kind("attacker-6", trimmed_requests, 50_000),
    "pauses": Kind("attacker-7", many_pauses, 13_000),
    "spoilt keys": Kind("attacker-8", spoilt_keys, 20),
    "highest id": Kind("attacker-8", highest_request_id, 1),
    "wrong times": Kind("attacker-10", wrong_times, 20),
    "entries without message": Kind("attacker-9", entries_without_message, 200),
    "unknown sessions": Kind("attacker-9", unknown_sessions, 100_000),
    "many streams": Kind("attacker-9", many_streams, 10_000),
    "payloads": Kind("attacker-9", unfinished_payloads, 20_000),
    "searches": Kind("attacker-9", many_searches, 5000),
    "taken identities": Kind("attacker-9", taken_identities, 300),
    "unreadable marks": Kind("attacker-11", unreadable_marks, 100),
    "half requests": Kind("attacker-12", half_requests, 1000),
}
"""By name. Attacks of one kind have one principal."""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=ATTACKS)
    parser.add_argument("--url", required=True)
    parser.add_argument("--http", default="")
    parser.add_argument("--taken", default="")
    parser.add_argument("--count", type=int, required=True)
    args = parser.parse_args()
    die_with_parent.enable()
    kind = ATTACKS[args.name]
    try:
        kind.attack(Attacker(args.url, kind.principal, args.http, args.taken), args.count)
    except (errors.RtaError, redis.exceptions.RedisError) as error:
        print(f"{args.name}: {type(error).__name__}: {error}", file=sys.stderr)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
