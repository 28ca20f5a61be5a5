"""Time ranges of open sessions: each is published, and nothing older after something newer."""

import anyio
import redis

from rta_supervisor.session import server_functions as session_functions
from rta_supervisor.session.model import SessionRecord, SessionRef
from rta_supervisor.session.refresher import Refresher
from rta_supervisor.session.state_machine import SessionEvent
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import keys
from rta_wire.control.totals import Mark, Totals
from tests.support import samples
from tests.support.session_values import session_record
from tests.support.supervisor_parts import opened

NAMES = keys.Keys()


async def test_a_gap_of_one_principal_reads_the_marks_of_its_own_sessions(link: Link, client: redis.Redis) -> None:
    """In the background, and those of others are left alone."""
    sessions, sessions_service = await opened(link)
    refresher = Refresher(sessions, sessions_service, settings.Settings(), lambda _: None)
    marks = NAMES.marks("rig", 1)
    client.hset(marks, "u", Mark(0, 1, Totals(1, 7, 1, 1, 5, 9)).text())
    client.expire(marks, 60)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(refresher.run_gaps)
        refresher.note_gap(["somebody"])
        await anyio.wait_all_tasks_blocked()
        assert await totals(sessions) == Totals()
        refresher.note_gap(["default"])
        with anyio.fail_after(10):
            while (await totals(sessions)).samples != 7:  # noqa: ASYNC110 - nobody tells when it is folded
                await anyio.sleep(0.001)
        tasks.cancel_scope.cancel()


async def totals(sessions: SessionStore) -> Totals:
    record = await sessions.read("run-1")
    assert record is not None
    return record.totals


def versioned(version: int, document: bytes = b"{}") -> SessionRecord:
    return session_record("run-1", version=version, document=document)


async def test_a_range_that_was_never_published_is_published_by_the_next_refresh(
    link: Link, client: redis.Redis
) -> None:
    """A supervisor died after the hash and before the entry: the session has to be refreshed, not to grow."""
    sessions, _ = await opened(link)
    await sessions.fold({("run-1", 1): {"u": Totals(1, 1, 1, 1, 5, 9)}})
    await link.do(*session_functions.refresh(NAMES, [(SessionRef("run-1", "rig", 1), 60)]))
    assert client.hget("sessions:run-1", "tEnd") == b"9"
    assert not any(message.data[0].HasField("time_range") for _, message in samples.messages(client, "rig"))
    for _ in range(2):
        await sessions.refresh([SessionRef("run-1", "rig", 1)])
    *_, last = samples.messages(client, "rig")
    assert (last[1].data[0].time_range.start_time, last[1].data[0].time_range.end_time) == (5, 9)
    assert client.xlen("stream:rig") == 2, "once"


async def test_nothing_older_is_published_after_something_newer(link: Link, client: redis.Redis) -> None:
    """Time ranges only widen, JSON only gets newer, and after the last entry comes nothing of before."""
    sessions, service = await opened(link)
    ref = SessionRef("run-1", "rig", 1)

    async def publish_range(start: int, end: int) -> None:
        await link.do(
            *session_functions.publish_time_ranges(
                NAMES, "rig", [(1, str(start).encode(), str(end).encode())], ttl_s=60
            )
        )

    async def publish_json(version: int) -> None:
        await link.do(*session_functions.publish_json(NAMES, versioned(version, b'{"v": %d}' % version), ttl_s=60))

    for start, end in ((-5, 10), (-5, 9), (-4, 10), (-5, 10), (-50, 10), (-5, 10), (-50, 10**18), (-49, 10**18 + 1)):
        await publish_range(start, end)
    for version in (3, 2, 3, 10, 9):
        await publish_json(version)
    published = [message.data[0] for _, message in samples.messages(client, "rig")][1:]
    spans = [
        (item.time_range.start_time, item.time_range.end_time) for item in published if item.HasField("time_range")
    ]
    assert spans == [(-5, 10), (-50, 10), (-50, 10**18)]
    assert [item.session_json for item in published if item.session_json] == ['{"v": 3}', '{"v": 10}']
    client.hset(NAMES.session_state("run-1"), "version", 11)
    record = await sessions.read("run-1")
    assert record is not None
    await service.end(record, SessionEvent.CLOSE)
    count = client.xlen("stream:rig")
    await publish_range(-100, 10**18 + 5)
    await publish_json(11)
    await link.do(*session_functions.publish_end(NAMES, versioned(12), ttl_s=60))
    assert client.xlen("stream:rig") == count
    client.delete(NAMES.gate(ref.stream, ref.stream_session_id))
    await publish_range(-100, 10**18 + 5)
    await publish_json(99)
    await link.do(*session_functions.publish_end(NAMES, versioned(99), ttl_s=60))
    assert client.xlen("stream:rig") == count, "and where there is no gate any more nothing at all"
