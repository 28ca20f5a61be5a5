"""Several supervisors on one Redis: duties move, messages are inherited, and who comes late changes nothing."""

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
import redis

import rta_writers
from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.catalogue.sync import CatalogueSync
from rta_supervisor.catalogue.writer import CatalogueWriter
from rta_supervisor.control import functions as control_functions
from rta_supervisor.control import takeover
from rta_supervisor.nodes import leases as nodes_leases
from rta_supervisor.recovery.restore import Recovery
from rta_supervisor.retention.trimmer import Trimmer, TrimResult
from rta_supervisor.session import functions as session_functions
from rta_supervisor.session.effects import SessionEffects
from rta_supervisor.session.model import SessionRef
from rta_supervisor.session.service import SessionService
from rta_supervisor.session.silence_watchdog import SilenceWatchdog
from rta_supervisor.session.state_machine import SessionEvent
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import keys, session
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from tests.support import samples, supervisors
from tests.support.control import document, fields, progress, send, write
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until

NAMES = keys.Keys()


def required(config: settings.Settings) -> settings.Settings:
    """The same settings, with a catalogue that has to be there."""
    return msgspec.structs.replace(config, catalogue=msgspec.structs.replace(config.catalogue, required=True))


def config(lease_s: float = 0.3, **changes: Any) -> settings.Settings:
    return settings.Settings(node=settings.NodeSettings(lease_s=lease_s), **changes)


async def opened(link: Link, identity: str = "run-1") -> tuple[SessionStore, SessionService]:
    sessions = SessionStore(link, config())
    life = SessionService(link, config(), sessions, SessionEffects(link, config(), sessions, lambda _: None))
    text = session.dump(session.build(identity)).decode()
    await life.open("default", control_pb2.OpenSession(identity=identity, stream="rig", session_json=text))
    return sessions, life


async def test_one_supervisor_has_a_duty_at_a_time(link: Link) -> None:
    """The second one gets it when the first has been silent for the length of the lease, and the first hears of it."""
    first, second = (nodes_leases.Leases(link, config(), name) for name in ("first", "second"))
    await first.renew()
    await second.renew()
    assert (first.of("trim").is_ours, second.of("trim").is_ours) == (True, False)
    with anyio.fail_after(5):
        while not second.of("trim").is_ours:
            await second.renew()
    assert not first.of("trim").is_ours, "by its own clock too"
    await first.renew()
    assert (first.of("trim").is_ours, second.of("trim").is_ours) == (False, True)
    await second.release()
    await first.renew()
    assert first.of("trim").is_ours, "what is given back need not expire"


async def test_a_duty_that_was_won_is_done_at_once(link: Link) -> None:
    """Whoever takes over does not wait for its usual time."""
    leases = nodes_leases.Leases(link, config(), "first")
    assert await leases.of("trim").next(0.01) is None
    await leases.renew()
    with anyio.fail_after(5):
        assert await leases.of("trim").next(3600) is not None


async def test_a_watchdog_that_stood_still_ends_nobody(link: Link, client: redis.Redis) -> None:
    """Its lease was over when it came to shut the gate: the writer may be back by now."""
    sessions, life = await opened(link)
    leases = nodes_leases.Leases(link, config(), "first")
    await leases.renew()
    until_ms = await leases.of("watchdog").next(1)
    assert until_ms
    wait_until(lambda: not client.exists(NAMES.lease("watchdog")), what="the end of the lease")
    later_ms = time.time_ns() // 1_000_000 + 1_000_000
    watchdog = SilenceWatchdog(sessions, life, config(), lambda: 0, clock=lambda: later_ms)
    with pytest.raises(nodes_leases.LeaseExpired):
        await watchdog.check(until_ms)
    assert client.get(NAMES.gate("rig", 1)) == b"open"
    assert document(client, "run-1")["state"] == "open"
    await watchdog.check(int(time.time() * 1000) + 60_000)
    assert document(client, "run-1")["state"] == "abandoned"


async def test_a_trimmer_that_stood_still_removes_nothing(link: Link, client: redis.Redis) -> None:
    """Not an entry, not a stream, not a name."""
    for number in range(50):
        client.xadd("stream:rig", {"id": 1, "data": b"x" * 8000}, id=f"1000-{number}")
    client.sadd("streams", "rig")
    client.zadd(NAMES.streams_used(), {"rig": 1000})
    over_ms = int(time.time() * 1000) - 1
    for limits in ({"max_entries": 5}, {"idle_stream_s": 1.0}):
        trimmer = Trimmer(link, settings.Settings(trim=settings.TrimSettings(**limits)))
        assert await trimmer.sweep(over_ms) == TrimResult()
        assert await trimmer.sweep(None) == TrimResult()
    assert client.xlen("stream:rig") == 50
    assert client.smembers("streams") == {b"rig"}


async def test_a_range_that_was_never_told_is_told_by_the_next_one(link: Link, client: redis.Redis) -> None:
    """A supervisor died after the hash and before the entry: the session has to be refreshed, not to grow."""
    sessions, _ = await opened(link)
    await sessions.fold({("run-1", 1): {"u": Totals(1, 1, 1, 1, 5, 9)}})
    await link.do(*session_functions.refresh(NAMES, [("run-1", 1, 60)]))
    assert client.hget("sessions:run-1", "tEnd") == b"9"
    assert not any(message.data[0].HasField("time_range") for _, message in samples.messages(client, "rig"))
    for _ in range(2):
        await sessions.refresh([SessionRef("run-1", "rig", 1)])
    *_, last = samples.messages(client, "rig")
    assert (last[1].data[0].time_range.start_time, last[1].data[0].time_range.end_time) == (5, 9)
    assert client.xlen("stream:rig") == 2, "once"


async def test_nothing_older_is_told_after_something_newer(link: Link, client: redis.Redis) -> None:
    """Time ranges only widen, JSON only gets newer, and after the last entry comes nothing of before."""
    sessions, life = await opened(link)
    ref = SessionRef("run-1", "rig", 1)

    async def show(start: int, end: int) -> None:
        await link.do(
            *session_functions.publish_time_ranges(
                NAMES, "rig", [(1, str(start).encode(), str(end).encode())], ttl_s=60
            )
        )

    async def tell(version: int) -> None:
        await link.do(
            *session_functions.publish_json(
                NAMES, "rig", 1, session_functions.VersionedJson(b'{"v": %d}' % version, version), ttl_s=60
            )
        )

    for start, end in ((-5, 10), (-5, 9), (-4, 10), (-5, 10), (-50, 10), (-5, 10), (-50, 10**18), (-49, 10**18 + 1)):
        await show(start, end)
    for version in (3, 2, 3, 10, 9):
        await tell(version)
    told = [message.data[0] for _, message in samples.messages(client, "rig")][1:]
    spans = [(item.time_range.start_time, item.time_range.end_time) for item in told if item.HasField("time_range")]
    assert spans == [(-5, 10), (-50, 10), (-50, 10**18)]
    assert [item.session_json for item in told if item.session_json] == ['{"v": 3}', '{"v": 10}']
    client.hset(NAMES.session_state("run-1"), "version", 11)
    known = await sessions.read("run-1")
    assert known is not None
    await life.end(known, SessionEvent.CLOSE)
    count = client.xlen("stream:rig")
    await show(-100, 10**18 + 5)
    await tell(11)
    await link.do(*session_functions.publish_end(NAMES, "rig", 1, session_functions.VersionedJson(b"{}", 12), ttl_s=60))
    assert client.xlen("stream:rig") == count
    client.delete(NAMES.gate(ref.stream, ref.stream_session_id))
    await show(-100, 10**18 + 5)
    await tell(99)
    await link.do(*session_functions.publish_end(NAMES, "rig", 1, session_functions.VersionedJson(b"{}", 99), ttl_s=60))
    assert client.xlen("stream:rig") == count, "and where there is no gate any more nothing at all"


async def test_a_pause_that_comes_late_does_not_undo_a_resume(link: Link, client: redis.Redis) -> None:
    """Pauses and resumes are ordered as they were asked for, however late they are handled."""
    _, life = await opened(link)

    async def change(state: str, at: str) -> None:
        await life.update("default", control_pb2.UpdateSession(identity="run-1", state=state), entry_id=at)

    await change("waiting", "1-0")
    await change("open", "3-0")
    entries = client.xlen("stream:rig")
    await change("waiting", "1-0")
    await change("waiting", "2-0")
    assert document(client, "run-1")["state"] == "open"
    assert client.xlen("stream:rig") == entries, "and tells nobody"
    await change("waiting", "4-0")
    assert document(client, "run-1")["state"] == "waiting"


async def test_settling_twice_hides_no_eviction(link: Link, client: redis.Redis) -> None:
    """Two supervisors acknowledge one message: it counts once, and a message that is evicted then is missed."""
    key = NAMES.reports("default")
    await link.do(*control_functions.create_group(NAMES, key))
    ids = [client.xadd(key, {"m": b"x"}).decode() for _ in range(2)]  # type: ignore[union-attr]
    client.xreadgroup(keys.CONTROL_GROUP, "a", {key: ">"}, count=1)
    for _ in range(2):
        await link.do(*control_functions.acknowledge(NAMES, key, ids[:1]))
    client.xtrim(key, maxlen=0)
    assert await link.do(*control_functions.count_evicted(NAMES, key)) == 1


async def test_messages_of_the_dead_are_inherited_once(link: Link, client: redis.Redis) -> None:
    """Two heirs share without loss; who shows a sign of life keeps what it has; the dead are forgotten."""
    key = NAMES.requests("default")
    await link.do(*control_functions.create_group(NAMES, key))
    for number in range(20):
        client.xadd(key, {"m": str(number)})
    client.xreadgroup(keys.CONTROL_GROUP, "dead", {key: ">"}, count=12)
    client.xreadgroup(keys.CONTROL_GROUP, "alive", {key: ">"}, count=3)
    client.xreadgroup(keys.CONTROL_GROUP, "idle", {key: ">"}, count=5)
    done: Any = client.xpending_range(key, keys.CONTROL_GROUP, "-", "+", 20, consumername="idle")
    client.xack(key, keys.CONTROL_GROUP, *(one["message_id"] for one in done))
    for name in ("alive", "a", "b"):
        client.set(NAMES.alive(name), 1, ex=60)
    lease_s = 0.02

    def is_old_enough() -> bool:
        found: Any = client.xpending_range(key, keys.CONTROL_GROUP, "-", "+", 20, idle=20)
        return len(found) == 15

    wait_until(is_old_enough, what="messages that are old enough")
    counts = [
        await takeover.take_over(link, NAMES, key, name, lease_s=3600 * n + lease_s) for n, name in enumerate("ab")
    ]
    assert counts == [12, 0]
    left: Any = client.xinfo_consumers(key, keys.CONTROL_GROUP)
    assert {one["name"]: one["pending"] for one in left} == {b"a": 12, b"alive": 3}


async def test_a_host_hears_of_what_others_ended(link: Link, tmp_path: Path) -> None:
    """Its own catalogue says so too, and a session that ended and expired meanwhile does not come back."""
    shared = config()
    sessions = SessionStore(link, shared)
    catalogue = SqliteCatalogue(tmp_path / "here.sqlite")
    archivist = CatalogueWriter(link, catalogue, shared)
    effects = SessionEffects(link, shared, sessions, archivist.mark_changed)
    here = SessionService(link, shared, sessions, effects)
    elsewhere = SessionService(link, shared, sessions, SessionEffects(link, shared, sessions, lambda _: None))
    for identity in ("seen", "expired"):
        text = session.dump(session.build(identity)).decode()
        await here.open("default", control_pb2.OpenSession(identity=identity, stream="rig", session_json=text))
    await archivist.flush()
    assert [row.identity for row in await catalogue.unfinished()] == ["seen", "expired"]
    for identity in ("seen", "expired"):
        known = await sessions.read(identity)
        assert known is not None
        await elsewhere.end(known, SessionEvent.FAIL)
    await link.do("UNLINK", NAMES.session("expired"))
    await link.do("UNLINK", NAMES.session_state("expired"))
    recovery = Recovery(link, sessions, here, catalogue, config=required(shared), prepare=())
    follower = CatalogueSync(
        link, sessions, catalogue, shared, on_stale=archivist.mark_changed, close_again=recovery.close_again
    )
    await follower.sync()
    await archivist.flush()
    assert [row.identity for row in await catalogue.unfinished()] == ["expired"]
    assert (await recovery.restore(is_start=True))[0] == 0
    assert await catalogue.unfinished() == []
    assert await sessions.read("expired") is None
    await catalogue.close()


TRIES = 3


@contextlib.contextmanager
def many(url: str, count: int, environment: dict[str, str]) -> Iterator[list[Supervisor]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(supervisors.running(url, environment)) for _ in range(count)]


def node_of(supervisor: Supervisor) -> str:
    return str(supervisor.events("supervisor_started")[0]["node"])


def owner(client: redis.Redis, duty: str) -> str | None:
    raw: Any = client.get(NAMES.lease(duty))
    return raw.decode() if raw else None


def takeover_s(url: str, client: redis.Redis, lease_s: float, identity: str) -> float:
    """From the kill -9 of the one that has the duties and a close in its hands until another one has both."""
    environment = {"RTA_NODE__LEASE_S": str(lease_s), "RTA_CONTROL__RETRY_S": "60", "RTA_SESSION__CLOSE_GRACE_S": "1"}
    with many(url, 1, environment) as [first]:
        rta_writers.SessionClient(url, timeout_s=40).session(identity, stream="rig")
        closing = control_pb2.CloseSession(request_id=identity, identity=identity, state="closed")
        closing.expected.CopyFrom(Totals(bursts=1).to_message())
        send(client, closing, lane="req")
        wait_until(lambda: client.xpending("rtas:req:default", "supervisors")["pending"], what="the close")
        with many(url, 1, environment) as [second]:
            assert {owner(client, duty) for duty in nodes_leases.DUTIES} == {node_of(first)}
            heir = {node_of(second)}
            killed_s = time.monotonic()
            first.kill()

            def has_moved() -> bool:
                return {owner(client, duty) for duty in nodes_leases.DUTIES} == heir and bool(
                    client.exists(NAMES.reply(identity))
                )

            wait_until(has_moved, timeout_s=lease_s + 30, what="duties and messages moving")
            took_s = time.monotonic() - killed_s
            assert document(client, identity)["state"] == "truncated"
            return took_s


@pytest.mark.parametrize(("lease_s", "within_s"), [(1.5, 2.0), (10.0, 12.0)])
def test_duties_and_messages_of_a_killed_supervisor_move_in_time(
    url: str, client: redis.Redis, lease_s: float, within_s: float
) -> None:
    """The other one has them within the promised time; where the machine is busy it gets three tries."""
    took_s = [takeover_s(url, client, lease_s, "run-0")]
    while took_s[-1] >= within_s and len(took_s) < TRIES:
        took_s.append(takeover_s(url, client, lease_s, f"run-{len(took_s)}"))
    assert took_s[-1] < within_s, took_s


def test_work_is_shared_and_sessions_come_out_right(url: str, client: redis.Redis) -> None:
    """Five supervisors, one of which is killed and one of which stands still: every session ends as it should."""
    environment = {"RTA_NODE__LEASE_S": "0.5"}
    with many(url, 5, environment) as group:
        sessions = rta_writers.SessionClient(url, timeout_s=60)
        runs = [sessions.session(f"run-{number}", stream=f"rig-{number % 3}") for number in range(20)]
        group[0].kill()
        group[1].process.send_signal(signal.SIGSTOP)
        expected = [write(client, run, 4) for run in runs]
        for run, totals in zip(runs, expected, strict=True):
            send(client, progress(run, "u", totals))
        ended = [run.close(expected=totals) for run, totals in zip(runs, expected, strict=True)]
        group[1].process.send_signal(signal.SIGCONT)
        wait_until(lambda: client.zcard("rtas:idx") == 0, what="all sessions put away")
        assert [(one.state, one.totals.samples) for one in ended] == [("closed", 4)] * 20
        opened_by = [len(one.events("session_opened")) for one in group]
        assert sum(opened_by) == 20
        assert sum(count > 0 for count in opened_by) > 1, f"one did it all: {opened_by}"
        numbers = {int(fields(client, run.identity)["streamSessionId"]) for run in runs}
        assert len(numbers) == 20
        for run in runs:
            kinds = samples.kinds(client, run.target.stream, run.target.stream_session_id)
            assert (kinds[0], kinds[-1], kinds.count("timestamped_data")) == ("session_json", "session_json", 4)
            assert kinds.count("session_json") == 2
