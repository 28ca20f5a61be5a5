"""Streams per day with real supervisors: midnight, old days, kill -9, and a Redis that loses its data."""

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
from rta_writers.write import commit, task, task_result
from tests.support import http_client as web
from tests.support import samples, supervisors
from tests.support.commands import run
from tests.support.control import document, write
from tests.support.day_streams import NAMES, fill, indexed_streams, listed_streams, traces
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until

BY_DAY = {
    "RTA_DAYS__PARTITION": "day",
    "RTA_DAYS__KEEP_DAYS": "2",
    "RTA_TRIM__EVERY_S": "0.1",
    "RTA_METRICS__SURVEY_S": "0.1",
}
STEPS = (("rtas_day_remove_1", 1), ("rtas_day_remove_1", 2), ("rtas_unlist_1", 1), ("rtas_forget_1", 1))
"""Commands of the removal of a day, each with its number among those of its kind."""


class Calendar:
    """The day that the supervisors of a test see. It begins with the real one, and a test advances it."""

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
    with supervisors.running(url, calendar.environment, "tests.integration.retention.supervisor_on_day") as supervisor:
        yield supervisor


def test_a_source_over_four_days(url: str, client: redis.Redis, calendar: Calendar) -> None:
    """Sessions are written, read and closed with two supervisors: each has one stream, and old days are removed."""
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
        check_commands_and_metrics(url, first, calendar)
        calendar.advance(2)
        third = sessions.session("third", stream="rig")
        assert lasting.close().state == "closed"
        for session in (today, third):
            session.close()
        wait_until(lambda: not traces(client, calendar.day(3)), what="the end of the first day")
        assert document(client, "yesterday")["state"] == "closed", "the hash of a session does not depend on its stream"
        wait_until(lambda: indexed_streams(client) == [calendar.day(2).stream, calendar.day().stream], what="the index")
        assert listed_streams(client) == {calendar.day(2).stream, calendar.day().stream}
        assert len(first.events("day_removed")) <= 1


def check_commands_and_metrics(url: str, supervisor: Supervisor, calendar: Calendar) -> None:
    """Days are listed on request and grouped by their source otherwise."""
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

    wait_until(lambda: f'rta_stream_entries{{stream="{calendar.day().stream}"}}' in body(), what="the sampler")
    assert f'samples_total{{stream="{calendar.day().stream}"}}' not in body()


def test_tasks_write_past_midnight(url: str, client: redis.Redis, calendar: Calendar) -> None:
    """To the stream of their session; a retry on the next day, and the commit, find the rows there."""
    first = pa.record_batch({"session": ["a", "b"], "channel": [1, 1], "time": [1, 2], "value": [1.0, 2.0]})
    with running(url, calendar), rta_writers.sessions(rta_writers.SessionClient(url), stream="rig") as group:
        options = options_write.WriteOptions.parse(group.options)
        before = written(options, first)
        assert {part.target.stream for part in before.shares} == {calendar.day().stream}
        calendar.advance(1)
        again = written(options, first)
        assert [part.target for part in again.shares] == [part.target for part in before.shares]
        commit.commit(options, [again], epoch=0)
        with pytest.raises(errors.RowsChanged, match="session 'b'"):
            commit.commit(options, [written(options, first.slice(0, 1))], epoch=0)
        new = written(options, pa.record_batch({**first.to_pydict(), "session": ["c", "c"]}), unit="job/1")
        assert {part.target.stream for part in new.shares} == {calendar.day().stream}
        assert samples.rows(client, calendar.day(1).stream) == [(1, 1, 1.0), (1, 2, 2.0)]
        with pytest.raises(errors.StreamOfDay, match="Ask for 'rig'"):
            rta_writers.SessionClient(url).session("d", stream=calendar.day(1).stream)


def written(
    options: options_write.WriteOptions, batch: pa.RecordBatch, *, unit: str = "job/0"
) -> task_result.TaskResult:
    """The result of a task that writes these rows."""
    writing = task.Task(options, batch.schema, unit=unit, epoch=0)
    writing.write(batch)
    outcome = writing.finish()
    writing.close()
    return outcome


@pytest.mark.timeout(120)
def test_kill_9_in_the_middle_of_a_removal(url: str, client: redis.Redis) -> None:
    """Supervisors die before each step of it; the last one removes the rest of the day, and no other."""
    today = day_streams.number_at(ServerClock()())
    old, new = day_streams.Day("rig", today - 5), day_streams.Day("rig", today + 1)
    for day in (old, new):
        fill(client, day, cold=True)
    for command, number in STEPS:
        killing = {**BY_DAY, "RTA_NODE__LEASE_S": "0.3", "RTA_TEST_KILL_AT": str(number), "RTA_TEST_KILL_WORD": command}
        with supervisors.running(url, killing, "tests.support.killable_supervisor") as dying:
            wait_until(lambda: dying.process.poll() is not None, what=f"death before {command}")
    with supervisors.running(url, BY_DAY):
        wait_until(lambda: not traces(client, old), what="the end of the day")
    assert traces(client, new) >= {"stream", "cold", "cold index", "streams", "used"}
    client.unlink(keys.cold_stream(new.stream), NAMES.cold_index())


def test_redis_loses_its_data_and_the_clock_goes_back(calendar: Calendar) -> None:
    """After a restart without data, with a clock two days behind, sessions go to the latest day that ever was."""
    with (
        server.running(port=server.free_port()) as own_server,
        running(own_server.url, calendar) as supervisor,
        redis_client.connect(own_server.url) as client,
    ):
        sessions = rta_writers.SessionClient(own_server.url, timeout_s=20)
        lasting = sessions.session("lasting", stream="rig")
        calendar.advance(2)
        sessions.session("later", stream="rig").close()
        wait_until(lambda: not client.zscore(NAMES.session_index(), "later"), what="the session in the catalogue")
        latest = calendar.day()
        calendar.advance(-2)
        own_server.kill()
        own_server.start()
        supervisor.wait_for_event("redis_made_whole")
        again = sessions.session("again", stream="rig")
        assert again.target.stream == latest.stream
        assert sessions.session("lasting", stream="rig").target == lasting.target
        wait_until(lambda: indexed_streams(client) == [lasting.target.stream, latest.stream], what="the index")
        assert supervisor.wait_for_event("day_ahead")["stream"] == latest.stream
        for session in (lasting, again):
            session.close()
