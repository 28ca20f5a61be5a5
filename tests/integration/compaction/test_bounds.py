"""What is cold goes in the end: bounds of a stream, an archive that must have it first, and streams that idle."""

import itertools

import msgspec
import pytest
import redis

from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.compaction.store import CompactionStore
from rta_supervisor.retention.archive_queue import UnarchivedSession
from rta_supervisor.retention.trimmer import Trimmer
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections.archive import ArchiveSettings
from rta_supervisor.transport.link import Link
from rta_writers.read import stream as read_stream
from tests.support import cold_streams
from tests.support.cold_streams import NAMES, Killed, Mortal, aged, compactor, fill, index, length, shown, some, view


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("trim", "left"),
    [
        (settings.TrimSettings(max_entries=18), 25),
        (settings.TrimSettings(max_entries=15), 15),
        (settings.TrimSettings(max_entries=6), 15),
        (settings.TrimSettings(max_entries=5), 5),
        (settings.TrimSettings(max_entries=100, max_age_s=600), 0),
        (settings.TrimSettings(max_entries=100, max_bytes=1), 0),
    ],
)
async def test_bounds_hold_for_live_and_cold(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue, trim: settings.TrimSettings, left: int
) -> None:
    """The oldest batches go, whole ones, and never so many that less than the bound is left."""
    wanted = some(25)
    fill(client, "rig", wanted)
    own = compactor(link, catalogue, cold_streams.config(trim=trim))
    await own.sweep()
    await own.sweep()
    assert view(client, "rig") == shown(wanted[25 - left :])
    assert (index(client) is None) == (left == 0)
    assert read_stream.counters(client, NAMES, "rig").removed == 25 - left


@pytest.mark.usefixtures("small")
async def test_what_is_live_above_counts_for_the_bounds(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue
) -> None:
    """A stream that goes on needs less of what is cold."""
    wanted = some(20)
    fill(client, "rig", wanted)
    own = compactor(link, catalogue, cold_streams.config(trim=settings.TrimSettings(max_entries=20)))
    await own.sweep()
    new = aged([b"x"] * 10, first_ms=cold_streams.now_ms())
    fill(client, "rig", new[:9])
    await own.sweep()
    assert view(client, "rig") == shown(wanted + new[:9])
    fill(client, "rig", new[9:])
    await own.sweep()
    assert view(client, "rig") == shown(wanted[10:] + new)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("before", [True, False])
async def test_killed_while_old_batches_go(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue, before: bool
) -> None:
    """At every step all that the index says is there, and the next one takes no more than that one would have."""
    wanted = some(25)
    few = cold_streams.config(trim=settings.TrimSettings(max_entries=5))
    for left in itertools.count(1):
        client.flushdb()
        fill(client, "rig", wanted)
        await compactor(link, catalogue).sweep()
        mortal = Mortal(link.config, left, before=before)
        try:
            await compactor(mortal, catalogue, few).sweep()
            break
        except Killed:
            found = index(client)
            assert found is not None
            seen = [one for one, _ in view(client, "rig")]
            assert seen[-found.entries :][0] == found.first_id, f"killed at step {left}"
        finally:
            await mortal.close()
        await compactor(link, catalogue, few).sweep()
        found = index(client)
        assert found is not None
        assert (found.entries, found.batches, length(client, "cold:rig")) == (5, 1, 1), f"after step {left}"
    assert left > 4, "two batches have four steps"
    assert view(client, "rig") == shown(wanted[20:])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("max_bytes", "left"), [(0, 25), (10**9, 25), (1, 0)])
async def test_what_is_cold_waits_for_the_archive(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue, max_bytes: int, left: int
) -> None:
    """However much more than the bounds it is, until it takes too much memory; then it is noted what is missing."""
    wanted = some(25)
    fill(client, "rig", wanted)
    waiting = UnarchivedSession(7, "rig", "0-0", "run-1")
    client.hset(NAMES.session_state("run-1"), mapping={"streamSessionId": 7})
    client.expire(NAMES.session_state("run-1"), 60)
    client.zadd(NAMES.unarchived(), {waiting.member: cold_streams.now_ms()})
    archive = ArchiveSettings(path="archive", required=True, max_bytes=max_bytes)
    plain = cold_streams.config(trim=settings.TrimSettings(max_entries=5))
    own = compactor(link, catalogue, msgspec.structs.replace(plain, archive=archive))
    await own.sweep()
    await own.sweep()
    assert view(client, "rig") == shown(wanted[25 - left :])
    assert client.hexists(NAMES.session_state("run-1"), "cut") == (left == 0)
    client.zrem(NAMES.unarchived(), waiting.member)
    await own.sweep()
    assert len(view(client, "rig")) == min(left, 5)


async def test_what_is_cold_is_in_a_list(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """A stream that nobody finds would stay for ever."""
    fill(client, "rig", some(12))
    await compactor(link, catalogue).sweep()
    client.zrem(NAMES.streams_used(), "rig")
    await compactor(link, catalogue).sweep()
    assert client.zscore(NAMES.streams_used(), "rig") is not None


async def test_an_idle_stream_goes_with_what_is_cold(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue
) -> None:
    """Nothing of it is left, and a stream whose cold part is younger stays."""
    for name in ("rig", "young"):
        fill(client, name, some(12) if name == "rig" else aged([b"x"] * 12, first_ms=cold_streams.now_ms() - 90_000))
    await compactor(link, catalogue).sweep()
    assert client.hlen(NAMES.cold_index()) == 2
    trimmer = Trimmer(link, settings.Settings(trim=settings.TrimSettings(idle_stream_s=600)))
    assert (await trimmer.sweep()).removed == ("rig",)
    assert not client.exists("cold:rig", "stream:rig")
    assert client.hkeys(NAMES.cold_index()) == [b"young"]
    assert client.exists("cold:young")


async def test_a_batch_that_comes_late_is_found(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """An idle stream is removed while a compactor is at it: what it leaves is in a list, and goes another time."""
    wanted = some(12)
    trimming = settings.Settings(trim=settings.TrimSettings(idle_stream_s=600))
    ms = int(wanted[-1].id.partition("-")[0])
    for at in itertools.count(1):
        client.flushdb()
        fill(client, "rig", wanted)
        await compactor(link, catalogue).sweep()
        late = cold_streams.Late(CompactionStore(link, NAMES, "rig"), link, at, (f"{ms + 1}-0", wanted[-1].id))
        await Trimmer(late, trimming).sweep()
        is_in_time = late.has_come
        if not is_in_time:
            await late.freeze()
        await late.close()
        is_listed = client.zscore(NAMES.streams_used(), "rig") is not None
        assert is_listed == bool(client.exists("cold:rig")), f"before command {at}"
        if not is_in_time:
            break
    assert is_listed
    client.zadd(NAMES.streams_used(), {"rig": 1})
    assert (await Trimmer(link, trimming).sweep()).removed == ("rig",)
    assert not client.exists("cold:rig", "stream:rig")
