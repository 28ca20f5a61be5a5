"""Trimming on a real server: what goes, what stays, and who wins a race."""

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
from rta_supervisor.retention import functions as retention_functions
from rta_supervisor.retention.trimmer import Trimmer, TrimResult
from rta_supervisor.session import functions as session_functions
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, functions
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, keys
from rta_writers.connection import redis_client
from tests.support.session_values import session_record

NAMES = keys.Keys()
HOUR_MS = 3_600_000
LARGE = b"x" * 8000  # a node of its own


class Clock:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


def config(**changes: Any) -> settings.Settings:
    return settings.Settings(trim=settings.TrimSettings(**changes))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def fill(client: redis.Redis, stream: str, ids: list[str], data: bytes = LARGE) -> None:
    """Entries with given ids in a stream that a session used."""
    with client.pipeline(transaction=False) as pipe:
        for entry_id in ids:
            pipe.execute_command("XADD", f"stream:{stream}", entry_id, "id", "1", "data", data)
        pipe.zadd(NAMES.streams_used(), {stream: now_ms()})
        pipe.sadd("streams", stream)
        pipe.execute()


def numbered(count: int, *, first_ms: int | None = None) -> list[str]:
    start_ms = now_ms() - HOUR_MS if first_ms is None else first_ms
    return [f"{start_ms + n}-0" for n in range(count)]


def open_session(client: redis.Redis, stream: str) -> None:
    """As far as the trimmer can tell."""
    client.hset(NAMES.session_state("run-1"), mapping={"streamName": stream, "state": "open"})
    client.expire(NAMES.session_state("run-1"), 100)
    client.zadd(NAMES.session_index(), {"run-1": now_ms()})


def ids(client: redis.Redis, stream: str) -> list[str]:
    entries: Any = client.xrange(f"stream:{stream}")
    return [entry_id.decode() for entry_id, _ in entries]


async def test_length(client: redis.Redis, link: Link) -> None:
    """The newest entries stay, to the number that is configured, however many calls it takes."""
    wanted = numbered(2500)
    fill(client, "rig", wanted)
    assert await Trimmer(link, config(max_entries=100)).sweep() == TrimResult({"rig": 2400})
    assert ids(client, "rig") == wanted[-100:]
    assert await Trimmer(link, config(max_entries=100)).sweep() == TrimResult()


async def test_small_entries_go_by_the_node(client: redis.Redis, link: Link) -> None:
    """By default less than a node too many may stay and never one too few; `exact` is exact."""
    wanted = numbered(1050)
    fill(client, "rig", wanted, b"x")
    await Trimmer(link, config(max_entries=120)).sweep()
    assert 120 <= len(ids(client, "rig")) < 220
    assert await Trimmer(link, config(max_entries=120, exact=True)).sweep() != TrimResult()
    assert ids(client, "rig") == wanted[-120:]


async def test_one_call_keeps_redis_for_a_moment_only(client: redis.Redis, link: Link) -> None:
    """However long a stream is, no call removes more than the limit."""
    fill(client, "rig", numbered(2500))
    for exact in (False, True):
        limits = settings.TrimSettings(max_entries=1, exact=exact).limits_for("rig")
        assert (
            await link.do(*retention_functions.trim("rig", limits, entry_ids.MAX))
            == retention_functions.CALL_MAX_ENTRIES
        )


@pytest.mark.parametrize("exact", [False, True])
async def test_age(client: redis.Redis, link: Link, exact: bool) -> None:
    """Entries that are too old go even from a short stream."""
    old, new = numbered(50, first_ms=now_ms() - 2 * HOUR_MS), numbered(50, first_ms=now_ms() - 1000)
    fill(client, "rig", [*old, *new])
    assert await Trimmer(link, config(max_age_s=3600, exact=exact)).sweep() == TrimResult({"rig": 50})
    assert ids(client, "rig") == new


async def test_age_with_ids_of_any_length(client: redis.Redis, link: Link, clock: Clock) -> None:
    """The bound of an open session and that of age are compared as numbers and not as text."""
    fill(client, "rig", ["7-0"])
    open_session(client, "rig")
    trimmer = Trimmer(link, config(max_age_s=3600, min_retention_s=60), clock)
    await trimmer.sweep()
    clock.now_s += 60
    fill(client, "rig", ["8-0", "9-0"])
    assert await trimmer.sweep() == TrimResult(), "7-0 is the last that stood there a minute ago, and stays"


async def test_age_to_the_last_entry(client: redis.Redis, link: Link) -> None:
    """A stream of which everything is too old is left empty and knows its last id."""
    wanted = numbered(250, first_ms=now_ms() - 2 * HOUR_MS)
    fill(client, "rig", wanted, b"x")
    await Trimmer(link, config(max_age_s=3600, exact=True)).sweep()
    assert ids(client, "rig") == []
    info: Any = client.xinfo_stream("stream:rig")
    assert info["last-generated-id"].decode() == wanted[-1]


async def test_memory(client: redis.Redis, link: Link) -> None:
    """A stream that takes too much memory loses its oldest entries until it fits, and not many more."""
    wanted = numbered(1000)
    fill(client, "rig", wanted)
    bound = 2_000_000
    assert await Trimmer(link, config(max_bytes=bound)).sweep() != TrimResult()
    used: Any = client.memory_usage("stream:rig", samples=0)
    assert bound * 0.9 < used <= bound
    assert ids(client, "rig") == wanted[-len(ids(client, "rig")) :]


async def test_every_stream_by_its_own_limits(client: redis.Redis, link: Link) -> None:
    """A stream with limits of its own follows them, others follow the general ones."""
    for name in ("rig", "other"):
        fill(client, name, numbered(100))
    own = {"rig": settings.StreamTrimSettings(max_entries=70)}
    assert await Trimmer(link, config(max_entries=20, streams=own)).sweep() == TrimResult({"other": 80, "rig": 30})


async def test_streams_of_others_are_left_alone(client: redis.Redis, link: Link) -> None:
    """Neither length nor age makes us touch a stream that no session of ours used; off means off."""
    fill(client, "theirs", numbered(100))
    client.zrem(NAMES.streams_used(), "theirs")
    assert await Trimmer(link, config(max_entries=1, idle_stream_s=1)).sweep() == TrimResult()
    fill(client, "ours", numbered(100))
    assert await Trimmer(link, config(max_entries=1, enabled=False)).sweep() == TrimResult()
    assert (client.xlen("stream:theirs"), client.xlen("stream:ours")) == (100, 100)


async def test_open_sessions_keep_their_entries_for_a_while(client: redis.Redis, link: Link, clock: Clock) -> None:
    """What came less than the retention ago stays, whatever the limits say; later it goes."""
    first, second = numbered(50), numbered(50, first_ms=now_ms() - 1000)
    fill(client, "rig", first)
    open_session(client, "rig")
    trimmer = Trimmer(link, config(max_entries=10, max_age_s=0.001, min_retention_s=60), clock)
    assert await trimmer.sweep() == TrimResult()
    clock.now_s += 59
    fill(client, "rig", second)
    assert await trimmer.sweep() == TrimResult()
    clock.now_s += 1
    assert await trimmer.sweep() == TrimResult({"rig": 49}), "all that stood there a minute ago but its last"
    assert ids(client, "rig") == [first[-1], *second]
    clock.now_s += 60
    assert await trimmer.sweep() == TrimResult({"rig": 50})


async def test_without_an_open_session_nothing_is_kept_back(client: redis.Redis, link: Link, clock: Clock) -> None:
    """The retention is for those who follow an open session."""
    fill(client, "rig", numbered(50, first_ms=now_ms()))
    assert await Trimmer(link, config(max_entries=10), clock).sweep() == TrimResult({"rig": 40})


@pytest.mark.parametrize("exact", [False, True])
async def test_ids_in_the_future(client: redis.Redis, link: Link, clock: Clock, exact: bool) -> None:
    """After a clock jump no entry is ever too old, so the length bound holds; retention does not go by the ids."""
    future = numbered(100, first_ms=now_ms() + 24 * HOUR_MS)
    fill(client, "rig", future)
    open_session(client, "rig")
    limits = config(max_entries=10, max_age_s=3600, min_retention_s=60, exact=exact)
    trimmer = Trimmer(link, limits, clock)
    assert await trimmer.sweep() == TrimResult(), "they may have come a second ago"
    clock.now_s += 60
    assert await trimmer.sweep() == TrimResult({"rig": 90})
    assert ids(client, "rig") == future[-10:]


async def test_ids_in_the_past(client: redis.Redis, link: Link, clock: Clock) -> None:
    """Entries that look an hour old but came a moment ago are kept for the retention too."""
    fill(client, "rig", numbered(100))
    open_session(client, "rig")
    assert await Trimmer(link, config(max_entries=10), clock).sweep() == TrimResult()


async def test_a_stream_made_anew_with_lower_ids(client: redis.Redis, link: Link, clock: Clock) -> None:
    """What was noted of the stream before Redis lost it does not count against its new entries."""
    fill(client, "rig", numbered(10, first_ms=now_ms() + HOUR_MS))
    open_session(client, "rig")
    trimmer = Trimmer(link, config(max_entries=1, min_retention_s=60), clock)
    await trimmer.sweep()
    client.delete("stream:rig")
    fill(client, "rig", numbered(10))
    clock.now_s += 60
    assert await trimmer.sweep() == TrimResult()


async def test_trimming_goes_forward_only(client: redis.Redis, link: Link) -> None:
    """The id that a stream goes on from is never lowered, and the first entry only ever moves up."""
    fill(client, "rig", numbered(100))
    last = "0-0"
    for most in (50, 80, 20, 1):
        await Trimmer(link, config(max_entries=most)).sweep()
        first = ids(client, "rig")[0]
        assert first >= last
        last = first
    info: Any = client.xinfo_stream("stream:rig")
    assert (info["length"], info["entries-added"]) == (1, 100)
    assert info["last-generated-id"].decode() == ids(client, "rig")[-1]


@pytest.fixture(scope="module")
def raw(shared_server: server.EmbeddedServer) -> Iterator[redis.Redis]:
    async def load() -> None:
        link = Link(settings.RedisSettings(url=shared_server.url))
        await functions.load(link)
        await link.close()

    anyio.run(load)
    with redis_client.connect(shared_server.url) as client:
        yield client


id_lists = st.lists(
    st.tuples(st.integers(0, 40) | st.integers(2**64 - 40, 2**64 - 1), st.integers(1, 3)), min_size=1, max_size=60
).map(lambda pairs: [f"{ms}-{seq}" for ms, seq in sorted(set(pairs))])


@hypothesis_settings(max_examples=200, deadline=None)
@example(entries=["0-1", "0-2"], most=1, below=(0, 0), exact=True, large=False)
@given(
    entries=id_lists,
    most=st.integers(1, 70),
    below=st.tuples(st.integers(0, 40) | st.integers(2**64 - 40, 2**64 - 1), st.integers(0, 3)),
    exact=st.booleans(),
    large=st.booleans(),
)
def test_what_stays_is_what_the_rule_says(
    raw: redis.Redis, entries: list[str], most: int, below: tuple[int, int], exact: bool, large: bool
) -> None:
    """Against a model: the oldest go, none at or above the bound, never below the length, to the entry if exact."""
    raw.flushall()
    fill(raw, "rig", entries, LARGE if large else b"x")
    limits = settings.TrimSettings(max_entries=most, exact=exact).limits_for("rig")
    while raw.execute_command(*retention_functions.trim("rig", limits, f"{below[0]}-{below[1]}")):
        pass
    left = ids(raw, "rig")
    surplus = max(len(entries) - most, 0)
    may_go = [entry for entry in entries if entry_ids.parse(entry) < below][:surplus]
    assert left == entries[len(entries) - len(left) :]
    assert len(left) >= len(entries) - len(may_go)
    if exact or large:
        assert len(left) == len(entries) - len(may_go)


async def test_a_full_server_is_trimmed(link: Link, client: redis.Redis) -> None:
    """Where Redis takes nothing more, making room still works."""
    fill(client, "rig", numbered(500))
    fill(client, "idle", numbered(1))
    client.zadd(NAMES.streams_used(), {"idle": 1})
    client.config_set("maxmemory", 1)
    try:
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            client.xadd("stream:rig", {"a": "b"})
        swept = await Trimmer(link, config(max_entries=100, idle_stream_s=60)).sweep()
    finally:
        client.config_set("maxmemory", 0)
    assert swept == TrimResult({"rig": 400}, ("idle",))


async def test_a_key_of_another_type_stops_nothing(client: redis.Redis, link: Link) -> None:
    """One stream that is none does not keep the others from being trimmed."""
    client.set("stream:a", "text")
    client.zadd(NAMES.streams_used(), {"a": 1, "gone": now_ms()})
    fill(client, "rig", numbered(50))
    assert await Trimmer(link, config(max_entries=10)).sweep() == TrimResult({"rig": 40})


async def test_a_stream_that_nobody_uses_is_removed(client: redis.Redis, link: Link) -> None:
    """With its name and our note of it; one that is used, or has an open session, or got an entry, stays."""
    long_ago_ms = now_ms() - 2 * HOUR_MS
    for name in ("idle", "used", "live", "written"):
        fill(client, name, numbered(3, first_ms=long_ago_ms))
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
    }, "what was found in use is not asked about in every pass"
    assert await trimmer.sweep() == TrimResult()


async def test_zero_means_that_no_stream_is_removed(client: redis.Redis, link: Link) -> None:
    """Nor one with a setting of its own."""
    for name in ("a", "b"):
        fill(client, name, numbered(3))
    client.zadd(NAMES.streams_used(), {"a": 1, "b": 1})
    own = {"b": settings.StreamTrimSettings(idle_stream_s=60)}
    assert await Trimmer(link, config(idle_stream_s=0, streams=own)).sweep() == TrimResult(removed=("b",))


class Meddling(Link):
    """A link on which somebody else opens a session just before or after one of the trimmer's commands."""

    def __init__(self, config: settings.RedisSettings, client: redis.Redis, at: str, when: str) -> None:
        super().__init__(config)
        self._other, self._at, self._when = client, at, when

    async def do(self, *call: commands.Argument) -> Any:
        is_it = self._at in (call[0], call[1])
        if is_it and self._when == "before":
            self._open()
        answer = await super().do(*call)
        if is_it and self._when == "after":
            self._open()
        return answer

    def _open(self) -> None:
        """In the order in which a session is opened: entry, then set."""
        self._other.execute_command(
            *session_functions.publish_opening(NAMES, session_record(stream_session_id=7), ttl_s=100)
        )
        self._other.sadd("streams", "rig")
        self._other.zadd(NAMES.streams_used(), {"rig": now_ms()})


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("at", ["rtas_unlist_1", "rtas_remove_1", "rtas_forget_1", "EXISTS"])
async def test_an_open_wins_against_a_removal(client: redis.Redis, link: Link, at: str, when: str) -> None:
    """Wherever in the removal a session is opened, its first entry stands and the stream is listed and looked after."""
    fill(client, "rig", numbered(3))
    client.zadd(NAMES.streams_used(), {"rig": 1})
    meddling = Meddling(link.config, client, at, when)
    await Trimmer(meddling, config(idle_stream_s=60)).sweep()
    await meddling.close()
    entries: Any = client.xrevrange("stream:rig", count=1)
    assert entries[0][1][b"id"] == b"7"
    assert client.smembers("streams") == {b"rig"}
    assert client.zscore(NAMES.streams_used(), "rig") is not None


@pytest.mark.usefixtures("link")
async def test_two_trimmers_take_no_more_than_one(url: str, client: redis.Redis) -> None:
    """Two supervisors that sweep at the same moment leave what one would leave."""
    wanted = numbered(3000)
    fill(client, "rig", wanted)
    links = [Link(settings.RedisSettings(url=url)) for _ in range(3)]
    async with anyio.create_task_group() as tasks:
        for one in links:
            tasks.start_soon(Trimmer(one, config(max_entries=1500)).sweep)
    for one in links:
        await one.close()
    assert ids(client, "rig") == wanted[-1500:]


async def test_run_sweeps_until_it_is_cancelled(client: redis.Redis, link: Link) -> None:
    """By itself, again and again."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(Trimmer(link, config(max_entries=10, every_s=0.01)).run)
        with anyio.fail_after(10):
            for turn in range(2):
                fill(client, "rig", numbered(50, first_ms=now_ms() + turn * 1000))
                while await anyio.to_thread.run_sync(functools.partial(client.xlen, "stream:rig")) != 10:
                    await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()


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
