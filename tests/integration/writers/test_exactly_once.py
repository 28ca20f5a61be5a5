"""Appends that happen once, against everything that makes them happen twice or never."""

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from rta_supervisor.embedded import server
from rta_wire import errors, keys
from rta_writers.connection import redis_client, retry
from rta_writers.options.target import Target
from rta_writers.write.delivery.exactly_once import ExactlyOnceAppender
from tests.integration.writers.appends import Make, append_rows, put, values
from tests.support import proxy, samples


def open_gate(client: redis.Redis, target: Target) -> None:
    client.set(target.keys.gate(target.stream, target.stream_session_id), "open", ex=60)


def put_on(appender: ExactlyOnceAppender, count: int, first: int) -> None:
    append_rows(appender, count, first)
    appender.flush()


def test_bursts_stand_in_the_stream_in_order(client: redis.Redis, appender: Make) -> None:
    """More than one transaction's worth arrives whole, with the session's id on each entry."""
    totals = put(appender(), 16, 16, 8)
    assert values(client) == list(map(float, range(40)))
    assert {number for number, _ in samples.messages(client, "rig")} == {7}
    assert (totals.bursts, totals.samples) == (40, 40)
    assert totals.time_range_ns == (samples.START_NS, samples.START_NS + 39)


def test_a_retried_task_changes_nothing(client: redis.Redis, appender: Make) -> None:
    """A second attempt finds its bursts there, drops them, and reports the same totals."""
    first = put(appender(), 10, 10)
    retry_appender = appender()
    assert put(retry_appender, 10, 10) == first
    assert retry_appender.duplicate_rows == 20
    assert values(client) == list(map(float, range(20)))


def test_a_retry_goes_on_where_the_first_attempt_ended(client: redis.Redis, appender: Make) -> None:
    """Only what is missing is added, even where the first attempt stopped in the middle of a group."""
    put(appender(), 4, 1)
    retry_appender = appender()
    totals = put(retry_appender, 4, 4, 1)
    assert values(client) == list(map(float, range(9)))
    assert (totals.bursts, retry_appender.duplicate_rows) == (9, 5)


def test_epochs_follow_each_other_and_old_ones_are_dropped(client: redis.Redis, appender: Make) -> None:
    """A later epoch starts anew, may skip empty ones, and makes a replay of an earlier one a duplicate."""
    put(appender(epoch=1), 2)
    put(appender(epoch=5), 2, first=2)
    put(appender(epoch=1), 2)
    assert values(client) == [0, 1, 2, 3]


def test_units_do_not_disturb_each_other(client: redis.Redis, appender: Make) -> None:
    """Two units write the same session at the same time, each with its own mark."""
    first, second = appender("one"), appender("other")
    for n in range(0, 40, 8):
        append_rows(first, 8, n)
        append_rows(second, 8, 100 + n)
    assert (first.totals().bursts, second.totals().bursts) == (40, 40)
    assert first.duplicate_rows == second.duplicate_rows == 0
    first.close()
    second.close()
    assert sorted(values(client)) == [*map(float, range(40)), *map(float, range(100, 140))]


def test_a_frozen_twin_that_wakes_up_adds_nothing(client: redis.Redis, appender: Make) -> None:
    """A writer watches the mark and freezes, another attempt writes all rows; then its transaction fails as a whole."""
    frozen = appender()
    frozen._watch()
    put(appender(), 10)
    assert put(frozen, 10).bursts == 10
    assert (frozen.duplicate_rows, frozen.aborted_transactions) == (10, 1)
    assert values(client) == list(map(float, range(10)))


def test_a_frozen_twin_goes_on_where_the_other_stopped(client: redis.Redis, appender: Make) -> None:
    """Another attempt wrote half of the group and died: the other half is added, and only that."""
    frozen = appender()
    frozen._watch()
    put(appender(), 4)
    assert put(frozen, 10).bursts == 10
    assert values(client) == list(map(float, range(10)))


def test_a_close_in_between_refuses_the_burst(client: redis.Redis, appender: Make, target: Target) -> None:
    """The gate is shut after the writer looked at it and before it sends: nothing gets in behind the last entry."""
    writer = appender()
    writer._watch()
    client.set(target.keys.gate("rig", 7), "sealed", ex=60)
    with pytest.raises(errors.SessionClosed):
        put(writer, 1)
    writer.close()
    assert values(client) == []


def test_an_unknown_session_is_refused(client: redis.Redis, appender: Make, target: Target) -> None:
    """A session without a gate does not exist, and nothing is written to it."""
    client.delete(target.keys.gate("rig", 7))
    with pytest.raises(errors.UnknownSession):
        put(appender(), 1)
    assert client.exists(keys.stream("rig")) == 0


def test_a_gap_is_refused_with_the_mark(client: redis.Redis, appender: Make, target: Target) -> None:
    """Where Redis lost the mark, going on would hide the loss."""
    writer = appender()
    append_rows(writer, 3, 0)
    writer.flush()
    client.delete(target.keys.marks("rig", 7), target.keys.fence("rig", 7, "u"))
    with pytest.raises(errors.AppendGap, match="at row 0 of epoch 0: going on at row 3"):
        put_on(writer, 1, 3)
    writer.close()


def test_a_loss_after_the_last_row_is_noticed_at_the_end(client: redis.Redis, appender: Make, target: Target) -> None:
    """Rows that were acknowledged and are gone are an error at the end, even if nothing more is appended."""
    writer = appender()
    append_rows(writer, 3, 0)
    writer.flush()
    writer.close()
    client.delete(target.keys.marks("rig", 7), target.keys.fence("rig", 7, "u"))
    with pytest.raises(errors.AppendGap, match="at row 0 of epoch 0: going on at row 3"):
        writer.totals()
    writer.close()


@pytest.mark.parametrize("rows_before", [0, 3])
@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (("SET", "stream:rig", "no stream"), "WRONGTYPE"),
        (("XADD", "stream:rig", f"{2**64 - 1}-{2**64 - 1}", "id", "0", "data", ""), "ID"),
    ],
)
def test_a_stream_that_takes_no_entry_is_an_error_and_its_rows_are_not_marked_as_written(
    client: redis.Redis, appender: Make, spoil: tuple[str, ...], reason: str, rows_before: int
) -> None:
    """Redis executes the other commands of a transaction all the same: a retry must still find its rows missing."""
    writer = appender()
    if rows_before:
        put_on(writer, rows_before, 0)
    client.delete("stream:rig")
    client.execute_command(*spoil)
    with pytest.raises(errors.RedisRefused, match=reason):
        put_on(writer, 5, rows_before)
    assert writer.known_totals().bursts == writer.written.bursts == rows_before
    writer.close()
    client.delete("stream:rig")
    retried = appender()
    assert put(retried, rows_before + 5).bursts == rows_before + 5
    assert values(client) == list(map(float, range(rows_before, rows_before + 5)))
    assert retried.duplicate_rows == rows_before


@pytest.mark.parametrize("word", [b"EXEC", b"WATCH"])
def test_a_lost_reply_is_not_a_lost_or_doubled_burst(
    shared_server: server.EmbeddedServer, client: redis.Redis, target: Target, word: bytes
) -> None:
    """The connection breaks after a transaction and before its reply: the mark says that it took place."""
    with proxy.between(str(shared_server.socket_path)) as broken, redis_client.connect(broken.url) as through:
        writer = ExactlyOnceAppender(through, target, unit="u", epoch=0)
        for first in range(0, 64, 8):
            if first % 16 == 8:
                broken.swallow_reply_to(word)
            append_rows(writer, 8, first)
        assert writer.totals().bursts == 64
        writer.close()
        assert broken.swallowed == writer.outages == 4
    assert values(client) == list(map(float, range(64)))


def test_a_full_server_is_waited_for_and_then_named(
    monkeypatch: pytest.MonkeyPatch, client: redis.Redis, appender: Make
) -> None:
    """A full server is waited for until the timeout, then it is an error of its own; nothing is half-written."""
    monkeypatch.setattr(retry, "OUT_OF_MEMORY_TIMEOUT_S", 0.3)
    client.config_set("maxmemory", 1)
    try:
        with pytest.raises(errors.RedisFull):
            put(appender(), 3)
    finally:
        client.config_set("maxmemory", 0)
    assert values(client) == []
    assert put(appender(), 3).bursts == 3


def test_a_server_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch, target: Target) -> None:
    """After the timeout the error names the address, and says that trying again may help."""
    monkeypatch.setattr(retry, "OUTAGE_TIMEOUT_S", 0.3)
    with redis_client.connect("unix:///nonexistent/socket") as nowhere:
        with pytest.raises(errors.RedisUnreachable) as caught:
            put(ExactlyOnceAppender(nowhere, target, unit="u", epoch=0), 1)
        assert caught.value.retriable


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_twins_in_any_order_write_once(shared_server: server.EmbeddedServer, data: st.DataObject) -> None:
    """However two attempts of one task interleave, each burst stands there once and in order."""
    with redis_client.connect(shared_server.url) as client:
        client.flushall()
        target = Target(shared_server.url, "run", "rig", 1)
        open_gate(client, target)
        total = data.draw(st.integers(1, 40))
        twins = [ExactlyOnceAppender(client, target, unit="u", epoch=0) for _ in range(2)]
        rows = [0, 0]
        ends = [data.draw(st.integers(0, total)), total]  # the first may die on the way
        while unfinished := [index for index in (0, 1) if rows[index] < ends[index]]:
            index = data.draw(st.sampled_from(unfinished))
            if data.draw(st.booleans()):
                twins[index].flush()
                twins[index]._watch()
            count = data.draw(st.integers(1, ends[index] - rows[index]))
            append_rows(twins[index], count, rows[index])
            rows[index] += count
        for twin in twins:
            twin.flush()
            twin.close()
        assert values(client) == list(map(float, range(total)))
        assert twins[0].duplicate_rows + twins[1].duplicate_rows == ends[0]
