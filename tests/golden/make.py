"""Makes the golden vectors anew: python -m tests.golden.make"""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rta_wire import limits
from rta_wire.codec import burst as codec_burst
from rta_wire.codec import decode, encode, event_messages, layout

HERE = Path(__file__).parent
INDEX = HERE / "vectors.json"
START_NS = 1_700_000_000_123_456_789
MS = 1_000_000

Layout, Type, Kind = layout.Layout, layout.SampleType, layout.Kind


class Vector(NamedTuple):
    """One burst, and the layouts and framing that a reader needs for it."""

    data: bytes
    says: str
    layouts: layout.Plan = layout.Plan()
    framing: codec_burst.Framing = codec_burst.Framing.RAW


def vectors() -> dict[str, Vector]:
    """All bursts by name."""
    return {**_timestamped(), **_types(), **_other_kinds(), **_documents()}


def _only(bursts: Any) -> bytes:
    (burst,) = bursts
    data: bytes = burst.data
    return data


def _channel(channel: int, times: list[int], values: Any, **options: Any) -> bytes:
    encoder = encode.Encoder(options=encode.Options(**options))
    return _only(encoder.rows(np.full(len(times), channel), np.array(times, np.int64), np.array(values)))


def _timestamped() -> dict[str, Vector]:
    even = [START_NS + k * 10 * MS for k in range(20)]
    jitter = [time + (k * 7 % 5) * 100_000 for k, time in enumerate(even)]
    exact = [time + k * k * 37 for k, time in enumerate(even)]
    late = [START_NS, START_NS + 30 * MS, START_NS + 10 * MS, START_NS + 40 * MS]
    ends = [limits.TIME_NS_MIN, limits.TIME_NS_MIN + 1, 0, limits.TIME_NS_MAX - 1, limits.TIME_NS_MAX]
    nans = np.array([0x7FF8000000000001, 0xFFF0000000000000, 0x8000000000000000, 0x7FF0000000000123], "<u8").view("<f8")
    wave = np.round(np.sin(np.arange(20)) * 1000) / 8
    return {
        "constant-interval": Vector(_channel(1, even, wave), "every delta is 1"),
        "jitter": Vector(_channel(2, jitter, wave), "deltas of one byte, scaled by 100 us"),
        "nanosecond-jitter": Vector(_channel(3, exact, wave), "deltas of four bytes, scale 1"),
        "late-sample": Vector(_channel(4, late, [1.0, 2.0, 3.0, 4.0], in_time_order=False), "a negative delta"),
        "same-time": Vector(_channel(5, [START_NS] * 3, [1.0, 2.0, 3.0]), "three samples at one time"),
        "extreme-times": Vector(_channel(6, ends, [1.0, 2.0, 3.0, 4.0, 5.0]), "distances that fit no delta"),
        "channel-0-time-0": Vector(_channel(0, [0], [0.0]), "fields that are zero are left out"),
        "last-channel": Vector(_channel(limits.CHANNEL_ID_MAX, even, wave), "the highest channel id"),
        "special-doubles": Vector(_channel(7, even[:4], nans), "NaN with payload, infinity, minus zero"),
        "size-prefixed": Vector(
            _channel(1, even, wave, framing=codec_burst.Framing.SIZE_PREFIXED),
            "the size in four bytes before the block",
            framing=codec_burst.Framing.SIZE_PREFIXED,
        ),
        "high-compression": Vector(_channel(1, even, wave, level=9), "the same block format, another compressor"),
    }


def _types() -> dict[str, Vector]:
    type_vectors = {}
    for kind in Type:
        layouts = layout.Plan([(10, Layout(kind))])
        if kind in {Type.DOUBLE, Type.FLOAT}:
            info = np.finfo(kind.dtype)
            values = np.array([info.min, info.max, info.tiny, 0.1], kind.dtype)
        else:
            bounds = np.iinfo(kind.dtype)
            values = np.array([bounds.min, bounds.max, 0, 1], kind.dtype)
        times = START_NS + np.arange(4) * MS
        data = _only(encode.Encoder(layouts).rows(np.full(4, 10), times, values))
        type_vectors[f"type-{kind.value}"] = Vector(
            data, f"samples of type {kind.value}, the lowest and highest first", layouts
        )
    return type_vectors


def _other_kinds() -> dict[str, Vector]:
    periodic = layout.Plan([(20, Layout(Type.INT16, Kind.PERIODIC))])
    fixed_interval = layout.Plan([(20, Layout(Type.INT16, Kind.PERIODIC, 10 * MS))])
    rows = layout.Plan(
        [(k, Layout(kind, Kind.ROW)) for k, kind in ((30, Type.UINT8), (31, Type.DOUBLE), (300, Type.INT32))]
    )
    mixed = layout.Plan([*periodic.channels.items(), *rows.channels.items()])
    times = START_NS + np.array([0, 1, 2, 3, 7, 8, 9, 20]) * 10 * MS
    table = {
        30: pa.array([1, 2, None, 4, 5, 6, 7, 255], pa.uint8()),
        31: pa.array(np.arange(8) * 0.25),
        300: pa.array([-(2**31), None, 3, 4, 5, 6, 7, 2**31 - 1], pa.int32()),
    }
    ids = np.tile(np.array([1, 20, 30, 31]), 8)
    long = encode.Encoder(mixed).rows(ids, np.repeat(times, 4), np.arange(32) * 1.0)
    return {
        "periodic": Vector(
            _only(encode.Encoder(periodic).rows(np.full(8, 20), times, np.arange(8) - 4)), "split at gaps", periodic
        ),
        "periodic-known": Vector(
            _only(encode.Encoder(fixed_interval).rows(np.full(8, 20), times, np.arange(8) - 4)),
            "the interval is known",
            fixed_interval,
        ),
        "rows": Vector(_only(encode.Encoder(rows).table(times, table)), "three widths, with absent samples", rows),
        "mixed": Vector(_only(long), "timestamped, periodic and row data in one burst", mixed),
    }


def _documents() -> dict[str, Vector]:
    events = [
        event_messages.event(
            5, START_NS, app_name="gearbox", status_text="Überdrehzahl", raw_data=[1.5, -0.0, float("inf")]
        ),
        event_messages.event(-(2**31), -1),
    ]
    document = '{"identity":"golden","state":"open","timestamp":"2024-01-01T00:00:00Z","identifier":"Größe"}'
    return {
        "events": Vector(_only(encode.Encoder().events(events)), "one with all fields, one with the least"),
        "session-json": Vector(encode.session_json(document.encode()), "the Session JSON and nothing else"),
        "time-range": Vector(encode.time_range(START_NS, START_NS + 1), "both ends inside"),
    }


def described(vector: Vector) -> dict[str, Any]:
    """What is inside, for people and for other implementations. Times are text: many parsers round large numbers."""
    decoded = decode.columns([vector.data], vector.layouts, framing=vector.framing)
    samples: dict[str, Any] = {}
    for kind, columns in decoded.samples.items():
        for channel, (times, values) in columns.by_channel().items():
            samples[str(channel)] = {
                "type": kind.value,
                "kind": vector.layouts.layout(channel).kind.value,
                "times_ns": [str(time) for time in times.tolist()],
                "bytes": [values[k : k + 1].tobytes().hex() for k in range(len(values))],
            }
    return {
        "says": vector.says,
        "framing": vector.framing.value,
        "samples": dict(sorted(samples.items())),
        "events": [
            {
                "event_definition_id": event.event_definition_id,
                "app_name": event.app_name,
                "timestamp": str(event.timestamp),
                "status_text": event.status_text,
                "raw_data": [np.array([value]).tobytes().hex() for value in event.raw_data],
            }
            for event in decoded.events
        ],
        "session_json": decoded.session_json,
        "time_ranges_ns": [[str(start), str(end)] for start, end in decoded.time_ranges_ns],
    }


def main() -> None:
    """Writes every file."""
    all_vectors = vectors()
    for name, vector in all_vectors.items():
        (HERE / f"{name}.burst").write_bytes(vector.data)
        (HERE / f"{name}.pb").write_bytes(codec_burst.decompress(vector.data, vector.framing))
    index = {name: described(vector) for name, vector in all_vectors.items()}
    INDEX.write_text(json.dumps(index, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
