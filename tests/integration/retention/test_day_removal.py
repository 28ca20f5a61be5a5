"""Removal of old days on a real server: what is removed, what stays, races, and kills at any step."""

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
from rta_supervisor.retention.day_sweep import DaySweep
from rta_supervisor.retention.day_sweep_rules import STEADY_CLOCK_MS
from rta_supervisor.retention.trimmer import Trimmer, TrimResult
from rta_supervisor.retention.unarchived_session import UnarchivedSession
from rta_supervisor.session import server_functions as session_functions
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections import days as sections_days
from rta_supervisor.settings.sections.archive import ArchiveSettings
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link
from rta_wire import day_streams, entry_ids, keys
from tests.support.cold_streams import DyingLink, Killed, LateBatchLink
from tests.support.day_streams import (
    EVERYWHERE,
    EVERYWHERE_COLD,
    NAMES,
    TODAY,
    TODAY_MS,
    Clock,
    config,
    fill,
    indexed_streams,
    listed_streams,
    traces,
)
from tests.support.session_values import session_record
from tests.support.waiting import wait_until

OLD = day_streams.Day("rig", TODAY - 3)
KEPT = day_streams.Day("rig", TODAY - 2)
NEW = day_streams.Day("rig", TODAY)


@pytest.fixture(autouse=True)
def remove_cold_streams(client: redis.Redis) -> Any:
    """Index and cold streams have no TTL, and these tests do not remove them."""
    yield
    client.unlink(NAMES.cold_index(), *(keys.cold_stream(day.stream) for day in (OLD, KEPT, NEW)))


def trimmer(
    link: Link, own_config: settings.Settings | None = None, now_ms: int = TODAY_MS, steady_since_ms: int = 0
) -> Trimmer:
    own_config = own_config or config()
    return Trimmer(link, own_config, days=DaySweep(link, own_config, Clock(now_ms), lambda: steady_since_ms))


def open_session(client: redis.Redis, stream: str) -> None:
    """Put into Redis what the trimmer reads of an open session."""
    client.hset(NAMES.session_state("run-1"), mapping={"streamName": stream, "state": "open"})
    client.expire(NAMES.session_state("run-1"), 100)
    client.zadd(NAMES.session_index(), {"run-1": TODAY_MS})


async def test_a_day_is_removed_with_everything_that_names_it(client: redis.Redis, link: Link) -> None:
    """Stream, cold stream and list entries; the days that are kept stay whole."""
    for day in (OLD, KEPT, NEW):
        fill(client, day, cold=True)
    before = counters.counts.days_removed
    assert await trimmer(link).sweep() == TrimResult(removed=(OLD.stream,))
    assert traces(client, OLD) == set()
    assert traces(client, KEPT) == EVERYWHERE_COLD
    assert indexed_streams(client) == [KEPT.stream, NEW.stream]
    assert counters.counts.days_removed == before + 1
    assert await trimmer(link).sweep() == TrimResult()


@pytest.mark.parametrize(
    ("now_ms", "is_gone"), [(TODAY_MS - 1, False), (TODAY_MS, True), (TODAY_MS + 9 * day_streams.DAY_MS, True)]
)
async def test_when_a_day_is_too_old(client: redis.Redis, link: Link, now_ms: int, is_gone: bool) -> None:
    """At the midnight, in UTC, after the days that are kept."""
    for day in (OLD, day_streams.Day("rig", TODAY + 20)):
        fill(client, day)
    assert (await trimmer(link, now_ms=now_ms).sweep()).removed == ((OLD.stream,) if is_gone else ())


async def test_a_day_with_an_open_session_stays(client: redis.Redis, link: Link) -> None:
    """However old it is; once the session has ended, the day is removed."""
    for day in (OLD, NEW):
        fill(client, day)
    open_session(client, OLD.stream)
    assert (await trimmer(link).sweep()).removed == ()
    assert traces(client, OLD) == EVERYWHERE
    client.zrem(NAMES.session_index(), "run-1")
    assert (await trimmer(link).sweep()).removed == (OLD.stream,)


async def test_a_day_waits_for_the_archive(client: redis.Redis, link: Link) -> None:
    """Where the archive is required, a day with a session that is not archived stays whole."""
    for day in (OLD, NEW):
        fill(client, day, cold=True)
    member = UnarchivedSession(1, OLD.stream, "0-0", "run-1").member
    client.zadd(NAMES.unarchived(), {member: TODAY_MS * 2})
    required = msgspec.structs.replace(config(), archive=ArchiveSettings(path="archive", required=True))
    assert (await trimmer(link, required).sweep()).removed == ()
    assert traces(client, OLD) == EVERYWHERE_COLD
    client.zrem(NAMES.unarchived(), member)
    assert (await trimmer(link, required).sweep()).removed == (OLD.stream,)


@pytest.mark.parametrize("where", ["stream", "cold", "both"])
async def test_a_session_past_midnight_is_kept_as_long_as_any(client: redis.Redis, link: Link, where: str) -> None:
    """The last entry has to be too old as well, in the live stream or the cold one."""
    end_ms = TODAY_MS - day_streams.DAY_MS
    fill(client, OLD, last_ms=end_ms, cold=where != "stream")
    fill(client, NEW)
    if where != "stream":
        client.delete(keys.stream(OLD.stream))
    if where == "both":
        client.execute_command("XADD", keys.stream(OLD.stream), f"{OLD.start_ms}-1", "id", "1", "data", "x")
    before = traces(client, OLD)
    assert (await trimmer(link, now_ms=end_ms + 2 * day_streams.DAY_MS).sweep()).removed == ()
    assert traces(client, OLD) == before, "nothing of it is removed"
    assert (await trimmer(link, now_ms=end_ms + 2 * day_streams.DAY_MS + 1).sweep()).removed == (OLD.stream,)
    assert traces(client, OLD) == set()


async def test_an_id_that_a_writer_made_up_keeps_no_day(client: redis.Redis, link: Link) -> None:
    """The highest id there is would keep it for ever; an id a little ahead is that of a clock that was corrected."""
    fill(client, OLD, last_ms=entry_ids.PART_MAX)
    fill(client, day_streams.Day("other", TODAY - 3), last_ms=TODAY_MS + day_streams.DAY_MS - 1)
    assert (await trimmer(link).sweep()).removed == (OLD.stream,)


async def test_each_source_has_its_own_rule(client: redis.Redis, link: Link) -> None:
    """0 keeps all days. A day is not removed because it is idle, and a stream that only looks like a day is."""
    sources = ("short", "ever", "usual")
    for source in sources:
        for number in (TODAY - 40, TODAY - 3, TODAY):
            fill(client, day_streams.Day(source, number))
    fill(client, day_streams.Day("plain", TODAY - 40))
    client.delete(NAMES.days("plain"))
    rules = {
        "short": sections_days.SourceDaysSettings(keep_days=1),
        "ever": sections_days.SourceDaysSettings(keep_days=0),
        "plain": sections_days.SourceDaysSettings(partition="none"),
    }
    swept = await trimmer(link, config(keep_days=30, sources=rules)).sweep()
    expected = [("plain", 40), ("short", 3), ("short", 40), ("usual", 40)]
    assert sorted(swept.removed) == sorted(day_streams.Day(source, TODAY - ago).stream for source, ago in expected)


async def test_days_are_removed_after_the_partition_ended(client: redis.Redis, link: Link) -> None:
    """The index has the streams that were days, whatever the settings are now."""
    for day in (OLD, NEW):
        fill(client, day)
    assert (await trimmer(link, config(partition="none")).sweep()).removed == (OLD.stream,)


async def test_the_last_day_of_a_source_is_remembered(client: redis.Redis, link: Link) -> None:
    """Its stream is removed; the index keeps it for a while, so that no earlier day begins, and then expires."""
    fill(client, OLD)
    assert (await trimmer(link).sweep()).removed == (OLD.stream,)
    assert traces(client, OLD) == set()
    assert indexed_streams(client) == [OLD.stream]
    ttl_s: Any = client.ttl(NAMES.days("rig"))
    assert ttl_s > 0
    client.expire(NAMES.days("rig"), 50)
    await trimmer(link).sweep()
    assert 0 < int(str(client.ttl(NAMES.days("rig")))) <= 50, "no sweep renews it"


async def test_the_index_lives_as_long_as_a_stream(client: redis.Redis, link: Link) -> None:
    """Each sweep renews it, and adds the days that it lacks."""
    for day in (KEPT, NEW):
        fill(client, day)
    client.expire(NAMES.days("rig"), 50)
    await trimmer(link).sweep()
    assert int(str(client.ttl(NAMES.days("rig")))) > 50
    client.delete(NAMES.days("rig"))
    await trimmer(link).sweep()
    assert indexed_streams(client) == [KEPT.stream, NEW.stream]


async def test_days_that_only_the_index_has(client: redis.Redis, link: Link) -> None:
    """A day without a stream leaves the index, unless a session may be opening in it; one with a stream is tracked."""
    lost, unused, opening = (day_streams.Day("rig", TODAY - ago) for ago in (2, 5, 1))
    for day in (lost, NEW):
        fill(client, day)
    client.zrem(NAMES.streams_used(), lost.stream)
    client.zadd(NAMES.days("rig"), {unused.stream: unused.number, opening.stream: opening.number})
    await trimmer(link).sweep()
    assert indexed_streams(client) == [lost.stream, opening.stream, NEW.stream]
    assert client.zscore(NAMES.streams_used(), lost.stream) == lost.start_ms


async def test_no_day_is_removed_after_a_jump_of_the_clock(client: redis.Redis, link: Link) -> None:
    """For an hour: the jump may be a mistake."""
    for day in (OLD, NEW):
        fill(client, day)
    assert (await trimmer(link, steady_since_ms=TODAY_MS - STEADY_CLOCK_MS + 1).sweep()).removed == ()
    assert (await trimmer(link, steady_since_ms=TODAY_MS - STEADY_CLOCK_MS).sweep()).removed == (OLD.stream,)


async def test_a_key_of_another_type_keeps_no_day_from_being_removed(client: redis.Redis, link: Link) -> None:
    """The error is logged, and the others are removed."""
    other_type, other = day_streams.Day("a", TODAY - 3), day_streams.Day("z", TODAY - 3)
    for day in (other_type, other, NEW):
        fill(client, day)
    client.set(keys.stream(other_type.stream), "text")
    assert (await trimmer(link).sweep()).removed == (other.stream,)


async def test_days_are_removed_from_a_full_server(client: redis.Redis, link: Link) -> None:
    """Where Redis refuses every other write."""
    for day in (OLD, NEW):
        fill(client, day, cold=True)
    client.config_set("maxmemory", 1)
    try:
        swept = await trimmer(link).sweep()
    finally:
        client.config_set("maxmemory", 0)
    assert swept.removed == (OLD.stream,)
    assert traces(client, OLD) == set()


async def test_nothing_is_removed_after_the_end_of_the_lease(client: redis.Redis, link: Link) -> None:
    """A supervisor that was frozen is refused by Redis at whichever step."""
    for day in (OLD, NEW):
        fill(client, day, cold=True)
    leases = nodes_leases.Leases(link, settings.Settings(node=settings.NodeSettings(lease_s=0.2)), "first")
    await leases.renew()
    until_ms = await leases.of("trim").next_turn(1)
    wait_until(lambda: not client.exists(NAMES.lease("trim")), what="the end of the lease")
    assert (await trimmer(link).sweep(until_ms)).removed == ()
    assert traces(client, OLD) == EVERYWHERE_COLD


async def test_killed_at_every_step_of_a_removal(client: redis.Redis, link: Link) -> None:
    """A supervisor is killed before its n-th command: the next sweep removes the rest of the day, and nothing else."""
    for at in itertools.count(1):
        client.flushall()
        for day in (OLD, KEPT, NEW):
            fill(client, day, cold=True)
        dying = DyingLink(link.config, at, before=True, steps=None)
        try:
            await trimmer(dying).sweep()
        except Killed:
            pass
        else:
            break
        finally:
            await dying.close()
        await trimmer(link).sweep()
        assert traces(client, OLD) == set(), f"killed before command {at}"
        assert traces(client, KEPT) == EVERYWHERE_COLD, f"killed before command {at}"
        assert indexed_streams(client) == [KEPT.stream, NEW.stream], f"killed before command {at}"
    assert at > 12, "no command was reached"


class OpeningLink(Link):
    """A link on which another supervisor opens a session in a day, just before or after the n-th command."""

    def __init__(self, config: settings.RedisSettings, client: redis.Redis, stream: str, at: int, when: str) -> None:
        super().__init__(config)
        self._client, self._stream, self._remaining, self._when = client, stream, at, when
        self.has_opened = False

    async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
        replies = []
        for command in batch:
            self._remaining -= 1
            if self._remaining == 0 and self._when == "before":
                self._open()
            replies += await super().try_all([command])
            if self._remaining == 0 and self._when == "after":
                self._open()
        return replies

    def _open(self) -> None:
        """In the order in which a session is opened: first its entry, then the lists."""
        self.has_opened = True
        self._client.execute_command(
            *session_functions.publish_opening(
                NAMES, session_record(stream=self._stream, stream_session_id=7), ttl_s=100
            )
        )
        self._client.sadd(keys.STREAMS, self._stream)
        open_session(self._client, self._stream)
        self._client.execute_command("ZADD", NAMES.streams_used(), "GT", TODAY_MS * 2, self._stream)


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_open_wins_against_a_removal(client: redis.Redis, link: Link, when: str) -> None:
    """Wherever in the sweep a session is opened in the day: its first entry stays, and the day is in every list."""
    now_ms = ServerClock()()
    old, new = (day_streams.Day("rig", day_streams.number_at(now_ms) - ago) for ago in (3, 0))
    for at in itertools.count(1):
        client.flushall()
        for day in (old, new):
            fill(client, day)
        opening = OpeningLink(link.config, client, old.stream, at, when)
        await trimmer(opening, now_ms=now_ms).sweep()
        await opening.close()
        if not opening.has_opened:
            break
        entries: Any = client.xrevrange(keys.stream(old.stream), count=1)
        assert entries[0][1][b"id"] == b"7", f"{when} command {at}"
        assert client.sismember(keys.STREAMS, old.stream), f"{when} command {at}"
        assert client.zscore(NAMES.streams_used(), old.stream) is not None, f"{when} command {at}"
        await trimmer(link, now_ms=now_ms).sweep()
        assert traces(client, old) == EVERYWHERE, f"{when} command {at}, after the next sweep"
    assert at > 12, "no session was opened"


async def test_a_batch_that_is_added_during_a_removal_is_found(client: redis.Redis, link: Link) -> None:
    """Wherever in the sweep a compactor adds a batch of the day, or after it: the next sweep removes that too."""
    end_ms = OLD.start_ms + day_streams.DAY_MS - 1
    for at in itertools.count(1):
        client.flushall()
        for day in (OLD, NEW):
            fill(client, day, cold=True)
        late = LateBatchLink(CompactionStore(link, NAMES, OLD.stream), link, at, (f"{end_ms}-9", f"{end_ms}-3"))
        await trimmer(late).sweep()
        is_in_time = late.has_added
        if not is_in_time:
            await late.add_batch()
        await late.close()
        await trimmer(link).sweep()
        assert traces(client, OLD) == set(), f"before command {at}"
        if not is_in_time:
            break
    assert at > 12, "no batch was added"


@pytest.mark.usefixtures("link")
async def test_two_sweeps_at_once(client: redis.Redis, url: str) -> None:
    """Two supervisors that remove the same days remove no more than one would."""
    days = [day_streams.Day("rig", TODAY - ago) for ago in range(30)]
    for day in days:
        fill(client, day)
    links = [Link(settings.RedisSettings(url=url)) for _ in range(2)]
    async with anyio.create_task_group() as tasks:
        for own_link in links:
            tasks.start_soon(trimmer(own_link).sweep)
    for own_link in links:
        await own_link.close()
    assert indexed_streams(client) == sorted(day.stream for day in days[:3])
    assert listed_streams(client) == {day.stream for day in days[:3]}
