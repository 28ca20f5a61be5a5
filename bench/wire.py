"""The codec: what it costs to make and read bursts, against the least that anybody would have to do."""

import struct
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import lz4.block
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.measure import Case, constant, per_cpu_second
from rta_wire import limits
from rta_wire.codec import burst as codec_burst
from rta_wire.codec import decode, encode
from rta_wire.pb import stream_pb2

CHANNELS = 100
GROUPS = 4
INTERVAL_NS = 10_000_000
TICK_NS = 100_000
JITTER_TICKS = 2
START_NS = 1_700_000_000_000_000_000
SAMPLES_PER_BURST = 7_000
BURSTS_PER_READ = 8
TICKS = 2048
TICKS_PER_READ = 256

Rows = tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.float64]]


def rows_for(*, quick: bool) -> int:
    """How many samples to work on."""
    return 2_000 if quick else GROUPS * limits.ENCODE_GROUP_ROWS


def long_rows(count: int, *, jittered: int) -> Rows:
    """100 channels at 100 Hz in the order of their times, every `jittered`th off by whole ticks of 100 us.

    Values are what a 12-bit converter gives: a wave with noise, in whole steps.
    """
    rng = np.random.default_rng(1)
    steps = count // CHANNELS
    times = np.repeat(START_NS + np.arange(steps)[:, None] * INTERVAL_NS, CHANNELS, axis=1)
    if jittered:
        late = times[:, ::jittered]
        late += rng.integers(-JITTER_TICKS, JITTER_TICKS + 1, late.shape) * TICK_NS
    channels = np.broadcast_to(np.arange(CHANNELS, dtype=np.uint32), times.shape).ravel()
    waves = 2000 * np.sin(np.arange(steps)[:, None] / (20 + np.arange(CHANNELS)))
    values = np.round(waves + rng.normal(0, 3, times.shape)).ravel()
    order = np.argsort(times.ravel(), kind="stable")
    return channels[order], times.ravel()[order], values[order]


def run(bursts: Iterator[encode.Burst]) -> None:
    """Takes bursts and lets go of them."""
    for _ in bursts:
        pass


def each(read: Callable[[list[bytes]], object], parts: list[list[bytes]]) -> None:
    """Reads part by part, as a reader of a stream does."""
    for part in parts:
        read(part)


def copied_and_compressed(raws: list[bytes]) -> None:
    """The least that a writer of these bytes has to do."""
    scratch = bytearray(limits.BURST_MAX_BYTES)
    view = memoryview(scratch)
    for raw in raws:
        view[: len(raw)] = raw
        lz4.block.compress(view[: len(raw)], store_size=False)


def sample_by_sample(rows: Rows) -> None:
    """The obvious way to write it: a loop that adds each sample to the protobuf object of its channel."""
    pack = struct.Struct("<d").pack
    channels, times, values = (column.tolist() for column in rows)
    for first in range(0, len(channels), SAMPLES_PER_BURST):
        burst = stream_pb2.StreamDataBurst()
        messages: dict[int, Any] = {}
        last: dict[int, int] = {}
        part = slice(first, first + SAMPLES_PER_BURST)
        for channel, time, value in zip(channels[part], times[part], values[part], strict=True):
            message = messages.get(channel)
            if message is None:
                message = messages[channel] = burst.data.add().timestamped_data
                message.channel_id, message.start_timestamp, message.timestamp_deltas_scale = channel, time, 1
                last[channel] = time
            message.timestamp_deltas.append(time - last[channel])
            message.buffer += pack(value)
            last[channel] = time
        lz4.block.compress(burst.SerializeToString(), store_size=False)


def parsed(datas: list[bytes]) -> list[tuple[int, npt.NDArray[np.int64], npt.NDArray[np.float64]]]:
    """The obvious way to read it: protobuf's classes, then an array of each repeated field."""
    found = []
    for data in datas:
        raw = lz4.block.decompress(data, uncompressed_size=limits.BURST_MAX_BYTES)
        for item in stream_pb2.StreamDataBurst.FromString(raw).data:
            one = item.timestamped_data
            times = one.start_timestamp + one.timestamp_deltas_scale * np.cumsum(np.array(one.timestamp_deltas))
            found.append((one.channel_id, times, np.frombuffer(one.buffer)))
    return found


def bench_long_rows(quick: bool) -> Iterator[Case]:
    """Long form to bursts, and back."""
    rows = long_rows(rows_for(quick=quick), jittered=2)
    count = len(rows[0])
    encoder = encode.Encoder()
    datas = [burst.data for burst in encoder.rows(*rows)]
    raws = [codec_burst.decompress(data) for data in datas]
    ours = per_cpu_second(count, lambda: run(encoder.rows(*rows)))
    yield Case(
        "long rows to bursts, 100 channels, half jittered; reference: memcpy and LZ4 of the same bytes",
        "samples/s",
        ours,
        per_cpu_second(count, lambda: copied_and_compressed(raws)),
        bar=0.35,
    )
    few = (rows[0][: count // GROUPS], rows[1][: count // GROUPS], rows[2][: count // GROUPS])
    yield Case(
        "the same; reference: a loop over samples and protobuf objects",
        "samples/s",
        ours,
        per_cpu_second(len(few[0]), lambda: sample_by_sample(few)),
        bar=18,
    )
    reads = [datas[first : first + BURSTS_PER_READ] for first in range(0, len(datas), BURSTS_PER_READ)]
    yield Case(
        "bursts to columns, 8 at a time; reference: protobuf parsing and np.array",
        "samples/s",
        per_cpu_second(count, lambda: each(decode.columns, reads)),
        per_cpu_second(count, lambda: each(parsed, reads)),
        bar=1.2,
    )


def bench_ticks(quick: bool) -> Iterator[Case]:
    """Bursts of a recorder, which sends all channels at each tick."""
    ticks = 20 if quick else TICKS
    channels, times, values = long_rows(ticks * CHANNELS, jittered=0)
    rounds = [slice(first, first + CHANNELS) for first in range(0, len(times), CHANNELS)]
    datas = [
        burst.data for part in rounds for burst in encode.encode_doubles(channels[part], times[part], values[part])
    ]
    reads = [datas[first : first + TICKS_PER_READ] for first in range(0, len(datas), TICKS_PER_READ)]
    yield Case(
        f"bursts of one tick to columns, {TICKS_PER_READ} at a time; reference: protobuf parsing and np.array",
        "samples/s",
        per_cpu_second(len(times), lambda: each(decode.columns, reads)),
        per_cpu_second(len(times), lambda: each(parsed, reads)),
        bar=8,
    )


def bench_wide_rows(quick: bool) -> Iterator[Case]:
    """A column per channel, from Arrow."""
    _, times, values = long_rows(rows_for(quick=quick), jittered=0)
    table = values.reshape(-1, CHANNELS)
    wide = pa.record_batch(
        {"time": times[::CHANNELS].copy()} | {str(k): np.ascontiguousarray(table[:, k]) for k in range(CHANNELS)}
    )
    ids = {str(k): k for k in range(CHANNELS)}
    encoder = encode.Encoder()
    raws = [codec_burst.decompress(burst.data) for burst in encoder.wide([wide], ids)]
    yield Case(
        "wide rows to bursts, 100 channels; reference: memcpy and LZ4 of the same bytes",
        "samples/s",
        per_cpu_second(len(values), lambda: run(encoder.wide([wide], ids))),
        per_cpu_second(len(values), lambda: copied_and_compressed(raws)),
        bar=0.55,
    )


def bench_size(quick: bool) -> Iterator[Case]:
    """How much the wire adds to eight bytes of value, and how much memory that takes."""
    rows = long_rows(rows_for(quick=quick), jittered=1)
    encoder = encode.Encoder()
    size = sum(burst.raw_bytes for burst in encoder.rows(*rows)) / len(rows[0])
    yield Case(
        "size before compression, 100 Hz, all channels jittered",
        "bytes/sample",
        constant(size),
        constant(1),
        bar=9.1,
        at_most=True,
    )
    batch = [column[: limits.ENCODE_GROUP_ROWS].copy() for column in rows]

    def peak_bytes() -> float:
        tracemalloc.start()
        run(encoder.rows(*batch))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    yield Case(
        "memory to encode a batch of 64k rows; reference: the batch",
        "bytes",
        peak_bytes,
        constant(sum(column.nbytes for column in batch)),
        bar=3,
        at_most=True,
    )
