"""Live and cold read as one stream, with real supervisors: tail and Spark, kills and pauses in between."""

import os
from collections.abc import Sequence
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
import redis

import rta_writers
from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.compaction.compactor import Compactor
from rta_supervisor.compaction.reader import ColdReader
from rta_supervisor.observe.tail import SessionTail
from rta_supervisor.observe.tail_start import TailStart
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, function_loader
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, limits
from rta_wire.cold.lz4_roundtrip import RawEntry
from rta_wire.stream import cursor
from rta_writers.read import stream as read_stream
from tests.support import cold_streams, control, supervisors
from tests.support.cold_streams import NAMES, compactor, fill, old_entries, stream_length
from tests.support.commands import run
from tests.support.waiting import wait_until

SOON = {
    "RTA_COMPACT__AFTER_S": "0.1",
    "RTA_COMPACT__EVERY_S": "0.05",
    "RTA_COMPACT__BYTES_PER_S": "1000000000",
    "RTA_COMPACT__STREAMS_PER_HOUR": "1000",
}


def add_closed_session(url: str, client: redis.Redis, identity: str, count: int = 30) -> None:
    session = rta_writers.SessionClient(url, timeout_s=20).open(identity, stream="rig")
    control.write(client, session, count)
    session.close()


def test_tail_shows_the_same_after_compaction(url: str, client: redis.Redis) -> None:
    """Of a session that begins in the middle of a batch, and with a session that is live above what is cold."""
    with supervisors.running(url):
        for identity in ("run-1", "run-2"):
            add_closed_session(url, client, identity)
        before = {name: run(url, "tail", name, "--from-start", "--json").out for name in ("run-1", "run-2")}
    entries = cold_streams.read_all(client, "rig")
    with supervisors.running(url, SOON) as second:
        second.wait_for_event("stream_compacted")
        wait_until(lambda: stream_length(client, "stream:rig") == 0, what="a stream that is all cold")
        assert cold_streams.read_all(client, "rig") == entries
        after = {name: run(url, "tail", name, "--from-start", "--json") for name in before}
        assert {name: ran.out for name, ran in after.items()} == before
        assert {ran.code for ran in after.values()} == {0}
        assert '"value":29.0' in before["run-2"]
        [stream] = run(url, "streams", "--json").json()["streams"]
        assert (stream["entries"], stream["cold_entries"]) == (0, len(entries))
        [line] = run(url, "compact", "status", "--json").json()["streams"]
        assert (line["stream"], line["entries"]) == ("rig", len(entries))
        session = rta_writers.SessionClient(url, timeout_s=20).open("run-3", stream="rig")
        assert control.fields(client, "run-3")["streamPosition"] == entries[-1][0], "ids go on where they were"
        control.write(client, session, 3)
        session.close()
        assert run(url, "tail", "run-3", "--from-start").code == 0
        assert cold_streams.read_all(client, "rig")[: len(entries)] == entries


@pytest.mark.timeout(300)
def test_kill_9_at_a_step_of_a_compaction(url: str, client: redis.Redis) -> None:
    """A real supervisor dies before a step, and the next one continues: a reader always sees the same entries."""
    entries = old_entries([os.urandom(600_000) for _ in range(8)])
    points = range(1, 11) if os.environ.get("RTA_SOAK") else (1, 5, 6)
    for point in points:
        client.flushall()
        fill(client, "rig", entries)
        expected = cold_streams.as_read(entries)
        killing = {**SOON, "RTA_TEST_KILL_AT": str(point), "RTA_TEST_COLD": "1"}
        with supervisors.running(url, killing, "tests.support.killable_supervisor") as first:
            wait_until(
                lambda: first.process.poll() is not None or first.events("stream_compacted"),
                timeout_s=60,
                what="a death or an end",
            )
            assert (first.process.poll() is None) == (point == 10), "three batches have nine steps"
        assert cold_streams.read_all(client, "rig") == expected, f"killed before step {point}"
        anyio.run(compact_once, url)
        assert cold_streams.read_all(client, "rig") == expected, f"after step {point}"
        assert (stream_length(client, "stream:rig"), stream_length(client, "cold:rig")) == (0, 3)


async def compact_once(url: str) -> None:
    link = Link(settings.RedisSettings(url=url))
    await function_loader.load(link)
    catalogue = SqliteCatalogue(cold_streams.scratch_catalogue_path())
    await compactor(link, catalogue).sweep()
    await catalogue.close()
    await link.close()


def test_pause_and_resume(url: str, client: redis.Redis) -> None:
    """A command on any host holds for the supervisor that compacts, and `compact status` shows it."""
    assert run(url, "compact", "pause").code == 0
    with supervisors.running(url, SOON) as supervisor:
        add_closed_session(url, client, "run-1")
        wait_until(lambda: supervisor.events("session_closed"), what="a closed session")
        before: Any = client.info("commandstats")["cmdstat_zscan"]["calls"]
        wait_until(lambda: client.info("commandstats")["cmdstat_zscan"]["calls"] > before + 10, what="some sweeps")
        assert not supervisor.events("stream_compacted")
        assert run(url, "compact", "status", "--json").json()["paused_by"]
        assert "compact resume" in run(url, "compact", "status").out
        assert run(url, "compact", "resume").code == 0
        supervisor.wait_for_event("stream_compacted")


async def test_a_cursor_in_the_middle_of_a_batch(
    url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that stopped at any entry continues with the next one, and gets an exact gap for what was trimmed."""
    monkeypatch.setattr(limits, "COLD_BATCH_MAX_ENTRIES", 10)
    entries = old_entries([b"%d" % n for n in range(25)])
    fill(client, "rig", entries)
    client.xtrim("stream:rig", maxlen=22, approximate=False)
    link = Link(settings.RedisSettings(url=url))
    await function_loader.load(link)
    catalogue = SqliteCatalogue(cold_streams.scratch_catalogue_path())
    await compactor(link, catalogue).sweep()
    remaining = entries[3:]
    reader = ColdReader(link, NAMES, "rig")
    for at, entry in enumerate(remaining[:-1]):
        assert cold_streams.read_all(client, "rig", entry.id) == cold_streams.as_read(remaining[at + 1 :])
        page = await reader.next_page(cursor.EMPTY_PAGE, entry.id)
        assert page.entries[0][0].decode() == remaining[at + 1].id
    assert not (await reader.next_page(cursor.EMPTY_PAGE, remaining[-1].id)).entries
    fields: Any = {"streamName": "rig", "streamSessionId": "7", "streamPosition": "0-0"}
    client.hset("sessions:run", mapping=fields)
    client.hset(NAMES.session_state("run"), mapping={**fields, "state": "closed"})
    for key in ("sessions:run", NAMES.session_state("run")):
        client.expire(key, 100)
    items = [item async for item in SessionTail(link, settings.Settings(), "run").follow(TailStart(is_from_start=True))]
    assert [item for item in items if isinstance(item, cursor.Gap)] == [cursor.Gap("0-0", remaining[0].id, 3)]
    assert [item.id for item in items if isinstance(item, cursor.StreamEntry)] == [entry.id for entry in remaining]
    await catalogue.close()
    await link.close()


@pytest.fixture
def entries(client: redis.Redis) -> list[RawEntry]:
    """The entries of the stream `rig`."""
    written = old_entries([b"%d" % n for n in range(25)])
    fill(client, "rig", written)
    return written


@pytest.fixture
async def trimming_compactor(link: Link, catalogue: SqliteCatalogue, entries: list[RawEntry], small: None) -> Compactor:
    """A compactor that has moved all entries, and whose next sweep removes the oldest batch."""
    del entries, small
    await compactor(link, catalogue).sweep()
    return compactor(link, catalogue, cold_streams.config(trim=settings.TrimSettings(max_entries=15, entry_s=0)))


async def test_a_batch_that_is_removed_while_it_is_read(
    link: Link, trimming_compactor: Compactor, entries: list[RawEntry]
) -> None:
    """The counters of a page are those of the index under which its entries were read, so that the batch is a gap."""

    class TrimmingLink(Link):
        async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
            if any(call[:2] == ("XRANGE", "cold:rig") for call in batch):
                await trimming_compactor.sweep()
            return await super().try_all(batch)

    trimming = TrimmingLink(link.config)
    page = await ColdReader(trimming, NAMES, "rig").next_page(cursor.EMPTY_PAGE, entry_ids.MIN)
    assert page.entries[0][0].decode() == page.first_id == entries[10].id
    assert (page.length, page.entries_added) == (15, 25)
    await trimming.close()


async def test_a_batch_that_is_removed_while_spark_reads_it(
    client: redis.Redis, trimming_compactor: Compactor, entries: list[RawEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its entries are counted as removed."""
    read_cold_batch = read_stream._read_cold_batch

    def trim_and_read(*args: Any) -> Any:
        anyio.from_thread.run(trimming_compactor.sweep)
        return read_cold_batch(*args)

    monkeypatch.setattr(read_stream, "_read_cold_batch", trim_and_read)
    id_range = ("rig", entry_ids.MIN, entry_ids.MAX)
    page = await anyio.to_thread.run_sync(read_stream.read_entries, client, NAMES, id_range, 100)
    assert page.entries[0][0] == entries[10].id
    assert (page.counters.length, page.counters.added, page.counters.removed) == (15, 25, 10)
