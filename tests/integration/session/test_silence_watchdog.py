"""Sessions of silent writers: which are abandoned, and by whom."""

import time

import anyio
import pytest
import redis
import structlog.testing

import rta_writers
from rta_supervisor.nodes import leases as nodes_leases
from rta_supervisor.session.silence_watchdog import SilenceWatchdog
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link
from rta_wire import errors, keys, session
from rta_wire.pb import control_pb2
from tests.support import supervisors
from tests.support.control import document, fields, send, write
from tests.support.session_values import control_entry
from tests.support.supervisor_parts import config, opened
from tests.support.waiting import wait_until

NAMES = keys.Keys()


async def test_a_watchdog_that_stood_still_ends_nobody(link: Link, client: redis.Redis) -> None:
    """Its lease was over when it came to shut the gate: the writer may be back by now."""
    sessions, service = await opened(link)
    leases = nodes_leases.Leases(link, config(), "first")
    await leases.renew()
    until_ms = await leases.of("watchdog").next_turn(1)
    assert until_ms
    wait_until(lambda: not client.exists(NAMES.lease("watchdog")), what="the end of the lease")
    later_ms = time.time_ns() // 1_000_000 + 1_000_000
    watchdog = SilenceWatchdog(sessions, service, config(), lambda: 0, clock=lambda: later_ms)
    with pytest.raises(nodes_leases.LeaseExpired):
        await watchdog.check(until_ms)
    assert client.get(NAMES.gate("rig", 1)) == b"open"
    assert document(client, "run-1")["state"] == "open"
    await watchdog.check(int(time.time() * 1000) + 60_000)
    assert document(client, "run-1")["state"] == "abandoned"


async def test_thousands_of_silent_sessions_are_ended_without_pauses(link: Link, client: redis.Redis) -> None:
    """A check that has used up half a lease is followed by the next one at once, and no line blames Redis."""
    sessions, service = await opened(link)
    count = 60
    for number in range(2, count + 1):
        text = session.dump(session.build(f"run-{number}")).decode()
        request = control_pb2.OpenSession(identity=f"run-{number}", stream="rig", session_json=text)
        await service.open(control_entry(), request)
    later_ms = time.time_ns() // 1_000_000 + 1_000_000
    settings = config(lease_s=0.01)  # less than it takes to end all of them
    watchdog = SilenceWatchdog(sessions, service, settings, lambda: 0, clock=lambda: later_ms)
    assert not await watchdog.check(at_most_s=0.005)

    def are_all_ended() -> bool:
        return all(document(client, f"run-{number}")["state"] == "abandoned" for number in range(1, count + 1))

    assert not are_all_ended()
    with structlog.testing.capture_logs() as lines:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watchdog.run, OneTurn())
            await anyio.to_thread.run_sync(wait_until, are_all_ended)
            tasks.cancel_scope.cancel()
    assert "lease_lost" not in {line["event"] for line in lines}


class OneTurn:
    """A lease that is always ours. Only the first turn that is waited for comes."""

    def __init__(self) -> None:
        self._waits = 0

    async def next_turn(self, every_s: float) -> int | None:
        if every_s:
            self._waits += 1
            if self._waits > 1:
                await anyio.sleep_forever()
        return commands.FOREVER


def test_a_silent_writer_is_abandoned_and_an_idle_one_is_not(url: str, client: redis.Redis) -> None:
    """No heartbeat and no data ends a session; a heartbeat alone keeps it."""
    with supervisors.running(url, {"RTA_SESSION__WRITER_SILENT_S": "0.6"}) as supervisor:
        sessions = rta_writers.SessionClient(url)
        sessions.session("silent", stream="rig")
        idle = sessions.session("idle", stream="rig")
        beat = control_pb2.Heartbeat(identity="idle", stream_session_id=idle.target.stream_session_id)

        def silent_one_is_gone() -> bool:
            send(client, beat)
            return bool(document(client, "silent")["state"] == "abandoned")

        wait_until(silent_one_is_gone, what="the silent session being abandoned")
        assert document(client, "idle")["state"] == "open"
        assert supervisor.events("writer_silent")
        with pytest.raises(errors.SessionClosed):
            sessions.wait("silent", "open", timeout_s=1)


def test_data_without_reports_keeps_a_session(url: str, client: redis.Redis) -> None:
    """The watchdog looks at the marks: a writer whose reports are lost is not gone."""
    with supervisors.running(url, {"RTA_SESSION__WRITER_SILENT_S": "0.6"}):
        sessions = rta_writers.SessionClient(url)
        session = sessions.session("run-1", stream="rig")
        number = 0

        def refreshed_often() -> bool:
            nonlocal number
            number += 1
            write(client, session, 1, unit=f"u{number}", report=False)
            return int(fields(client, "run-1").get("tEnd", 0)) > 0 and number > 100

        wait_until(refreshed_often, what="the marks being found")
        assert document(client, "run-1")["state"] == "open"
