"""The duty of a supervisor that publishes, whose process ends by itself."""

import anyio
import pytest
import structlog.testing

from rta_supervisor.nodes.leases import Lease
from rta_supervisor.publish import duty
from rta_supervisor.publish.duty import PublishDuty
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link

FIRST_S = 0.01
LONGEST_S = 0.04


async def test_a_process_that_can_not_run_is_started_less_and_less_often(
    url: str, link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalogue is brought up to date before each start: that must not be done all the time."""
    monkeypatch.setattr(duty, "_PROGRAM", "import sys; sys.exit(3)")
    monkeypatch.setattr(duty, "RESTART_PAUSE_S", FIRST_S)
    monkeypatch.setattr(duty, "RESTART_MAX_S", LONGEST_S)
    prepared = 0

    async def prepare() -> None:
        nonlocal prepared
        prepared += 1

    lease = Lease("publish")
    lease.note(1, float("inf"))
    monkeypatch.setattr(duty, "LOOK_S", FIRST_S)
    config = settings.Settings(redis=settings.RedisSettings(url=url))
    with structlog.testing.capture_logs() as events, anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            group.start_soon(PublishDuty(link, config, "node-1", prepare).run, lease)
            while prepared < 5:
                await link.do("PING")
            group.cancel_scope.cancel()
    ended = [(event["code"], event["restart_s"]) for event in events if event["event"] == "publisher_ended"]
    assert ended[:4] == [(3, FIRST_S), (3, 2 * FIRST_S), (3, LONGEST_S), (3, LONGEST_S)]
