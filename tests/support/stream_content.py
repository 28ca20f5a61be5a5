"""What stands in a stream, decoded: samples and events of one session."""

from typing import Any

import redis

from rta_wire.codec import decode, layout
from rta_wire.pb import data_pb2


def decoded(
    client: "redis.Redis", stream: str, stream_session_id: int, layouts: layout.Plan | None = None
) -> decode.DecodedBursts:
    entries: Any = client.xrange(f"stream:{stream}")
    mine = [fields[b"data"] for _, fields in entries if int(fields[b"id"]) == stream_session_id]
    return decode.columns(mine, layouts)


def samples(
    client: "redis.Redis", stream: str, stream_session_id: int, layouts: layout.Plan | None = None
) -> list[tuple[int, int, Any]]:
    """(channel, time, value) of every sample, sorted."""
    found = decoded(client, stream, stream_session_id, layouts)
    return sorted(
        row
        for some in found.samples.values()
        for row in zip(some.rows().tolist(), some.times_ns.tolist(), some.values.tolist(), strict=True)
    )


def events(client: "redis.Redis", stream: str, stream_session_id: int) -> list[data_pb2.Event]:
    return list(decoded(client, stream, stream_session_id).events)
