"""A loop that is stuck is found, and systemd gets no watchdog message while it is."""

import socket
from pathlib import Path

import anyio
import pytest

from rta_supervisor.diagnostics import loop_watch
from rta_supervisor.observe import health as observe_health
from rta_supervisor.runtime import systemd
from rta_supervisor.settings import settings

NOBODY = settings.RedisSettings(url="unix:///nonexistent/socket")


@pytest.fixture(autouse=True)
def no_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_watch, "SLACK_S", 0.05)


async def test_a_loop_that_does_not_come_back_is_stuck(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A loop that reports or waits for something is not stuck; a stuck one keeps back the watchdog message."""
    loop_watcher = loop_watch.LoopWatch()
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    notifier = systemd.SystemdNotifier(loop_watcher, lambda: "well")
    health = observe_health.Health(NOBODY, loop_watcher.stuck)

    async def goes_round() -> None:
        while True:
            loop_watch.report_alive(0.01)
            await anyio.sleep(0.01)

    async def waits() -> None:
        loop_watch.report_waiting()
        await anyio.sleep_forever()

    async def hangs() -> None:
        loop_watch.report_alive()
        await anyio.sleep_forever()

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        async with anyio.create_task_group() as loops:
            loops.start_soon(loop_watcher.watched("round", goes_round))
            loops.start_soon(loop_watcher.watched("waits", waits))
            await anyio.sleep(0.2)
            assert loop_watcher.stuck() == {}
            notifier.notify_state(is_watched=True)
            assert listener.recv(1000) == b"STATUS=well\nWATCHDOG=1"
            loops.start_soon(loop_watcher.watched("hangs", hangs))
            await anyio.sleep(0.3)
            assert loop_watcher.stuck().keys() == {"hangs"}
            notifier.notify_state(is_watched=True)
            assert listener.recv(1000) == b"STATUS=well"
            health._failed_probes = 0
            assert health.readiness().reason == "loops get nowhere: hangs"
            loops.cancel_scope.cancel()
    assert loop_watcher.stuck() == {}, "what has ended is not stuck"
