"""Trimming on a real server: what is removed, what stays, and which side of a race wins."""

import functools
import time
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
import redis
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rta_supervisor.embedded import server
from rta_supervisor.retention import server_functions as retention_functions
from rta_supervisor.retention.trim_requests import rules
from rta_supervisor.retention.trimmer import Trimmer, TrimResult
from rta_supervisor.session import server_functions as session_functions
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, function_loader
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, keys
from rta_writers.connection import redis_client
from tests.support.session_values import session_record

NAMES = keys.Keys()
HOUR_MS = 3_600_000
LARGE = b"x" * 8000  # fills a node of the stream by itself


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def config(**changes: Any) -> settings.Settings:
    """Where a test does not say otherwise, `max_entries` alone counts, however small the entries are."""
    return settings.Settings(trim=settings.TrimSettings(**{"entry_s": 0, **changes}))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def fill(client: redis.Redis, stream: str, ids: list[str], data: bytes = LARGE) -> None:
    """Add entries with these ids to a stream that a session used just now."""
    with client.pipeline(transaction=False) as pipe:
        for entry_id in ids:
            pipe.execute_command("XADD", f"stream:{stream}", entry_id, "id", "1", "data", data)
        pipe.zadd(NAMES.streams_used(), {stream: now_ms()})
        pipe.sadd("streams", stream)
        pipe.execute()


def numbered_ids(count: int, *, first_ms: int | None = None) -> list[str]:
    start_ms = now_ms() - HOUR_MS if first_ms is None else first_ms
    return [f"{start_ms + n}-0" for n in range(count)]


def open_session(client: redis.Redis, stream: str) -> None:
    """Put into Redis what the trimmer reads of an open session."""
    client.hset(NAMES.session_state("run-1"), mapping={"streamName": stream, "state": "open"})
    client.expire(NAMES.session_state("run-1"), 100)
    client.zadd(NAMES.session_index(), {"run-1": now_ms()})


def read_ids(client: redis.Redis, stream: str) -> list[str]:
    entries: Any = client.xrange(f"stream:{stream}")
    return [entry_id.decode() for entry_id, _ in entries]


async def test_the_length_of_a_stream_is_bounded(client: redis.Redis, link: Link) -> None:
    """As many of the newest entries stay as are configured, however many calls that takes."""
    entries = numbered_ids(2500)
    fill(client, "rig", entries)
    assert await Trimmer(link, config(max_entries=100)).sweep() == TrimResult({"rig": 2400})
    assert read_ids(client, "rig") == entries[-100:]
    assert await Trimmer(link, config(max_entries=100)).sweep() == TrimResult()


async def test_small_entries_are_removed_by_the_node(client: redis.Redis, link: Link) -> None:
    """By default up to a node too many may stay and never too few; with `exact` the number is exact."""
    entries = numbered_ids(1050)
    fill(client, "rig", entries, b"x")
    await Trimmer(link, config(max_entries=120)).sweep()
    assert 120 <= len(read_ids(client, "rig")) < 220
    assert await Trimmer(link, config(max_entries=120, exact=True)).sweep() != TrimResult()
    assert read_ids(client, "rig") == entries[-120:]


SMALL: dict[str, Any] = {"max_entries": 100, "entry_s": 0.5, "entry_bytes": 10_000, "exact": True}
"""Beyond 100 entries those of the last 50 s stay, in 1 MB at most."""


@pytest.mark.parametrize("age_s", [0, 7200], ids=["busy", "idle for two hours"])
async def test_many_small_entries_stay_as_long_as_few_large_ones(client: redis.Redis, link: Link, age_s: int) -> None:
    """Ten times as many entries are not a tenth of the history, also where nothing was added for long."""
    last_ms = now_ms() - age_s * 1000
    entries = [f"{last_ms - 100 * n}-0" for n in reversed(range(1000))]
    fill(client, "rig", entries, b"x")
    assert await Trimmer(link, config(**SMALL)).sweep() == TrimResult({"rig": 499})
    assert read_ids(client, "rig") == entries[-501:]
    assert await Trimmer(link, config(**SMALL)).sweep() == TrimResult()


async def test_small_entries_that_take_much_memory_go(client: redis.Redis, link: Link) -> None:
    """The memory of a stream is bounded by what `max_entries` stands for, and `max_entries` stay in any case."""
    entries = [f"{now_ms() - n}-0" for n in reversed(range(1000))]
    fill(client, "rig", entries, b"x" * 2000)
    await Trimmer(link, config(**SMALL)).sweep()
    kept = read_ids(client, "rig")
    assert kept == entries[-len(kept) :]
    usage: Any = client.memory_usage("stream:rig", samples=0)
    assert 300 < len(kept) < 600
    assert 600_000 < usage <= 1_100_000
    await Trimmer(link, config(**{**SMALL, "entry_bytes": 1})).sweep()
    assert read_ids(client, "rig") == entries[-100:]


@pytest.mark.parametrize(("changes", "kept"), [({"max_bytes": 100_000}, 50), ({"max_age_s": 2}, 20)])
async def test_small_entries_obey_the_other_limits(
    client: redis.Redis, link: Link, changes: dict[str, Any], kept: int
) -> None:
    """Limits by memory and age hold for them as for all."""
    fill(client, "rig", [f"{now_ms() - 100 * n}-0" for n in reversed(range(400))], b"x" * 1000)
    await Trimmer(link, config(**{**SMALL, **changes})).sweep()
    assert kept / 2 < len(read_ids(client, "rig")) < kept * 2.5


async def test_small_entries_go_where_redis_has_little_room(client: redis.Redis, link: Link) -> None:
    """Beyond half of its memory `max_entries` counts again, and a full Redis is not filled by what might go."""
    fill(client, "rig", entries := numbered_ids(400), b"x")
    used: Any = client.info("memory")
    for maxmemory, kept in ((3 * used["used_memory"], 400), (int(1.5 * used["used_memory"]), 100)):
        client.config_set("maxmemory", maxmemory)
        try:
            await Trimmer(link, config(**SMALL)).sweep()
        finally:
            client.config_set("maxmemory", 0)
        assert read_ids(client, "rig") == entries[-kept:]


async def test_one_call_removes_a_bounded_number(client: redis.Redis, link: Link) -> None:
    """However long a stream is, so that Redis is not blocked for long."""
    fill(client, "rig", numbered_ids(2500))
    for exact in (False, True):
        limits = settings.TrimSettings(max_entries=1, entry_s=0, exact=exact).limits_for("rig")
        assert (
            await link.do(*retention_functions.trim("rig", limits, entry_ids.MAX))
            == retention_functions.CALL_MAX_ENTRIES
        )


@pytest.mark.parametrize("exact", [False, True])
async def test_one_call_removes_a_bounded_number_of_bytes(client: redis.Redis, link: Link, exact: bool) -> None:
    """Large entries go a few at a time, also behind a node of small ones that only goes as a whole."""
    fill(client, "rig", numbered_ids(100, first_ms=1), b"x")
    large = numbered_ids(150, first_ms=1000)
    fill(client, "rig", large, b"x" * 300_000)
    calls = removing_calls(client)
    assert await Trimmer(link, config(max_entries=10, exact=exact)).sweep() == TrimResult({"rig": 240})
    assert read_ids(client, "rig") == large[-10:]
    few = rules.CALL_MAX_BYTES // 150_000
    assert removing_calls(client) - calls >= 140 // few


def removing_calls(client: redis.Redis) -> int:
    stats: Any = client.info("commandstats")
    return int(stats["cmdstat_xtrim"]["calls"]) if "cmdstat_xtrim" in stats else 0


@pytest.mark.parametrize("exact", [False, True])
async def test_old_entries_are_removed(client: redis.Redis, link: Link, exact: bool) -> None:
    """Even from a short stream."""
    old, new = numbered_ids(50, first_ms=now_ms() - 2 * HOUR_MS), numbered_ids(50, first_ms=now_ms() - 1000)
    fill(client, "rig", [*old, *new])
    assert await Trimmer(link, config(max_age_s=3600, exact=exact)).sweep() == TrimResult({"rig": 50})
    assert read_ids(client, "rig") == new


async def test_boundaries_are_compared_as_numbers(client: redis.Redis, link: Link, clock: Clock) -> None:
    """That of an open session and that of age, with ids of different lengths."""
    fill(client, "rig", ["7-0"])
    open_session(client, "rig")
    trimmer = Trimmer(link, config(max_age_s=3600, min_retention_s=60), clock)
    await trimmer.sweep()
    clock.now_s += 60
    fill(client, "rig", ["8-0", "9-0"])
    assert await trimmer.sweep() == TrimResult(), "7-0 was the last entry a minute ago, and stays"


async def test_a_stream_of_old_entries_is_left_empty(client: redis.Redis, link: Link) -> None:
    """It exists and keeps its last id."""
    entries = numbered_ids(250, first_ms=now_ms() - 2 * HOUR_MS)
    fill(client, "rig", entries, b"x")
    await Trimmer(link, config(max_age_s=3600, exact=True)).sweep()
    assert read_ids(client, "rig") == []
    info: Any = client.xinfo_stream("stream:rig")
    assert info["last-generated-id"].decode() == entries[-1]


async def test_the_memory_of_a_stream_is_bounded(client: redis.Redis, link: Link) -> None:
    """The oldest entries are removed until it fits, and not many more."""
    entries = numbered_ids(1000)
    fill(client, "rig", entries)
    bound = 2_000_000
    assert await Trimmer(link, config(max_bytes=bound)).sweep() != TrimResult()
    used: Any = client.memory_usage("stream:rig", samples=0)
    assert bound * 0.9 < used <= bound
    assert read_ids(client, "rig") == entries[-len(read_ids(client, "rig")) :]


async def test_a_stream_may_have_limits_of_its_own(client: redis.Redis, link: Link) -> None:
    """For other streams the general ones hold."""
    for name in ("rig", "other"):
        fill(client, name, numbered_ids(100))
    stream_limits = {"rig": settings.StreamTrimSettings(max_entries=70)}
    assert await Trimmer(link, config(max_entries=20, streams=stream_limits)).sweep() == TrimResult(
        {"other": 80, "rig": 30}
    )


async def test_streams_of_other_programs_are_not_trimmed(client: redis.Redis, link: Link) -> None:
    """Only streams that a session of ours used are trimmed, and none where trimming is off."""
    fill(client, "theirs", numbered_ids(100))
    client.zrem(NAMES.streams_used(), "theirs")
    assert await Trimmer(link, config(max_entries=1, idle_stream_s=1)).sweep() == TrimResult()
    fill(client, "ours", numbered_ids(100))
    assert await Trimmer(link, config(max_entries=1, enabled=False)).sweep() == TrimResult()
    assert (client.xlen("stream:theirs"), client.xlen("stream:ours")) == (100, 100)


async def test_entries_of_open_sessions_stay_for_the_retention(client: redis.Redis, link: Link, clock: Clock) -> None:
    """Whatever the limits are; afterwards they are removed."""
    first, second = numbered_ids(50), numbered_ids(50, first_ms=now_ms() - 1000)
    fill(client, "rig", first)
    open_session(client, "rig")
    trimmer = Trimmer(link, config(max_entries=10, max_age_s=0.001, min_retention_s=60), clock)
    assert await trimmer.sweep() == TrimResult()
    clock.now_s += 59
    fill(client, "rig", second)
    assert await trimmer.sweep() == TrimResult()
    clock.now_s += 1
    assert await trimmer.sweep() == TrimResult({"rig": 49}), "all entries of a minute ago but the last"
    assert read_ids(client, "rig") == [first[-1], *second]
    clock.now_s += 60
    assert await trimmer.sweep() == TrimResult({"rig": 50})


async def test_without_an_open_session_there_is_no_retention(client: redis.Redis, link: Link, clock: Clock) -> None:
    """It is meant for readers that follow an open session."""
    fill(client, "rig", numbered_ids(50, first_ms=now_ms()))
    assert await Trimmer(link, config(max_entries=10), clock).sweep() == TrimResult({"rig": 40})


@pytest.mark.parametrize("exact", [False, True])
async def test_retention_does_not_go_by_ids_in_the_future(
    client: redis.Redis, link: Link, clock: Clock, exact: bool
) -> None:
    """After a clock jump no entry is too old by its id: the bound of the length holds, after the retention."""
    future = numbered_ids(100, first_ms=now_ms() + 24 * HOUR_MS)
    fill(client, "rig", future)
    open_session(client, "rig")
    limits = config(max_entries=10, max_age_s=3600, min_retention_s=60, exact=exact)
    trimmer = Trimmer(link, limits, clock)
    assert await trimmer.sweep() == TrimResult(), "they may have been added a second ago"
    clock.now_s += 60
    assert await trimmer.sweep() == TrimResult({"rig": 90})
    assert read_ids(client, "rig") == future[-10:]


async def test_retention_does_not_go_by_ids_in_the_past(client: redis.Redis, link: Link, clock: Clock) -> None:
    """Entries whose ids are an hour old but that were added just now stay for the retention too."""
    fill(client, "rig", numbered_ids(100))
    open_session(client, "rig")
    assert await Trimmer(link, config(max_entries=10), clock).sweep() == TrimResult()


async def test_a_stream_that_begins_again_with_lower_ids(client: redis.Redis, link: Link, clock: Clock) -> None:
    """Ids that were seen before Redis lost the stream say nothing about its new entries."""
    fill(client, "rig", numbered_ids(10, first_ms=now_ms() + HOUR_MS))
    open_session(client, "rig")
    trimmer = Trimmer(link, config(max_entries=1, min_retention_s=60), clock)
    await trimmer.sweep()
    client.delete("stream:rig")
    fill(client, "rig", numbered_ids(10))
    clock.now_s += 60
    assert await trimmer.sweep() == TrimResult()


async def test_trimming_never_lowers_ids(client: redis.Redis, link: Link) -> None:
    """The last id of a stream stays, and its first entry only moves up."""
    fill(client, "rig", numbered_ids(100))
    previous_first = entry_ids.MIN
    for max_entries in (50, 80, 20, 1):
        await Trimmer(link, config(max_entries=max_entries)).sweep()
        first = read_ids(client, "rig")[0]
        assert first >= previous_first
        previous_first = first
    info: Any = client.xinfo_stream("stream:rig")
    assert (info["length"], info["entries-added"]) == (1, 100)
    assert info["last-generated-id"].decode() == read_ids(client, "rig")[-1]


@pytest.fixture(scope="module")
def raw(shared_server: server.EmbeddedServer) -> Iterator[redis.Redis]:
    async def load() -> None:
        link = Link(settings.RedisSettings(url=shared_server.url))
        await function_loader.load(link)
        await link.close()

    anyio.run(load)
    with redis_client.connect(shared_server.url) as client:
        yield client


id_lists = st.lists(
    st.tuples(st.integers(0, 40) | st.integers(2**64 - 40, 2**64 - 1), st.integers(1, 3)), min_size=1, max_size=60
).map(lambda pairs: [f"{ms}-{seq}" for ms, seq in sorted(set(pairs))])


@hypothesis_settings(max_examples=200, deadline=None)
@example(entries=["0-1", "0-2"], max_entries=1, below=(0, 0), exact=True, large=False)
@given(
    entries=id_lists,
    max_entries=st.integers(1, 70),
    below=st.tuples(st.integers(0, 40) | st.integers(2**64 - 40, 2**64 - 1), st.integers(0, 3)),
    exact=st.booleans(),
    large=st.booleans(),
)
def test_trimming_agrees_with_a_model(
    raw: redis.Redis, entries: list[str], max_entries: int, below: tuple[int, int], exact: bool, large: bool
) -> None:
    """The oldest entries are removed, none at or above the boundary, never more than the length allows, and exactly as
    many with `exact`."""
    raw.flushall()
    fill(raw, "rig", entries, LARGE if large else b"x")
    limits = settings.TrimSettings(max_entries=max_entries, exact=exact).limits_for("rig")
    while raw.execute_command(*retention_functions.trim("rig", limits, f"{below[0]}-{below[1]}")):
        pass
    remaining = read_ids(raw, "rig")
    surplus = max(len(entries) - max_entries, 0)
    removable = [entry_id for entry_id in entries if entry_ids.parse(entry_id) < below][:surplus]
    assert remaining == entries[len(entries) - len(remaining) :]
    assert len(remaining) >= len(entries) - len(removable)
    if exact or large:
        assert len(remaining) == len(entries) - len(removable)


async def test_a_full_server_is_trimmed(link: Link, client: redis.Redis) -> None:
    """Where Redis refuses every other write, trimming makes room."""
    fill(client, "rig", numbered_ids(500))
    fill(client, "idle", numbered_ids(1))
    client.zadd(NAMES.streams_used(), {"idle": 1})
    client.config_set("maxmemory", 1)
    try:
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            client.xadd("stream:rig", {"a": "b"})
        swept = await Trimmer(link, config(max_entries=100, idle_stream_s=60)).sweep()
    finally:
        client.config_set("maxmemory", 0)
    assert swept == TrimResult({"rig": 400}, ("idle",))


async def test_a_key_of_another_type_keeps_no_stream_from_being_trimmed(client: redis.Redis, link: Link) -> None:
    """Nor does a stream that does not exist."""
    client.set("stream:a", "text")
    client.zadd(NAMES.streams_used(), {"a": 1, "gone": now_ms()})
    fill(client, "rig", numbered_ids(50))
    assert await Trimmer(link, config(max_entries=10)).sweep() == TrimResult({"rig": 40})


async def test_an_idle_stream_is_removed(client: redis.Redis, link: Link) -> None:
    """With every list entry of it. A stream that was used, has an open session or got an entry stays."""
    long_ago_ms = now_ms() - 2 * HOUR_MS
    for name in ("idle", "used", "live", "written"):
        fill(client, name, numbered_ids(3, first_ms=long_ago_ms))
    client.zadd(NAMES.streams_used(), dict.fromkeys(("idle", "live", "written"), long_ago_ms))
    open_session(client, "live")
    client.xadd("stream:written", {"id": "1", "data": "x"})
    trimmer = Trimmer(link, config(idle_stream_s=3600))
    assert await trimmer.sweep() == TrimResult(removed=("idle",))
    assert client.exists("stream:idle") == 0
    assert client.smembers("streams") == {b"used", b"live", b"written"}
    scores: Any = client.zrange(NAMES.streams_used(), 0, -1, withscores=True)
    assert {name: score > long_ago_ms for name, score in dict(scores).items()} == {
        b"live": False,
        b"used": True,
        b"written": True,
    }, "a stream that was found in use is not looked at in every sweep"
    assert await trimmer.sweep() == TrimResult()


async def test_zero_seconds_mean_that_no_stream_is_idle(client: redis.Redis, link: Link) -> None:
    """A stream with a setting of its own is removed all the same."""
    for name in ("a", "b"):
        fill(client, name, numbered_ids(3))
    client.zadd(NAMES.streams_used(), {"a": 1, "b": 1})
    stream_limits = {"b": settings.StreamTrimSettings(idle_stream_s=60)}
    assert await Trimmer(link, config(idle_stream_s=0, streams=stream_limits)).sweep() == TrimResult(removed=("b",))


class OpeningLink(Link):
    """A link on which another supervisor opens a session just before or after one of the trimmer's commands."""

    def __init__(self, config: settings.RedisSettings, client: redis.Redis, at: str, when: str) -> None:
        super().__init__(config)
        self._client, self._at, self._when = client, at, when

    async def do(self, *command: commands.Argument) -> Any:
        is_reached = self._at in command[:2]
        if is_reached and self._when == "before":
            self._open()
        reply = await super().do(*command)
        if is_reached and self._when == "after":
            self._open()
        return reply

    def _open(self) -> None:
        """In the order in which a session is opened: first the entry, then the lists."""
        self._client.execute_command(
            *session_functions.publish_opening(NAMES, session_record(stream_session_id=7), ttl_s=100)
        )
        self._client.sadd("streams", "rig")
        self._client.zadd(NAMES.streams_used(), {"rig": now_ms()})


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", ["rtas_unlist_1", "rtas_remove_2", "rtas_forget_1", "EXISTS"])
async def test_an_open_wins_against_a_removal(client: redis.Redis, link: Link, at: str, when: str) -> None:
    """Wherever in the removal a session is opened, its first entry stays, and the stream is listed and tracked."""
    fill(client, "rig", numbered_ids(3))
    client.zadd(NAMES.streams_used(), {"rig": 1})
    opening = OpeningLink(link.config, client, at, when)
    await Trimmer(opening, config(idle_stream_s=60)).sweep()
    await opening.close()
    entries: Any = client.xrevrange("stream:rig", count=1)
    assert entries[0][1][b"id"] == b"7"
    assert client.smembers("streams") == {b"rig"}
    assert client.zscore(NAMES.streams_used(), "rig") is not None


@pytest.mark.usefixtures("link")
async def test_two_trimmers_remove_no_more_than_one(url: str, client: redis.Redis) -> None:
    """Several supervisors that sweep at the same time leave what one would leave."""
    entries = numbered_ids(3000)
    fill(client, "rig", entries)
    links = [Link(settings.RedisSettings(url=url)) for _ in range(3)]
    async with anyio.create_task_group() as tasks:
        for own_link in links:
            tasks.start_soon(Trimmer(own_link, config(max_entries=1500)).sweep)
    for own_link in links:
        await own_link.close()
    assert read_ids(client, "rig") == entries[-1500:]


async def test_run_sweeps_until_it_is_cancelled(client: redis.Redis, link: Link) -> None:
    """Each time that the stream grows again, it is trimmed again."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Trimmer(link, config(max_entries=10, every_s=0.01)).run)
        with anyio.fail_after(10):
            for number in range(2):
                fill(client, "rig", numbered_ids(50, first_ms=now_ms() + number * 1000))
                while await anyio.to_thread.run_sync(functools.partial(client.xlen, "stream:rig")) != 10:
                    await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()


async def test_a_trimmer_whose_lease_is_over_removes_nothing(link: Link, client: redis.Redis) -> None:
    """No entry, no stream and no list entry; nor does one without a lease."""
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
