"""Channels with a configuration: kinds, types, intervals and names over REST; the same data live and cold."""

import json

import anyio
import numpy as np
import pyarrow as pa
import pytest
import redis

import rta_writers
from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.gateway.rest.data import time_index
from rta_supervisor.transport.link import Link
from rta_wire import keys
from rta_wire.channels import config_json, model
from rta_wire.channels.model import Channel
from rta_wire.codec import encode
from rta_wire.codec.layout import Kind, SampleType
from tests.support import chunk_reader, cold_streams
from tests.support.rest_gateway import RestGateway

NAMES = keys.Keys()
START_NS = 1_700_000_000 * 10**9
MS = 10**6
ENGINE = model.build(
    [
        Channel(id=1, name="rpm", type=SampleType.FLOAT),
        Channel(id=2, name="gear", type=SampleType.INT8, kind=Kind.PERIODIC, interval_ns=10 * MS),
        Channel(id=3, name="count", type=SampleType.INT64, kind=Kind.PERIODIC),
        Channel(id=4, name="lap", type=SampleType.UINT16, kind=Kind.ROW),
        Channel(id=5, name="fuel", kind=Kind.ROW),
    ]
)
CODES = {1: "f", 2: "b", 3: "q", 4: "H"}
COUNT = 3000


def samples() -> list[tuple[int, int, float]]:
    """Three thousand samples of each channel at 100 Hz, with a pause, and rows that not all channels are in."""
    times = START_NS + np.arange(COUNT) * 10 * MS
    times[2000:] += 3 * MS
    rows = [(channel, int(time_ns), n % 100 - 20.0) for channel in (1, 2, 3) for n, time_ns in enumerate(times)]
    rows += [(4, int(time_ns), float(n)) for n, time_ns in enumerate(times)]
    return rows + [(5, int(time_ns), n / 4) for n, time_ns in enumerate(times) if n % 3]


@pytest.fixture
def written(sessions: rta_writers.SessionClient, client: redis.Redis) -> None:
    """A closed session `run` of the engine, which two jobs wrote, the second one late."""
    document = config_json.encode(ENGINE)
    identifier = config_json.identifier(document)
    client.set(NAMES.config(identifier), document, ex=600)
    binding = {"identifier": identifier, "channelOffset": 0}
    with sessions.session("run", stream="rig", configBindings=[binding]):
        number = int(client.hget(NAMES.session("run"), "streamSessionId") or 0)
        encoder = encode.Encoder(ENGINE.layouts())
        rows = samples()
        for part in (rows[::2], rows[1::2]):
            for burst in encoder.rows(*(np.array(column) for column in zip(*part, strict=True))):
                client.xadd(keys.stream("rig"), {"id": number, "data": burst.data})


def expected(*channels: int) -> list[tuple[int, int, float]]:
    return sorted(sample for sample in samples() if sample[0] in channels)


def bodies(gateway: RestGateway) -> dict[str, bytes]:
    return {kind: gateway.get(f"/sessions/run/data/{kind}/-").body for kind in ("timestamped", "periodic", "row")}


@pytest.mark.usefixtures("written")
def test_each_kind_has_its_channels_in_their_types(gateway: RestGateway) -> None:
    """Every sample is found under the kind that the configuration gives its channel, as wide as its type."""
    found = {kind: sorted(chunk_reader.checked_samples(body, kind, CODES)) for kind, body in bodies(gateway).items()}
    assert found == {"timestamped": expected(1), "periodic": expected(2, 3), "row": expected(4, 5)}
    items = [item for chunk in chunk_reader.chunks(bodies(gateway)["periodic"]) for item in chunk.items]
    assert {item[3][0] for item in items} == {10 * MS}
    assert len(items) < 2 * COUNT / 100


@pytest.mark.usefixtures("written")
def test_rows_are_whole_however_much_is_read_at_once(gateway: RestGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a window has more samples than a step reads, its channels are read in parts, but those of rows are not."""

    def rows() -> list[chunk_reader.ReadChunk]:
        return sorted(chunk_reader.chunks(bodies(gateway)["row"]), key=lambda chunk: (chunk.start_ns, chunk.channels))

    whole = rows()
    monkeypatch.setattr(time_index, "STEP_SAMPLES", COUNT // 10)
    assert rows() == whole


@pytest.mark.usefixtures("written")
def test_channels_are_asked_for_by_name(gateway: RestGateway) -> None:
    """Names and ids add up, rows have the names, and a name that is not there is named."""
    table = pa.ipc.open_stream(gateway.get("/sessions/run/data?names=rpm,fuel&format=arrow").body).read_all()
    assert set(zip(table["channel"].to_pylist(), table["name"].to_pylist(), strict=True)) == {(1, "rpm"), (5, "fuel")}
    assert table.num_rows == len(expected(1, 5))
    one = pa.ipc.open_stream(gateway.get("/sessions/run/data?names=count&format=arrow").body).read_all()
    assert one.schema.field("value").type == pa.int64()
    lines = gateway.get("/sessions/run/data?names=gear&channels=1&resolution=10").body.splitlines()
    assert {json.loads(line)["name"] for line in lines} == {"rpm", "gear"}
    answer = gateway.get("/sessions/run/data?names=speed")
    assert (answer.status, "speed" in answer.json()["detail"]) == (400, True)


@pytest.mark.usefixtures("written")
def test_a_configuration_is_kept_for_ever(gateway: RestGateway) -> None:
    """GET and HEAD by its identifier, with the JSON that was published."""
    [binding] = gateway.get("/sessions/run").json()["configBindings"]
    answer = gateway.get(f"/configs/{binding['identifier']}")
    assert (answer.status, answer.body) == (200, config_json.encode(ENGINE))
    assert answer.headers["content-type"] == "application/vnd.mat.config+json"
    assert "immutable" in answer.headers["cache-control"]
    head = gateway.ask(f"/rta/v2/configs/{binding['identifier']}", "HEAD")
    assert (head.status, head.body, head.headers["etag"]) == (200, b"", answer.headers["etag"])
    assert gateway.get("/configs/nothing").status == 404


@pytest.mark.usefixtures("written")
async def test_chunks_of_a_cold_stream_are_those_of_the_live_one(
    gateway: RestGateway, link: Link, catalogue: SqliteCatalogue, client: redis.Redis
) -> None:
    """Byte for byte: where an entry is makes no difference."""
    live = bodies(gateway)
    length = cold_streams.stream_length(client, keys.stream("rig"))
    compactor = cold_streams.compactor(link, catalogue, cold_streams.config(after_s=1))
    with anyio.fail_after(20):
        while not await compactor.sweep():  # noqa: ASYNC110 - the stream has to be idle for a second
            await anyio.sleep(0.1)
    assert cold_streams.stream_length(client, keys.stream("rig")) < length
    assert bodies(gateway) == live
    start = START_NS + 5000 * MS
    part = gateway.get(f"/sessions/run/data?channels=2&start={start}&end={start + 1000 * MS}&format=jsonl")
    assert len(part.body.splitlines()) == 101
