"""Streams per day with real supervisors: midnight, old days, kill -9, Redis that forgets."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_supervisor.embedded import server
from rta_supervisor.nodes.server_clock import ServerClock
from rta_supervisor.observe import summaries
from rta_wire import day_streams, errors, keys
from rta_writers.connection import redis_client
from rta_writers.options import write as options_write
from rta_writers.write import commit, result, task
from tests.support import http_client as web
from tests.support import samples, supervisors
from tests.support.commands import run
from tests.support.control import document, write
from tests.support.day_streams import NAMES, fill, listed, streams, traces
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until

BY_DAY = {
    "RTA_DAYS__PARTITION": "day",
    "RTA_DAYS__KEEP_DAYS": "2",
    "RTA_TRIM__EVERY_S": "0.1",
    "RTA_METRICS__SURVEY_S": "0.1",
}
STEPS = (("rtas_day_remove_1", 1), ("rtas_day_remove_1", 2), ("rtas_unlist_1", 1), ("rtas_forget_1", 1))
"""Commands that end a day, and the how manieth of its kind each is."""


class Calendar:
    """The day for supervisors of a test, beginning with the real one. Midnight comes when a test says so."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._number = day_streams.number_at(ServerClock()())
        self.advance(0)

    def advance(self, count: int) -> None:
        self._number += count
        new = self._path.with_suffix(".new")
        new.write_text(str(self._number))
        new.rename(self._path)

    def day(self, ago: int = 0) -> day_streams.Day:
        return day_streams.Day("rig", self._number - ago)

    @property
    def environment(self) -> dict[str, str]:
        return {**BY_DAY, "RTA_TEST_DAYS": str(self._path)}


@pytest.fixture
def calendar(tmp_path: Path) -> Calendar:
    return Calendar(tmp_path / "days")


@contextlib.contextmanager
def running(url: str, calendar: Calendar) -> Iterator[Supervisor]:
    with supervisors.running(url, calendar.environment, "tests.integration.retention.supervisor_on_day") as found:
        yield found


def test_a_source_day_by_day(url: str, client: redis.Redis, calendar: Calendar) -> None:
    """Written, read and closed over four days by two supervisors: each session in one stream, old days gone at once."""
    with running(url, calendar) as first, running(url, calendar):
        sessions = rta_writers.SessionClient(url, timeout_s=20)
        yesterday = sessions.session("yesterday", stream="rig")
        lasting = sessions.session("lasting", stream="rig")
        assert yesterday.target.stream == lasting.options["stream"] == calendar.day().stream
        write(client, yesterday, 2)
        assert yesterday.close().totals.samples == 2
        calendar.advance(1)
        today = sessions.session("today", stream="rig")
        assert today.target.stream == calendar.day().stream
        again = sessions.session("lasting", stream="rig")
        assert again.target == lasting.target
        write(client, lasting, 3)
        assert len(samples.rows(client, calendar.day(1).stream)) == 5
        check_shown(url, first, calendar)
        calendar.advance(2)
        third = sessions.session("third", stream="rig")
        assert lasting.close().state == "closed"
        for one in (today, third):
            one.close()
        wait_until(lambda: not traces(client, calendar.day(3)), what="the end of the first day")
        assert document(client, "yesterday")["state"] == "closed", "the hash of its session has a life of its own"
        wait_until(lambda: listed(client) == [calendar.day(2).stream, calendar.day().stream], what="the index")
        assert streams(client) == {calendar.day(2).stream, calendar.day().stream}
        assert sum(len(one.events("day_removed")) for one in (first,)) <= 1


def check_shown(url: str, supervisor: Supervisor, calendar: Calendar) -> None:
    """Commands and metrics: days are told apart where that helps, and counted together."""
    lines = msgspec.convert(run(url, "streams", "--json").json()["streams"], list[summaries.StreamSummary])
    assert {(line.stream, line.source, line.day) for line in lines} == {
        (calendar.day(ago).stream, "rig", calendar.day(ago).date.isoformat()) for ago in (0, 1)
    }
    assert "rig.*" in run(url, "streams").out
    assert calendar.day().stream not in run(url, "streams").out
    assert calendar.day().stream in run(url, "streams", "--days").out
    assert "orphaned keys    none" in run(url, "doctor").out

    def body() -> str:
        return web.get(web.address(supervisor), "/metrics").body

    wait_until(lambda: f'rta_stream_entries{{stream="{calendar.day().stream}"}}' in body(), what="the survey")
    assert f'samples_total{{stream="{calendar.day().stream}"}}' not in body()


def test_rows_name_their_sessions_past_midnight(url: str, client: redis.Redis, calendar: Calendar) -> None:
    """Tasks write to the stream that the reply names; a retry on the next day finds its rows there, and so does the
    commit."""
    first = pa.record_batch({"session": ["a", "b"], "channel": [1, 1], "time": [1, 2], "value": [1.0, 2.0]})
    with running(url, calendar), rta_writers.sessions(rta_writers.SessionClient(url), stream="rig") as group:
        given = options_write.WriteOptions.parse(group.options)
        before = written(given, first)
        assert {share.target.stream for share in before.shares} == {calendar.day().stream}
        calendar.advance(1)
        again = written(given, first)
        assert [share.target for share in again.shares] == [share.target for share in before.shares]
        commit.commit(given, [again], epoch=0)
        with pytest.raises(errors.RowsChanged, match="session 'b'"):
            commit.commit(given, [written(given, first.slice(0, 1))], epoch=0)
        new = written(given, pa.record_batch({**first.to_pydict(), "session": ["c", "c"]}), unit="job/1")
        assert {share.target.stream for share in new.shares} == {calendar.day().stream}
        assert samples.rows(client, calendar.day(1).stream) == [(1, 1, 1.0), (1, 2, 2.0)]
        with pytest.raises(errors.StreamOfDay, match="Ask for 'rig'"):
            rta_writers.SessionClient(url).session("d", stream=calendar.day(1).stream)


def written(given: options_write.WriteOptions, batch: pa.RecordBatch, *, unit: str = "job/0") -> result.TaskResult:
    """What a task makes of its rows."""
    writing = task.Task(given, batch.schema, unit=unit, epoch=0)
    writing.write(batch)
    outcome = writing.finish()
    writing.close()
    return outcome


@pytest.mark.timeout(120)
def test_kill_9_in_the_middle_of_a_removal(url: str, client: redis.Redis) -> None:
    """One supervisor after another dies before a step of it; the last one leaves nothing of the day, and no other."""
    today = day_streams.number_at(ServerClock()())
    old, new = day_streams.Day("rig", today - 5), day_streams.Day("rig", today + 1)
    for day in (old, new):
        fill(client, day, cold=True)
    for word, at in STEPS:
        killing = {**BY_DAY, "RTA_NODE__LEASE_S": "0.3", "RTA_TEST_KILL_AT": str(at), "RTA_TEST_KILL_WORD": word}
        with supervisors.running(url, killing, "tests.support.killable_supervisor") as mortal:
            wait_until(lambda: mortal.process.poll() is not None, what=f"death before {word}")
    with supervisors.running(url, BY_DAY):
        wait_until(lambda: not traces(client, old), what="the end of the day")
    assert traces(client, new) >= {"stream", "cold", "cold index", "streams", "used"}
    client.unlink(keys.cold_stream(new.stream), NAMES.cold_index())


def test_redis_forgets_and_the_clock_goes_back(calendar: Calendar) -> None:
    """Started empty, with a clock two days behind: the index is back, and sessions go to the latest day of all."""
    with (
        server.running(port=server.free_port()) as forgetful,
        running(forgetful.url, calendar) as watching,
        redis_client.connect(forgetful.url) as client,
    ):
        sessions = rta_writers.SessionClient(forgetful.url, timeout_s=20)
        lasting = sessions.session("lasting", stream="rig")
        calendar.advance(2)
        sessions.session("later", stream="rig").close()
        wait_until(lambda: not client.zscore(NAMES.session_index(), "later"), what="the session in the catalogue")
        latest = calendar.day()
        calendar.advance(-2)
        forgetful.kill()
        forgetful.start()
        watching.wait_for_event("redis_made_whole")
        again = sessions.session("again", stream="rig")
        assert again.target.stream == latest.stream
        assert sessions.session("lasting", stream="rig").target == lasting.target
        wait_until(lambda: listed(client) == [lasting.target.stream, latest.stream], what="the index")
        assert watching.wait_for_event("day_ahead")["stream"] == latest.stream
        for one in (lasting, again):
            one.close()
