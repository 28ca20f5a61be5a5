"""Compaction on a real server: what is moved, and what readers see at every moment, also after a kill at any step."""

import contextlib
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
import redis
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.compaction import server_functions as compaction_functions
from rta_supervisor.nodes import leases
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, errors, limits
from rta_wire.cold import batch as cold_batch
from rta_wire.cold.lz4_roundtrip import RawEntry
from rta_writers.connection import redis_client
from tests.support import cold_streams, samples
from tests.support.cold_streams import (
    NAMES,
    STEPS,
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
async def test_a_cold_stream_is_moved(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """Into batches with the id of their last entry; the live stream is empty and keeps its last id."""
    entries = sample_entries(35)
    fill(client, "rig", entries)
    moved = await compactor(link, catalogue).sweep()
    assert (moved["rig"].entries, moved["rig"].batches) == (35, 4)
    assert read_all(client, "rig") == as_read(entries)
    assert stream_length(client, "stream:rig") == 0
    info: Any = client.xinfo_stream("stream:rig")
    assert info["last-generated-id"].decode() == entries[-1].id
    batches: Any = client.xrange("cold:rig")
    assert [raw_id.decode() for raw_id, _ in batches] == [entries[n].id for n in (9, 19, 29, 34)]
    assert [entry for _, fields in batches for entry in cold_batch.unpack_entries(fields[b"b"])] == entries
    extent = read_extent(client)
    assert extent is not None
    assert (extent.first_id, extent.last_id, extent.entries, extent.batches) == (entries[0].id, entries[-1].id, 35, 4)
    assert (extent.added, extent.number) == (35, 7)
    [location] = await catalogue.locations("rig")
    assert (location.kind, location.location, location.entries) == ("cold", "cold:rig", 35)
    assert await compactor(link, catalogue).sweep() == {}


async def test_what_is_stored_at_once_is_bounded(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """Redis does nothing else while it takes a batch: of bytes that can't be compressed it gets less of them."""
    entries = old_entries([os.urandom(limits.COLD_BATCH_LIVE_BYTES // 3) for _ in range(7)])
    fill(client, "rig", entries)
    moved = await compactor(link, catalogue).sweep()
    assert (moved["rig"].entries, moved["rig"].batches) == (7, 4)
    batches: Any = client.xrange("cold:rig")
    assert max(len(fields[b"b"]) for _, fields in batches) < limits.COLD_BATCH_LIVE_BYTES
    assert read_all(client, "rig") == as_read(entries)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("before", [True, False])
async def test_killed_at_every_step(client: redis.Redis, link: Link, catalogue: SqliteCatalogue, before: bool) -> None:
    """Readers see every entry once, after the kill and after the next sweep."""
    all_entries = sample_entries(28)
    entries = all_entries[3:]
    for step in itertools.count(1):
        client.flushdb()
        fill(client, "rig", all_entries)
        client.xtrim("stream:rig", maxlen=25, approximate=False)
        dying = DyingLink(link.config, step, before=before)
        try:
            await compactor(dying, catalogue).sweep()
            break
        except Killed:
            assert read_all(client, "rig") == as_read(entries), f"killed at step {step}"
        finally:
            await dying.close()
        await compactor(link, catalogue).sweep()
        assert read_all(client, "rig") == as_read(entries), f"after step {step}"
        assert stream_length(client, "stream:rig") == 0
        extent = read_extent(client)
        assert extent is not None
        assert (extent.entries, extent.batches, extent.added) == (25, stream_length(client, "cold:rig"), 28)
    assert step > 9, "three batches have nine steps"


async def test_entries_that_were_trimmed_before_are_counted(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue
) -> None:
    """Also where another supervisor indexes the batch than the one that wrote it: else a reader would see no gap, or a
    wrong one."""
    fill(client, "rig", sample_entries(12))
    client.xtrim("stream:rig", maxlen=9, approximate=False)
    dying = DyingLink(link.config, 2, before=True)
    with pytest.raises(Killed):
        await compactor(dying, catalogue).sweep()
    await dying.close()
    assert (read_extent(client), stream_length(client, "cold:rig")) == (None, 1)
    await compactor(link, catalogue).sweep()
    extent = read_extent(client)
    assert extent is not None
    assert (extent.entries, extent.added) == (9, 12)


datas = st.one_of(st.binary(max_size=30), st.sampled_from([burst.data for burst in samples.bursts(3)]))
rounds = st.lists(
    st.tuples(st.integers(1, 25), st.integers(1, 12), st.booleans(), st.booleans()), min_size=1, max_size=5
)


@pytest.mark.usefixtures("small")
@hypothesis_settings(
    max_examples=300 if os.environ.get("RTA_SOAK") else 10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(values=st.lists(datas, min_size=1, max_size=9), rounds=rounds)
def test_any_order_of_appends_kills_and_losses(
    raw: redis.Redis, tmp_path: Path, values: list[bytes], rounds: list[tuple[int, int, bool, bool]]
) -> None:
    """Entries are added, a compactor is killed, the index is lost: a reader sees every entry once all the same."""
    anyio.run(run_rounds, f"unix://{raw.get_connection_kwargs()['path']}", tmp_path, values, rounds)


async def run_rounds(url: str, folder: Path, values: list[bytes], rounds: list[tuple[int, int, bool, bool]]) -> None:
    """Each round adds entries, and kills a compactor before or after its n-th step."""
    config = settings.RedisSettings(url=url)
    link = Link(config)
    catalogue = SqliteCatalogue(folder / "catalogue.sqlite")
    entries: list[RawEntry] = []
    with redis_client.connect(url) as client:
        client.flushdb()
        for count, step, before, loses_index in rounds:
            first_ms = entry_ids.ms_of(entries[-1].id) + 1 if entries else None
            more = old_entries([values[n % len(values)] for n in range(count)], first_ms=first_ms)
            entries += more
            fill(client, "rig", more)
            dying = DyingLink(config, step, before=before)
            with contextlib.suppress(Killed):
                await compactor(dying, catalogue).sweep()
            await dying.close()
            assert read_all(client, "rig") == as_read(entries)
            if loses_index:
                # In a Cluster each server may come back older than the others.
                client.hdel(NAMES.cold_index(), "rig")
                await compactor(link, catalogue).sweep()
                assert read_all(client, "rig") == as_read(entries)
        await compactor(link, catalogue).sweep()
        assert read_all(client, "rig") == as_read(entries)
        assert stream_length(client, "stream:rig") == 0
    await link.close()
    await catalogue.close()


async def test_a_stream_in_use_stays_live(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """Nothing is moved where a session is or just was open, an entry is young, or compaction is off or paused."""
    entries = sample_entries(12)
    fill(client, "rig", entries)
    fill(client, "fresh", old_entries([b"x"], first_ms=cold_streams.now_ms()))
    client.hset(NAMES.session_state("run"), mapping={"streamName": "rig", "state": "open", "streamSessionId": 7})
    client.expire(NAMES.session_state("run"), 100)
    client.zadd(NAMES.session_index(), {"run": cold_streams.now_ms()})
    assert await compactor(link, catalogue).sweep() == {}
    client.hset(NAMES.session_state("run"), "state", "closed")
    assert await compactor(link, catalogue, cold_streams.config(after_s=0)).sweep() == {}
    assert await compactor(link, catalogue, cold_streams.config(after_s=36 * 3600)).sweep() == {}
    assert await compactor(link, catalogue, cold_streams.config(paused=True)).sweep() == {}
    client.set(NAMES.cold_pause(), "me")
    assert await compactor(link, catalogue).sweep() == {}
    client.set(NAMES.cold_pause(), "")
    client.zadd(NAMES.streams_used(), {"rig": cold_streams.now_ms()})
    assert await compactor(link, catalogue).sweep() == {}
    client.zadd(NAMES.streams_used(), {"rig": 1})
    moved = await compactor(link, catalogue).sweep()
    assert [(stream, result.entries) for stream, result in moved.items()] == [("rig", 12)]
    assert read_all(client, "rig") == as_read(entries)


class Appending(Link):
    """A link on which another program adds an entry to the stream before each step of a compaction."""

    def __init__(self, config: settings.RedisSettings, client: redis.Redis) -> None:
        super().__init__(config)
        self._client = client
        self.added: list[tuple[str, dict[bytes, bytes]]] = []

    async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
        if any(call[0] == "FCALL" and call[1] in STEPS for call in batch):
            fields = {b"id": b"8", b"data": b"new %d" % len(self.added)}
            added: Any = self._client.execute_command("XADD", "stream:rig", "*", *itertools.chain(*fields.items()))
            self.added.append((added.decode(), fields))
        return await super().try_all(batch)


@pytest.mark.usefixtures("small")
async def test_a_stream_that_is_used_while_it_is_moved(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue
) -> None:
    """What is added stays live above what is cold, and is moved by a later sweep."""
    entries = sample_entries(25)
    fill(client, "rig", entries)
    appending = Appending(link.config, client)
    await compactor(appending, catalogue).sweep()
    await appending.close()
    assert len(appending.added) >= 9
    assert stream_length(client, "stream:rig") == len(appending.added)
    assert read_all(client, "rig") == as_read(entries) + appending.added
    extent = read_extent(client)
    assert extent is not None
    assert (extent.last_id, extent.added) == (entries[-1].id, 25)
    await compactor(link, catalogue, cold_streams.config(after_s=0.001)).sweep()
    assert read_all(client, "rig") == as_read(entries) + appending.added
    assert stream_length(client, "stream:rig") == 0


@pytest.mark.usefixtures("small")
async def test_compaction_makes_room_in_a_full_redis(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue
) -> None:
    """Where Redis accepts nothing else, a batch is still added, and less memory is used in the end."""
    entries = old_entries([bytes([n]) * 20_000 for n in range(60)])
    fill(client, "rig", entries)
    before: Any = client.info("memory")["used_memory"]
    client.config_set("maxmemory", before - 100_000)
    try:
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            client.set("other", "x" * 1000)
        assert (await compactor(link, catalogue).sweep())["rig"].entries == 60
        after: Any = client.info("memory")["used_memory"]
        assert after < before - 500_000
    finally:
        client.config_set("maxmemory", 0)
    assert read_all(client, "rig") == as_read(entries)


async def test_two_compactors_at_once(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """The lease of one is over and it does not know yet: nothing is lost or doubled."""
    entries = sample_entries(400)
    fill(client, "rig", entries)
    links = [Link(link.config) for _ in range(2)]

    async def sweep(own_link: Link) -> None:
        with contextlib.suppress(leases.LeaseExpired):
            await compactor(own_link, catalogue).sweep()

    async with anyio.create_task_group() as tasks:
        for own_link in links:
            tasks.start_soon(sweep, own_link)
    for own_link in links:
        await own_link.close()
    await compactor(link, catalogue).sweep()
    assert read_all(client, "rig") == as_read(entries)
    assert (stream_length(client, "stream:rig"), stream_length(client, "cold:rig")) == (0, 1)


async def test_a_change_that_comes_late_is_refused(client: redis.Redis, link: Link) -> None:
    """A batch that does not follow the last one, or an index entry that is another by now: nothing changes."""
    for batch_id, previous_id, is_accepted in (
        ("5-0", "0-0", 1),
        ("9-0", "0-0", 0),
        ("9-0", "4-0", 0),
        ("9-0", "5-0", 1),
    ):
        assert (
            await link.do(
                *compaction_functions.append_batch("rig", batch_id, previous_id, b"x", until_ms=commands.FOREVER)
            )
            == is_accepted
        )
    for before, after, is_accepted in ((b"", b"a", 1), (b"", b"b", 0), (b"c", b"", 0), (b"a", b"b", 1), (b"b", b"", 1)):
        assert (
            await link.do(
                *compaction_functions.replace_index_entry(NAMES, "rig", before, after, until_ms=commands.FOREVER)
            )
            == is_accepted
        )
    assert not client.exists(NAMES.cold_index())
    assert [
        await link.do(*compaction_functions.remove_batch("rig", batch_id, until_ms=commands.FOREVER))
        for batch_id in ("5-0", "5-0", "9-0")
    ] == [1, 0, 1]
    assert not client.exists("cold:rig"), "an empty cold stream would refuse batches with lower ids"


@pytest.mark.usefixtures("small")
async def test_a_pause_between_two_batches(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """It takes effect before the end of a long stream."""
    entries = sample_entries(25)
    fill(client, "rig", entries)

    class Pausing(Link):
        async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
            if any(call[:2] == ("FCALL", "rtas_shed_1") for call in batch):
                client.set(NAMES.cold_pause(), "me")
            return await super().try_all(batch)

    pausing = Pausing(link.config)
    with pytest.raises(leases.LeaseExpired):
        await compactor(pausing, catalogue).sweep()
    await pausing.close()
    assert (stream_length(client, "stream:rig"), stream_length(client, "cold:rig")) == (15, 1)
    assert read_all(client, "rig") == as_read(entries)
    client.delete(NAMES.cold_pause())
    assert (await compactor(link, catalogue).sweep())["rig"].entries == 15


async def test_nothing_changes_after_the_end_of_a_lease(client: redis.Redis, link: Link) -> None:
    """Redis refuses each step of a compactor whose lease is over."""
    fill(client, "rig", sample_entries(12))
    over_ms = cold_streams.now_ms() - 1000
    for command in (
        compaction_functions.append_batch("rig", "5-0", "0-0", b"x", until_ms=over_ms),
        compaction_functions.remove_batch("rig", "5-0", until_ms=over_ms),
        compaction_functions.replace_index_entry(NAMES, "rig", b"", b"x", until_ms=over_ms),
    ):
        assert await link.do(*command) == 0
    assert await link.do(*compaction_functions.trim_live("rig", "9999999999999-0", until_ms=over_ms)) == -1
    assert stream_length(client, "stream:rig") == 12
    assert not client.exists("cold:rig", NAMES.cold_index())


async def test_the_number_of_streams_in_an_hour_is_limited(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue
) -> None:
    """To that of the settings; streams that were unused for longest come first."""
    for number in range(3):
        fill(client, f"rig-{number}", sample_entries(12))
        client.zadd(NAMES.streams_used(), {f"rig-{number}": 10 - number})
    own_compactor = compactor(link, catalogue, cold_streams.config(streams_per_hour=2))
    assert list(await own_compactor.sweep()) == ["rig-2", "rig-1"]
    assert await own_compactor.sweep() == {}


async def test_a_key_of_a_wrong_type(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """One stream whose key holds something else keeps no other from being moved."""
    fill(client, "a", sample_entries(12))
    fill(client, "b", sample_entries(12))
    client.set("cold:a", "junk")
    assert list(await compactor(link, catalogue).sweep()) == ["b"]
    client.hset(NAMES.cold_index(), "b", "junk")
    with pytest.raises(errors.BadBatch, match="the index"):
        read_all(client, "b")
    client.delete("cold:a")
