"""Compaction on a real server: what is moved, what readers see at every moment, and who is killed where."""

import contextlib
import itertools
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
import redis
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rta_supervisor import calls, lease, settings
from rta_supervisor.archive.config import ArchiveSettings
from rta_supervisor.archive.waiting import Waiting
from rta_supervisor.cold.store import Store
from rta_supervisor.link import Link
from rta_supervisor.sqlite_catalogue import SqliteCatalogue
from rta_supervisor.trim import Trimmer
from rta_wire import cold, encode, errors, held, limits
from rta_wire.opened import Entry
from rta_writers import connection, joined
from tests.support import coldness, samples
from tests.support.coldness import NAMES, aged, compactor, fill, shown, view

STEPS = ("rtas_freeze_1", "rtas_switch_1", "rtas_shed_1", "rtas_take_out_1")


@pytest.fixture
async def link(url: str) -> AsyncIterator[Link]:
    link = Link(settings.RedisSettings(url=url))
    await link.load_functions()
    yield link
    await link.close()


@pytest.fixture
async def catalogue(tmp_path: Path) -> AsyncIterator[SqliteCatalogue]:
    made = SqliteCatalogue(tmp_path / "catalogue.sqlite")
    yield made
    await made.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of ten entries, so that there are many."""
    monkeypatch.setattr(limits, "COLD_BATCH_MAX_ENTRIES", 10)


def some(count: int) -> list[Entry]:
    """Bursts, time ranges and JSON of a session, and entries of somebody else."""
    datas = [encode.session_json(b"{}"), *(one.data for one in samples.bursts(count - 3)), encode.time_range(1, 2)]
    entries = aged(datas)
    ms = int(entries[-1].id.partition("-")[0])
    return [*entries, Entry(f"{ms + 1}-0", (b"who", b"else", b"who", os.urandom(40), b"", b""))]


def index(client: redis.Redis, stream: str = "rig") -> held.Held | None:
    raw: Any = client.hget(NAMES.cold_index(), stream)
    return held.parse(raw)


def length(client: redis.Redis, key: str) -> int:
    found: Any = client.xlen(key)
    return int(found)


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
    assert [one for _, fields in batches for one in cold.entries(fields[b"b"])] == wanted
    found = index(client)
    assert found is not None
    assert (found.first_id, found.last_id, found.entries, found.batches) == (wanted[0].id, wanted[-1].id, 35, 4)
    assert (found.added, found.number) == (35, 7)
    [place] = await catalogue.places("rig")
    assert (place.kind, place.location, place.entries) == ("cold", "cold:rig", 35)
    assert await compactor(link, catalogue).sweep() == {}


class Killed(Exception):
    """Where a supervisor ends."""


class Mortal(Link):
    """A link whose owner dies before or after the n-th change."""

    def __init__(self, config: settings.RedisSettings, left: int, *, before: bool) -> None:
        super().__init__(config)
        self.left = left
        self._before = before

    async def try_all(self, batch: Sequence[calls.Call]) -> list[Any]:
        is_step = any(call[0] == "FCALL" and call[1] in STEPS for call in batch)
        self.left -= is_step
        if is_step and self.left == 0 and self._before:
            raise Killed
        answers = await super().try_all(batch)
        if is_step and self.left == 0:
            raise Killed
        return answers


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
    wanted: list[Entry] = []
    with connection.connect(url) as client:
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
    fill(client, "fresh", aged([b"x"], first_ms=coldness.now_ms()))
    client.hset(NAMES.state("run"), mapping={"streamName": "rig", "state": "open", "streamSessionId": 7})
    client.expire(NAMES.state("run"), 100)
    client.zadd(NAMES.index(), {"run": coldness.now_ms()})
    assert await compactor(link, catalogue).sweep() == {}
    client.hset(NAMES.state("run"), "state", "closed")
    assert await compactor(link, catalogue, coldness.config(after_s=0)).sweep() == {}
    assert await compactor(link, catalogue, coldness.config(after_s=36 * 3600)).sweep() == {}
    assert await compactor(link, catalogue, coldness.config(paused=True)).sweep() == {}
    client.set(NAMES.cold_pause(), "me")
    assert await compactor(link, catalogue).sweep() == {}
    client.set(NAMES.cold_pause(), "")
    client.zadd(NAMES.streams_used(), {"rig": coldness.now_ms()})
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

    async def try_all(self, batch: Sequence[calls.Call]) -> list[Any]:
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
    loaded = coldness.config(after_s=0.001)
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
        with contextlib.suppress(lease.Over):
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
        assert await link.do(*calls.freeze("rig", batch, before, b"x", until_ms=calls.FOREVER)) == is_taken
    for was, now, is_taken in ((b"", b"a", 1), (b"", b"b", 0), (b"c", b"", 0), (b"a", b"b", 1), (b"b", b"", 1)):
        assert await link.do(*calls.switch(NAMES, "rig", was, now, until_ms=calls.FOREVER)) == is_taken
    assert not client.exists(NAMES.cold_index())
    assert [await link.do(*calls.take_out("rig", one, until_ms=calls.FOREVER)) for one in ("5-0", "5-0", "9-0")] == [
        *(1, 0, 1)
    ]
    assert not client.exists("cold:rig"), "a cold stream without a batch would keep others from its ids"


@pytest.mark.usefixtures("small")
async def test_a_pause_between_two_batches(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """Whoever calls for one does not wait for the end of a long stream."""
    wanted = some(25)
    fill(client, "rig", wanted)

    class Pausing(Link):
        async def try_all(self, batch: Sequence[calls.Call]) -> list[Any]:
            if any(call[:2] == ("FCALL", "rtas_shed_1") for call in batch):
                client.set(NAMES.cold_pause(), "me")
            return await super().try_all(batch)

    pausing = Pausing(link.config)
    with pytest.raises(lease.Over):
        await compactor(pausing, catalogue).sweep()
    await pausing.close()
    assert (length(client, "stream:rig"), length(client, "cold:rig")) == (15, 1)
    assert view(client, "rig") == shown(wanted)
    client.delete(NAMES.cold_pause())
    assert (await compactor(link, catalogue).sweep())["rig"].entries == 15


async def test_nothing_is_done_after_a_lease(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """Redis refuses each step of one whose time is over."""
    fill(client, "rig", some(12))
    over_ms = coldness.now_ms() - 1000
    for call in (
        calls.freeze("rig", "5-0", "0-0", b"x", until_ms=over_ms),
        calls.take_out("rig", "5-0", until_ms=over_ms),
        calls.switch(NAMES, "rig", b"", b"x", until_ms=over_ms),
    ):
        assert await link.do(*call) == 0
    assert await link.do(*calls.shed("rig", "9999999999999-0", until_ms=over_ms)) == -1
    assert length(client, "stream:rig") == 12
    assert not client.exists("cold:rig", NAMES.cold_index())
    del catalogue


@pytest.mark.parametrize("is_whole", [False, True])
async def test_a_spoilt_batch_removes_nothing(
    client: redis.Redis,
    link: Link,
    catalogue: SqliteCatalogue,
    capsys: pytest.CaptureFixture[str],
    is_whole: bool,
) -> None:
    """A batch that Redis gives back otherwise than it was given, with a bit or an entry that is another: the live
    stream keeps everything."""
    wanted = some(12)
    fill(client, "rig", wanted)
    other = coldness.packed([*wanted[:-1], wanted[-1]._replace(fields=(b"who", b"other"))])

    class Spoiling(Link):
        async def try_all(self, batch: Sequence[calls.Call]) -> list[Any]:
            answers = await super().try_all(batch)
            if answers and batch[0][:2] == ("XRANGE", "cold:rig") and answers[0]:
                raw_id, [name, data] = answers[0][0]
                spoilt = other if is_whole else data[:-1] + bytes([data[-1] ^ 1])
                answers[0] = [[raw_id, [name, spoilt]]]
            return answers

    spoiling = Spoiling(link.config)
    assert await compactor(spoiling, catalogue).sweep() == {}
    assert f"Batch {wanted[-1].id} of the cold part" in capsys.readouterr().out
    await spoiling.close()
    assert length(client, "stream:rig") == 12
    assert index(client) is None
    assert view(client, "rig") == shown(wanted)
    await compactor(link, catalogue).sweep()
    assert view(client, "rig") == shown(wanted)
    assert length(client, "stream:rig") == 0


@pytest.mark.parametrize("held_there", [None, slice(1, 12), slice(0, 11)])
async def test_a_batch_that_nobody_vouches_for_is_taken_back(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue, held_there: slice | None
) -> None:
    """Something else stands where a batch is to go, or one that lacks an entry which is live."""
    wanted = some(12)
    fill(client, "rig", wanted)
    client.xadd("cold:rig", {b"b": coldness.packed(wanted[held_there]) if held_there else b"junk"}, id=wanted[-1].id)
    assert (await compactor(link, catalogue).sweep())["rig"].entries == 12
    assert view(client, "rig") == shown(wanted)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("held_there", [None, slice(21, 25), slice(20, 24), slice(15, 25)])
async def test_a_batch_at_the_end_that_differs(
    client: redis.Redis,
    link: Link,
    catalogue: SqliteCatalogue,
    capsys: pytest.CaptureFixture[str],
    held_there: slice | None,
) -> None:
    """Junk, an entry too few at either end, or some that are cold already: it is not believed and not removed, and
    named; everything stays where it is, and is seen."""
    wanted = some(25)
    fill(client, "rig", wanted[:20])
    await compactor(link, catalogue).sweep()
    fill(client, "rig", wanted[20:])
    client.xadd("cold:rig", {b"b": coldness.packed(wanted[held_there]) if held_there else b"junk"}, id=wanted[-1].id)
    assert await compactor(link, catalogue).sweep() == {}
    assert f"Batch {wanted[-1].id} of the cold part" in capsys.readouterr().out
    assert length(client, "stream:rig") == 5
    found = index(client)
    assert found is not None
    assert (found.entries, found.batches) == (20, 2)
    assert view(client, "rig") == shown(wanted)


@pytest.mark.usefixtures("small")
async def test_a_batch_in_the_middle_that_is_spoilt_is_named(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever is to look at it knows which one, and until then nothing is removed."""
    wanted = some(25)
    fill(client, "rig", wanted)
    await compactor(link, catalogue).sweep()
    batches: Any = client.xrange("cold:rig")
    first, second, _ = batches
    client.delete("cold:rig")
    client.xadd("cold:rig", first[1], id=first[0])
    client.xadd("cold:rig", {b"b": b"rtac and junk"}, id=second[0])
    capsys.readouterr()
    await compactor(link, catalogue, coldness.config(trim=settings.TrimSettings(max_entries=5))).sweep()
    assert f"can't be read: {wanted[19].id}: it has version" in capsys.readouterr().out
    fill(client, "rig", aged([b"x"], first_ms=coldness.now_ms() - coldness.HOUR_MS))
    assert await compactor(link, catalogue).sweep() == {}
    assert f"can't be read: {wanted[19].id}: it has version" in capsys.readouterr().out
    assert (length(client, "stream:rig"), length(client, "cold:rig")) == (1, 2)


@pytest.mark.usefixtures("small")
async def test_what_is_live_again_and_differs_stays(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue
) -> None:
    """A live stream that came back with another entry below what is cold: nothing goes from there on."""
    wanted = some(25)
    fill(client, "rig", wanted)
    await compactor(link, catalogue).sweep()
    client.delete("stream:rig")
    fill(client, "rig", [*wanted[:12], wanted[12]._replace(fields=(b"id", b"7", b"data", b"other")), *wanted[13:]])
    assert await compactor(link, catalogue).sweep() == {}
    assert length(client, "stream:rig") == 15
    assert view(client, "rig") == shown(wanted)


@pytest.mark.usefixtures("small")
async def test_an_index_that_is_ahead(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """It says more than the cold stream has, as after a failover: what is live is seen, and the index is mended."""
    wanted = some(25)
    fill(client, "rig", wanted)
    await compactor(link, catalogue).sweep()
    batches: Any = client.xrange("cold:rig", count=2)
    client.delete("stream:rig", "cold:rig")
    for raw_id, fields in batches:
        client.xadd("cold:rig", fields, id=raw_id)
    fill(client, "rig", wanted[20:])
    assert view(client, "rig") == shown(wanted)
    await compactor(link, catalogue).sweep()
    assert view(client, "rig") == shown(wanted)
    found = index(client)
    assert found is not None
    assert (found.entries, found.batches, found.added) == (25, 3, 25)


async def test_an_entry_that_is_too_large_stays(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue, capsys: pytest.CaptureFixture[str]
) -> None:
    """It stays live with all that came after it, and what came before it is moved."""
    wanted = aged([b"a", b"b", os.urandom(limits.COLD_BATCH_MAX_BYTES), b"c"])
    fill(client, "rig", wanted)
    await compactor(link, catalogue).sweep()
    assert f"Entry {wanted[2].id} has" in capsys.readouterr().out
    assert view(client, "rig") == shown(wanted)
    assert (length(client, "stream:rig"), length(client, "cold:rig")) == (2, 1)


async def test_slowly(client: redis.Redis, link: Link, catalogue: SqliteCatalogue) -> None:
    """No more streams an hour than the settings say, those that were left first."""
    for number in range(3):
        fill(client, f"rig-{number}", some(12))
        client.zadd(NAMES.streams_used(), {f"rig-{number}": 10 - number})
    own = compactor(link, catalogue, coldness.config(streams_per_hour=2))
    assert list(await own.sweep()) == ["rig-2", "rig-1"]
    assert await own.sweep() == {}


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
    own = compactor(link, catalogue, coldness.config(trim=trim))
    await own.sweep()
    await own.sweep()
    assert view(client, "rig") == shown(wanted[25 - left :])
    assert (index(client) is None) == (left == 0)
    assert joined.counters(client, NAMES, "rig").removed == 25 - left


@pytest.mark.usefixtures("small")
async def test_what_is_live_above_counts_for_the_bounds(
    client: redis.Redis, link: Link, catalogue: SqliteCatalogue
) -> None:
    """A stream that goes on needs less of what is cold."""
    wanted = some(20)
    fill(client, "rig", wanted)
    own = compactor(link, catalogue, coldness.config(trim=settings.TrimSettings(max_entries=20)))
    await own.sweep()
    new = aged([b"x"] * 10, first_ms=coldness.now_ms())
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
    few = coldness.config(trim=settings.TrimSettings(max_entries=5))
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
    waiting = Waiting(7, "rig", "0-0", "run-1")
    client.hset(NAMES.state("run-1"), mapping={"streamSessionId": 7})
    client.expire(NAMES.state("run-1"), 60)
    client.zadd(NAMES.unarchived(), {waiting.member: coldness.now_ms()})
    archive = ArchiveSettings(path="archive", required=True, max_bytes=max_bytes)
    plain = coldness.config(trim=settings.TrimSettings(max_entries=5))
    own = compactor(link, catalogue, msgspec.structs.replace(plain, archive=archive))
    await own.sweep()
    await own.sweep()
    assert view(client, "rig") == shown(wanted[25 - left :])
    assert client.hexists(NAMES.state("run-1"), "cut") == (left == 0)
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
        fill(client, name, some(12) if name == "rig" else aged([b"x"] * 12, first_ms=coldness.now_ms() - 90_000))
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
        late = coldness.Late(Store(link, NAMES, "rig"), link, at, (f"{ms + 1}-0", wanted[-1].id))
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
