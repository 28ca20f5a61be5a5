"""Whole old days go at once, on a real server: what goes, what stays, who wins a race, and what a death leaves."""

import itertools
from collections.abc import Sequence
from typing import Any

import anyio
import msgspec
import pytest
import redis

from rta_supervisor.compaction.store import CompactionStore
from rta_supervisor.diagnostics import counters
from rta_supervisor.nodes import leases as nodes_leases
from rta_supervisor.nodes.server_clock import ServerClock
from rta_supervisor.retention.archive_queue import UnarchivedSession
from rta_supervisor.retention.day_sweep import DaySweep
from rta_supervisor.retention.day_sweep_rules import STEADY_CLOCK_MS
from rta_supervisor.retention.trimmer import Trimmer, TrimResult
from rta_supervisor.session import functions as session_functions
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections import days as sections_days
from rta_supervisor.settings.sections.archive import ArchiveSettings
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link
from rta_wire import day_streams, keys
from tests.support.cold_streams import Killed, Late, Mortal
from tests.support.day_streams import (
    EVERYWHERE,
    EVERYWHERE_COLD,
    NAMES,
    TODAY,
    TODAY_MS,
    Clock,
    config,
    fill,
    listed,
    streams,
    traces,
)
from tests.support.session_values import session_record
from tests.support.waiting import wait_until

OLD = day_streams.Day("rig", TODAY - 3)
KEPT = day_streams.Day("rig", TODAY - 2)
NEW = day_streams.Day("rig", TODAY)


@pytest.fixture(autouse=True)
def no_cold_index_is_left(client: redis.Redis) -> Any:
    """What stands there of cold streams lives as long as they do, which is not this test's matter."""
    yield
    client.unlink(NAMES.cold_index(), *(keys.cold_stream(day.stream) for day in (OLD, KEPT, NEW)))


def trimmer(
    link: Link, made: settings.Settings | None = None, now_ms: int = TODAY_MS, steady_since_ms: int = 0
) -> Trimmer:
    made = made or config()
    return Trimmer(link, made, days=DaySweep(link, made, Clock(now_ms), lambda: steady_since_ms))


def open_session(client: redis.Redis, stream: str) -> None:
    """As far as the trimmer can tell."""
    client.hset(NAMES.session_state("run-1"), mapping={"streamName": stream, "state": "open"})
    client.expire(NAMES.session_state("run-1"), 100)
    client.zadd(NAMES.session_index(), {"run-1": TODAY_MS})


async def test_a_day_goes_with_everything_that_names_it(client: redis.Redis, link: Link) -> None:
    """Stream, compacted form, names and notes; the days that are kept stay whole."""
    for day in (OLD, KEPT, NEW):
        fill(client, day, cold=True)
    before = counters.counts.days_removed
    assert await trimmer(link).sweep() == TrimResult(removed=(OLD.stream,))
    assert traces(client, OLD) == set()
    assert traces(client, KEPT) == EVERYWHERE_COLD
    assert listed(client) == [KEPT.stream, NEW.stream]
    assert counters.counts.days_removed == before + 1
    assert await trimmer(link).sweep() == TrimResult()


@pytest.mark.parametrize(
    ("now_ms", "is_gone"), [(TODAY_MS - 1, False), (TODAY_MS, True), (TODAY_MS + 9 * day_streams.DAY_MS, True)]
)
async def test_when_a_day_is_too_old(client: redis.Redis, link: Link, now_ms: int, is_gone: bool) -> None:
    """At the midnight that ends so many days after it, by UTC."""
    for day in (OLD, day_streams.Day("rig", TODAY + 20)):
        fill(client, day)
    assert (await trimmer(link, now_ms=now_ms).sweep()).removed == ((OLD.stream,) if is_gone else ())


async def test_a_day_with_an_open_session_stays(client: redis.Redis, link: Link) -> None:
    """However old it is; once the session has ended the day goes."""
    for day in (OLD, NEW):
        fill(client, day)
    open_session(client, OLD.stream)
    assert (await trimmer(link).sweep()).removed == ()
    assert traces(client, OLD) == EVERYWHERE
    client.zrem(NAMES.session_index(), "run-1")
    assert (await trimmer(link).sweep()).removed == (OLD.stream,)


async def test_a_day_waits_for_the_archive(client: redis.Redis, link: Link) -> None:
    """Where the archive is required, a day with a session that it does not have stays whole."""
    for day in (OLD, NEW):
        fill(client, day, cold=True)
    waiting = UnarchivedSession(1, OLD.stream, "0-0", "run-1").member
    client.zadd(NAMES.unarchived(), {waiting: TODAY_MS * 2})
    required = msgspec.structs.replace(config(), archive=ArchiveSettings(path="archive", required=True))
    assert (await trimmer(link, required).sweep()).removed == ()
    assert traces(client, OLD) == EVERYWHERE_COLD
    client.zrem(NAMES.unarchived(), waiting)
    assert (await trimmer(link, required).sweep()).removed == (OLD.stream,)


@pytest.mark.parametrize("where", ["stream", "cold", "both"])
async def test_a_session_that_lived_past_midnight_is_kept_as_long(client: redis.Redis, link: Link, where: str) -> None:
    """The last entry has to be as old as the day, in the stream or in what became of it."""
    end_ms = TODAY_MS - day_streams.DAY_MS
    fill(client, OLD, last_ms=end_ms, cold=where != "stream")
    fill(client, NEW)
    if where != "stream":
        client.delete(keys.stream(OLD.stream))
    if where == "both":
        client.execute_command("XADD", keys.stream(OLD.stream), f"{OLD.start_ms}-1", "id", "1", "data", "x")
    there = traces(client, OLD)
    assert (await trimmer(link, now_ms=end_ms + 2 * day_streams.DAY_MS).sweep()).removed == ()
    assert traces(client, OLD) == there, "nothing of it is touched"
    assert (await trimmer(link, now_ms=end_ms + 2 * day_streams.DAY_MS + 1).sweep()).removed == (OLD.stream,)
    assert traces(client, OLD) == set()


async def test_an_id_that_a_writer_made_up_keeps_no_day(client: redis.Redis, link: Link) -> None:
    """One that ends the stream for good would keep it for good; one a little ahead is of a clock that was corrected."""
    brick = 2**64 - 1
    fill(client, OLD, last_ms=brick)
    fill(client, day_streams.Day("other", TODAY - 3), last_ms=TODAY_MS + day_streams.DAY_MS - 1)
    assert (await trimmer(link).sweep()).removed == (OLD.stream,)


async def test_each_source_by_its_own_rule(client: redis.Redis, link: Link) -> None:
    """0 keeps all days; idleness is no reason to remove one, and it is one for a stream that is none."""
    sources = ("short", "ever", "usual")
    for source in sources:
        for number in (TODAY - 40, TODAY - 3, TODAY):
            fill(client, day_streams.Day(source, number))
    fill(client, day_streams.Day("plain", TODAY - 40))
    client.delete(NAMES.days("plain"))
    own = {
        "short": sections_days.SourceDaysSettings(keep_days=1),
        "ever": sections_days.SourceDaysSettings(keep_days=0),
        "plain": sections_days.SourceDaysSettings(partition="none"),
    }
    swept = await trimmer(link, config(keep_days=30, sources=own)).sweep()
    gone = [("plain", 40), ("short", 3), ("short", 40), ("usual", 40)]
    assert sorted(swept.removed) == sorted(day_streams.Day(source, TODAY - ago).stream for source, ago in gone)


async def test_days_go_after_the_partition_ended(client: redis.Redis, link: Link) -> None:
    """The index knows what was made by day, whatever the settings say now."""
    for day in (OLD, NEW):
        fill(client, day)
    assert (await trimmer(link, config(partition="none")).sweep()).removed == (OLD.stream,)


async def test_the_last_day_of_a_source_is_remembered(client: redis.Redis, link: Link) -> None:
    """Its stream goes; the index knows it for a while, so that no earlier day begins, and then goes by itself."""
    fill(client, OLD)
    assert (await trimmer(link).sweep()).removed == (OLD.stream,)
    assert traces(client, OLD) == set()
    assert listed(client) == [OLD.stream]
    left_s: Any = client.ttl(NAMES.days("rig"))
    assert left_s > 0
    client.expire(NAMES.days("rig"), 50)
    await trimmer(link).sweep()
    assert 0 < int(str(client.ttl(NAMES.days("rig")))) <= 50, "nobody keeps it alive"


async def test_the_index_lives_as_long_as_a_stream(client: redis.Redis, link: Link) -> None:
    """Each pass renews it, and puts in what it misses."""
    for day in (KEPT, NEW):
        fill(client, day)
    client.expire(NAMES.days("rig"), 50)
    await trimmer(link).sweep()
    assert int(str(client.ttl(NAMES.days("rig")))) > 50
    client.delete(NAMES.days("rig"))
    await trimmer(link).sweep()
    assert listed(client) == [KEPT.stream, NEW.stream]


async def test_days_of_which_only_the_index_knows(client: redis.Redis, link: Link) -> None:
    """One that was never used goes, but not while it may be in the making; one that is there is looked after again."""
    lost, unused, opening = (day_streams.Day("rig", TODAY - ago) for ago in (2, 5, 1))
    for day in (lost, NEW):
        fill(client, day)
    client.zrem(NAMES.streams_used(), lost.stream)
    client.zadd(NAMES.days("rig"), {unused.stream: unused.number, opening.stream: opening.number})
    await trimmer(link).sweep()
    assert listed(client) == [lost.stream, opening.stream, NEW.stream]
    assert client.zscore(NAMES.streams_used(), lost.stream) == lost.start_ms


async def test_a_jump_of_the_clock_costs_no_day(client: redis.Redis, link: Link) -> None:
    """It may be a mistake: for an hour no day is too old."""
    for day in (OLD, NEW):
        fill(client, day)
    assert (await trimmer(link, steady_since_ms=TODAY_MS - STEADY_CLOCK_MS + 1).sweep()).removed == ()
    assert (await trimmer(link, steady_since_ms=TODAY_MS - STEADY_CLOCK_MS).sweep()).removed == (OLD.stream,)


async def test_a_key_of_another_type_stops_nothing(client: redis.Redis, link: Link) -> None:
    """One day that is none does not keep the others from going."""
    spoilt, other = day_streams.Day("a", TODAY - 3), day_streams.Day("z", TODAY - 3)
    for day in (spoilt, other, NEW):
        fill(client, day)
    client.set(keys.stream(spoilt.stream), "text")
    assert (await trimmer(link).sweep()).removed == (other.stream,)


async def test_room_is_made_in_a_full_server(client: redis.Redis, link: Link) -> None:
    """Where Redis takes nothing more, days go all the same."""
    for day in (OLD, NEW):
        fill(client, day, cold=True)
    client.config_set("maxmemory", 1)
    try:
        swept = await trimmer(link).sweep()
    finally:
        client.config_set("maxmemory", 0)
    assert swept.removed == (OLD.stream,)
    assert traces(client, OLD) == set()


async def test_after_the_lease_nothing_goes(client: redis.Redis, link: Link) -> None:
    """Who stood still and wakes up finds out from Redis, at whichever step."""
    for day in (OLD, NEW):
        fill(client, day, cold=True)
    leases = nodes_leases.Leases(link, settings.Settings(node=settings.NodeSettings(lease_s=0.2)), "first")
    await leases.renew()
    until_ms = await leases.of("trim").next_turn(1)
    wait_until(lambda: not client.exists(NAMES.lease("trim")), what="the end of the lease")
    assert (await trimmer(link).sweep(until_ms)).removed == ()
    assert traces(client, OLD) == EVERYWHERE_COLD


async def test_killed_at_any_step_it_is_done_by_the_next(client: redis.Redis, link: Link) -> None:
    """For every n: who sweeps dies before its n-th command; the next pass leaves nothing, and takes nothing else."""
    for lives in itertools.count(1):
        client.flushall()
        for day in (OLD, KEPT, NEW):
            fill(client, day, cold=True)
        mortal = Mortal(link.config, lives, before=True, steps=None)
        try:
            await trimmer(mortal).sweep()
        except Killed:
            pass
        else:
            break
        finally:
            await mortal.close()
        await trimmer(link).sweep()
        assert traces(client, OLD) == set(), f"killed before command {lives}"
        assert traces(client, KEPT) == EVERYWHERE_COLD, f"killed before command {lives}"
        assert listed(client) == [KEPT.stream, NEW.stream], f"killed before command {lives}"
    assert lives > 12, "the deaths do not hit"


class Meddling(Link):
    """A link on which somebody else opens a session in a day just before or after one of the commands that end it."""

    def __init__(self, config: settings.RedisSettings, client: redis.Redis, stream: str, at: int, when: str) -> None:
        super().__init__(config)
        self._other, self._stream, self._left, self._when = client, stream, at, when
        self.has_met = False

    async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
        answers = []
        for call in batch:
            self._left -= 1
            if self._left == 0 and self._when == "before":
                self._open()
            answers += await super().try_all([call])
            if self._left == 0 and self._when == "after":
                self._open()
        return answers

    def _open(self) -> None:
        """In the order in which a session is opened: its entry, then every list that it belongs to."""
        self.has_met = True
        self._other.execute_command(
            *session_functions.publish_opening(
                NAMES, session_record(stream=self._stream, stream_session_id=7), ttl_s=100
            )
        )
        self._other.sadd(keys.STREAMS, self._stream)
        open_session(self._other, self._stream)
        self._other.execute_command("ZADD", NAMES.streams_used(), "GT", TODAY_MS * 2, self._stream)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_open_wins_against_a_removal(client: redis.Redis, link: Link, when: str) -> None:
    """Wherever in the pass a session is opened in the day: its first entry stands, and the day is in every list."""
    now_ms = ServerClock()()
    old, new = (day_streams.Day("rig", day_streams.number_at(now_ms) - ago) for ago in (3, 0))
    for at in itertools.count(1):
        client.flushall()
        for day in (old, new):
            fill(client, day)
        meddling = Meddling(link.config, client, old.stream, at, when)
        await trimmer(meddling, now_ms=now_ms).sweep()
        await meddling.close()
        if not meddling.has_met:
            break
        found: Any = client.xrevrange(keys.stream(old.stream), count=1)
        assert found[0][1][b"id"] == b"7", f"{when} command {at}"
        assert client.sismember(keys.STREAMS, old.stream), f"{when} command {at}"
        assert client.zscore(NAMES.streams_used(), old.stream) is not None, f"{when} command {at}"
        await trimmer(link, now_ms=now_ms).sweep()
        assert traces(client, old) == EVERYWHERE, f"{when} command {at}, after the next pass"
    assert at > 12, "nobody meddled"


async def test_a_batch_that_comes_late_is_found(client: redis.Redis, link: Link) -> None:
    """Wherever in the pass a compactor adds what it read of the day, or after it: the next pass leaves nothing."""
    end_ms = OLD.start_ms + day_streams.DAY_MS - 1
    for at in itertools.count(1):
        client.flushall()
        for day in (OLD, NEW):
            fill(client, day, cold=True)
        late = Late(CompactionStore(link, NAMES, OLD.stream), link, at, (f"{end_ms}-9", f"{end_ms}-3"))
        await trimmer(late).sweep()
        is_in_time = late.has_come
        if not is_in_time:
            await late.freeze()
        await late.close()
        await trimmer(link).sweep()
        assert traces(client, OLD) == set(), f"before command {at}"
        if not is_in_time:
            break
    assert at > 12, "nobody was late"


@pytest.mark.usefixtures("link")
async def test_two_sweeps_at_once(client: redis.Redis, url: str) -> None:
    """Two supervisors that remove the same days take no more than one."""
    some = [day_streams.Day("rig", TODAY - ago) for ago in range(30)]
    for day in some:
        fill(client, day)
    links = [Link(settings.RedisSettings(url=url)) for _ in range(2)]
    async with anyio.create_task_group() as tasks:
        for one in links:
            tasks.start_soon(trimmer(one).sweep)
    for one in links:
        await one.close()
    assert listed(client) == sorted(day.stream for day in some[:3])
    assert streams(client) == {day.stream for day in some[:3]}
