"""A task from rows to the stream, on a real server and without Spark: forms, deliveries, sessions, reports."""

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_wire import errors, keys, plan
from rta_wire.totals import Mark
from rta_writers import committing, reports, staging, talk, task
from rta_writers.options import GROUP_ROWS, Options
from rta_writers.target import Target
from rta_writers.task import Outcome, Task
from tests.support import stored
from tests.support.control import folded
from tests.support.waiting import wait_until

START_NS = 1_700_000_000_000_000_000


@pytest.fixture
def target(url: str, client: redis.Redis) -> Target:
    target = Target(url, "run", "rig", 7)
    client.set(target.keys.gate("rig", 7), "open", ex=60)
    return target


def long(rows: int, *, first: int = 0, session: bool = False) -> pa.RecordBatch:
    at = np.arange(first, first + rows)
    columns: dict[str, Any] = {"channel": at % 7, "time": START_NS + at, "value": at / 4}
    if session:
        columns["session"] = [f"car-{n % 3}" for n in at.tolist()]
    return pa.record_batch(columns)


def expected(rows: int, *, first: int = 0) -> list[tuple[int, int, float]]:
    return sorted((n % 7, START_NS + n, n / 4) for n in range(first, first + rows))


def write(
    target: Target, *batches: pa.RecordBatch, unit: str = "job/0", epoch: int = 0, **options: str
) -> tuple[Options, Outcome]:
    settings = Options.read({**target.options(), **options})
    return settings, run(settings, *batches, unit=unit, epoch=epoch)


def run(settings: Options, *batches: pa.RecordBatch, unit: str = "job/0", epoch: int = 0) -> Outcome:
    writing = Task(settings, batches[0].schema, unit=unit, epoch=epoch)
    try:
        for batch in batches:
            writing.write(batch)
        return writing.finish()
    finally:
        writing.close()


def test_names_of_channels_are_mapped(client: redis.Redis, target: Target) -> None:
    """A string channel becomes its id."""
    batch = pa.record_batch({"channel": ["rpm", "speed", "rpm"], "time": [1, 2, 3], "value": [1, 2, 3]})
    write(target, batch, channels="rpm=10,speed=20")
    assert stored.samples(client, "rig", 7) == [(10, 1, 1.0), (10, 3, 3.0), (20, 2, 2.0)]


def test_an_unknown_name_is_refused_with_its_row(client: redis.Redis, target: Target) -> None:
    """Nothing is dropped."""
    batch = pa.record_batch({"channel": ["rpm", "sped"], "time": [1, 2], "value": [1.0, 2.0]})
    with pytest.raises(errors.BadSamples, match="row 1 in 'job/0': channel 'sped' is not in option 'channels'"):
        write(target, batch, channels="rpm=10")
    assert client.exists("stream:rig") == 0


def test_wide_form_and_long_form_store_the_same_samples(client: redis.Redis, target: Target) -> None:
    """A column per channel, with types and kinds by name; a null is no sample."""
    rows = 5_000
    at = np.arange(rows)
    batch = pa.record_batch(
        {
            "time": pa.array(START_NS + at * 1000, pa.timestamp("ns")),
            "a": pa.array(at / 2),
            "b": pa.array((at % 100).astype(np.int16), mask=at % 5 == 0),
            "c": pa.array(at.astype(np.int64)),
        }
    )
    options = {"channels": "a=1,b=2,c=3", "sampleType": "b=int16,c=int64", "kind": "c=periodic"}
    settings = Options.read({**target.options(), **options})
    outcome = run(settings, batch)
    layouts = settings.plan()
    wanted = [(1, START_NS + n * 1000, n / 2) for n in range(rows)]
    wanted += [(2, START_NS + n * 1000, n % 100) for n in range(rows) if n % 5]
    wanted += [(3, START_NS + n * 1000, n) for n in range(rows)]
    assert stored.samples(client, "rig", 7, layouts) == sorted(wanted)
    assert outcome.effort.samples == len(wanted)
    assert layouts.layout(3).kind is plan.Kind.PERIODIC


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
    _, outcome = write(target, batch)
    found = stored.events(client, "rig", 7)
    assert [(one.event_definition_id, one.timestamp, one.app_name, list(one.raw_data)) for one in found] == [
        (5, START_NS, "rig", [1.5, 2.5]),
        (6, START_NS + 1, "", []),
    ]
    assert outcome.shares[0].totals.time_range_ns == (START_NS, START_NS + 1)


def test_row_data_comes_from_arrays(client: redis.Redis, target: Target) -> None:
    """One message for each row of the frame."""
    batch = pa.record_batch({"time": [1, 2], "channels": [[1, 2], [1]], "values": [[0.5, 1.5], [2.5]]})
    write(target, batch)
    assert stored.samples(client, "rig", 7, plan.Plan(default=plan.Layout(kind=plan.Kind.ROW))) == [
        (1, 1, 0.5),
        (1, 2, 2.5),
        (2, 1, 1.5),
    ]


@pytest.mark.parametrize(
    ("channels", "values", "words"),
    [
        ([[1], [1, 2]], [[0.5], [1.5]], "row 1 in .*: 2 channels and 1 values"),
        ([[1], None], [[0.5], None], "row 1 in .*: null channels and null values"),
        ([[1], [2, -1]], [[0.5], [1.5, 2.5]], "row 1 in .*: the channel does not fit uint32: -1"),
    ],
)
def test_bad_row_data_is_refused_with_its_row(target: Target, channels: Any, values: Any, words: str) -> None:
    """The row is that of the frame, not that of the flattened arrays."""
    batch = pa.record_batch({"time": [1, 2], "channels": channels, "values": values})
    with pytest.raises(errors.BadSamples, match=words):
        write(target, batch)


def test_a_bad_row_far_into_a_task_is_named_by_its_position(client: redis.Redis, target: Target) -> None:
    """The position counts from the first row of the task, and what was sent before stands there whole."""
    bad = pa.record_batch({"channel": [1, -5], "time": [1, 2], "value": [1.0, 2.0]})
    rows = GROUP_ROWS
    with pytest.raises(errors.BadSamples, match=f"row {rows + 1} in 'job/0': .*-5"):
        write(target, long(rows), bad)
    assert len(stored.samples(client, "rig", 7)) in (0, rows)


@pytest.mark.parametrize("cut", [1, 5_000, GROUP_ROWS, GROUP_ROWS + 5_000, GROUP_ROWS + 30_000])
def test_an_attempt_that_was_cut_short_is_completed_by_the_next(client: redis.Redis, target: Target, cut: int) -> None:
    """Wherever the first attempt ended, each row stands there once afterwards."""
    rows = GROUP_ROWS + 30_000
    write(target, long(cut))
    _, outcome = write(target, long(rows))
    assert stored.samples(client, "rig", 7) == expected(rows)
    assert outcome.effort.duplicate_rows == cut
    assert outcome.shares[0].totals.samples == rows


@pytest.mark.parametrize("changed", [long(3000, first=1), long(3000).slice(1), long(2000), long(1500)])
def test_an_attempt_with_other_rows_is_refused(client: redis.Redis, target: Target, changed: pa.RecordBatch) -> None:
    """Rows that came from elsewhere are not mixed in: the error says how to make the job repeatable."""
    write(target, long(2500))
    with pytest.raises(errors.RowsChanged, match=r"repeats epoch 0 with other rows.*deterministic\(frame\)"):
        write(target, changed)
    assert stored.samples(client, "rig", 7) == expected(2500)


def test_other_rows_in_a_group_before_the_last_are_noticed(client: redis.Redis, target: Target) -> None:
    """The fingerprint is of all rows so far, not of those that were sent together."""
    write(target, long(2500), groupRows="1000")
    changed = [long(10, first=5000), long(2490, first=10)]
    with pytest.raises(errors.RowsChanged, match="its first 2500 rows are not those that stand there"):
        write(target, *changed, groupRows="1000")
    write(target, long(2500), groupRows="700")
    assert stored.samples(client, "rig", 7) == expected(2500)


def test_rows_in_another_order_within_what_stands_there_are_the_same_rows(client: redis.Redis, target: Target) -> None:
    """Only which rows stand there matters."""
    write(target, long(2500))
    write(target, long(2500).take(list(reversed(range(2500)))))
    assert stored.samples(client, "rig", 7) == expected(2500)


def test_at_least_once_writes_again(client: redis.Redis, target: Target) -> None:
    """The control: the same second attempt doubles every row, and the totals say so."""
    write(target, long(1000), delivery="at-least-once", groupRows="300")
    _, outcome = write(target, long(1000), delivery="at-least-once")
    assert stored.samples(client, "rig", 7) == sorted(expected(1000) * 2)
    assert outcome.shares[0].totals.samples == 2000


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once", "staged"])
def test_a_closed_session_is_refused(client: redis.Redis, target: Target, delivery: str) -> None:
    """In every delivery, before anything is written."""
    client.set(target.keys.gate("rig", 7), "sealed", ex=60)
    with pytest.raises(errors.SessionClosed):
        write(target, long(10), delivery=delivery)
    assert client.exists("stream:rig") == 0


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once", "staged"])
def test_a_close_in_the_middle_of_a_task_is_noticed(client: redis.Redis, target: Target, delivery: str) -> None:
    """Rows that come after it fail the task, in every delivery."""
    settings = Options.read({**target.options(), "delivery": delivery})
    writing = Task(settings, long(1).schema, unit="job/0", epoch=0)
    writing.write(long(10))
    writing.flush()
    client.set(target.keys.gate("rig", 7), "sealed", ex=60)
    writing.write(long(10, first=10))
    with pytest.raises(errors.SessionClosed):
        writing.finish()
    writing.close()


def stage(target: Target, *rows: int, epoch: int = 0, **options: str) -> tuple[Options, list[Outcome]]:
    settings, outcomes = Options.read({**target.options(), "delivery": "staged", **options}), []
    first = 0
    for partition, count in enumerate(rows):
        batches = [long(count, first=first)]
        outcomes.append(run(settings, *batches, unit=f"job/{partition}", epoch=epoch))
        first += count
    return settings, outcomes


def waiting_keys(client: redis.Redis) -> list[bytes]:
    return list(client.scan_iter(match="rtas:sg:*"))


def test_staged_rows_appear_with_the_commit(client: redis.Redis, target: Target) -> None:
    """Nothing can be seen before it, everything after it, and nothing is left beside the stream."""
    settings, outcomes = stage(target, 1000, 2000, groupRows="300")
    assert client.exists("stream:rig") == 0
    committing.commit(settings, outcomes, epoch=0)
    assert stored.samples(client, "rig", 7) == expected(3000)
    assert waiting_keys(client) == []


def test_a_repeated_commit_with_other_rows_adds_nothing(client: redis.Redis, target: Target) -> None:
    """The first commit of an epoch decides, whatever a replay computes, and when its manifest has expired too."""
    manifest = target.keys.manifest("rig", 7, "job", 0)
    for rows in ((1000, 2000), (10, 20, 30), (40, 50, 60)):
        settings, outcomes = stage(target, *rows)
        committing.commit(settings, outcomes, epoch=0)
        if rows == (10, 20, 30):
            assert client.delete(manifest) == 1
    assert stored.samples(client, "rig", 7) == expected(3000)
    assert waiting_keys(client) == []
    settings, outcomes = stage(target, 5, epoch=1)
    committing.commit(settings, outcomes, epoch=1)
    assert len(stored.samples(client, "rig", 7)) == 3005


@pytest.mark.parametrize("others_rows", [(7, 8, 9), ()])
@pytest.mark.parametrize("moves", [0, 1, 2, 3])
def test_a_commit_that_was_cut_off_goes_on_with_what_it_began(
    monkeypatch: pytest.MonkeyPatch, client: redis.Redis, target: Target, moves: int, others_rows: tuple[int, ...]
) -> None:
    """It died between any two moves; the replay staged other rows, which are not mixed in, or none."""
    monkeypatch.setattr(staging, "BURSTS_PER_MOVE", 2)

    class Killed(Exception):
        """The driver is gone."""

    settings, outcomes = stage(target, 30_000, 30_000)
    move = staging._take
    done: list[int] = []

    def killed_later(*args: Any) -> Any:
        if len(done) == moves:
            raise Killed
        done.append(1)
        return move(*args)

    with monkeypatch.context() as patch:
        patch.setattr(staging, "_take", killed_later)
        with pytest.raises(Killed):
            committing.commit(settings, outcomes, epoch=0)
    # Another release may move more at a time.
    monkeypatch.setattr(staging, "BURSTS_PER_MOVE", 3)
    settings, others = stage(target, *others_rows)
    committing.commit(settings, others or [Outcome("job/0", 0)], epoch=0)
    assert stored.samples(client, "rig", 7) == expected(60_000)
    assert waiting_keys(client) == []


def test_of_two_committers_the_first_decides(
    monkeypatch: pytest.MonkeyPatch, client: redis.Redis, target: Target
) -> None:
    """A twin of the driver wrote its manifest after we had looked for one: its attempts count, not ours."""
    settings, theirs = stage(target, 1000, 2000)
    _, ours = stage(target, 50)
    manifest = target.keys.manifest("rig", 7, "job", 0)
    parts = [share.staged for outcome in theirs for share in outcome.shares]
    ask = talk.Talk.ask

    def ask_too_early(self: talk.Talk, calls: Any) -> list[Any]:
        if calls == [("GET", manifest)] and not client.exists(manifest):
            client.set(manifest, msgspec.json.encode(parts), ex=60)
            return [None]
        return ask(self, calls)

    monkeypatch.setattr(talk.Talk, "ask", ask_too_early)
    committing.commit(settings, ours, epoch=0)
    assert stored.samples(client, "rig", 7) == expected(3000)


def test_staged_rows_that_expired_are_reported(client: redis.Redis, target: Target) -> None:
    """A commit without its rows fails: it does not write fewer."""
    settings, outcomes = stage(target, 1000)
    client.delete(*waiting_keys(client))
    with pytest.raises(errors.StagedLost, match="Raise option 'stagedTtlS'"):
        committing.commit(settings, outcomes, epoch=0)


def test_what_a_failed_attempt_staged_is_removed(client: redis.Redis, target: Target) -> None:
    """It would wait for its TTL otherwise."""
    settings = Options.read({**target.options(), "delivery": "staged"})
    writing = Task(settings, long(1).schema, unit="job/0", epoch=0)
    writing.write(long(GROUP_ROWS))
    writing.flush()
    assert len(waiting_keys(client)) == 1
    writing.fail()
    writing.close()
    assert waiting_keys(client) == []


def test_what_an_epoch_staged_that_is_given_up_is_removed(client: redis.Redis, target: Target) -> None:
    """Of all its tasks; nothing of it can be seen."""
    settings, outcomes = stage(target, 10, 20)
    assert len(waiting_keys(client)) == 2
    committing.abort(settings, [*outcomes, Outcome("job/2", 0)])
    assert waiting_keys(client) == []
    assert client.exists("stream:rig") == 0


def test_rows_that_are_gone_by_the_commit_fail_it(client: redis.Redis, target: Target) -> None:
    """Redis lost what a task had written before the epoch was over: that is no success."""
    settings, first = write(target, long(30), unit="job/0")
    second = run(settings, long(20), unit="job/1")
    committing.commit(settings, [first, second], epoch=0)
    client.hdel(target.keys.marks("rig", 7), "job/1")
    with pytest.raises(errors.AppendGap, match=r"'job/1' .* stands at row 0 of epoch 0: going on at row 20"):
        committing.commit(settings, [first, second], epoch=0)


def test_a_partition_that_vanished_is_found_at_the_commit(target: Target) -> None:
    """Rows of an attempt with more partitions stand there: the commit of one with fewer fails."""
    for partition in range(3):
        write(target, long(10, first=partition * 10), unit=f"job/{partition}")
    settings, first = write(target, long(10), unit="job/0")
    _, second = write(target, long(10, first=10), unit="job/1")
    with pytest.raises(errors.RowsChanged, match=r"Unit 'job/2'.*10 rows of that partition stand there"):
        committing.commit(settings, [first, second], epoch=0)


def test_a_session_that_a_replay_does_not_name_is_missed(sessions: rta_writers.SessionClient) -> None:
    """The first attempt wrote to three sessions; a replay in another run of the driver names none or two of them."""
    first = pa.record_batch({"session": ["a", "b", "c"], "channel": [1, 1, 1], "time": [1, 2, 3], "value": [1.0] * 3})
    killed = rta_writers.sessions(sessions, stream="rig")
    run(Options.read(killed.options), first, unit="job/0", epoch=4)
    killed._over.set()
    with rta_writers.sessions(sessions, stream="rig") as group:
        settings = Options.read(group.options)
        kept = run(settings, first.slice(0, 2), unit="job/0", epoch=4)
        with pytest.raises(errors.RowsChanged, match="session 'c'"):
            committing.commit(settings, [kept], epoch=4)
        with pytest.raises(errors.RowsChanged, match="session 'a'"):
            committing.commit(settings, [Outcome("job/0", 4)], epoch=4)
        committing.commit(settings, [Outcome("job/0", 5)], epoch=5)
        committing.commit(settings, [run(settings, first, unit="job/0", epoch=4)], epoch=4)


def test_rows_name_their_sessions(
    monkeypatch: pytest.MonkeyPatch, client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """Sessions are opened on first sight, rows are counted for each alone, and a retry changes nothing."""
    monkeypatch.setattr(task, "LINES_MAX", 2)
    with rta_writers.sessions(sessions, stream="rig", type="lap") as group:
        settings = Options.read(group.options)
        run(settings, long(4000, session=True))
        run(settings, long(3000, session=True), long(3000, first=3000, session=True))
        assert group.identities() == ["car-0", "car-1", "car-2"]
    for number, identity in enumerate(sorted(group.ended)):
        place: Any = client.hget(f"sessions:{identity}", "streamSessionId")
        found = stored.samples(client, "rig", int(place))
        assert found == sorted((n % 7, START_NS + n, n / 4) for n in range(6000) if n % 3 == number)
        assert (group.ended[identity].state, group.ended[identity].totals.samples) == ("closed", 2000)


def test_a_null_session_is_refused(url: str) -> None:
    """A row that belongs nowhere fails its task."""
    batch = pa.record_batch({"channel": [1], "time": [1], "value": [1.0], "session": pa.array([None], pa.string())})
    with pytest.raises(errors.BadSamples, match="the session is null"):
        run(Options.read({"redisUrl": url, "stream": "rig"}), batch)


def test_a_running_task_reports_every_second(
    monkeypatch: pytest.MonkeyPatch, client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """The session's time range moves while the task is still running."""
    monkeypatch.setattr(reports, "REPORT_S", 0.0)
    session = sessions.session("run-1", stream="rig")
    settings = Options.read(session.options)
    writing = Task(settings, long(1).schema, unit="job/0", epoch=0)
    writing.write(long(1000))
    writing.write(long(1000, first=1000))
    end: Any = wait_until(lambda: client.hget("sessions:run-1", keys.T_END), what="a time range")
    assert int(end) >= START_NS + 999
    writing.finish()
    writing.close()
    session.close()


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once", "staged"])
def test_a_commit_can_wait_for_the_supervisor(
    client: redis.Redis, sessions: rta_writers.SessionClient, delivery: str
) -> None:
    """With wait=true the session shows exact totals when the commit returns."""
    session = sessions.session("run-1", stream="rig")
    settings, outcome = write(session.target, long(500), delivery=delivery, wait="true")
    committing.commit(settings, [outcome], epoch=0)
    assert folded(client, "run-1").samples == 500
    session.close()


@pytest.mark.parametrize("shown", [None, "1 4 9 9 - -"])
def test_waiting_in_vain_is_reported(client: redis.Redis, target: Target, shown: str | None) -> None:
    """Nobody folds, or less than was written: the error says that the rows are safe."""
    settings, outcome = write(target, long(5), wait="true", waitTimeoutS="0.1")
    if shown is not None:
        client.hset(target.keys.state("run"), keys.unit_field("job/0"), shown)
        client.expire(target.keys.state("run"), 60)
    with pytest.raises(errors.NotFolded, match="The rows stand in the stream"):
        committing.commit(settings, [outcome], epoch=0)


def test_a_burst_writer_goes_on_where_it_was_killed(client: redis.Redis, target: Target) -> None:
    """Plain Python: the same unit and epoch written again from the start adds only what is missing."""
    killed = rta_writers.BurstWriter(target.options(), unit="recorder")
    killed.write(long(700))
    killed.flush()
    with rta_writers.BurstWriter(target.options(), unit="recorder") as writer:
        writer.samples(*(long(1000).column(name) for name in ("channel", "time", "value")))
    assert stored.samples(client, "rig", 7) == expected(1000)
    raw: Any = client.hget(target.keys.marks("rig", 7), "recorder/0")
    mark = Mark.from_text(raw.decode())
    assert (mark.rows, mark.totals.samples) == (1000, 1000)


def test_a_burst_writer_refuses_other_columns_and_closed_sessions(client: redis.Redis, target: Target) -> None:
    """Mistakes are named at once."""
    with rta_writers.BurstWriter(target.options()) as writer:
        writer.write(long(5))
        with pytest.raises(errors.Usage, match="The columns have changed"):
            writer.write(pa.record_batch({"time": [1]}))
    client.set(target.keys.gate("rig", 7), "sealed", ex=60)
    with pytest.raises(errors.SessionClosed):
        rta_writers.BurstWriter(target.options())


def test_partitions_can_be_written_from_dicts_and_batches(client: redis.Redis, target: Target) -> None:
    """What `foreachPartition` gives, outside of Spark: the job names the unit."""
    options = {**target.options(), "job": "nightly"}
    rows = [{"channel": 1, "time": n, "value": float(n)} for n in range(10)]
    rta_writers.write_partition(iter(rows), **options)
    rta_writers.write_partition(iter([pa.RecordBatch.from_pylist(rows)]), **options)
    assert stored.samples(client, "rig", 7) == [(1, n, float(n)) for n in range(10)]
    with pytest.raises(errors.Usage, match="needs the option 'job'"):
        rta_writers.write_partition(iter(rows), **target.options())
    with pytest.raises(errors.Usage, match="'staged' needs a commit"):
        rta_writers.write_partition(iter(rows), **options, delivery="staged")
