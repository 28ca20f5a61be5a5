"""What a writer can make large: marks, units and properties of its session. No command is about much of it at once."""

import time
from typing import Any

import pytest
import redis

from rta_supervisor.diagnostics import counters
from rta_supervisor.retention.key_sweep import KeySweep
from rta_supervisor.session.model import SessionRef
from rta_supervisor.session.records import fold_calls
from rta_supervisor.session.service import SessionService
from rta_supervisor.session.silence_watchdog import SilenceWatchdog
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections.limits import LimitsSettings
from rta_supervisor.transport import scanning
from rta_supervisor.transport.link import Link
from rta_wire import errors, keys
from rta_wire.control.totals import Mark, Totals
from rta_wire.pb import control_pb2
from tests.support import slow_log
from tests.support.control import document, fields, folded
from tests.support.session_values import control_entry
from tests.support.supervisor_parts import config, opened

NAMES = keys.Keys()
MARKS = NAMES.marks("rig", 1)
REF = SessionRef("run-1", "rig", 1)
STATE = NAMES.session_state("run-1")
NOW_NS = time.time_ns()
BLOCKED_MAX_US = 100_000
"""Far more than any of these commands takes on a busy host, and far less than one that is about everything."""


def limited(**limits: Any) -> settings.Settings:
    return config(limits=LimitsSettings(**limits))


def mark(client: redis.Redis, count: int) -> None:
    """Write marks and fences, as many units of a job would, or one client that means harm."""
    pipeline = client.pipeline(transaction=False)
    text = Mark(0, 2, Totals(1, 2, 30, 20, 5, 9)).text()
    for first in range(0, count, 5000):
        numbers = range(first, min(first + 5000, count))
        pipeline.hset(MARKS, mapping={f"unit-{number:07}": text for number in numbers})
        for number in numbers[:100]:
            pipeline.set(f"{MARKS}:unit-{number:07}", "0 2 7", ex=1000)
    pipeline.expire(MARKS, 1000)
    pipeline.execute()


async def close(service: SessionService, expected: Totals | None = None) -> control_pb2.SessionReply:
    request = control_pb2.CloseSession(identity="run-1", state="closed")
    if expected is not None:
        request.expected.CopyFrom(expected.to_message())
    reply = await service.close(control_entry(sent_ms=0), request)
    assert isinstance(reply, control_pb2.SessionReply)
    return reply


@pytest.mark.parametrize("expected", [None, Totals(bursts=3000)])
async def test_a_close_reads_and_folds_many_marks_in_parts(
    link: Link, client: redis.Redis, expected: Totals | None
) -> None:
    """Every mark counts, and no command reads or folds more than a page of them; the fences go with the session."""
    _, service = await opened(link)
    mark(client, 3000)
    with slow_log.recorded(client) as ran:
        reply = await close(service, expected)
    assert (reply.state, reply.totals.bursts, reply.totals.samples) == ("closed", 3000, 6000)
    assert folded(client, "run-1") == Totals(3000, 6000, 90_000, 60_000, 5, 9)
    folds = [command for command in ran if command.name == "rtas_fold_3"]
    assert len(folds) >= 3000 / fold_calls.CALL_UNITS
    assert max(command.arguments for command in folds) < 1000
    scans = [command for command in ran if command.name == "HSCAN"]
    assert {command.words[-2:] == [b"COUNT", b"%d" % scanning.SCAN_COUNT] for command in scans} == {True}
    assert not {command.name for command in ran} & {"HGETALL", "HKEYS", "HVALS", "DEL"}
    assert max(command.duration_us for command in ran) < BLOCKED_MAX_US
    assert client.keys(f"{MARKS}:*") == []
    assert 0 < int(str(client.ttl(MARKS))) <= settings.SessionSettings().closed_ttl_s


async def test_few_marks_come_with_the_shutting_of_the_gate(link: Link, client: redis.Redis) -> None:
    """An ordinary close costs no further round trip for its marks."""
    _, service = await opened(link)
    mark(client, 3)
    with slow_log.recorded(client) as ran:
        assert (await close(service)).totals.bursts == 3
    assert "HSCAN" not in {command.name for command in ran}
    assert client.keys(f"{MARKS}:*") == []


async def test_the_gate_is_shut_before_many_marks_are_read(link: Link, client: redis.Redis) -> None:
    """What a writer appends meanwhile would not be counted."""
    _, service = await opened(link)
    mark(client, 1000)
    with slow_log.recorded(client) as ran:
        await close(service)
    names = [command.name for command in ran]
    assert names.index("rtas_seal_2") < names.index("HSCAN")


@pytest.mark.parametrize(("limit", "count"), [(700, 2000), (50, 120)])
async def test_more_marks_than_a_session_may_have_units(
    link: Link, client: redis.Redis, limit: int, count: int
) -> None:
    """The session ends, and says that not everything of it was counted; its principal is named."""
    _, service = await opened(link, settings_=limited(session_units=limit))
    mark(client, count)
    before = counters.counts.limits_reached["default", "session_units"]
    reply = await close(service)
    assert (reply.state, reply.totals.bursts) == ("truncated", limit)
    assert document(client, "run-1")["state"] == "truncated"
    assert counters.counts.limits_reached["default", "session_units"] == before + 1
    spoilt: Any = client.hget(STATE, keys.SPOILT)
    assert spoilt.decode().startswith(f"{MARKS}: {count:,} marks, more than limits.session_units")
    assert client.hget(STATE, keys.UNIT_COUNT) == b"%d" % limit


async def test_large_hashes_of_a_closed_session_are_not_left_to_expire(
    link: Link, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis would free them at once when their lifetime ends: marks go, and so do the totals of units, in parts."""
    monkeypatch.setattr("rta_supervisor.session.effects.EXPIRING_FIELDS_MAX", 500)
    sweep = KeySweep(link, config())
    _, service = await opened(link, remove_hash=sweep.remove_later)
    mark(client, 1200)
    assert (await close(service)).totals.bursts == 1200
    assert 0 < int(str(client.ttl(MARKS))) <= settings.SessionSettings().closed_ttl_s
    with slow_log.recorded(client) as ran:
        await sweep.remove_waiting()
    assert not client.exists(MARKS)
    state: Any = client.hgetall(STATE)
    assert [name for name in state if name.startswith(b"u:")] == []
    assert state[b"totals"] == b"1200 2400 36000 24000 5 9"
    assert max(command.arguments for command in ran if command.name == "HDEL") <= scanning.SCAN_COUNT + 20


async def test_marks_with_times_that_cant_be_right(link: Link, client: redis.Redis) -> None:
    """Their data is counted, and no time range is widened by them."""
    _, service = await opened(link)
    for unit, start_ns, end_ns in (
        ("good", NOW_NS - 10, NOW_NS),
        ("ahead", NOW_NS, NOW_NS + 30 * 86_400 * 10**9),
        ("old", -(10**18), NOW_NS),
        ("backwards", NOW_NS, NOW_NS - 1),
    ):
        client.hset(MARKS, unit, Mark(0, 1, Totals(1, 10, 1, 1, start_ns, end_ns)).text())
    client.expire(MARKS, 1000)
    reply = await close(service)
    assert (reply.state, reply.totals.samples) == ("closed", 40)
    assert (fields(client, "run-1")["tStart"], fields(client, "run-1")["tEnd"]) == (str(NOW_NS - 10), str(NOW_NS))


async def test_units_by_reports_are_limited(link: Link, client: redis.Redis) -> None:
    """Those that are there go on; the others are named, whether they come at once or one by one."""
    sessions, _ = await opened(link, settings_=limited(session_units=600))
    key = ("run-1", 1)
    units = {f"unit-{number}": Totals(1, 1, 1, 1, 5, 9) for number in range(590)}
    [first] = await sessions.fold({key: units})
    assert first.surplus_units == ()
    more = {f"more-{number}": Totals(1, 1, 1, 1, 5, 9) for number in range(300)}
    [second] = await sessions.fold({key: {"unit-3": Totals(2, 2, 2, 2, 4, 9), **more}}, principal="default")
    assert (second.outcome, second.surplus_units) == ("changed", tuple(more)[10:])
    assert folded(client, "run-1") == Totals(601, 601, 601, 601, 4, 9)
    [third] = await sessions.fold({key: {"another": Totals(1, 1, 1, 1, 5, 9)}})
    assert (third.outcome, third.surplus_units) == ("same", ("another",))


async def test_a_state_of_an_older_supervisor_has_its_units_counted(link: Link, client: redis.Redis) -> None:
    """It does not count them: all of its fields are taken for units once, and then the count goes on."""
    sessions, _ = await opened(link, settings_=limited(session_units=50))
    client.hset(STATE, mapping={f"u:old-{number}": "1 1 1 1 5 9" for number in range(42)})
    client.hdel(STATE, keys.UNIT_COUNT)
    [result] = await sessions.fold({("run-1", 1): {f"new-{number}": Totals(1, 1, 1, 1, 5, 9) for number in range(9)}})
    assert len(result.surplus_units) == 9 - (50 - 42 - 6)


async def test_a_session_of_many_units_is_read_by_field(link: Link, client: redis.Redis) -> None:
    """An update costs the same, however many units there are."""
    sessions, service = await opened(link)
    await sessions.fold({("run-1", 1): {f"unit-{number}": Totals(1, 1, 1, 1, 5, 9) for number in range(1000)}})
    request = control_pb2.UpdateSession(request_id="r", identity="run-1", properties_json='{"group": "g"}')
    with slow_log.recorded(client) as ran:
        await service.update(control_entry(entry_id="7-0"), request)
    assert not {command.name for command in ran} & {"HGETALL", "HSCAN"}
    assert max(command.arguments for command in ran) < 40
    assert document(client, "run-1")["group"] == "g"
    assert (await sessions.unit_totals("run-1", ["unit-7", "nobody"])) == {"unit-7": Totals(1, 1, 1, 1, 5, 9)}
    assert len(await sessions.all_unit_totals("run-1")) == 1000


async def test_properties_that_were_ever_updated_are_limited(link: Link, client: redis.Redis) -> None:
    """Also those that were removed again; known ones, pauses and the end are not held back."""
    _, service = await opened(link, settings_=limited(session_properties=3))

    async def update(number: int, properties: str, state: str = "") -> None:
        request = control_pb2.UpdateSession(identity="run-1", properties_json=properties, state=state)
        await service.update(control_entry(entry_id=f"{number}-0"), request)

    await update(1, '{"a": 1, "b": 2}')
    await update(2, '{"a": null, "c": 3}')
    before = fields(client, "run-1")
    for properties in ('{"d": 4}', '{"a": 1, "d": 4}'):
        with pytest.raises(errors.LimitReached, match=r"'default'.*limits.session_properties = 3"):
            await update(3, properties)
    assert fields(client, "run-1") == before
    await update(4, '{"a": 5}')
    await update(5, "", state="waiting")
    assert (document(client, "run-1")["a"], document(client, "run-1")["state"]) == (5, "waiting")
    assert (await close(service)).state == "closed"


async def test_the_watchdog_reads_marks_in_parts(link: Link, client: redis.Redis) -> None:
    """It finds data that nobody reported in the last page too, and abandons a session without any."""
    sessions, service = await opened(link)
    mark(client, 1500)
    later_ms = time.time_ns() // 1_000_000 + 1_000_000
    watchdog = SilenceWatchdog(sessions, service, config(), lambda: 0, clock=lambda: later_ms)
    with slow_log.recorded(client) as ran:
        await watchdog.check()
    assert document(client, "run-1")["state"] == "open"
    assert not {command.name for command in ran} & {"HGETALL"}
    assert folded(client, "run-1").bursts == 1500
    client.zadd(NAMES.session_index(), {"run-1": 1})
    await watchdog.check()
    assert document(client, "run-1")["state"] == "abandoned"


@pytest.mark.parametrize(("text", "state", "bursts"), [("", "closed", 300), ("9" * 4000, "truncated", 0)])
async def test_under_an_older_acl_marks_are_read_at_once_where_they_are_few(
    url: str, link: Link, client: redis.Redis, text: str, state: str, bursts: int
) -> None:
    """Without the commands that read a part: more than a megabyte is left out, and named."""
    await opened(link)
    without = ("-hscan", "-hlen", "-zscan", "-sscan", "-scan")
    client.execute_command("ACL", "SETUSER", "older", "on", ">secret", "~*", "&*", "+@all", *without)
    older = Link(settings.RedisSettings(url=url.replace("unix://", "unix://older:secret@")))
    try:
        sessions, service = await opened(older)
        mark(client, 300)
        if text:
            client.hset(MARKS, mapping={f"large-{number}": text for number in range(300)})
        reply = await close(service)
        assert (reply.state, reply.totals.bursts) == (state, bursts)
        assert len((await sessions.open_and_closed())[1]) == 1
        assert len(await sessions.all_unit_totals("run-1")) == bursts
    finally:
        await older.close()
        client.execute_command("ACL", "DELUSER", "older")
