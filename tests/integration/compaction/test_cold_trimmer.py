"""Trimming of cold batches: the limits of a stream, an archive that must have them first, and idle streams."""

import itertools

import msgspec
import pytest
import redis

from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.compaction.store import CompactionStore
from rta_supervisor.retention.trimmer import Trimmer
from rta_supervisor.retention.unarchived_session import UnarchivedSession
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections.archive import ArchiveSettings
from rta_supervisor.transport.link import Link
from rta_writers.read import stream as read_stream
from tests.support import cold_streams
from tests.support.cold_streams import (
    NAMES,
    DyingLink,
    Killed,
    as_read,
    compactor,
    fill,
    old_entries,
    read_all,
    read_extent,
    sample_entries,
    stream_length,
)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("trim", "remaining"),
    [
        (settings.TrimSettings(max_entries=18, entry_s=0), 25),
        (settings.TrimSettings(max_entries=15, entry_s=0), 15),
        (settings.TrimSettings(max_entries=6, entry_s=0), 15),
        (settings.TrimSettings(max_entries=5, entry_s=0), 5),
        (settings.TrimSettings(max_entries=100, entry_s=0, max_age_s=600), 0),
        (settings.TrimSettings(max_entries=100, entry_s=0, max_bytes=1), 0),
    ],
)
async def test_bounds_hold_for_live_and_cold(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue, trim: settings.TrimSettings, remaining: int
) -> None:
    """Whole batches are removed, the oldest first, and never so many that less than the bound remains."""
    entries = sample_entries(25)
    fill(client, "rig", entries)
    own_compactor = compactor(link, catalogue, cold_streams.config(trim=trim))
    await own_compactor.sweep()
    await own_compactor.sweep()
    assert read_all(client, "rig") == as_read(entries[25 - remaining :])
    assert (read_extent(client) is None) == (remaining == 0)
    assert read_stream.counters(client, NAMES, ["rig"])["rig"].removed == 25 - remaining


@pytest.mark.usefixtures("small")
async def test_live_entries_count_for_the_limits(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """The more is live, the less has to stay cold."""
    entries = sample_entries(20)
    fill(client, "rig", entries)
    own_compactor = compactor(
        link, catalogue, cold_streams.config(trim=settings.TrimSettings(max_entries=20, entry_s=0))
    )
    await own_compactor.sweep()
    new = old_entries([b"x"] * 10, first_ms=cold_streams.now_ms())
    fill(client, "rig", new[:9])
    await own_compactor.sweep()
    assert read_all(client, "rig") == as_read(entries + new[:9])
    fill(client, "rig", new[9:])
    await own_compactor.sweep()
    assert read_all(client, "rig") == as_read(entries[10:] + new)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("before", [True, False])
async def test_killed_at_every_step_of_a_trim(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue, before: bool
) -> None:
    """At every step the batches of the index are there, and the next sweep removes no more than this one would have."""
    entries = sample_entries(25)
    few = cold_streams.config(trim=settings.TrimSettings(max_entries=5, entry_s=0))
    for step in itertools.count(1):
        client.flushdb()
        fill(client, "rig", entries)
        await compactor(link, catalogue).sweep()
        dying = DyingLink(link.config, step, before=before)
        try:
            await compactor(dying, catalogue, few).sweep()
            break
        except Killed:
            extent = read_extent(client)
            assert extent is not None
            seen = [entry_id for entry_id, _ in read_all(client, "rig")]
            assert seen[-extent.entries :][0] == extent.first_id, f"killed at step {step}"
        finally:
            await dying.close()
        await compactor(link, catalogue, few).sweep()
        extent = read_extent(client)
        assert extent is not None
        assert (extent.entries, extent.batches, stream_length(client, "cold:rig")) == (5, 1, 1), f"after step {step}"
    assert step > 4, "two batches have four steps"
    assert read_all(client, "rig") == as_read(entries[20:])


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("max_bytes", "remaining"), [(0, 25), (10**9, 25), (1, 0)])
async def test_cold_batches_wait_for_the_archive(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue, max_bytes: int, remaining: int
) -> None:
    """Whatever the limits are, until they take too much memory; then it is noted with the session that it is cut."""
    entries = sample_entries(25)
    fill(client, "rig", entries)
    unarchived = UnarchivedSession(7, "rig", "0-0", "run-1")
    client.hset(NAMES.session_state("run-1"), mapping={"streamSessionId": 7})
    client.expire(NAMES.session_state("run-1"), 60)
    client.zadd(NAMES.unarchived(), {unarchived.member: cold_streams.now_ms()})
    archive = ArchiveSettings(path="archive", required=True, max_bytes=max_bytes)
    plain = cold_streams.config(trim=settings.TrimSettings(max_entries=5, entry_s=0))
    own_compactor = compactor(link, catalogue, msgspec.structs.replace(plain, archive=archive))
    await own_compactor.sweep()
    await own_compactor.sweep()
    assert read_all(client, "rig") == as_read(entries[25 - remaining :])
    assert client.hexists(NAMES.session_state("run-1"), "cut") == (remaining == 0)
    client.zrem(NAMES.unarchived(), unarchived.member)
    await own_compactor.sweep()
    assert len(read_all(client, "rig")) == min(remaining, 5)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("archived", "remaining"), [(9, 25), (12, 15), (22, 5)])
async def test_cold_batches_that_the_archive_has_go(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue, archived: int, remaining: int
) -> None:
    """Also while their session is open: whole batches up to the last entry of its parts, and that cuts no session."""
    entries = sample_entries(25)
    fill(client, "rig", entries)
    plain = cold_streams.config(trim=settings.TrimSettings(max_entries=5, entry_s=0))
    await compactor(link, catalogue, cold_streams.config()).sweep()
    state, session = NAMES.session_state("run-1"), NAMES.session("run-1")
    client.hset(state, mapping={"streamSessionId": 7, "archivedUntil": f"{entries[archived - 1].id} {archived} sum"})
    client.hset(session, mapping={"streamSessionId": 7, "streamName": "rig", "streamPosition": "0-0"})
    client.zadd(NAMES.session_index(), {"run-1": cold_streams.now_ms()})
    for key in (state, session):
        client.expire(key, 60)
    archive = ArchiveSettings(path="archive", required=True, max_bytes=10**9)
    await compactor(link, catalogue, msgspec.structs.replace(plain, archive=archive)).sweep()
    assert read_all(client, "rig") == as_read(entries[25 - remaining :])
    assert not client.hexists(state, "cut")


async def test_a_stream_with_a_cold_part_is_tracked(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue
) -> None:
    """It is in the list of streams that trimming looks at, or it would stay for ever."""
    fill(client, "rig", sample_entries(12))
    await compactor(link, catalogue).sweep()
    client.zrem(NAMES.streams_used(), "rig")
    await compactor(link, catalogue).sweep()
    assert client.zscore(NAMES.streams_used(), "rig") is not None


async def test_an_idle_stream_is_removed_with_its_cold_part(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue
) -> None:
    """Nothing of it remains, and a stream whose cold part is younger stays."""
    for name in ("rig", "young"):
        fill(
            client,
            name,
            sample_entries(12) if name == "rig" else old_entries([b"x"] * 12, first_ms=cold_streams.now_ms() - 90_000),
        )
    await compactor(link, catalogue).sweep()
    assert client.hlen(NAMES.cold_index()) == 2
    trimmer = Trimmer(link, settings.Settings(trim=settings.TrimSettings(idle_stream_s=600)))
    assert (await trimmer.sweep()).removed == ("rig",)
    assert not client.exists("cold:rig", "stream:rig")
    assert client.hkeys(NAMES.cold_index()) == [b"young"]
    assert client.exists("cold:young")


async def test_a_batch_that_is_added_during_a_removal_is_found(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue
) -> None:
    """While an idle stream is removed: the stream is tracked again, and a later sweep removes it."""
    entries = sample_entries(12)
    trimming = settings.Settings(trim=settings.TrimSettings(idle_stream_s=600))
    ms = int(entries[-1].id.partition("-")[0])
    for at in itertools.count(1):
        client.flushdb()
        fill(client, "rig", entries)
        await compactor(link, catalogue).sweep()
        late = cold_streams.LateBatchLink(
            CompactionStore(link, NAMES, "rig"), link, at, (f"{ms + 1}-0", entries[-1].id)
        )
        await Trimmer(late, trimming).sweep()
        is_in_time = late.has_added
        if not is_in_time:
            await late.add_batch()
        await late.close()
        is_listed = client.zscore(NAMES.streams_used(), "rig") is not None
        assert is_listed == bool(client.exists("cold:rig")), f"before command {at}"
        if not is_in_time:
            break
    assert is_listed
    client.zadd(NAMES.streams_used(), {"rig": 1})
    assert (await Trimmer(link, trimming).sweep()).removed == ("rig",)
    assert not client.exists("cold:rig", "stream:rig")
