"""What a viewer gets of sessions whose stream was trimmed: the archive has it, message for message."""

import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import redis

import rta_writers
from rta_supervisor.archive import spark_process
from rta_wire import keys
from rta_wire.pb import stream_pb2
from tests.integration.archive.archive_runs import archive
from tests.support import archive_job_without_spark, gateways
from tests.support.archives import waiting
from tests.support.gateways import HandmadeSession, PythonViewer
from tests.support.waiting import wait_until

Messages = Counter[bytes]
EVERYTHING = {"RTA_GATEWAY__BACKFILL_S": "3e9"}
KINDS = ("timestamped_data", "periodic_data", "row_data", "event")


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_process, "run_job", archive_job_without_spark.run_job)


@pytest.fixture
def environment(catalogue_path: str) -> dict[str, str]:
    """Settings of a gateway beside the supervisor."""
    return {"RTA_CATALOGUE__PATH": catalogue_path}


def opened(sessions: rta_writers.SessionClient, client: redis.Redis) -> tuple[rta_writers.Session, HandmadeSession]:
    """An open session of a supervisor, into which bursts of any kind are written by hand."""
    session = sessions.open("run", stream="rig")
    number: Any = client.hget(keys.Keys().session("run"), "streamSessionId")
    return session, HandmadeSession(client, "run", "rig", int(number))


def write_all_kinds(session: HandmadeSession, bursts: int = 20) -> None:
    """Bursts of channels 1 and 2 timestamped, 3 periodic, 4 and 9 in rows, events, and some of these alone."""
    for number in range(bursts):
        event = stream_pb2.StreamData()
        event.event.event_definition_id, event.event.timestamp = number, session.time_ns
        event.event.status_text = f"é{number}"
        event.event.raw_data.extend([number, 0.5])
        periodic = stream_pb2.StreamData()
        data = periodic.periodic_data
        data.channel_id, data.start_timestamp, data.interval, data.samples = 3, session.time_ns, 1000, 3
        data.buffer = os.urandom(8 * 3)
        row = stream_pb2.StreamData()
        row.row_data.channel_ids.extend([9, 4])
        row.row_data.timestamp, row.row_data.buffer = session.time_ns, os.urandom(16)
        session.add(*session.messages([2, 1]), event, row, periodic)
        session.data([1])
        if number % 5 == 0:
            session.add(event)


def noise(session: HandmadeSession) -> stream_pb2.StreamData:
    """An event that does not compress."""
    session.time_ns += 1_000_000
    message = stream_pb2.StreamData()
    message.event.timestamp, message.event.status_text = session.time_ns, os.urandom(15_000).hex()
    return message


def messages_in(burst: stream_pb2.StreamDataBurst) -> Messages:
    return Counter(message.SerializeToString() for message in burst.data if message.WhichOneof("data") in KINDS)


def messages_of(session: HandmadeSession) -> Messages:
    """All messages with data that stand in the stream."""
    found: Messages = Counter()
    entries: Any = session.client.xrange(f"stream:{session.stream}")
    for _, fields in entries:
        if int(fields[b"id"]) == session.number:
            found.update(messages_in(gateways.decode(fields[b"data"])))
    return found


def seen_by(viewer: PythonViewer) -> Messages:
    found: Messages = Counter()
    for burst in viewer.bursts:
        found.update(messages_in(burst))
    return found


def about(messages: Messages, *channels: int) -> set[bytes]:
    """Those messages that are timestamped data of some channels."""
    parsed = {raw: stream_pb2.StreamData.FromString(raw).timestamped_data for raw in messages}
    return {raw for raw, data in parsed.items() if data.buffer and data.channel_id in channels}


def read_all(viewer: PythonViewer, expected: set[bytes]) -> None:
    """Read until a viewer has all of these messages."""
    missing = set(expected)
    taken = 0

    def has_all() -> bool:
        nonlocal taken
        for burst in viewer.bursts[taken:]:
            missing.difference_update(messages_in(burst))
        taken = len(viewer.bursts)
        return not missing

    viewer.read_until(has_all, 20)


def test_an_open_session_whose_beginning_was_trimmed(
    sessions: rta_writers.SessionClient,
    client: redis.Redis,
    url: str,
    tmp_path: Path,
    environment: dict[str, str],
) -> None:
    """A viewer of everything gets every message from two archived parts and from the stream, each once but the last
    values; one of some channels gets those; and what the archive has is read once for all of them."""
    session, handmade = opened(sessions, client)
    written: Messages = Counter()
    for _ in range(2):
        write_all_kinds(handmade)
        written |= messages_of(handmade)
        archive(url, tmp_path)
        client.xtrim("stream:rig", maxlen=3, approximate=False)
    write_all_kinds(handmade, 3)
    written |= messages_of(handmade)
    assert len(messages_of(handmade)) < len(written) / 2
    with gateways.running(url, environment | EVERYTHING) as gateway:
        viewers = [PythonViewer(gateway, "run") for _ in range(3)]
        viewers[0].subscribe(everything=True)
        viewers[1].subscribe(2)
        viewers[2].subscribe(everything=True)
        read_all(viewers[0], set(written))
        read_all(viewers[1], about(written, 2))
        read_all(viewers[2], set(written))
        session.close()
        for viewer in viewers:
            assert viewer.read_to_close() == 1000
        seen = seen_by(viewers[0])
        assert written <= seen
        assert set(seen) == set(written)
        assert (seen - written).total() <= 5, "only last values come again"
        assert set(seen_by(viewers[1])) == about(written, 2)
        ranges = gateway.events("gateway_archive_read")
        assert len(ranges) == len({(read["part"], read["until"]) for read in ranges}) == 2, "read once for all viewers"


def test_a_closed_session_whose_stream_is_gone(
    sessions: rta_writers.SessionClient,
    client: redis.Redis,
    url: str,
    tmp_path: Path,
    environment: dict[str, str],
) -> None:
    """While Redis knows the session, a viewer has all of it from the archive; forgotten, it is a normal close, and REST
    has it."""
    session, handmade = opened(sessions, client)
    write_all_kinds(handmade)
    written = messages_of(handmade)
    session.close()
    wait_until(lambda: waiting(client), what="the session on the list")
    archive(url, tmp_path)
    client.delete("stream:rig")
    with gateways.running(url, environment | EVERYTHING) as gateway:
        viewer = PythonViewer(gateway, "run")
        viewer.subscribe(everything=True)
        assert viewer.read_to_close() == 1000
        assert seen_by(viewer) == written
        client.delete(keys.Keys().session("run"), keys.Keys().session_state("run"))
        late = PythonViewer(gateway, "run")
        assert late.read_to_close() == 1000
        assert late.bursts == []
        assert gateway.get("/rta/v2/sessions/run/data/timestamped/-")[2]


def test_a_damaged_archive_costs_what_only_it_had(
    sessions: rta_writers.SessionClient,
    client: redis.Redis,
    url: str,
    tmp_path: Path,
    environment: dict[str, str],
) -> None:
    """The stream is served, the log names the files, and the viewer stays."""
    _, handmade = opened(sessions, client)
    write_all_kinds(handmade)
    archive(url, tmp_path)
    client.xtrim("stream:rig", maxlen=3, approximate=False)
    for path in tmp_path.rglob("*.parquet"):
        path.write_bytes(path.read_bytes()[:100])
    left = messages_of(handmade)
    with gateways.running(url, environment | EVERYTHING) as gateway:
        viewer = PythonViewer(gateway, "run")
        viewer.subscribe(everything=True)
        read_all(viewer, set(left))
        assert str(tmp_path) in gateway.events("gateway_archive_unreadable")[0]["path"]
        viewer.close()


def test_what_was_trimmed_under_a_slow_viewer_comes_from_the_archive(
    sessions: rta_writers.SessionClient,
    client: redis.Redis,
    url: str,
    tmp_path: Path,
    environment: dict[str, str],
) -> None:
    """Nothing is missing, and no gap is counted."""
    session, handmade = opened(sessions, client)
    with gateways.running(url, environment | {"RTA_GATEWAY__QUEUE_BYTES": "65536"}) as gateway:
        slow = PythonViewer(gateway, "run", max_queue=2)
        slow.subscribe(everything=True)
        slow.read()
        slow.socket.ping().wait(5)
        for _ in range(600):
            handmade.add(noise(handmade))
        wait_until(lambda: "rta_gateway_viewers_behind 1.0" in gateway.metrics(), what="a viewer that is behind")
        written = messages_of(handmade)
        archive(url, tmp_path)
        client.xtrim("stream:rig", maxlen=5, approximate=False)
        session.close()
        assert slow.read_to_close(20) == 1000
        assert set(seen_by(slow)) == set(written)
        assert gateway.events("gateway_archive_read")
        assert "rta_gateway_gap_entries_total 0.0" in gateway.metrics()


def test_what_was_trimmed_while_a_gateway_was_held_up(
    sessions: rta_writers.SessionClient,
    client: redis.Redis,
    url: str,
    tmp_path: Path,
    environment: dict[str, str],
) -> None:
    """Viewers that were up to date get it from the archive; what the archive does not have is a gap, logged once."""
    _, handmade = opened(sessions, client)
    with gateways.running(url, environment | {"RTA_REDIS__TIMEOUT_S": "1.1"}) as gateway:
        viewer = PythonViewer(gateway, "run")
        viewer.subscribe(everything=True)
        viewer.read()
        viewer.socket.ping().wait(5)
        write_all_kinds(handmade, 2)
        read_all(viewer, set(messages_of(handmade)))
        written: Messages = Counter()
        for is_archived in (True, False):
            with gateways.held_up(gateway):
                write_all_kinds(handmade, 5)
                if is_archived:
                    written |= messages_of(handmade)
                    archive(url, tmp_path)
                    client.xtrim("stream:rig", maxlen=2, approximate=False)
                else:
                    client.xtrim("stream:rig", maxlen=2, approximate=False)
                    written |= messages_of(handmade)
            read_all(viewer, set(written))
            assert len(gateway.events("gateway_gap")) == (0 if is_archived else 1)
        viewer.close()


@pytest.mark.parametrize("is_archived", [True, False])
def test_a_stream_that_was_removed_while_a_gateway_was_held_up(
    sessions: rta_writers.SessionClient,
    client: redis.Redis,
    url: str,
    tmp_path: Path,
    environment: dict[str, str],
    *,
    is_archived: bool,
) -> None:
    """As with the day of a session that has ended: viewers get what they had not seen from the archive, and the end
    from the session's record; what no archive has is a gap."""
    session, handmade = opened(sessions, client)
    with gateways.running(url, environment | {"RTA_REDIS__TIMEOUT_S": "1.1"}) as gateway:
        viewer = PythonViewer(gateway, "run")
        viewer.subscribe(everything=True)
        write_all_kinds(handmade, 2)
        read_all(viewer, set(messages_of(handmade)))
        with gateways.held_up(gateway):
            write_all_kinds(handmade, 5)
            written = messages_of(handmade)
            session.close()
            if is_archived:
                wait_until(lambda: waiting(client), what="the session on the list")
                archive(url, tmp_path)
            client.unlink("stream:rig")
        assert viewer.read_to_close(20) == 1000
        assert viewer.documents[-1]["state"] == "closed"
        assert (set(seen_by(viewer)) == set(written)) is is_archived
        assert [gap["restarted"] for gap in gateway.events("gateway_gap")] == ([] if is_archived else [True])


@pytest.mark.parametrize("is_archived", [True, False])
@pytest.mark.parametrize("is_made_again", [True, False])
def test_a_stream_that_was_removed_under_a_slow_viewer(
    sessions: rta_writers.SessionClient,
    client: redis.Redis,
    url: str,
    tmp_path: Path,
    environment: dict[str, str],
    *,
    is_archived: bool,
    is_made_again: bool,
) -> None:
    """It gets what was before from the archive, and what comes after it live; what no archive has is counted, logged
    and shown."""
    session, handmade = opened(sessions, client)
    with gateways.running(url, environment | {"RTA_GATEWAY__QUEUE_BYTES": "65536"}) as gateway:
        slow = PythonViewer(gateway, "run", max_queue=2)
        slow.subscribe(everything=True)
        slow.read()
        slow.socket.ping().wait(5)
        for _ in range(600):
            handmade.add(noise(handmade))
        wait_until(lambda: "rta_gateway_viewers_behind 1.0" in gateway.metrics(), what="a viewer that is behind")
        wait_until(lambda: "rta_gateway_entries_total 600.0" in gateway.metrics(), what="all entries to be read")
        written = messages_of(handmade)
        if not is_made_again:
            session.close()
            wait_until(lambda: waiting(client), what="the session on the list")
        if is_archived:
            archive(url, tmp_path)
        client.unlink("stream:rig")
        if is_made_again:
            handmade.add(noise(handmade))
            written |= messages_of(handmade)
            session.close()
        assert slow.read_to_close(20) == 1000
        missing = set(written) - set(seen_by(slow))
        gaps = gateway.events("gateway_gap")
        assert bool(missing) is not is_archived
        assert sum(gap["entries"] for gap in gaps) >= len(missing)
        # Nobody can say what stood between the last archived entry and the first one of a new stream.
        assert [gap["exact"] for gap in gaps] == ([False] if is_made_again or not is_archived else [])
