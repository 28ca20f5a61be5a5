"""Streams and sessions that another library wrote: left alone, or trimmed and removed where the settings say so."""

from typing import Any

import redis

from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.retention import other_producers, server_functions
from rta_supervisor.retention.key_sweep import KeySweep
from rta_supervisor.retention.other_producers import OtherSessionSweep
from rta_supervisor.retention.trimmer import Trimmer
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import keys

NAMES = keys.Keys()
HOUR_MS = 3_600_000


def add_stream(
    client: redis.Redis, name: str, entries: int, *, is_ours: bool = False, at_ms: int | None = None
) -> None:
    for number in range(entries):
        entry_id = f"{(now_ms() if at_ms is None else at_ms) + number}-0"
        client.xadd(keys.stream(name), {"id": "1", "data": b"x" * 5000}, id=entry_id)
    client.sadd(keys.STREAMS, name)
    if is_ours:
        client.zadd(NAMES.streams_used(), {name: now_ms()})


def add_session(client: redis.Redis, identity: str, stream: str, updated_ms: Any, *, is_ours: bool = False) -> None:
    fields: Any = {"streamSessionId": 7, "streamName": stream, "lastUpdated": updated_ms}
    client.hset(NAMES.session(identity), mapping=fields)
    client.expire(NAMES.session(identity), 100)
    if is_ours:
        client.hset(NAMES.session_state(identity), mapping={"streamName": stream, "state": "open"})
        client.expire(NAMES.session_state(identity), 100)


def config(**changes: Any) -> settings.Settings:
    return settings.Settings(
        trim=settings.TrimSettings(max_entries=10, entry_s=0, min_retention_s=60, exact=True, idle_stream_s=1),
        other_producers=settings.OtherProducersSettings(**changes),
    )


async def test_streams_of_others_are_trimmed_where_a_setting_says_so(client: redis.Redis, link: Link) -> None:
    """After `min_retention_s`, and not removed however idle they are; by default nothing is done."""
    add_stream(client, "theirs", 30, at_ms=now_ms() - 100 * HOUR_MS)
    add_stream(client, "ours", 30, is_ours=True)
    assert await other_producers.read_streams(link, NAMES) == ["theirs"]
    now_s = 1000.0
    default = Trimmer(link, config(), lambda: now_s)
    trimmer = Trimmer(link, config(trim_streams=True), lambda: now_s)
    assert (await default.sweep()).trimmed == {"ours": 20}
    assert (await trimmer.sweep()).trimmed == {}, "they have not been seen for long enough"
    now_s += 61
    assert (await default.sweep()).trimmed == {}
    result = await trimmer.sweep()
    assert (result.trimmed, result.removed) == ({"theirs": 20}, ())
    assert client.xlen(keys.stream("theirs")) == 10


async def test_dead_sessions_of_others_are_removed_where_a_setting_says_so(client: redis.Redis, link: Link) -> None:
    """Those whose hash and stream did not change for long; never one of ours, or one that does not say when."""
    old_ms = now_ms() - 2 * HOUR_MS
    add_stream(client, "old", 2, at_ms=old_ms)
    add_stream(client, "busy", 2)
    add_session(client, "dead", "old", old_ms)
    add_session(client, "without-stream", "gone", old_ms)
    add_session(client, "updated", "old", now_ms())
    add_session(client, "writing", "busy", old_ms)
    add_session(client, "unclear", "old", "yesterday")
    add_session(client, "ours", "old", old_ms, is_ours=True)
    client.set(NAMES.session("no-hash"), "x", ex=100)
    client.hset(NAMES.session("no-session"), "lastUpdated", 1)
    client.expire(NAMES.session("no-session"), 100)
    before = sessions_in(client)
    await OtherSessionSweep(link, config()).sweep()
    assert sessions_in(client) == before
    sweep = OtherSessionSweep(link, config(remove_sessions_after_s=3600))
    await sweep.sweep()
    assert before - sessions_in(client) == {"sessions:dead", "sessions:without-stream"}


def sessions_in(client: redis.Redis) -> set[str]:
    names: Any = client.keys("sessions:*")
    return {name.decode() for name in names}


async def test_a_session_that_changes_meanwhile_stays(client: redis.Redis, link: Link) -> None:
    """Redis compares what was read, and looks again whether the session is ours."""
    for identity, is_ours in (("a", False), ("b", True)):
        add_session(client, identity, "rig", 2, is_ours=is_ours)
    for identity, last_updated in (("a", "1"), ("b", "2")):
        assert await link.do(*server_functions.remove_other_session(NAMES, identity, last_updated)) == 0
    assert await link.do(*server_functions.remove_other_session(NAMES, "a", "2")) == 1


async def test_the_duty_takes_care_of_them(client: redis.Redis, link: Link) -> None:
    """The sweep of keys goes over sessions of others as well."""
    add_session(client, "dead", "gone", 1)
    sweep = KeySweep(link, config(remove_sessions_after_s=3600))
    await sweep._sweep_in_turn(None)
    assert client.exists("sessions:dead")
    await sweep._sweep_in_turn(0)
    assert not client.exists("sessions:dead")
