"""Samples and events over REST, against what was written; chunks are read by a reader that shares no code with ours."""

import contextlib
import csv
import gc
import http.client
import io
import itertools
import json
import socket
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_supervisor.archive import spark_process
from rta_supervisor.gateway.rest.data import time_index
from rta_wire import keys
from rta_wire.codec import encode, event_messages
from rta_wire.codec.scan.sample_columns import SampleColumns
from tests.integration.archive.archive_runs import archive
from tests.support import archive_job_without_spark, chunk_reader
from tests.support.archives import waiting
from tests.support.rest_gateway import RestGateway
from tests.support.waiting import wait_until

START_NS = 1_700_000_000 * 10**9
S = 10**9
Samples = list[tuple[int, int, float]]


def make_samples(count: int = 30_000, channels: int = 3) -> Samples:
    """Samples over two minutes, in disorder here and there, some at one time."""
    rng = np.random.default_rng(7)
    times = START_NS + np.sort(rng.integers(0, 120 * S, count))
    times[100:110] = times[100]
    late = rng.integers(0, count, count // 100)
    times[late] -= 20 * S
    return [
        (int(channel), int(time_ns), float(value))
        for channel, time_ns, value in zip(
            rng.integers(1, channels + 1, count), times, rng.normal(size=count).round(3), strict=True
        )
    ]


def write(session: rta_writers.Session, samples: Samples, parts: int = 10) -> None:
    with rta_writers.BurstWriter(session.options) as writer:
        for part in np.array_split(np.arange(len(samples)), parts):
            rows = [samples[index] for index in part]
            channels, times, values = zip(*rows, strict=True)
            writer.samples(pa.array(channels, pa.int64()), pa.array(times), pa.array(values))
            writer.flush()


@pytest.fixture
def samples() -> Samples:
    return make_samples()


@pytest.fixture
def written(sessions: rta_writers.SessionClient, samples: Samples) -> None:
    """A closed session `run` with the samples."""
    with sessions.session("run", stream="rig") as session:
        write(session, samples)


def chosen(samples: Samples, start_ns: int = 0, end_ns: int = 2**63, channels: tuple[int, ...] = (1, 2, 3)) -> Samples:
    return sorted(sample for sample in samples if start_ns <= sample[1] <= end_ns and sample[0] in channels)


@pytest.mark.usefixtures("written")
def test_chunks_hold_what_was_written(gateway: RestGateway, samples: Samples) -> None:
    """Every sample once, in chunks that keep every rule, for all channels, one, and a range of time."""
    answer = gateway.get("/sessions/run/data/timestamped/-")
    assert (answer.status, answer.headers["content-type"]) == (200, "application/vnd.mat.protobuf+chunked")
    assert sorted(chunk_reader.checked_samples(answer.body)) == chosen(samples)
    answer = gateway.get("/sessions/run/data/timestamped/2")
    assert sorted(chunk_reader.checked_samples(answer.body)) == chosen(samples, channels=(2,))
    start, end = START_NS + 31 * S, START_NS + 44 * S
    answer = gateway.get(f"/sessions/run/data/timestamped/2-?start={start}&end={end}")
    found = sorted(chunk_reader.checked_samples(answer.body))
    # More may come, up to whole windows of ten seconds.
    assert found == chosen(samples, START_NS + 30 * S, START_NS + 50 * S - 1, (2, 3))
    for kind in ("periodic", "row"):
        assert gateway.get(f"/sessions/run/data/{kind}/-").body == b""


@pytest.mark.usefixtures("written")
def test_boundaries_do_not_depend_on_the_range(gateway: RestGateway) -> None:
    """The chunks of a part are among the chunks of the whole."""

    def bounds(path: str) -> set[tuple[tuple[int, ...], int, int]]:
        body = gateway.get(f"/sessions/run/data/timestamped/{path}").body
        return {(chunk.channels, chunk.start_ns, chunk.duration_ns) for chunk in chunk_reader.chunks(body)}

    whole = bounds("-")
    for start, end in ((0, 5), (33, 34), (59, 80), (110, 300)):
        part = bounds(f"1,3?start={START_NS + start * S}&end={START_NS + end * S}")
        assert part
        assert part <= whole


@pytest.mark.usefixtures("written")
def test_rows_are_the_same_samples(gateway: RestGateway, samples: Samples) -> None:
    """Arrow, JSON lines and CSV hold the samples of the range and no others."""
    start, end = START_NS + 31 * S + 5, START_NS + 44 * S
    expected = chosen(samples, start, end, (1, 3))
    path = f"/sessions/run/data?channels=1,3&start={start}&end={end}"
    arrow = gateway.get(path, Accept="application/vnd.apache.arrow.stream")
    table = pa.ipc.open_stream(arrow.body).read_all()
    times = table["time"].cast(pa.int64()).to_pylist()
    assert sorted(zip(table["channel"].to_pylist(), times, table["value"].to_pylist(), strict=True)) == expected
    lines = [json.loads(line) for line in gateway.get(path).body.splitlines()]
    assert sorted((line["channel"], line["time"], line["value"]) for line in lines) == expected
    answer = gateway.get(f"{path}&format=csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.body.decode())))
    assert sorted((int(row["channel"]), int(row["time"]), float(row["value"])) for row in rows) == expected


@pytest.mark.usefixtures("written")
def test_an_envelope_has_the_extremes_of_each_step(gateway: RestGateway, samples: Samples) -> None:
    """Lowest, highest and mean value and the number of samples, against the samples themselves."""
    lines = [json.loads(line) for line in gateway.get("/sessions/run/data?channels=2&resolution=50").body.splitlines()]
    assert 40 <= len(lines) <= 51
    starts = [line["time"] for line in lines]
    steps = {second - first for first, second in itertools.pairwise(starts)}
    step_ns = min(steps)
    assert all(step % step_ns == 0 for step in steps)
    for line in lines:
        values = [value for _, _, value in chosen(samples, line["time"], line["time"] + step_ns - 1, (2,))]
        assert (line["min"], line["max"], line["samples"]) == (min(values), max(values), len(values))
        assert line["mean"] == pytest.approx(sum(values) / len(values))
    assert sum(line["samples"] for line in lines) == len(chosen(samples, channels=(2,)))


def test_an_open_session_is_served_as_it_grows(
    gateway: RestGateway, sessions: rta_writers.SessionClient, samples: Samples
) -> None:
    """Each request has everything that was written before it."""
    with sessions.session("run", stream="rig") as session:
        for part in (samples[:10_000], samples[10_000:20_000], samples[20_000:]):
            write(session, part, 3)
            done = samples[: samples.index(part[-1]) + 1]
            answer = gateway.get("/sessions/run/data/timestamped/-")
            assert answer.headers["cache-control"] == "no-store"
            found = [
                sample
                for chunk in chunk_reader.chunks(answer.body)
                for item in chunk.items
                for sample in chunk_reader.item_samples("timestamped", item, {})
            ]
            assert sorted(found) == sorted(done)


def test_events_are_chunks_and_rows(
    gateway: RestGateway, sessions: rta_writers.SessionClient, client: redis.Redis
) -> None:
    """Every event with its text and data, sorted by time."""
    with sessions.session("run", stream="rig") as session:
        number = int(client.hget(keys.Keys().session("run"), "streamSessionId") or 0)
        events = [
            event_messages.event(n, START_NS + (50 - n) * S, status_text=f"é{n}", raw_data=[n, 0.5]) for n in range(50)
        ]
        for burst in encode.Encoder().events(events):
            client.xadd(keys.stream("rig"), {"id": number, "data": burst.data})
        assert session.identity == "run"
    body = gateway.get("/sessions/run/data/events").body
    found = [item for chunk in chunk_reader.chunks(body) for item in chunk.items]
    assert [item[3][0] for item in found] == [START_NS + n * S for n in range(1, 51)]
    assert [item[4][0] for item in found] == [f"é{n}".encode() for n in reversed(range(50))]
    lines = gateway.get(f"/sessions/run/data/events?format=jsonl&start={START_NS + 49 * S}").body.splitlines()
    assert json.loads(lines[0]) == {
        "time": START_NS + 49 * S,
        "event": 1,
        "application": "",
        "text": "é1",
        "data": [1.0, 0.5],
    }
    assert len(lines) == 2


def test_a_stream_that_can_t_be_read(
    gateway: RestGateway,
    sessions: rta_writers.SessionClient,
    client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An answer that has begun is cut off, so that nobody takes it for whole; later ones say that it can't be read."""
    monkeypatch.setattr(time_index, "STEP_SAMPLES", 10_000)
    with sessions.session("run", stream="rig") as session:
        write(session, make_samples(count=300_000))
    port = urlsplit(gateway.address).port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/rta/v2/sessions/run/data")
    with contextlib.closing(connection.getresponse()) as answer:
        assert answer.status == 200
        client.delete(keys.stream("rig"))
        client.set(keys.stream("rig"), "no stream", ex=600)
        with pytest.raises(http.client.IncompleteRead):
            answer.read()
    connection.close()
    later = gateway.get("/sessions/run/data")
    assert (later.status, later.headers["content-type"]) == (500, "application/problem+json")


def test_clients_that_do_not_read_leave_nothing_behind(
    gateway: RestGateway, sessions: rta_writers.SessionClient
) -> None:
    """What was read for them is free when they are gone, without the collector of cycles, which hardly ever runs."""

    def is_held() -> bool:
        return any(isinstance(held, SampleColumns) for held in gc.get_objects())

    with sessions.session("run", stream="rig") as session:
        write(session, make_samples(count=300_000))
    gc.collect()
    gc.disable()
    try:
        with contextlib.ExitStack() as stack:
            for accept in ("text/csv", "text/csv\r\nAccept-Encoding: gzip", "application/x-ndjson"):
                address = ("127.0.0.1", urlsplit(gateway.address).port or 0)
                client = stack.enter_context(socket.create_connection(address))
                head = f"GET /rta/v2/sessions/run/data HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\n\r\n"
                client.sendall(head.encode())
                assert client.recv(16) == b"HTTP/1.1 200 OK\r"
            wait_until(is_held, what="samples that were read")
        wait_until(lambda: not is_held(), what="them to be free")
    finally:
        gc.enable()


@pytest.mark.usefixtures("written")
def test_data_of_a_closed_session_is_conditional(gateway: RestGateway) -> None:
    """Its ETag stays; HEAD makes no body; gzip comes where it is asked for, but not around chunks."""
    answer = gateway.get("/sessions/run/data/timestamped/1")
    assert gateway.get("/sessions/run/data/timestamped/1", If_None_Match=answer.headers["etag"]).status == 304
    assert gateway.get("/sessions/run/data/timestamped/2", If_None_Match=answer.headers["etag"]).status == 200
    head = gateway.ask("/rta/v2/sessions/run/data/timestamped/1", "HEAD")
    assert (head.status, head.body, head.headers["etag"]) == (200, b"", answer.headers["etag"])
    assert "content-encoding" not in gateway.get("/sessions/run/data/timestamped/1", Accept_Encoding="gzip").headers
    packed = gateway.get("/sessions/run/data?format=csv", Accept_Encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert gateway.get("/sessions/run/data", Accept="image/png").status == 406
    for path in ("data/timestamped/xyz", "data/timestamped/5-3", "data?start=b", "data?resolution=0", "data?names=a"):
        assert gateway.get(f"/sessions/run/{path}").status == 400, path
    assert gateway.get("/sessions/nobody/data").status == 404


def test_the_archive_has_the_same_chunks(
    gateway: RestGateway,
    sessions: rta_writers.SessionClient,
    client: redis.Redis,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    samples: Samples,
) -> None:
    """Every sample once while a part is archived and the rest is live, and the same bytes when Redis has none of it."""
    monkeypatch.setattr(spark_process, "run_job", archive_job_without_spark.run_job)
    session = sessions.open("run", stream="rig")
    write(session, samples[:15_000])
    archive(url, tmp_path)
    client.xtrim(keys.stream("rig"), maxlen=2, approximate=False)
    write(session, samples[15_000:])
    session.close()
    mixed = gateway.get("/sessions/run/data/timestamped/-").body
    assert sorted(chunk_reader.checked_samples(mixed)) == chosen(samples)
    wait_until(lambda: waiting(client), what="the session on the list")
    archive(url, tmp_path)
    client.delete(keys.stream("rig"), keys.Keys().session("run"), keys.Keys().session_state("run"))
    assert gateway.get("/sessions/run/data/timestamped/-").body == mixed
    start, end = START_NS + 31 * S, START_NS + 32 * S
    lines = gateway.get(f"/sessions/run/data?channels=2&start={start}&end={end}").body.splitlines()
    found = [json.loads(line) for line in lines]
    assert [(2, line["time"], line["value"]) for line in found] == chosen(samples, start, end, (2,))
    for _ in range(2):
        lines = gateway.get("/sessions/run/data?channels=2&resolution=7").body.splitlines()
        steps = [json.loads(line) for line in lines]
        values = [value for _, _, value in chosen(samples, channels=(2,))]
        assert sum(step["samples"] for step in steps) == len(values)
        assert (min(step["min"] for step in steps), max(step["max"] for step in steps)) == (min(values), max(values))
