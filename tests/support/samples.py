"""Samples for tests, and how to find them again in a stream without our decoder's help."""

from typing import Any

import lz4.block
import numpy as np
import redis

from rta_wire.codec import encode
from rta_wire.pb import stream_pb2

START_NS = 1_700_000_000_000_000_000


def bursts(count: int, *, channel: int = 1, first: int = 0) -> list[encode.Burst]:
    """Bursts that can be told apart: burst n holds the one value first + n."""
    return [
        next(
            iter(
                encode.encode_doubles(
                    np.array([channel], np.uint32), np.array([START_NS + n], np.int64), np.array([float(n)])
                )
            )
        )
        for n in range(first, first + count)
    ]


def messages(client: "redis.Redis", stream: str) -> list[tuple[int, stream_pb2.StreamDataBurst]]:
    """Every entry of a stream: session id and burst."""
    entries: Any = client.xrange(f"stream:{stream}")
    return [
        (
            int(fields[b"id"]),
            stream_pb2.StreamDataBurst.FromString(lz4.block.decompress(fields[b"data"], uncompressed_size=1 << 20)),
        )
        for _, fields in entries
    ]


def rows(client: "redis.Redis", stream: str) -> list[tuple[int, int, float]]:
    """(channel, time, value) of every sample, in stream order."""
    found = []
    for _, message in messages(client, stream):
        for item in message.data:
            if item.HasField("timestamped_data"):
                data = item.timestamped_data
                times = data.start_timestamp + np.cumsum(data.timestamp_deltas) * data.timestamp_deltas_scale
                values = np.frombuffer(data.buffer, "<f8")
                found += [(data.channel_id, int(t), float(v)) for t, v in zip(times, values, strict=True)]
    return found


def kinds(client: "redis.Redis", stream: str, stream_session_id: int) -> list[str | None]:
    """What each entry of a session holds, by the name of its first item."""
    return [
        message.data[0].WhichOneof("data")
        for number, message in messages(client, stream)
        if number == stream_session_id
    ]
