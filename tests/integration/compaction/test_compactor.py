"""Compaction on a real server: what is moved, what readers see at every moment, and who is killed where."""

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
from rta_supervisor.compaction import functions as compaction_functions
from rta_supervisor.nodes import leases
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link
from rta_wire import errors
from rta_wire.cold import batch as cold_batch
from rta_wire.cold.lz4_roundtrip import RawEntry
from rta_writers.connection import redis_client
from tests.support import cold_streams, samples
from tests.support.cold_streams import (
    NAMES,
    STEPS,
    Killed,
    Mortal,
    aged,
    compactor,
    fill,
    index,
    length,
    shown,
    some,
    view,
)


@pytest.mark.usefixtures("small")
async def test_a_stream_is_moved(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """Everything is cold, in batches whose ids are their highest; the live stream is empty and knows where it was."""
    wanted = some(35)
    fill(client, "rig", wanted)
    moved = await compactor(link, catalogue).sweep()
    assert (moved["rig"].entries, moved["rig"].batches) == (35, 4)
    assert view(client, "rig") == shown(wanted)
    assert length(client, "stream:rig") == 0
    info: Any = client.xinfo_stream("stream:rig")
    assert info["last-generated-id"].decode() == wanted[-1].id
    batches: Any = client.xrange("cold:rig")
    assert [raw_id.decode() for raw_id, _ in batches] == [wanted[n].id for n in (9, 19, 29, 34)]
    assert [one for _, fields in batches for one in cold_batch.unpack_entries(fields[b"b"])] == wanted
    found = index(client)
    assert found is not None
    assert (found.first_id, found.last_id, found.entries, found.batches) == (wanted[0].id, wanted[-1].id, 35, 4)
    assert (found.added, found.number) == (35, 7)
    [place] = await catalogue.locations("rig")
    assert (place.kind, place.location, place.entries) == ("cold", "cold:rig", 35)
    assert await compactor(link, catalogue).sweep() == {}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("before", [True, False])
async def test_killed_at_every_step(client: redis.Redis, link: Link, catalogue: SqliteCatalogue, before: bool) -> None:
    """Whoever dies where, readers see every entry once, then and after another one has gone on."""
    every = some(28)
    wanted = every[3:]
    for left in itertools.count(1):
        client.flushdb()
        fill(client, "rig", every)
        client.xtrim("stream:rig", maxlen=25, approximate=False)
        mortal = Mortal(link.config, left, before=before)
        try:
            await compactor(mortal, catalogue).sweep()
            break
        except Killed:
            assert view(client, "rig") == shown(wanted), f"killed at step {left}"
        finally:
            await mortal.close()
        await compactor(link, catalogue).sweep()
        assert view(client, "rig") == shown(wanted), f"after step {left}"
        assert length(client, "stream:rig") == 0
        found = index(client)
        assert found is not None
        assert (found.entries, found.batches, found.added) == (25, length(client, "cold:rig"), 28)
    assert left > 9, "three batches have nine steps"


async def test_what_was_trimmed_before_is_counted(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """Also where the index is told by another one than who wrote the batch: a reader would miss a gap, or see one."""
    fill(client, "rig", some(12))
    client.xtrim("stream:rig", maxlen=9, approximate=False)
    mortal = Mortal(link.config, 2, before=True)
    with pytest.raises(Killed):
        await compactor(mortal, catalogue).sweep()
    await mortal.close()
    assert (index(client), length(client, "cold:rig")) == (None, 1)
    await compactor(link, catalogue).sweep()
    found = index(client)
    assert found is not None
    assert (found.entries, found.added) == (9, 12)


datas = st.one_of(st.binary(max_size=30), st.sampled_from([one.data for one in samples.bursts(3)]))
lives = st.lists(
    st.tuples(st.integers(1, 25), st.integers(1, 12), st.booleans(), st.booleans()), min_size=1, max_size=5
)


@pytest.mark.usefixtures("small")
@hypothesis_settings(
    max_examples=300 if os.environ.get("RTA_SOAK") else 10,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(values=st.lists(datas, min_size=1, max_size=9), lives=lives)
def test_any_life(
    raw: redis.Redis, tmp_path: Path, values: list[bytes], lives: list[tuple[int, int, bool, bool]]
) -> None:
    """Appends, deaths and an index that is lost, in any order: a reader's view is the same, entry by entry."""
    anyio.run(live, f"unix://{raw.get_connection_kwargs()['path']}", tmp_path, values, lives)


async def live(url: str, folder: Path, values: list[bytes], lives: list[tuple[int, int, bool, bool]]) -> None:
    config = settings.RedisSettings(url=url)
    link = Link(config)
    catalogue = SqliteCatalogue(folder / "catalogue.sqlite")
    wanted: list[RawEntry] = []
    with redis_client.connect(url) as client:
        client.flushdb()
        for count, left, before, is_forgotten in lives:
            first_ms = int(wanted[-1].id.partition("-")[0]) + 1 if wanted else None
            more = aged([values[n % len(values)] for n in range(count)], first_ms=first_ms)
            wanted += more
            fill(client, "rig", more)
            mortal = Mortal(config, left, before=before)
            with contextlib.suppress(Killed):
                await compactor(mortal, catalogue).sweep()
            await mortal.close()
            assert view(client, "rig") == shown(wanted)
            if is_forgotten:
                # In a Cluster each server may come back older than the others.
                client.hdel(NAMES.cold_index(), "rig")
                await compactor(link, catalogue).sweep()
                assert view(client, "rig") == shown(wanted)
        await compactor(link, catalogue).sweep()
        assert view(client, "rig") == shown(wanted)
        assert length(client, "stream:rig") == 0
    await link.close()
    await catalogue.close()


async def test_what_is_in_use_stays_live(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """An open session, an entry or a use a moment ago, a pause, and zero: nothing is moved."""
    wanted = some(12)
    fill(client, "rig", wanted)
    fill(client, "fresh", aged([b"x"], first_ms=cold_streams.now_ms()))
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
    assert [(name, one.entries) for name, one in moved.items()] == [("rig", 12)]
    assert view(client, "rig") == shown(wanted)


class Appending(Link):
    """Somebody opens a session in the stream at each change."""

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
async def test_a_stream_that_wakes_up(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """What is added while it is moved stays live above what is cold, and goes there some other day."""
    wanted = some(25)
    fill(client, "rig", wanted)
    appending = Appending(link.config, client)
    await compactor(appending, catalogue).sweep()
    await appending.close()
    assert len(appending.added) >= 9
    assert length(client, "stream:rig") == len(appending.added)
    assert view(client, "rig") == shown(wanted) + appending.added
    found = index(client)
    assert found is not None
    assert (found.last_id, found.added) == (wanted[-1].id, 25)
    loaded = cold_streams.config(after_s=0.001)
    await compactor(link, catalogue, loaded).sweep()
    assert view(client, "rig") == shown(wanted) + appending.added
    assert length(client, "stream:rig") == 0


@pytest.mark.usefixtures("small")
async def test_a_full_redis_gets_room(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """With no room at all: one batch more for a moment, and less than before in the end."""
    wanted = aged([bytes([n]) * 20_000 for n in range(60)])
    fill(client, "rig", wanted)
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
    assert view(client, "rig") == shown(wanted)


async def test_two_at_once(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """A lease is over and its owner does not know: both go on, and nothing is lost or doubled."""
    wanted = some(400)
    fill(client, "rig", wanted)
    links = [Link(link.config) for _ in range(2)]

    async def work(own: Link) -> None:
        with contextlib.suppress(leases.LeaseExpired):
            await compactor(own, catalogue).sweep()

    async with anyio.create_task_group() as tasks:
        for own in links:
            tasks.start_soon(work, own)
    for own in links:
        await own.close()
    await compactor(link, catalogue).sweep()
    assert view(client, "rig") == shown(wanted)
    assert (length(client, "stream:rig"), length(client, "cold:rig")) == (0, 1)


async def test_who_comes_late_is_refused(client: redis.Redis, link: Link) -> None:
    """A batch after another one than the last, or an index that says something else by now: nothing changes."""
    for batch, before, is_taken in (("5-0", "0-0", 1), ("9-0", "0-0", 0), ("9-0", "4-0", 0), ("9-0", "5-0", 1)):
        assert (
            await link.do(*compaction_functions.append_batch("rig", batch, before, b"x", until_ms=commands.FOREVER))
            == is_taken
        )
    for was, now, is_taken in ((b"", b"a", 1), (b"", b"b", 0), (b"c", b"", 0), (b"a", b"b", 1), (b"b", b"", 1)):
        assert (
            await link.do(*compaction_functions.replace_index_entry(NAMES, "rig", was, now, until_ms=commands.FOREVER))
            == is_taken
        )
    assert not client.exists(NAMES.cold_index())
    assert [
        await link.do(*compaction_functions.remove_batch("rig", one, until_ms=commands.FOREVER))
        for one in ("5-0", "5-0", "9-0")
    ] == [*(1, 0, 1)]
    assert not client.exists("cold:rig"), "a cold stream without a batch would keep others from its ids"


@pytest.mark.usefixtures("small")
async def test_a_pause_between_two_batches(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """Whoever calls for one does not wait for the end of a long stream."""
    wanted = some(25)
    fill(client, "rig", wanted)

    class Pausing(Link):
        async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
            if any(call[:2] == ("FCALL", "rtas_shed_1") for call in batch):
                client.set(NAMES.cold_pause(), "me")
            return await super().try_all(batch)

    pausing = Pausing(link.config)
    with pytest.raises(leases.LeaseExpired):
        await compactor(pausing, catalogue).sweep()
    await pausing.close()
    assert (length(client, "stream:rig"), length(client, "cold:rig")) == (15, 1)
    assert view(client, "rig") == shown(wanted)
    client.delete(NAMES.cold_pause())
    assert (await compactor(link, catalogue).sweep())["rig"].entries == 15


async def test_nothing_is_done_after_a_lease(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """Redis refuses each step of one whose time is over."""
    fill(client, "rig", some(12))
    over_ms = cold_streams.now_ms() - 1000
    for call in (
        compaction_functions.append_batch("rig", "5-0", "0-0", b"x", until_ms=over_ms),
        compaction_functions.remove_batch("rig", "5-0", until_ms=over_ms),
        compaction_functions.replace_index_entry(NAMES, "rig", b"", b"x", until_ms=over_ms),
    ):
        assert await link.do(*call) == 0
    assert await link.do(*compaction_functions.trim_live("rig", "9999999999999-0", until_ms=over_ms)) == -1
    assert length(client, "stream:rig") == 12
    assert not client.exists("cold:rig", NAMES.cold_index())
    del catalogue


async def test_slowly(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """No more streams an hour than the settings say, those that were left first."""
    for number in range(3):
        fill(client, f"rig-{number}", some(12))
        client.zadd(NAMES.streams_used(), {f"rig-{number}": 10 - number})
    own = compactor(link, catalogue, cold_streams.config(streams_per_hour=2))
    assert list(await own.sweep()) == ["rig-2", "rig-1"]
    assert await own.sweep() == {}


async def test_a_key_of_a_wrong_type(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """One stream that somebody spoilt keeps no other from being moved."""
    fill(client, "a", some(12))
    fill(client, "b", some(12))
    client.set("cold:a", "junk")
    assert list(await compactor(link, catalogue).sweep()) == ["b"]
    client.hset(NAMES.cold_index(), "b", "junk")
    with pytest.raises(errors.BadBatch, match="the index"):
        view(client, "b")
    client.delete("cold:a")
