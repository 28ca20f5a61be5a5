"""The same request in the hands of two supervisors: it was redelivered while the first was only slow."""

import itertools
from collections.abc import Collection, Sequence
from typing import Any

import pytest
import redis

from rta_supervisor.session.model import SessionRecord, SessionRef
from rta_supervisor.session.records.totals_store import MarksResult
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, function_loader
from rta_supervisor.transport.link import Link
from rta_wire import session
from rta_wire.pb import control_pb2
from tests.support import samples, supervisor_parts
from tests.support.control import fields
from tests.support.session_values import control_entry


class Overtaken(SessionStore):
    """Somebody else is faster, just after we looked: `other`, once, at a step that is called `step`."""

    other: Any = None
    step = "fold"

    async def fold_final_marks(self, ref: SessionRef, marks: Sequence[bytes] | None) -> MarksResult:
        await self._let_overtake("fold")
        return await super().fold_final_marks(ref, marks)

    async def refresh_and_read(self, ref: SessionRef, properties: Collection[str] = ()) -> SessionRecord | None:
        record = await super().refresh_and_read(ref, properties)
        await self._let_overtake("put")
        return record

    async def _let_overtake(self, step: str) -> None:
        if self.other is not None and step == self.step:
            other, self.other = self.other, None
            await other()


async def test_who_is_overtaken_in_a_close_tells_how_the_session_ended(url: str, client: redis.Redis) -> None:
    """Both give the same reply, and the last entry is written once."""
    config = settings.Settings(redis=settings.RedisSettings(url=url))
    link = Link(config.redis)
    await function_loader.load(link)
    slow_sessions = Overtaken(link, config)
    slow = supervisor_parts.service(link, config, slow_sessions)
    fast = supervisor_parts.service(link, config, SessionStore(link, config))
    entry = control_entry("p")
    document = session.dump(session.build("run-1")).decode()
    opened = await slow.open(entry, control_pb2.OpenSession(identity="run-1", stream="rig", session_json=document))
    request = control_pb2.CloseSession(identity="run-1", state="closed")
    slow_sessions.other = lambda: fast.close(entry, request)
    reply = await slow.close(entry, request)
    await link.close()
    assert isinstance(reply, control_pb2.SessionReply)
    assert reply.state == "closed"
    assert samples.kinds(client, "rig", opened.stream_session_id) == ["session_json", "session_json"]


class Died(Exception):
    """A supervisor went no further."""


class DyingLink(Link):
    """Sends what belongs together one by one, and stops before a command that changes something."""

    left: int

    async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
        replies = []
        for command in batch:
            if command[0] not in ("HMGET", "HGET", "HSCAN", "MEMORY", "HLEN"):
                self.left -= 1
                if self.left == 0:
                    raise Died(command[:2])
            replies += await super().try_all([command])
        return replies


CLOSE = control_pb2.CloseSession(identity="run-1", state="closed")


class Pair:
    """A service that dies at a step of its close, and one that was there all the time, for one session."""

    def __init__(self, url: str) -> None:
        self._config = settings.Settings(redis=settings.RedisSettings(url=url))
        self._dying_link = DyingLink(self._config.redis)
        self._link = Link(self._config.redis)
        self.sessions = Overtaken(self._link, self._config)
        self.living = supervisor_parts.service(self._link, self._config, self.sessions)
        self._dying = supervisor_parts.service(
            self._dying_link, self._config, SessionStore(self._dying_link, self._config)
        )
        self.entry = control_entry("p")

    async def open(self) -> int:
        await function_loader.load(self._link)
        document = session.dump(session.build("run-1")).decode()
        request = control_pb2.OpenSession(identity="run-1", stream="rig", session_json=document)
        return (await self.living.open(self.entry, request)).stream_session_id

    async def close_until(self, point: int) -> bool:
        """Close the session, and die before the change of that number. Whether there was one."""
        self._dying_link.left = point
        try:
            await self._dying.close(self.entry, CLOSE)
        except Died:
            return True
        return False

    async def disconnect(self) -> None:
        await self._dying_link.close()
        await self._link.close()


@pytest.mark.parametrize("step", ["begin", "fold", "put"])
async def test_a_close_that_stopped_at_any_step_is_completed(url: str, client: redis.Redis, step: str) -> None:
    """Whoever gets the request next, or has it in hand at that moment, brings the session to its end: one last entry,
    which says what the hash says, behind a gate that is shut for good."""
    for point in itertools.count(1):
        client.flushall()
        pair = Pair(url)
        number = await pair.open()
        has_died = False

        async def other(point: int = point, pair: Pair = pair) -> None:
            nonlocal has_died
            has_died = await pair.close_until(point)

        if step == "begin":
            await other()
        else:
            pair.sessions.other, pair.sessions.step = other, step
        reply = await pair.living.close(pair.entry, CLOSE)
        await pair.disconnect()
        assert isinstance(reply, control_pb2.SessionReply)
        assert reply.state == "closed"
        assert samples.kinds(client, "rig", number) == ["session_json", "session_json"], f"stopped before {point}"
        last = samples.messages(client, "rig")[-1][1].data[0].session_json
        assert last == fields(client, "run-1")["json"], f"stopped before {point}"
        assert client.get(f"rtas:gate:{{stream:rig}}:{number}") == b"finished", f"stopped before {point}"
        if not has_died:
            break
    assert point > 4, f"only {point - 1} steps: nobody died"
