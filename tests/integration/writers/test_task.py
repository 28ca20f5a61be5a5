"""A task from rows to the stream, on a real server and without Spark: forms and deliveries."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_wire import errors
from rta_wire.codec import layout
from rta_writers.options.target import Target
from rta_writers.options.write import GROUP_ROWS, WriteOptions
from rta_writers.write import commit, partition_writer
from rta_writers.write.task import CONNECTIONS_MAX, Task
from tests.integration.writers.tasks import START_NS, expected, long, run, write
from tests.support import stream_content


def test_names_of_channels_are_mapped(client: redis.Redis, target: Target) -> None:
    """A string channel becomes its id."""
    batch = pa.record_batch({"channel": ["rpm", "speed", "rpm"], "time": [1, 2, 3], "value": [1, 2, 3]})
    write(target, batch, channels="rpm=10,speed=20")
    assert stream_content.samples(client, "rig", 7) == [(10, 1, 1.0), (10, 3, 3.0), (20, 2, 2.0)]


def test_an_unknown_name_is_refused_with_its_row(client: redis.Redis, target: Target) -> None:
    """A row of an unknown channel fails the task and is not dropped."""
    batch = pa.record_batch({"channel": ["rpm", "sped"], "time": [1, 2], "value": [1.0, 2.0]})
    with pytest.raises(errors.BadSamples, match="row 1 in 'job/0': channel 'sped' is not in option 'channels'"):
        write(target, batch, channels="rpm=10")
    assert client.exists("stream:rig") == 0


def test_wide_form_and_long_form_store_the_same_samples(client: redis.Redis, target: Target) -> None:
    """A column per channel, with types and kinds by name; a null is no sample."""
    rows = 5_000
    numbers = np.arange(rows)
    batch = pa.record_batch(
        {
            "time": pa.array(START_NS + numbers * 1000, pa.timestamp("ns")),
            "a": pa.array(numbers / 2),
            "b": pa.array((numbers % 100).astype(np.int16), mask=numbers % 5 == 0),
            "c": pa.array(numbers.astype(np.int64)),
        }
    )
    options = {"channels": "a=1,b=2,c=3", "sampleType": "b=int16,c=int64", "kind": "c=periodic"}
    settings = WriteOptions.parse({**target.options(), **options})
    result = run(settings, batch)
    layouts = settings.layout_plan()
    samples = [(1, START_NS + n * 1000, n / 2) for n in range(rows)]
    samples += [(2, START_NS + n * 1000, n % 100) for n in range(rows) if n % 5]
    samples += [(3, START_NS + n * 1000, n) for n in range(rows)]
    assert stream_content.samples(client, "rig", 7, layouts) == sorted(samples)
    assert result.effort.samples == len(samples)
    assert layouts.layout(3).kind is layout.Kind.PERIODIC


def test_events_keep_their_columns_and_widen_the_time_range(client: redis.Redis, target: Target) -> None:
    """Texts and lists may be null; the times of events count as the session's."""
    batch = pa.record_batch(
        {
            "event_definition_id": [5, 6],
            "time": [START_NS, START_NS + 1],
            "app_name": ["rig", None],
            "status_text": ["up", None],
            "raw_data": [[1.5, 2.5], None],
        }
    )
    _, result = write(target, batch)
    events = stream_content.events(client, "rig", 7)
    assert [(event.event_definition_id, event.timestamp, event.app_name, list(event.raw_data)) for event in events] == [
        (5, START_NS, "rig", [1.5, 2.5]),
        (6, START_NS + 1, "", []),
    ]
    assert result.shares[0].totals.time_range_ns == (START_NS, START_NS + 1)


def test_row_data_comes_from_arrays(client: redis.Redis, target: Target) -> None:
    """One message for each row of the frame."""
    batch = pa.record_batch({"time": [1, 2], "channels": [[1, 2], [1]], "values": [[0.5, 1.5], [2.5]]})
    write(target, batch)
    assert stream_content.samples(client, "rig", 7, layout.Plan(default=layout.Layout(kind=layout.Kind.ROW))) == [
        (1, 1, 0.5),
        (1, 2, 2.5),
        (2, 1, 1.5),
    ]


@pytest.mark.parametrize(
    ("channels", "values", "message"),
    [
        ([[1], [1, 2]], [[0.5], [1.5]], "row 1 in .*: 2 channels and 1 values"),
        ([[1], None], [[0.5], None], "row 1 in .*: null channels and null values"),
        ([[1], [2, -1]], [[0.5], [1.5, 2.5]], "row 1 in .*: the channel does not fit uint32: -1"),
    ],
)
def test_bad_row_data_is_refused_with_its_row(target: Target, channels: Any, values: Any, message: str) -> None:
    """The row is that of the frame, not that of the flattened arrays."""
    batch = pa.record_batch({"time": [1, 2], "channels": channels, "values": values})
    with pytest.raises(errors.BadSamples, match=message):
        write(target, batch)


def test_a_bad_row_far_into_a_task_is_named_by_its_position(client: redis.Redis, target: Target) -> None:
    """The position counts from the first row of the task, and what was sent before stands there whole."""
    bad = pa.record_batch({"channel": [1, -5], "time": [1, 2], "value": [1.0, 2.0]})
    rows = GROUP_ROWS
    with pytest.raises(errors.BadSamples, match=f"row {rows + 1} in 'job/0': .*-5"):
        write(target, long(rows), bad)
    assert len(stream_content.samples(client, "rig", 7)) in (0, rows)


@pytest.mark.parametrize("cut", [1, 5_000, GROUP_ROWS, GROUP_ROWS + 5_000, GROUP_ROWS + 30_000])
def test_an_attempt_that_was_cut_short_is_completed_by_the_next(client: redis.Redis, target: Target, cut: int) -> None:
    """Wherever the first attempt ended, each row stands there once afterwards."""
    rows = GROUP_ROWS + 30_000
    write(target, long(cut))
    _, result = write(target, long(rows))
    assert stream_content.samples(client, "rig", 7) == expected(rows)
    assert result.effort.duplicate_rows == cut
    assert result.shares[0].totals.samples == rows


@pytest.mark.parametrize("changed", [long(3000, first=1), long(3000).slice(1), long(2000), long(1500)])
def test_an_attempt_with_other_rows_is_refused(client: redis.Redis, target: Target, changed: pa.RecordBatch) -> None:
    """Rows that came from elsewhere are not mixed in: the error says how to make the job repeatable."""
    write(target, long(2500))
    with pytest.raises(errors.RowsChanged, match=r"repeats epoch 0 with other rows.*deterministic\(frame\)"):
        write(target, changed)
    assert stream_content.samples(client, "rig", 7) == expected(2500)


def test_other_rows_in_a_group_before_the_last_are_noticed(client: redis.Redis, target: Target) -> None:
    """The fingerprint is of all rows so far, not of those that were sent together."""
    write(target, long(2500), groupRows="1000")
    changed = [long(10, first=5000), long(2490, first=10)]
    with pytest.raises(errors.RowsChanged, match="its first 2500 rows are not those that stand there"):
        write(target, *changed, groupRows="1000")
    write(target, long(2500), groupRows="700")
    assert stream_content.samples(client, "rig", 7) == expected(2500)


def test_rows_in_another_order_within_what_stands_there_are_the_same_rows(client: redis.Redis, target: Target) -> None:
    """A fingerprint does not depend on the order of rows: the same rows in another order are accepted."""
    write(target, long(2500))
    write(target, long(2500).take(list(reversed(range(2500)))))
    assert stream_content.samples(client, "rig", 7) == expected(2500)


def test_at_least_once_writes_again(client: redis.Redis, target: Target) -> None:
    """The control: the same second attempt doubles every row, and the totals say so."""
    write(target, long(1000), delivery="at-least-once", groupRows="300")
    _, result = write(target, long(1000), delivery="at-least-once")
    assert stream_content.samples(client, "rig", 7) == sorted(expected(1000) * 2)
    assert result.shares[0].totals.samples == 2000


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once", "staged"])
def test_a_closed_session_is_refused(client: redis.Redis, target: Target, delivery: str) -> None:
    """A closed session is refused in every delivery, before anything is written."""
    client.set(target.keys.gate("rig", 7), "sealed", ex=60)
    with pytest.raises(errors.SessionClosed):
        write(target, long(10), delivery=delivery)
    assert client.exists("stream:rig") == 0


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once", "staged"])
def test_a_close_in_the_middle_of_a_task_is_noticed(client: redis.Redis, target: Target, delivery: str) -> None:
    """Rows after a close fail the task, in every delivery."""
    settings = WriteOptions.parse({**target.options(), "delivery": delivery})
    task = Task(settings, long(1).schema, unit="job/0", epoch=0)
    task.write(long(10))
    task.flush()
    client.set(target.keys.gate("rig", 7), "sealed", ex=60)
    task.write(long(10, first=10))
    with pytest.raises(errors.SessionClosed):
        task.finish()
    task.close()


def test_partitions_can_be_written_from_dicts_and_batches(client: redis.Redis, target: Target) -> None:
    """`write_partition` takes dicts and batches outside of Spark, where the option `job` names the unit."""
    options = {**target.options(), "job": "nightly"}
    rows = [{"channel": 1, "time": n, "value": float(n)} for n in range(10)]
    rta_writers.write_partition(iter(rows), **options)
    rta_writers.write_partition(iter([pa.RecordBatch.from_pylist(rows)]), **options)
    assert stream_content.samples(client, "rig", 7) == [(1, n, float(n)) for n in range(10)]
    with pytest.raises(errors.Usage, match="needs the option 'job'"):
        rta_writers.write_partition(iter(rows), **target.options())
    with pytest.raises(errors.Usage, match="'staged' needs a commit"):
        rta_writers.write_partition(iter(rows), **options, delivery="staged")


def test_rows_without_a_value_have_no_sample(
    client: redis.Redis, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In no row of a batch either: later ones may have some, of any numbers; texts of events too."""
    options = {**target.options(), "job": "nightly", "channels": '{"rpm": 1, "gear": 2}'}
    count = 10
    monkeypatch.setattr(partition_writer, "ROWS_PER_BATCH", count)
    rows = [{"time": n, "rpm": float(n), "gear": None if n < count else 0.5} for n in range(count + 2)]
    rta_writers.write_partition(iter(rows), **options)
    rta_writers.write_partition([{"channel": 3, "time": 7, "value": None}], **{**options, "job": "b", "channels": "{}"})
    event = {"event_definition_id": 5, "time": 7, "app_name": None, "status_text": None, "raw_data": None}
    rta_writers.write_partition([event], **{**options, "job": "c"})
    written = stream_content.samples(client, "rig", 7)
    assert [row for row in written if row[0] == 2] == [(2, count, 0.5), (2, count + 1, 0.5)]
    assert len(written) == count + 4
    with pytest.raises(errors.Usage, match="'time' is null, not a timestamp"):
        rta_writers.write_partition([{**rows[0], "time": None}], **{**options, "job": "d"})


def test_many_sessions_of_one_task_share_few_connections(
    client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """More sessions than a pool has connections: each gets its rows, and connections are given back."""
    count = 150
    numbers = np.arange(3 * count)
    batch = pa.record_batch(
        {
            "channel": np.ones(len(numbers), np.int64),
            "time": START_NS + numbers,
            "value": numbers / 4,
            "session": [f"car-{number % count}" for number in numbers.tolist()],
        }
    )
    with rta_writers.sessions(sessions, stream="cars") as group:
        task = Task(WriteOptions.parse(group.options), batch.schema, unit="job/0", epoch=0)
        try:
            task.write(batch)
            result = task.finish()
            pool: Any = task._client.connection_pool
            assert pool._created_connections <= CONNECTIONS_MAX + 1
        finally:
            task.close()
    assert {part.rows for part in result.shares} == {3}
    assert len(group.ended) == count
    assert {ended.totals.samples for ended in group.ended.values()} == {3}
    numbers_by_session = {part.target.identity: part.target.stream_session_id for part in result.shares}
    for number in (0, count - 1):
        stream_session_id = numbers_by_session[f"car-{number}"]
        samples = stream_content.samples(client, "cars", stream_session_id)
        assert [value for _, _, value in samples] == [(number + count * turn) / 4 for turn in range(3)]


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ({"channel": [1, 1], "value": [0.5, 1.5]}, {}),
        ({"channel": [1, 1], "value": [0.5, 1.5]}, {"delivery": "staged"}),
        ({"rpm": [0.5, 1.5]}, {"channels": "rpm=1"}),
        ({"channels": [[1], [1]], "values": [[0.5], [1.5]]}, {}),
        ({"event_definition_id": [5, 6]}, {}),
    ],
    ids=["long", "staged", "wide", "rows", "events"],
)
def test_rows_name_the_streams_of_their_sessions(
    client: redis.Redis,
    sessions: rta_writers.SessionClient,
    columns: dict[str, Any],
    options: dict[str, str],
) -> None:
    """Two streams in one task, in every form; a retry adds nothing."""
    names = {"session": ["a", "b"], "topic": ["_cars", "bikes"], "partition": [0, 7]}
    batch = pa.record_batch({**names, "time": [START_NS, START_NS + 1], **columns})
    with rta_writers.sessions(sessions, stream="{topic}-{partition}") as group:
        settings = WriteOptions.parse({**group.options, **options})
        for _ in range(2):
            commit.commit(settings, [run(settings, batch)], epoch=0)
    for number, (identity, stream) in enumerate({"a": "0x_cars-0", "b": "bikes-7"}.items()):
        stream_session_id: Any = client.hget(f"sessions:{identity}", "streamSessionId")
        where = (client, stream, int(stream_session_id))
        if "event_definition_id" in columns:
            assert [event.event_definition_id for event in stream_content.events(*where)] == [5 + number]
        else:
            assert stream_content.samples(*where) == [(1, START_NS + number, number + 0.5)]
        assert group.ended[identity].state == "closed"


def test_a_session_stays_in_the_stream_of_its_first_row(sessions: rta_writers.SessionClient) -> None:
    """A row that names another one fails its task, in a later batch as well as in another task."""
    first, other = (
        pa.record_batch({"session": ["a"], "stream": [stream], "channel": [1], "time": [1], "value": [1.0]})
        for stream in ("x", "y")
    )
    with rta_writers.sessions(sessions) as group:
        settings = WriteOptions.parse(group.options)
        conflict = "Session 'a' is open already with the stream 'x', not 'y'"
        with pytest.raises(errors.SessionConflict, match=conflict):
            run(settings, first, other)
        with pytest.raises(errors.SessionConflict, match=conflict):
            run(settings, other, unit="job/1")
        run(settings, first)
    assert group.ended["a"].totals.samples == 1
