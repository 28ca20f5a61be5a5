"""The process that publishes: its loop beside a service that is slow for a while, and its end."""

import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
import pytest
import redis
import structlog.testing

from rta_supervisor.catalogue.model import CatalogueRow
from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.publish import pace, worker
from rta_supervisor.publish.status import PublishStatus
from rta_supervisor.publish.worker import PublishLoop
from rta_supervisor.publish.worker_connection import WorkerJob, WorkerReports
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import errors, keys, session
from rta_wire.control.totals import Totals
from rta_wire.session import State
from tests.support.toolkit_services import Fault, ToolkitServices
from tests.support.waiting import wait_until

EVERY_S = 0.5
SESSIONS = 48
SLOW_S = 0.3
"""With 16 calls at once, more than a period passes until all sessions are told."""


def rows(end_ns: int) -> list[CatalogueRow]:
    """Open sessions that have grown to a time."""
    at_ms = now_ms()
    return [
        CatalogueRow(
            *(f"run-{number}", "rig", number, "p", State.OPEN, DOCUMENTS[number]),
            *(Totals(1, 1, 1, 1, 1, end_ns), 1, at_ms, at_ms),
        )
        for number in range(1, SESSIONS + 1)
    ]


DOCUMENTS = {number: json.dumps(session.build(f"run-{number}")) for number in range(1, SESSIONS + 1)}


async def no_config(_identifier: str) -> bytes | None:
    return None


async def grow(catalogue: SqliteCatalogue, stopped: anyio.Event) -> None:
    """All sessions grow all the time."""
    for end_ns in itertools.count(2):
        await catalogue.save(rows(end_ns))
        with anyio.move_on_after(EVERY_S / 4):
            await stopped.wait()
            return


@pytest.fixture
def reports() -> Iterator[WorkerReports]:
    """A connection whose other end somebody reads."""
    ours, theirs = socket.socketpair()

    def read() -> None:
        while theirs.recv(65536):
            pass

    reader = threading.Thread(target=read)
    reader.start()
    yield WorkerReports(ours)
    ours.close()
    reader.join()
    theirs.close()


async def test_a_slow_service_stretches_the_period_for_a_while(
    url: str,
    link: Link,
    client: redis.Redis,
    catalogue: SqliteCatalogue,
    services: ToolkitServices,
    reports: WorkerReports,
) -> None:
    """While calls take long, ranges are told less often and the log and the status say so; afterwards as often as
    before."""
    config = settings.Settings(
        redis=settings.RedisSettings(url=url),
        publish=settings.PublishSettings(session_address=services.address, every_s=EVERY_S),
    )
    stopped = anyio.Event()
    await catalogue.save(rows(1))
    loop = PublishLoop(link, catalogue, WorkerJob(config, "node-1"), no_config, reports)

    async def wait_for(name: str, is_as_expected: Callable[[float], bool]) -> float:
        """The period of an event, once the status has such a one too. Waits in a thread: the loop's load counts."""

        def period_s() -> float | None:
            raw: Any = client.hget(config.keys.publishing(), keys.PUBLISHING_STATUS.decode())
            found = [event for event in events if event["event"] == name]
            is_there = found and is_as_expected(msgspec.json.decode(raw, type=PublishStatus).period_s)
            return float(found[-1]["period_s"]) if is_there else None

        return await anyio.to_thread.run_sync(lambda: wait_until(period_s, what=name, timeout_s=30)) or 0.0

    with structlog.testing.capture_logs() as events:
        async with anyio.create_task_group() as group:
            group.start_soon(loop.run)
            group.start_soon(grow, catalogue, stopped)
            services.fault = lambda _method, _request: Fault(takes_s=SLOW_S)
            period_s = await wait_for("publish_slowed", lambda period_s: EVERY_S < period_s <= pace.PERIOD_MAX_S)
            assert EVERY_S < period_s <= pace.PERIOD_MAX_S
            services.fault = lambda _method, _request: None
            assert await wait_for("publish_on_pace", lambda period_s: period_s == EVERY_S) == EVERY_S
            stopped.set()
            group.cancel_scope.cancel()
    names = [event["event"] for event in events if event["event"] in ("publish_slowed", "publish_on_pace")]
    assert names == ["publish_slowed", "publish_on_pace"]


async def test_one_whose_lease_is_over_tells_nothing(
    url: str, link: Link, catalogue: SqliteCatalogue, services: ToolkitServices, reports: WorkerReports, tmp_path: Path
) -> None:
    """Another supervisor takes the lease right after this one has looked at it, and publishes from a catalogue that is
    ahead of this one. What is older does not come after it."""
    config = settings.Settings(
        redis=settings.RedisSettings(url=url),
        publish=settings.PublishSettings(session_address=services.address, every_s=EVERY_S),
    )
    newer = SqliteCatalogue(tmp_path / "newer.sqlite")
    await catalogue.save(rows(1))
    await newer.save([msgspec.structs.replace(row, version=2) for row in rows(9)])
    loop, other = (
        PublishLoop(link, saved, WorkerJob(config, node), no_config, reports)
        for saved, node in ((catalogue, "node-1"), (newer, "node-2"))
    )
    looks = loop._has_lease

    async def look_and_lose_it() -> bool:
        has_lease = await looks()
        await link.do("SET", config.keys.lease(worker.DUTY), "node-2", "EX", 60)
        await other._publisher.run_round(EVERY_S, await other._publisher.last_sequence())
        return has_lease

    loop._has_lease = look_and_lose_it  # type: ignore[method-assign]
    with anyio.fail_after(20):
        await loop.run()
    await other._client.close()
    await newer.close()
    assert {stored.time_range for stored in services.sessions.values()} == {(1, 9)}
    assert {len(states) for states in services.history.values()} == {1}


async def test_a_host_whose_clock_is_ahead(
    url: str,
    link: Link,
    catalogue: SqliteCatalogue,
    services: ToolkitServices,
    reports: WorkerReports,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first round has the time of Redis, too: what it tells is not taken for told an hour later."""
    config = settings.Settings(
        redis=settings.RedisSettings(url=url),
        publish=settings.PublishSettings(session_address=services.address, every_s=EVERY_S),
    )
    await catalogue.save(rows(1))
    for known in ("_offset_ms", "steady_since_ms"):
        # Put back at the end: the whole process shares this clock.
        monkeypatch.setattr(now_ms, known, getattr(now_ms, known))
    host_ms = now_ms()
    now_ms.adjust_to(host_ms + 3_600_000)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(PublishLoop(link, catalogue, WorkerJob(config, "node-1"), no_config, reports).run)
            while (status := await catalogue.publications.get("run-1")) is None or not status.told_ms:
                await link.do("PING")
            group.cancel_scope.cancel()
    assert status is not None
    assert abs(status.told_ms - host_ms) < 60_000


async def test_a_key_that_somebody_has_spoilt(
    url: str, link: Link, catalogue: SqliteCatalogue, services: ToolkitServices, reports: WorkerReports
) -> None:
    """The log says why nothing is published, once, and publishing goes on when the key is removed."""
    config = settings.Settings(
        redis=settings.RedisSettings(url=url),
        publish=settings.PublishSettings(session_address=services.address, every_s=EVERY_S),
    )
    key = config.keys.publishing()
    await link.do("SET", key, "somebody's", "EX", 60)
    await catalogue.save(rows(1))
    loop = PublishLoop(link, catalogue, WorkerJob(config, "node-1"), no_config, reports)
    with structlog.testing.capture_logs() as events, anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(loop.run)
            while not events:
                await link.do("PING")
            await link.do("DEL", key)
            while len(services.sessions) < SESSIONS:
                await link.do("PING")
            group.cancel_scope.cancel()
    [interrupted] = [event for event in events if event["event"] == "publish_interrupted"]
    assert "a key holds something else than it should" in interrupted["error"]


async def test_a_catalogue_that_is_too_new(url: str, catalogue: SqliteCatalogue, services: ToolkitServices) -> None:
    """The process ends with a sentence, and not with a traceback."""
    await catalogue.publications.raise_mark("schema", 99)
    config = settings.Settings(
        redis=settings.RedisSettings(url=url),
        catalogue=settings.CatalogueSettings(path=catalogue.name),
        publish=settings.PublishSettings(session_address=services.address),
    )
    ours, theirs = socket.socketpair()
    with ours, theirs, anyio.fail_after(10), pytest.raises(errors.CatalogueTooNew, match="99"):
        await worker._run(WorkerJob(config, "node-1"), theirs, WorkerReports(theirs))


async def test_the_process_ends_with_its_supervisor(url: str) -> None:
    """The work is cancelled when the other end of the connection closes, as it does when the supervisor is killed."""
    ours, theirs = socket.socketpair()
    job = WorkerJob(settings.Settings(redis=settings.RedisSettings(url=url)), "node-1")
    with theirs, anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(worker.follow_supervisor, job, theirs, group.cancel_scope)
            ours.close()
            await anyio.sleep_forever()
