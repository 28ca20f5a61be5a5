"""Live and cold as one stream, with real supervisors: what tail and plots show, who is killed, who pauses."""

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
from rta_supervisor.session.model import SessionRef
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, functions
from rta_supervisor.transport.link import Link
from rta_supervisor.web.live.plot import Plot, PlotRequest
from rta_wire import entry_ids, limits
from rta_wire.cold.lz4_roundtrip import RawEntry
from rta_wire.stream import cursor
from rta_writers.read import stream as read_stream
from tests.support import cold_streams, control, supervisors
from tests.support.cold_streams import NAMES, aged, compactor, fill
from tests.support.commands import run
from tests.support.waiting import wait_until

SOON = {
    "RTA_COMPACT__AFTER_S": "0.1",
    "RTA_COMPACT__EVERY_S": "0.05",
    "RTA_COMPACT__BYTES_PER_S": "1000000000",
    "RTA_COMPACT__STREAMS_PER_HOUR": "1000",
}


def length(client: redis.Redis, key: str) -> int:
    found: Any = client.xlen(key)
    return int(found)


def closed_session(url: str, client: redis.Redis, identity: str, count: int = 30) -> None:
    session = rta_writers.SessionClient(url, timeout_s=20).open(identity, stream="rig")
    control.write(client, session, count)
    session.close()


def test_tail_and_plots_see_no_difference(url: str, client: redis.Redis) -> None:
    """The same lines before and after, of a session that begins in the middle of a batch and one that is live above."""
    with supervisors.running(url):
        for identity in ("run-1", "run-2"):
            closed_session(url, client, identity)
        before = {name: run(url, "tail", name, "--from-start", "--json").out for name in ("run-1", "run-2")}
    entries = cold_streams.view(client, "rig")
    with supervisors.running(url, SOON) as second:
        second.wait_for_event("stream_compacted")
        wait_until(lambda: length(client, "stream:rig") == 0, what="a stream that is all cold")
        assert cold_streams.view(client, "rig") == entries
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
        assert cold_streams.view(client, "rig")[: len(entries)] == entries
    assert set(anyio.run(plotted, url, client)) == {"run-1", "run-2"}


async def plotted(url: str, client: redis.Redis) -> dict[str, Any]:
    """What plots of cold sessions show first: each has one sample at each of its times."""
    link = Link(settings.RedisSettings(url=url))
    found = {}
    for identity in ("run-1", "run-2"):
        number = int(control.fields(client, identity)["streamSessionId"])
        plot = Plot(
            link, NAMES, SessionRef(identity, "rig", number), PlotRequest.parse({"channels": "1", "window_s": "3600"})
        )
        await plot._read()
        news = plot._update(is_first=True, has_new_channels=True)
        assert news["named"] == [1]
        assert "undecodable" not in news
        [track] = news["tracks"] if isinstance(news["tracks"], list) else news["tracks"].values()
        assert (min(track["low"]), max(track["high"])) == (0.0, 29.0)
        found[identity] = news
    await link.close()
    return found


@pytest.mark.timeout(300)
def test_kill_9(url: str, client: redis.Redis) -> None:
    """The real supervisor dies before a step, and the next one goes on: the view of a reader never changes."""
    entries = aged([os.urandom(600_000) for _ in range(14)])
    points = range(1, 11) if os.environ.get("RTA_SOAK") else (1, 5, 6)
    for point in points:
        client.flushall()
        fill(client, "rig", entries)
        wanted = cold_streams.shown(entries)
        killing = {**SOON, "RTA_TEST_KILL_AT": str(point), "RTA_TEST_COLD": "1"}
        with supervisors.running(url, killing, "tests.support.killable_supervisor") as first:
            wait_until(
                lambda: first.process.poll() is not None or first.events("stream_compacted"),
                timeout_s=60,
                what="a death or an end",
            )
            assert (first.process.poll() is None) == (point == 10), "three batches have nine steps"
        assert cold_streams.view(client, "rig") == wanted, f"killed before step {point}"
        anyio.run(compact_once, url)
        assert cold_streams.view(client, "rig") == wanted, f"after step {point}"
        assert (length(client, "stream:rig"), length(client, "cold:rig")) == (0, 3)


async def compact_once(url: str) -> None:
    link = Link(settings.RedisSettings(url=url))
    await functions.load(link)
    catalogue = SqliteCatalogue(cold_streams.scratch())
    await compactor(link, catalogue).sweep()
    await catalogue.close()
    await link.close()


def test_pause_and_resume(url: str, client: redis.Redis) -> None:
    """From any host, seen by who does the work, and said by `status`."""
    assert run(url, "compact", "pause").code == 0
    with supervisors.running(url, SOON) as own:
        closed_session(url, client, "run-1")
        wait_until(lambda: own.events("session_closed"), what="a closed session")
        before: Any = client.info("commandstats")["cmdstat_zrangebyscore"]["calls"]
        wait_until(
            lambda: client.info("commandstats")["cmdstat_zrangebyscore"]["calls"] > before + 5, what="some passes"
        )
        assert not own.events("stream_compacted")
        assert run(url, "compact", "status", "--json").json()["paused_by"]
        assert "compact resume" in run(url, "compact", "status").out
        assert run(url, "compact", "resume").code == 0
        own.wait_for_event("stream_compacted")


async def test_a_cursor_in_the_middle_of_a_batch(
    url: str, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever stopped at any entry goes on with the next one, and is told exactly what went before it could be read."""
    monkeypatch.setattr(limits, "COLD_BATCH_MAX_ENTRIES", 10)
    entries = aged([b"%d" % n for n in range(25)])
    fill(client, "rig", entries)
    client.xtrim("stream:rig", maxlen=22, approximate=False)
    link = Link(settings.RedisSettings(url=url))
    await functions.load(link)
    catalogue = SqliteCatalogue(cold_streams.scratch())
    await compactor(link, catalogue).sweep()
    left = entries[3:]
    reader = ColdReader(link, NAMES, "rig")
    for at, entry in enumerate(left[:-1]):
        assert cold_streams.view(client, "rig", entry.id) == cold_streams.shown(left[at + 1 :])
        page = await reader.next_page(cursor.EMPTY_PAGE, entry.id)
        assert page.entries[0][0].decode() == left[at + 1].id
    assert not (await reader.next_page(cursor.EMPTY_PAGE, left[-1].id)).entries
    place: Any = {"streamName": "rig", "streamSessionId": "7", "streamPosition": "0-0"}
    client.hset("sessions:run", mapping=place)
    client.hset(NAMES.session_state("run"), mapping={**place, "state": "closed"})
    for key in ("sessions:run", NAMES.session_state("run")):
        client.expire(key, 100)
    seen = [one async for one in SessionTail(link, settings.Settings(), "run").follow(from_start=True)]
    assert [one for one in seen if isinstance(one, cursor.Gap)] == [cursor.Gap("0-0", left[0].id, 3)]
    assert [one.id for one in seen if isinstance(one, cursor.StreamEntry)] == [one.id for one in left]
    await catalogue.close()
    await link.close()


@pytest.fixture
def entries(client: redis.Redis) -> list[RawEntry]:
    """Of a stream that somebody reads."""
    made = aged([b"%d" % n for n in range(25)])
    fill(client, "rig", made)
    return made


@pytest.fixture
async def fewer(link: Link, catalogue: SqliteCatalogue, entries: list[RawEntry], small: None) -> Compactor:
    """All of it is cold; the next sweep of this one takes the oldest batch away."""
    del entries, small
    await compactor(link, catalogue).sweep()
    return compactor(link, catalogue, cold_streams.config(trim=settings.TrimSettings(max_entries=15)))


async def test_batches_that_go_while_somebody_reads(link: Link, fewer: Compactor, entries: list[RawEntry]) -> None:
    """The counters of a part are those of the index that its entries were read under: what went is a gap."""

    class Late(Link):
        async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
            if any(call[:2] == ("XRANGE", "cold:rig") for call in batch):
                await fewer.sweep()
            return await super().try_all(batch)

    late = Late(link.config)
    page = await ColdReader(late, NAMES, "rig").next_page(cursor.EMPTY_PAGE, entry_ids.MIN)
    assert page.entries[0][0].decode() == page.first_id == entries[10].id
    assert (page.length, page.entries_added) == (15, 25)
    await late.close()


async def test_batches_that_go_while_spark_reads(
    client: redis.Redis, fewer: Compactor, entries: list[RawEntry], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same for the readers of a Spark job: a batch that went in between is counted as removed."""
    batch = read_stream._read_cold_batch

    def late(*args: Any) -> Any:
        anyio.from_thread.run(fewer.sweep)
        return batch(*args)

    monkeypatch.setattr(read_stream, "_read_cold_batch", late)
    where = ("rig", entry_ids.MIN, entry_ids.MAX)
    found = await anyio.to_thread.run_sync(read_stream.read_entries, client, NAMES, where, 100)
    assert found.entries[0][0] == entries[10].id
    assert (found.counters.length, found.counters.added, found.counters.removed) == (15, 25, 10)
