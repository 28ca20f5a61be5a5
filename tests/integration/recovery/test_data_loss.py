"""Redis forgets: started empty, from an old snapshot, flushed. It is noticed, made good and never silent."""

import contextlib
import shutil
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_supervisor.embedded import server
from rta_wire import errors, keys
from rta_wire.pb import control_pb2
from rta_writers.connection import redis_client
from rta_writers.control import configs
from rta_writers.options.read import ReadOptions
from rta_writers.read import batches, plan
from rta_writers.read import channels as read_channels
from rta_writers.write.delivery.exactly_once import ExactlyOnceAppender
from tests.support import samples, supervisors
from tests.support.control import document, fields, write
from tests.support.supervisors import Supervisor
from tests.support.waiting import wait_until


@pytest.fixture
def forgetful() -> Iterator[server.EmbeddedServer]:
    """A server that keeps only the snapshots that it is told to make."""
    with server.running(port=server.free_port(), options={"dbfilename": "dump.rdb"}) as running:
        yield running


@pytest.fixture
def watching(forgetful: server.EmbeddedServer) -> Iterator[Supervisor]:
    with supervisors.running(forgetful.url) as running:
        yield running


@pytest.fixture
def sessions(forgetful: server.EmbeddedServer, watching: Supervisor) -> rta_writers.SessionClient:  # noqa: ARG001
    return rta_writers.SessionClient(forgetful.url, timeout_s=20)


@pytest.fixture
def client(forgetful: server.EmbeddedServer) -> Iterator[redis.Redis]:
    with redis_client.connect(forgetful.url) as client:
        yield client


def saved(supervisor: Supervisor, identity: str, samples_: int) -> None:
    """Wait until the catalogue knows of so many samples."""
    [path] = (supervisor.directory / "rta-supervisor").glob("*.sqlite")

    def is_saved() -> bool:
        with sqlite3.connect(path) as file:
            row = file.execute("SELECT samples FROM sessions WHERE identity = ?", (identity,)).fetchone()
        file.close()
        return row is not None and row[0] >= samples_

    wait_until(is_saved, what=f"{identity} in the catalogue")


def restart(forgetful: server.EmbeddedServer, snapshot: Path | None = None) -> None:
    """Kill -9, then a start with an older snapshot or with nothing."""
    forgetful.kill()
    (forgetful.directory / "dump.rdb").unlink(missing_ok=True)
    if snapshot is not None:
        shutil.copy(snapshot, forgetful.directory / "dump.rdb")
    forgetful.start()


def test_after_an_empty_restart_open_sessions_are_back_with_their_ids(
    forgetful: server.EmbeddedServer, watching: Supervisor, sessions: rta_writers.SessionClient, client: redis.Redis
) -> None:
    """Hash, first entry and gate are there again, the loss is logged, and the session can only end as truncated."""
    closed = sessions.session("done", stream="rig")
    closed.close()
    session = sessions.session("run-1", stream="rig", details={"Rig": 4})
    write(client, session, 5)
    saved(watching, "run-1", 5)
    restart(forgetful)
    watching.wait_for_event("redis_made_whole")
    restored = fields(client, "run-1")
    assert int(restored["streamSessionId"]) == session.target.stream_session_id
    assert document(client, "run-1")["details"] == {"Rig": 4}
    assert samples.kinds(client, "rig", session.target.stream_session_id)[0] == "session_json"
    assert client.smembers("streams") == {b"rig"}
    loss = watching.wait_for_event("session_lost_data")
    assert (loss["samples_reported"], loss["samples_found"]) == (5, 0)
    after = sessions.session("run-2", stream="rig")
    assert after.target.stream_session_id > session.target.stream_session_id, "ids never repeat"
    assert session.close().state == "truncated"
    assert after.close().state == "closed"


def test_after_a_loss_readers_get_names_again(
    forgetful: server.EmbeddedServer, watching: Supervisor, sessions: rta_writers.SessionClient, client: redis.Redis
) -> None:
    """The configuration is back with its session: a job that starts again keeps its ids, and rows have names."""
    first = rta_writers.Channels.of(pa.schema([("time", pa.int64()), ("rpm", pa.float64())]))
    session = sessions.open("run-1", stream="rig", channels=first)
    with rta_writers.BurstWriter(session.options) as writer:
        writer.write(pa.table({"time": [1], "rpm": [1.5]}))
    saved(watching, "run-1", 1)
    restart(forgetful)
    watching.wait_for_event("redis_made_whole")
    configs.channel_list.cache_clear()
    more = pa.schema([("gear", pa.int8()), ("time", pa.int64()), ("rpm", pa.float64())])
    again = sessions.open("run-1", stream="rig", channels=rta_writers.Channels.of(more))
    with rta_writers.BurstWriter(again.options, unit="again") as writer:
        writer.write(pa.table({"time": [2], "gear": pa.array([3], pa.int8()), "rpm": [2.5]}))
    assert again.channels is not None
    assert {channel.name: channel.id for channel in again.channels} == {"rpm": 1, "gear": 2}
    names = keys.Keys()
    assert client.get(names.config(first.identifier)) == first.data
    options = ReadOptions(redis_url=forgetful.url, session="run-1", fail_on_data_loss=False)
    options = read_channels.resolve(client, options)
    ranges = plan.plan_batch(client, options)
    bindings = read_channels.read_bindings(client, options, ranges[0].identities)
    found = [batch for one in ranges for batch in batches.read_batches(options, one, batches.RowFilter(), bindings)]
    rows = [(row["name"], row["time"], row["value"]) for batch in found for row in batch.to_pylist()]
    assert sorted(rows) == [("gear", 2, 3.0), ("rpm", 2, 2.5)]
    assert again.close().state == "truncated"


def test_progress_that_no_file_has_yet_is_missed_all_the_same(forgetful: server.EmbeddedServer) -> None:
    """What was shown to readers is known to the supervisor, whether or not the catalogue was due."""
    with (
        supervisors.running(forgetful.url, {"RTA_CATALOGUE__PROGRESS_FLUSH_S": "3600"}) as watching,
        redis_client.connect(forgetful.url) as client,
    ):
        session = rta_writers.SessionClient(forgetful.url, timeout_s=20).session("run-1", stream="rig")
        saved(watching, "run-1", 0)
        end_ns = write(client, session, 7).end_ns
        wait_until(lambda: fields(client, "run-1").get("tEnd") == str(end_ns), what="the time range shown")
        restart(forgetful)
        loss = watching.wait_for_event("session_lost_data")
        assert (loss["samples_reported"], loss["samples_found"]) == (7, 0)
        assert session.close().state == "truncated"


def test_a_writer_notices_that_its_rows_are_gone(
    forgetful: server.EmbeddedServer, watching: Supervisor, sessions: rta_writers.SessionClient, client: redis.Redis
) -> None:
    """The mark is lost with the rows: going on in the same epoch is refused, not papered over."""
    session = sessions.session("run-1", stream="rig")
    appender = ExactlyOnceAppender(client, session.target, unit="u", epoch=0)
    appender.append(2, lambda skip: samples.bursts(2 - skip))
    appender.flush()
    saved(watching, "run-1", 0)
    restart(forgetful)
    watching.wait_for_event("redis_made_whole")

    def go_on() -> None:
        appender.append(1, lambda _: samples.bursts(1, first=2))
        appender.flush()

    with pytest.raises(errors.AppendGap):
        go_on()
    appender.close()
    session.close()


def test_a_stale_snapshot_is_noticed(
    forgetful: server.EmbeddedServer, watching: Supervisor, sessions: rta_writers.SessionClient, client: redis.Redis
) -> None:
    """The counter went back: newer JSON comes back, closed stays closed, what is missing is marked."""
    session = sessions.session("run-1", stream="rig")
    ending = sessions.session("ending", stream="rig")
    write(client, session, 2)
    saved(watching, "run-1", 2)
    client.save()
    old = forgetful.directory / "old.rdb"
    shutil.copy(forgetful.directory / "dump.rdb", old)
    session.update(group="newer")
    ending.close()
    write(client, session, 6, unit="v")
    saved(watching, "run-1", 8)
    wait_until(lambda: not client.zscore("rtas:idx", "ending"), what="the closed session put away")
    restart(forgetful, old)
    watching.wait_for_event("redis_made_whole")
    assert document(client, "run-1")["group"] == "newer"
    assert document(client, "ending")["state"] == "closed"
    assert samples.kinds(client, "rig", ending.target.stream_session_id)[-1] == "session_json"
    loss = watching.wait_for_event("session_lost_data")
    assert (loss["samples_reported"], loss["samples_found"]) == (8, 2)
    assert session.close().state == "truncated"


def test_a_restart_that_kept_everything_marks_nothing(
    forgetful: server.EmbeddedServer, watching: Supervisor, sessions: rta_writers.SessionClient, client: redis.Redis
) -> None:
    """Another process with the same data is looked at and found whole."""
    session = sessions.session("run-1", stream="rig")
    write(client, session, 3)
    saved(watching, "run-1", 3)
    client.save()
    snapshot = forgetful.directory / "all.rdb"
    shutil.copy(forgetful.directory / "dump.rdb", snapshot)
    restart(forgetful, snapshot)
    watching.wait_for_event("redis_made_whole")
    assert watching.events("session_lost_data") == []
    assert watching.events("session_restored") == []
    assert session.close().state == "closed"


def test_flushall_is_noticed_within_two_seconds(
    watching: Supervisor, sessions: rta_writers.SessionClient, client: redis.Redis
) -> None:
    """Somebody empties a running server: the session is back and marked before two seconds are over."""
    session = sessions.session("run-1", stream="rig")
    write(client, session, 1)
    saved(watching, "run-1", 1)
    client.flushall()
    wait_until(lambda: fields(client, "run-1").get("streamSessionId"), timeout_s=2, what="the session being back")
    assert session.close().state == "truncated"


def test_a_request_that_is_lost_ends_in_a_retriable_error(
    watching: Supervisor, sessions: rta_writers.SessionClient, client: redis.Redis
) -> None:
    """The client does not wait for its deadline: it sees that its request is gone, and asking again works."""
    sessions.session("run-1", stream="rig")
    saved(watching, "run-1", 0)
    outcome: list[errors.RtaError] = []

    def close() -> None:
        request = control_pb2.CloseSession(request_id="lost", identity="run-1", state="closed")
        request.expected.bursts = 9
        try:
            sessions.ask(request)
        except errors.RtaError as error:
            outcome.append(error)

    closer = threading.Thread(target=close)
    closer.start()
    wait_until(lambda: client.xlen("rtas:req:default") == 1, what="the request")
    client.flushall()
    closer.join(15)
    assert [type(error) for error in outcome] == [errors.RequestLost]
    assert outcome[0].retriable
    watching.wait_for_event("redis_made_whole")
    assert sessions.close("run-1").state == "closed"


def test_a_supervisor_that_starts_on_an_empty_redis_puts_sessions_back(
    forgetful: server.EmbeddedServer, client: redis.Redis, tmp_path: Path
) -> None:
    """Redis and the supervisor were both away: what was open is there again, and ids go on."""
    environment = {"RTA_CATALOGUE__PATH": str(tmp_path / "catalogue.sqlite")}
    with supervisors.running(forgetful.url, environment) as first:
        sessions = rta_writers.SessionClient(forgetful.url)
        session = sessions.session("run-1", stream="rig")
        assert first.stop() == 0
    client.flushall()
    client.function_flush()
    with supervisors.running(forgetful.url, environment) as second:
        assert second.events("session_restored")
        assert int(fields(client, "run-1")["streamSessionId"]) == session.target.stream_session_id
        assert session.close().state == "closed"


def test_without_a_catalogue_the_loss_is_still_said(forgetful: server.EmbeddedServer, client: redis.Redis) -> None:
    """A catalogue that can't be opened is an error in the log, not the end of the supervisor, unless it is required."""
    missing: Any = {"RTA_CATALOGUE__PATH": "/nonexistent/catalogue.sqlite"}
    with supervisors.running(forgetful.url, missing) as running:
        assert running.events("catalogue_unavailable")
        client.flushall()
        running.wait_for_event("redis_lost_data")
        sessions = rta_writers.SessionClient(forgetful.url)
        wait_until(lambda: client.zcard("rtas:nodes"), what="the registration")
        assert sessions.session("run-1", stream="rig").close().state == "closed"


def test_a_spoilt_row_of_the_catalogue_stops_nobody(
    forgetful: server.EmbeddedServer, client: redis.Redis, tmp_path: Path
) -> None:
    """The session whose JSON can't be read is named, the others are back."""
    path = tmp_path / "catalogue.sqlite"
    environment = {"RTA_CATALOGUE__PATH": str(path)}
    with supervisors.running(forgetful.url, environment) as first:
        sessions = rta_writers.SessionClient(forgetful.url)
        kept = [sessions.session(name, stream="rig") for name in ("spoilt", "whole")]
        assert first.stop() == 0
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        file.execute("UPDATE sessions SET json = 'not JSON' WHERE identity = 'spoilt'")
    client.flushall()
    with supervisors.running(forgetful.url, environment) as second:
        assert [event["session"] for event in second.events("session_not_restored")] == ["spoilt"]
        assert [event["session"] for event in second.events("session_restored")] == ["whole"]
        assert kept[1].close().state == "closed"
