"""REST of the gateway: pages of sessions out of a large catalogue, and one channel of a long session."""

import atexit
import contextlib
import functools
import http.client
import itertools
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import lz4.block
import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import catalogue, parts
from bench.measure import Case, constant
from rta_supervisor.settings import settings
from rta_wire import keys
from rta_wire.codec import encode
from rta_wire.pb import chunks_pb2, data_pb2
from rta_writers.connection import redis_client
from tests.support import rest_gateway
from tests.support.rest_gateway import RestGateway

QUICK_MS, OTHER_MS = 100.0, 600.0
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
IDENTITY = "bench-run"
START_NS = 1_700_000_000 * 10**9
INTERVAL_NS = 10**6
SAMPLES, FEW_SAMPLES = 10_000_000, 200_000
ITEM, CHUNK = 128, 4096

QUICK_QUERIES = {
    "the newest": {},
    "an identity": {"query": '{"identity": "run-000007919"}'},
    "identifiers": {"query": '{"identifier": {"$contains": "warm-up 99"}}'},
    "a state": {"query": '{"state": {"$in": ["failed", "open"]}}'},
    "times": {"query": '{"timeRange.startTime": {"$lt": 1700000600000000000}}'},
}
OTHER_QUERIES = {
    "a detail": {"query": '{"details.Lap": {"$gte": 41, "$lt": 43}, "details.Rig": 4}'},
    "several details, one part of another": {
        "query": '{"$or": [{"details.Driver": "Novak"}, {"$nor": [{"details.Circuit": {"$startsWith": "s"}}]}]}'
    },
    "sorted by a detail": {"sort": "details.Event:desc"},
}


@functools.cache
def _gateway(kind: str, count: int) -> RestGateway:
    config = catalogue.filled(kind, count)
    stack = contextlib.ExitStack()
    atexit.register(stack.close)
    own = settings.Settings(redis=settings.RedisSettings(url=parts.redis_url()), catalogue=config.catalogue)
    running = stack.enter_context(rest_gateway.running(own))
    running.search("")
    return running


def page_ms(count: int, form: dict[str, str]) -> float:
    """From a request to its last byte, after the same request was made before."""
    _gateway("SQLite", count).search(urlencode(form))
    return _timed_page(count, form)


_numbers = itertools.count()


def first_page_ms(count: int) -> float:
    """The same for properties that no request asked for before."""
    number = next(_numbers)
    return _timed_page(count, {"query": f'{{"details.Lap{number}": null, "group{number}": null}}'})


def _timed_page(count: int, form: dict[str, str]) -> float:
    gateway = _gateway("SQLite", count)
    began_s = time.perf_counter()
    found = gateway.search(urlencode(form))
    took_ms = (time.perf_counter() - began_s) * 1000
    assert found, form
    return took_ms


def bench_pages(quick: bool) -> Iterator[Case]:
    """A page of 100 sessions."""
    count = catalogue.QUICK_SESSIONS if quick else catalogue.SESSIONS
    rows = [(name, QUICK_MS, functools.partial(page_ms, count, form)) for name, form in QUICK_QUERIES.items()]
    rows += [(name, OTHER_MS, functools.partial(page_ms, count, form)) for name, form in OTHER_QUERIES.items()]
    rows.append(("properties that nobody asked for before", OTHER_MS, functools.partial(first_page_ms, count)))
    for name, limit_ms, work in rows:
        yield Case(
            f"REST, a page out of {catalogue.SESSIONS:,} sessions: {name}; reference: {limit_ms:g} ms",
            "ms",
            work,
            constant(limit_ms),
            bar=1,
            at_most=True,
        )


class LongSession:
    """A closed session of one channel in a stream and as a Parquet file, and a gateway that serves it."""

    def __init__(self, samples: int) -> None:
        self.samples = samples
        stack = contextlib.ExitStack()
        atexit.register(stack.close)
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rtas-bench-")))
        times = START_NS + np.arange(samples) * INTERVAL_NS
        values = np.random.default_rng(1).normal(size=samples).cumsum().round(2)
        self.parquet = directory / "samples.parquet"
        pq.write_table(pa.table({"time": times, "value": values}), self.parquet)
        self._fill(times, values)
        self._directory = directory
        self.gateway = stack.enter_context(rest_gateway.running(self.config()))
        self.download()  # makes the time index

    def config(self, cache: str = "") -> settings.Settings:
        """Settings of a gateway, with or without a folder for time indexes."""
        return settings.Settings(
            redis=settings.RedisSettings(url=parts.redis_url()),
            catalogue=settings.CatalogueSettings(path=str(self._directory / "none.sqlite")),
            gateway=msgspec.structs.replace(settings.GatewaySettings(), cache_path=cache),
        )

    def _fill(self, times: Any, values: Any) -> None:
        document = f'{{"identity":"{IDENTITY}","state":"closed","timestamp":"2026-01-01T00:00:00Z","identifier":"x"}}'
        with redis_client.connect(parts.redis_url()) as client:
            client.delete(keys.stream(parts.STREAM))
            fields = {"json": document, "streamName": parts.STREAM, "streamSessionId": 1, "streamPosition": "0-0"}
            client.hset(keys.Keys().session(IDENTITY), mapping=fields)
            for burst in encode.encode_doubles(np.ones(self.samples, np.uint32), times, values):
                client.xadd(keys.stream(parts.STREAM), {"id": 1, "data": burst.data})
            client.xadd(keys.stream(parts.STREAM), {"id": 1, "data": encode.session_json(document.encode())})

    def download(self, query: str = "", gateway: RestGateway | None = None) -> int:
        """The bytes of all samples over HTTP."""
        address = urlsplit((gateway or self.gateway).address)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=120)
        connection.request("GET", f"/rta/v2/sessions/{IDENTITY}/data/timestamped/1{query}")
        answer = connection.getresponse()
        size = 0
        while piece := answer.read(1 << 20):
            size += len(piece)
        connection.close()
        assert answer.status == 200
        return size

    def convert(self) -> int:
        """The same chunks from the Parquet file in the obvious way, with pyarrow and protobuf."""
        table = pq.read_table(self.parquet)
        times, values = table["time"].to_numpy(), table["value"].to_numpy()
        size = before = 0
        for first in range(0, len(times), CHUNK):
            items = data_pb2.TimestampedDataList()
            for start in range(first, min(first + CHUNK, len(times)), ITEM):
                part = times[start : start + ITEM]
                items.timestamped_data.add(
                    channel_id=1,
                    start_timestamp=int(part[0]),
                    timestamp_deltas_scale=INTERVAL_NS,
                    timestamp_deltas=(np.diff(part, prepend=part[0]) // INTERVAL_NS).tolist(),
                    buffer=values[start : start + ITEM].tobytes(),
                )
            raw = items.SerializeToString()
            packed = lz4.block.compress(raw, store_size=False)
            header = chunks_pb2.ChunkTransferHeader(
                chunk_start_time_delta=int(times[first]) - before,
                channel_ids=[1],
                compression_delta=int(first == 0),
                unpacked_length=len(raw),
                packed_length=len(packed),
            ).SerializeToString()
            before = int(times[first])
            size += len(struct.pack("<i", len(header)) + header + packed)
        return size


@functools.cache
def _long_session(samples: int) -> LongSession:
    return LongSession(samples)


def _rate(samples: int, work: str) -> float:
    session = _long_session(samples)
    began_s = time.perf_counter()
    getattr(session, work)()
    return samples / (time.perf_counter() - began_s)


def minute_ms(samples: int) -> float:
    """One minute out of the middle."""
    session = _long_session(samples)
    start_ns = START_NS + samples // 2 * INTERVAL_NS
    began_s = time.perf_counter()
    session.download(f"?start={start_ns}&end={start_ns + 60 * 10**9}")
    return (time.perf_counter() - began_s) * 1000


def envelope_ms(samples: int) -> float:
    """All of it as a thousand steps."""
    return _timed_ms(samples, "?resolution=1000&format=csv")


def whole_ms(samples: int) -> float:
    """Every sample, as Arrow."""
    return _timed_ms(samples, "?format=arrow")


def _timed_ms(samples: int, query: str) -> float:
    session = _long_session(samples)
    began_s = time.perf_counter()
    session.download(query)
    return (time.perf_counter() - began_s) * 1000


def first_minute_ms(samples: int) -> float:
    """One minute, of a gateway that has just been started and knows nothing."""
    return _first_ms(samples, None)


def restarted_minute_ms(samples: int) -> float:
    """One minute, of a gateway that has just been started again."""
    with tempfile.TemporaryDirectory(prefix="rtas-bench-") as cache:
        _first_ms(samples, cache)
        return _first_ms(samples, cache)


def _first_ms(samples: int, cache: str | None) -> float:
    session = _long_session(samples)
    start_ns = START_NS + samples // 2 * INTERVAL_NS
    with rest_gateway.running(session.config(cache or "")) as gateway:
        began_s = time.perf_counter()
        session.download(f"?start={start_ns}&end={start_ns + 60 * 10**9}", gateway)
        return (time.perf_counter() - began_s) * 1000


def bench_long_session(quick: bool) -> Iterator[Case]:
    """One channel over REST."""
    samples = FEW_SAMPLES if quick else SAMPLES
    yield Case(
        f"REST, one channel of {SAMPLES:,} samples; reference: pyarrow reads it and protobuf writes the same chunks",
        "samples/s",
        functools.partial(_rate, samples, "download"),
        functools.partial(_rate, samples, "convert"),
        bar=1,
    )
    yield Case(
        f"REST, one minute out of {SAMPLES:,} samples; reference: 150 ms",
        "ms",
        functools.partial(minute_ms, samples),
        constant(150.0),
        bar=1,
        at_most=True,
    )
    yield Case(
        f"REST, an envelope of {SAMPLES:,} samples; reference: every sample as Arrow",
        "ms",
        functools.partial(envelope_ms, samples),
        functools.partial(whole_ms, samples),
        bar=0.2,
        at_most=True,
    )
    yield Case(
        f"REST, one minute out of {SAMPLES:,} samples after a restart; reference: without a cache",
        "ms",
        functools.partial(restarted_minute_ms, samples),
        functools.partial(first_minute_ms, samples),
        bar=0.5,
        at_most=True,
    )
