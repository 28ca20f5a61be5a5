"""Compaction: how much less memory a stream takes in Redis afterwards, and how fast one core packs it."""

import functools
import itertools
import logging
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import anyio
import numpy as np
import pyarrow as pa
import structlog

from bench import parts
from bench.measure import Case, constant, per_cpu_second
from bench.wire import CHANNELS, Rows, long_rows
from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.compaction.compactor import Compactor
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections.compact import CompactSettings
from rta_supervisor.transport import function_loader
from rta_supervisor.transport.link import Link
from rta_wire import keys, limits
from rta_wire.codec import burst as wire_burst
from rta_wire.codec import encode
from rta_wire.cold import batch as cold_batch
from rta_wire.cold import byte_split, lz4_roundtrip
from rta_writers.connection import redis_client

STREAM = "bench"
SAMPLES = 32 * limits.ENCODE_GROUP_ROWS
QUICK_SAMPLES = 20_000
SMALLER_BAR = 1.3
SPEED_BAR = 0.7
SEED = 3


def shape(kind: str, count: int) -> Rows:
    """100 channels at 100 Hz. `mixed`: a quarter each of converter steps, calibrated ones, ones rounded to two
    decimals, and steps with noise in every bit; half of the channels jittered."""
    rng = np.random.default_rng(SEED)
    channels, times, steps = long_rows(count, jittered=0 if kind == "constant interval" else 2)
    calibrated = steps * (0.1 + (channels % 17) * 0.013) + channels * 1.7
    noisy = steps + rng.normal(0, 1, len(steps))
    quarters = [steps, calibrated, np.round(calibrated, 2), noisy]
    values = {
        "constant interval": steps,
        "jittered": steps,
        "calibrated": calibrated,
        "noisy": noisy,
        "random bits": rng.integers(0, 2**63, len(steps)).view(np.float64),
        "mixed": np.choose(channels % len(quarters), quarters),
    }[kind]
    return channels, times, values


@functools.cache
def bursts(kind: str, count: int, samples_per_burst: int | None = None) -> tuple[bytes, ...]:
    """Bursts as writers make them: full ones, or one for each so many samples of every channel."""
    rows = shape(kind, count)
    step = CHANNELS * samples_per_burst if samples_per_burst else count
    encoded = (
        encode.Encoder().rows(*(column[at : at + step] for column in rows)) for at in range(0, len(rows[0]), step)
    )
    return tuple(burst.data for burst in itertools.chain.from_iterable(encoded))


def entries(datas: tuple[bytes, ...]) -> list[lz4_roundtrip.RawEntry]:
    return [
        lz4_roundtrip.RawEntry(f"{n + 1}-0", (keys.ENTRY_ID, b"1", keys.ENTRY_DATA, data))
        for n, data in enumerate(datas)
    ]


def pack(raw_entries: list[lz4_roundtrip.RawEntry]) -> int:
    """Everything that is done to a stream except for the commands: unpack, pack, unpack again, compare.

    Returns the number of bytes before any compression.
    """
    unpacker, widths = lz4_roundtrip.Lz4Unpacker(), byte_split.WidthChooser()
    raw_bytes, batch, size = 0, list[lz4_roundtrip.UnpackedEntry](), 0
    for entry in itertools.chain((unpacker.unpack(raw_entry) for raw_entry in raw_entries), [None]):
        if batch and (entry is None or cold_batch.is_over_limit(len(batch) + 1, size + entry.size)):
            if cold_batch.unpack_batch(cold_batch.pack_batch(batch, widths, live_bytes=size)) != batch:
                raise RuntimeError("a batch is not what went into it")
            raw_bytes += sum(len(value) for packed in batch for value in packed.values)
            batch, size = [], 0
            unpacker.next_batch()
        if entry is not None:
            batch.append(entry)
            size += entry.size
    return raw_bytes


def pack_without_reordering(datas: tuple[bytes, ...]) -> None:
    """The least that is needed to keep the content of bursts as zstd 3: LZ4 both ways, to check that the bursts can be
    made again, and zstd both ways."""
    codec = pa.Codec(cold_batch.ZSTD, cold_batch.LEVEL)
    contents, size = list[bytes](), 0
    for data in (*datas, None):
        if contents and (data is None or size >= limits.COLD_BATCH_MAX_BYTES):
            packed = codec.compress(b"".join(contents), asbytes=True)
            codec.decompress(packed, decompressed_size=size, asbytes=True)
            contents, size = [], 0
        if data is not None:
            raw = wire_burst.decompress(data)
            if wire_burst.compress(raw) != data:
                raise RuntimeError("a burst was not made again")
            contents.append(raw)
            size += len(raw)


async def compact(url: str) -> None:
    config = settings.Settings(
        redis=settings.RedisSettings(url=url),
        trim=settings.TrimSettings(max_entries=10**9),
        compact=CompactSettings(after_s=1, bytes_per_s=10**12, streams_per_hour=10**6),
    )
    link = Link(config.redis)
    await function_loader.load(link)
    with tempfile.TemporaryDirectory(prefix="rtas-bench-") as folder:
        catalogue = SqliteCatalogue(Path(folder) / "catalogue.sqlite")
        await Compactor(link, SessionStore(link, config), catalogue, config).sweep()
        await catalogue.close()
    await link.close()


def quiet() -> None:
    """Log warnings only: the table of figures is the output."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))


def times_smaller(datas: tuple[bytes, ...]) -> Callable[[], float]:
    """How many times the memory of a live stream is that of the same stream after a compaction."""

    @functools.cache
    def figure() -> float:
        quiet()
        names = keys.Keys()
        with redis_client.connect(parts.redis_url()) as client:
            client.flushall()
            with client.pipeline(transaction=False) as pipe:
                for entry in entries(datas):
                    pipe.execute_command("XADD", keys.stream(STREAM), entry.id, *entry.fields)
                pipe.zadd(names.streams_used(), {STREAM: 1})
                pipe.execute()
            live_bytes = client.memory_usage(keys.stream(STREAM), samples=0) or 0
            anyio.run(compact, parts.redis_url())
            if client.xlen(keys.stream(STREAM)):
                raise RuntimeError("the stream was not compacted")
            compacted_bytes = sum(
                client.memory_usage(key, samples=0) or 0 for key in (keys.stream(STREAM), keys.cold_stream(STREAM))
            )
            return live_bytes / compacted_bytes

    return figure


def bench_smaller(quick: bool) -> Iterator[Case]:
    """The memory that streams take in Redis, live and compacted."""
    count = QUICK_SAMPLES if quick else SAMPLES // 2
    bars = {"random bits": 1.0}
    for kind in ("constant interval", "jittered", "calibrated", "noisy", "mixed", "random bits"):
        name = f"compaction, {kind}: times smaller in Redis than live"
        yield Case(name, "x", times_smaller(bursts(kind, count)), constant(1), bar=bars.get(kind, SMALLER_BAR))
    small_bursts = bursts("mixed", count, 10)
    yield Case(
        "compaction, mixed, 10 samples of a channel in a burst: times smaller in Redis than live",
        "x",
        times_smaller(small_bursts),
        constant(1),
        bar=SMALLER_BAR,
    )


def bench_speed(quick: bool) -> Iterator[Case]:
    """Bytes before any compression in a CPU second, compared with packing without reordering: see decision 011."""
    count = QUICK_SAMPLES if quick else SAMPLES
    for kind in ("jittered", "calibrated", "noisy", "mixed"):
        datas = bursts(kind, count)
        raw_entries = entries(datas)
        raw_bytes = pack(raw_entries)
        name = f"compaction, {kind}: open, pack, unpack, compare; reference: LZ4 both ways and zstd 3 both ways"
        work = per_cpu_second(raw_bytes, functools.partial(pack, raw_entries))
        reference = per_cpu_second(raw_bytes, functools.partial(pack_without_reordering, datas))
        yield Case(name, "B/s", work, reference, bar=SPEED_BAR)
