"""The same request in the hands of two supervisors: it was redelivered while the first was only slow."""

from collections.abc import Sequence
from typing import Any

import redis

from rta_supervisor.session.model import SessionRef
from rta_supervisor.session.records.totals_store import MarksResult
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import function_loader
from rta_supervisor.transport.link import Link
from rta_wire import session
from rta_wire.pb import control_pb2
from tests.support import samples, supervisor_parts
from tests.support.session_values import control_entry


class Overtaken(SessionStore):
    """Somebody else is faster, just after we looked."""

    other: Any = None

    async def fold_final_marks(self, ref: SessionRef, marks: Sequence[bytes] | None) -> MarksResult:
        other, self.other = self.other, None
        if other is not None:
            await other()
        return await super().fold_final_marks(ref, marks)


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
