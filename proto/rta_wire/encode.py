"""Columns to bursts. The cut into bursts depends on the input alone, so that a retry makes the same bursts."""

from collections.abc import Iterator

import lz4.block
import msgspec
import numpy as np
import numpy.typing as npt

from rta_wire import errors, limits, stream_pb2


class Burst(msgspec.Struct, frozen=True):
    """What one entry of a stream holds, and what it adds to the totals of its writer."""

    data: bytes
    raw_bytes: int
    samples: int
    start_ns: int
    end_ns: int


def session_json(document: bytes) -> bytes:
    """The `data` of an entry that holds the Session JSON and nothing else."""
    item = stream_pb2.StreamData(session_json=document.decode())
    return _pack(stream_pb2.StreamDataBurst(data=[item]))[0]


def time_range(start_ns: int, end_ns: int) -> bytes:
    """The `data` of an entry that tells what a session covers."""
    item = stream_pb2.StreamData(time_range=stream_pb2.StreamTimeRange(start_time=start_ns, end_time=end_ns))
    return _pack(stream_pb2.StreamDataBurst(data=[item]))[0]


def timestamped(
    channels: npt.NDArray[np.uint32],
    times_ns: npt.NDArray[np.int64],
    values: npt.NDArray[np.float64],
    *,
    target_bytes: int = limits.BURST_TARGET_BYTES,
) -> Iterator[Burst]:
    """Samples in long form, one row each, to bursts of about `target_bytes` before compression."""
    rows_per_burst = max(1, target_bytes // 10)
    for first in range(0, len(channels), rows_per_burst):
        rows = slice(first, first + rows_per_burst)
        yield _timestamped_burst(channels[rows], times_ns[rows], values[rows])


def _timestamped_burst(
    channels: npt.NDArray[np.uint32], times_ns: npt.NDArray[np.int64], values: npt.NDArray[np.float64]
) -> Burst:
    order = np.lexsort((times_ns, channels))
    channels, times_ns, values = channels[order], times_ns[order], values[order]
    starts = np.flatnonzero(np.r_[True, channels[1:] != channels[:-1]])
    message = stream_pb2.StreamDataBurst()
    for start, end in zip(starts, np.r_[starts[1:], len(channels)], strict=True):
        item = message.data.add().timestamped_data
        deltas = np.diff(times_ns[start:end], prepend=times_ns[start])
        scale = int(np.gcd.reduce(deltas)) or 1
        item.channel_id = int(channels[start])
        item.start_timestamp = int(times_ns[start])
        item.timestamp_deltas_scale = scale
        item.timestamp_deltas.extend((deltas // scale).tolist())
        item.buffer = values[start:end].astype("<f8").tobytes()
    data, raw_bytes = _pack(message)
    return Burst(data, raw_bytes, len(channels), int(times_ns.min()), int(times_ns.max()))


def _pack(message: stream_pb2.StreamDataBurst) -> tuple[bytes, int]:
    raw = message.SerializeToString()
    if len(raw) > limits.BURST_MAX_BYTES:
        raise errors.BadSamples(reason=f"a burst of {len(raw)} bytes is over {limits.BURST_MAX_BYTES}")
    return lz4.block.compress(raw, store_size=False), len(raw)
