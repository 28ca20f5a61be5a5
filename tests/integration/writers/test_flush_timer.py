"""The timer of a writer: rows are sent and reported by themselves, in order and once, whatever becomes of it."""

import gc
import logging
import random
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import redis

import rta_writers
from rta_supervisor.embedded import server
from rta_wire import errors, keys
from rta_writers.connection import retry
from rta_writers.options.target import Target
from rta_writers.options.write import WriteOptions
from rta_writers.write import burst_writer, progress_reports
from rta_writers.write.task import Task
from tests.integration.writers.tasks import expected, long
from tests.support import proxy, samples, stream_content
from tests.support.waiting import wait_until

START_NS = samples.START_NS
NEVER = {"flushMs": "60000"}
SOON = {"flushMs": "20"}
AT_ONCE = {"flushMs": "1"}


def put(writer: rta_writers.BurstWriter, first: int, count: int = 1) -> None:
    """Samples of one channel whose values are their numbers."""
    numbers = range(first, first + count)
    writer.samples([1] * count, [START_NS + n for n in numbers], [float(n) for n in numbers])


def values(client: redis.Redis) -> list[float]:
    return [value for _, _, value in samples.rows(client, "rig")]


def wait_until_shown(client: redis.Redis, end_ns: int) -> None:
    """Wait until the time range in the hash of session `run-1` ends at a time."""

    def is_shown() -> bool:
        end: Any = client.hget("sessions:run-1", keys.T_END)
        return int(end or 0) == end_ns

    wait_until(is_shown, what="the time of the last row in the hash")


def timers() -> int:
    return sum(thread.name == "rta-flush" for thread in threading.enumerate())


def test_rows_are_sent_although_nothing_more_is_written(client: redis.Redis, target: Target) -> None:
    """The last rows before a pause do not wait for `close()`; with a long `flushMs` they do."""
    with rta_writers.BurstWriter({**target.options(), **NEVER}, unit="slow") as slow:
        put(slow, 100)
        with rta_writers.BurstWriter({**target.options(), **SOON}) as writer:
            put(writer, 0)
            wait_until(lambda: values(client) == [0.0], what="the first sample")
            put(writer, 1)
            wait_until(lambda: values(client) == [0.0, 1.0], what="the second one")
    assert values(client) == [0.0, 1.0, 100.0]


def test_a_task_takes_the_option_too(client: redis.Redis, target: Target) -> None:
    """A task whose source pauses sends what it has; without the option after a second."""
    for options, flush_s in (({}, 1.0), (SOON, 0.02)):
        task = Task(WriteOptions.parse({**target.options(), **options}), long(1).schema, unit=f"job/{flush_s}", epoch=0)
        assert task._flush_s == flush_s
        client.delete("stream:rig")
        task.write(long(3))
        wait_until(lambda: stream_content.samples(client, "rig", 7) == expected(3), what="the rows")
        task.close()


@pytest.mark.parametrize("delivery", ["exactly-once", "staged"])
def test_a_timer_that_races_with_the_caller_and_lost_replies_keeps_order_and_writes_once(
    client: redis.Redis, target: Target, shared_server: server.EmbeddedServer, delivery: str
) -> None:
    """Every row stands there once, in the order of the calls, although connections are cut all the time."""
    choice = random.Random(7)  # noqa: S311 - no secret
    with proxy.between(str(shared_server.socket_path)) as broken:
        options = {**target.options(), **AT_ONCE, "delivery": delivery, "redisUrl": broken.url}
        word = b"EXEC" if delivery == "exactly-once" else b"EXPIRE"
        with rta_writers.BurstWriter(options, unit="racer") as writer:
            row = 0
            for turn in range(400):
                if turn % 40 == 0:
                    broken.swallow_reply_to(word)
                put(writer, row, count := choice.choice((1, 1, 3, 50)))
                row += count
                if choice.random() < 0.2:
                    writer.flush()
                time.sleep(choice.choice((0, 0, 0.0005, 0.002)))  # so that the timer is at work now and then
        assert broken.swallowed > 2
    assert values(client) == [float(n) for n in range(row)]
    if delivery == "exactly-once":
        raw: Any = client.hget(target.keys.marks("rig", 7), "racer/0")
        assert raw.split()[1] == str(row).encode()


def test_callers_in_several_threads_take_turns(
    client: redis.Redis, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call is whole, also the first ones: none of its rows is lost, doubled or torn apart."""
    start = threading.Barrier(3)

    class SlowTask(Task):
        def __init__(self, *args: Any, **named: Any) -> None:
            time.sleep(0.02)  # all callers are in their first call
            super().__init__(*args, **named)

    monkeypatch.setattr(burst_writer, "Task", SlowTask)
    with rta_writers.BurstWriter({**target.options(), **AT_ONCE}) as writer:

        def put_many(first: int) -> None:
            start.wait()
            for n in range(0, 200, 2):
                put(writer, first + n, 2)

        callers = [threading.Thread(target=put_many, args=(first,)) for first in (1000, 2000, 3000)]
        for caller in callers:
            caller.start()
        for caller in callers:
            caller.join()
    stored = values(client)
    assert sorted(stored) == [first + n for first in (1000.0, 2000.0, 3000.0) for n in range(200)]
    for first in (1000, 2000, 3000):
        mine = [value for value in stored if first <= value < first + 200]
        assert mine == sorted(mine)


def test_redis_that_is_away_for_a_moment_is_waited_for(
    client: redis.Redis, target: Target, shared_server: server.EmbeddedServer
) -> None:
    """The timer tries again, and the caller's next rows come after those that it holds."""
    with proxy.between(str(shared_server.socket_path)) as between:
        with rta_writers.BurstWriter({**target.options(), **SOON, "redisUrl": between.url}) as writer:
            put(writer, 0)
            wait_until(lambda: values(client) == [0.0], what="the first sample")
            between.hold()
            put(writer, 1)
            # The timer waits for replies now, so that the next call waits for the timer.
            task = writer._task
            assert task is not None
            wait_until(lambda: task.waiting_rows == 0, what="a timer at work")
            # A process that ends now logs that nobody has acknowledged the row.
            assert task._timer.lost_at_exit() == (task.unit, 1)
            threading.Timer(0.1, between.release).start()
            put(writer, 2)
        assert values(client) == [0.0, 1.0, 2.0]
        assert (task.unwritten_rows, task._timer.lost_at_exit()) == (0, ("", 0))


@pytest.mark.parametrize("call", ["samples", "flush", "close"])
def test_the_error_of_a_timer_is_raised_by_the_next_call_and_by_close(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    """A Redis that stays away fails the writer, with its reason in the log at once and in every call after that."""
    monkeypatch.setattr(retry, "OUTAGE_TIMEOUT_S", 0.1)
    with server.running() as own:
        target = Target(own.url, "run", "rig", 7)
        with redis.Redis.from_url(own.url) as client:
            client.set(target.keys.gate("rig", 7), "open", ex=60)
            writer = rta_writers.BurstWriter({**target.options(), **SOON})
            put(writer, 0)
            writer.flush()
            put(writer, 1)
            client.shutdown(nosave=True)
    with caplog.at_level(logging.ERROR, "rta_writers"):
        wait_until(lambda: "could not be sent by the timer" in caplog.text, what="an error of the timer")
    with pytest.raises(errors.RedisUnreachable):
        put(writer, 2) if call == "samples" else getattr(writer, call)()
    with pytest.raises(errors.Usage, match=r"has failed, and rows that it was given may be missing: .*write the"):
        writer.close()
    wait_until(lambda: timers() == 0, what="the end of the thread")


def test_a_session_that_was_closed_meanwhile_is_the_error_of_the_next_call(client: redis.Redis, target: Target) -> None:
    """Not only outages: what Redis refuses the timer, the caller is told."""
    writer = rta_writers.BurstWriter({**target.options(), **SOON})
    put(writer, 0)
    writer.flush()
    client.set(target.keys.gate("rig", 7), "sealed", ex=60)
    put(writer, 1)
    wait_until(lambda: writer._task is not None and writer._task.error, what="an error of the timer")
    with pytest.raises(errors.SessionClosed), writer:
        pass
    assert values(client) == [0.0]


def test_a_writer_that_is_closed_while_rows_wait_has_sent_them_and_ends_its_thread(
    client: redis.Redis, target: Target
) -> None:
    """`close()` does not wait for the timer, and the timer adds nothing after it."""
    wait_until(lambda: timers() == 0, what="the end of earlier threads")
    writer = rta_writers.BurstWriter({**target.options(), **NEVER})
    put(writer, 0, 5)
    assert timers() == 1
    assert writer.close().effort.rows == 5
    wait_until(lambda: timers() == 0, what="the end of the thread")
    assert values(client) == [float(n) for n in range(5)]


def test_rows_that_come_while_another_thread_closes_the_writer_are_refused(client: redis.Redis, target: Target) -> None:
    """The totals are counted by then: rows that were taken now would be sent by nobody."""
    writer = rta_writers.BurstWriter({**target.options(), **NEVER})
    put(writer, 0)
    task = writer._task
    assert task is not None
    task.finish()  # the other thread is within close()
    with pytest.raises(errors.Usage, match=r"is closed\. Make another one for more rows"):
        put(writer, 1)
    task.close()
    assert values(client) == [0.0]


def test_several_threads_may_close_a_writer(client: redis.Redis, target: Target) -> None:
    """Each of them gets the same result."""
    writer = rta_writers.BurstWriter(target.options())
    put(writer, 0, 5)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(writer.close())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.effort.rows for result in results] == [5] * 4
    assert all(result is results[0] for result in results)
    assert len(values(client)) == 5


def test_a_writer_that_is_collected_while_rows_wait_has_them_sent(client: redis.Redis, target: Target) -> None:
    """The rows arrive, the warning says that nobody closed it, and neither task nor thread is left."""
    writer = rta_writers.BurstWriter({**target.options(), **SOON})
    put(writer, 0, 5)
    task: weakref.ref[Any] = weakref.ref(writer._task)
    with pytest.warns(ResourceWarning, match=r"BurstWriter\('run', .*5 rows, open\) was not closed"):
        del writer
    wait_until(lambda: values(client) == [float(n) for n in range(5)], what="the rows")

    def is_gone() -> bool:
        gc.collect()
        return task() is None and timers() == 0

    wait_until(is_gone, what="the end of task and thread")


def test_a_writer_with_nothing_to_send_is_collected_at_once(target: Target) -> None:
    """The thread does not keep what it waits for."""
    writer = rta_writers.BurstWriter({**target.options(), **NEVER})
    put(writer, 0)
    writer.flush()
    task: Any = weakref.ref(writer._task)
    wait_until(lambda: task()._next_due_s() is None and task()._timer._held is None, what="a timer at rest")
    with pytest.warns(ResourceWarning):
        del writer
    gc.collect()
    assert task() is None
    wait_until(lambda: timers() == 0, what="the end of the thread")


IN_A_CHILD = """
import os, sys
import rta_writers
from rta_wire import errors

writer = rta_writers.BurstWriter({"redisUrl": sys.argv[1], "stream": "rig", "session": "run", "streamSessionId": "7",
                                  "flushMs": sys.argv[2]})
if sys.argv[3] != "new":
    writer.samples([1], [1_700_000_000_000_000_000], [0.0])
if sys.argv[3] == "end":
    sys.exit()
held = sys.argv[3] == "held" and writer._task._guard.lock.acquire()
child = os.fork()
if not child:
    try:
        for call in (lambda: writer.samples([1], [2], [9.0]), writer.flush, writer.close):
            try:
                call()
            except errors.Usage as error:
                sys.stderr.write(f"{error}\\n")
            else:
                os._exit(1)
    finally:
        del writer
        os._exit(0)
if held:
    writer._task._guard.lock.release()
_, status = os.waitpid(child, 0)
writer.samples([1], [1_700_000_000_000_000_001], [1.0])
writer.close()
sys.exit(status)
"""


def in_a_process(target: Target, flush_ms: int, how: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", IN_A_CHILD, target.redis_url, str(flush_ms), how]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)


@pytest.mark.parametrize("how", ["new", "free", "held"])
def test_a_writer_that_was_forked_while_rows_wait_writes_them_once(
    client: redis.Redis, target: Target, how: str
) -> None:
    """The child is told to make its own, also before the first row and where a thread of the parent was at work, and
    the parent goes on."""
    run = in_a_process(target, 50, how)
    told = [line for line in run.stderr.splitlines() if "was made by process" in line]
    assert len(told) == 3, run.stderr
    assert "make another writer here" in told[0]
    assert values(client) == ([1.0] if how == "new" else [0.0, 1.0])


def test_a_process_that_ends_without_closing_its_writer_logs_what_is_lost(client: redis.Redis, target: Target) -> None:
    """The thread ends with the process: rows that wait are not lost in silence."""
    run = in_a_process(target, 60_000, "end")
    assert "was not closed: its last 1 rows may not be in the stream" in run.stderr
    assert not client.exists("stream:rig")


def test_the_time_range_follows_by_itself(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """Rows that the timer sent are reported although the writer is not called again, for each of several pauses."""
    session = sessions.session("run-1", stream="rig")
    with rta_writers.BurstWriter(session.options) as writer:
        for n in range(3):
            put(writer, n)
            wait_until_shown(client, START_NS + n)
    session.close()


def test_a_long_task_reports_the_group_that_is_under_way(
    client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """A task whose source pauses after a full group: its time range is that of its last row."""
    session = sessions.session("run-1", stream="rig")
    task = Task(WriteOptions.parse({**session.options, "groupRows": "100"}), long(1).schema, unit="job/0", epoch=0)
    task.write(long(300))
    last_ns = START_NS + 299
    wait_until_shown(client, last_ns)
    task.close()
    session.close()


def test_many_flushes_are_reported_together(client: redis.Redis, target: Target) -> None:
    """A supervisor is not flooded by a recorder that flushes each of its ticks."""
    began_s = time.monotonic()
    with rta_writers.BurstWriter(target.options()) as writer:
        for n in range(300):
            put(writer, n)
            writer.flush()
    reports: Any = client.xlen(target.keys.reports(target.principal))
    assert 1 <= reports <= 2 + (time.monotonic() - began_s) / progress_reports.REPORT_EVERY_S


@pytest.mark.parametrize("kind", [list, np.array])
@pytest.mark.parametrize("is_tick", [False, True])
def test_columns_may_be_filled_again_after_the_call(
    client: redis.Redis, target: Target, kind: Callable[[list[Any]], Any], is_tick: bool
) -> None:
    """A recorder that reuses its buffers does not change rows that wait: the first of a writer, or a tick after it."""
    channels, times, readings = kind([1, 2]), kind([START_NS, START_NS]), kind([0.5, 1.5])
    with rta_writers.BurstWriter({**target.options(), **NEVER}) as writer:
        if is_tick:
            put(writer, 0)
            writer.flush()
            client.delete("stream:rig")
        writer.samples(channels, times, readings)
        assert writer._task is not None
        [sender] = writer._task._senders.values()
        assert (sender.tick is not None) is is_tick
        for column in (channels, times, readings):
            column[0] = column[1] = 9
    assert stream_content.samples(client, "rig", 7) == [(1, START_NS, 0.5), (2, START_NS, 1.5)]
