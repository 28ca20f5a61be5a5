"""Decodes bursts to messages or to columns, safe on any bytes: no size in the data decides how much is allocated.

For columns, packed fields are read as bytes, and those of all bursts are decoded at once. A burst may be legal without
being written the way protobuf writes it (with repeated or unknown fields, say): then protobuf writes all bursts again
first.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from google.protobuf.message import DecodeError

from rta_wire import limits
from rta_wire.codec import burst as codec_burst
from rta_wire.codec import layout
from rta_wire.codec.scan import alike_bursts, field_scan, sample_columns, timestamped_fields
from rta_wire.codec.scan.timestamped_fields import TimestampedFields
from rta_wire.pb import scan_pb2, stream_pb2
from rta_wire.stream import cursor

SampleColumns = sample_columns.SampleColumns
DecodedBursts = field_scan.DecodedBursts
DecodedMessages = field_scan.DecodedMessages
_Decoded = TypeVar("_Decoded", DecodedBursts, DecodedMessages)
_Scan = Callable[[field_scan.ParsedBursts, Sequence[str], layout.Plan], _Decoded]


def burst(data: bytes, framing: codec_burst.Framing = codec_burst.Framing.RAW) -> stream_pb2.StreamDataBurst:
    """The message inside the `data` of an entry."""
    return _message(codec_burst.decompress(data, framing))


def columns(
    bursts: Iterable[bytes],
    layouts: layout.Plan | None = None,
    *,
    framing: codec_burst.Framing = codec_burst.Framing.RAW,
    names: Sequence[str] | None = None,
) -> DecodedBursts:
    """The content of some bursts, samples as columns. `names` are their names in errors, instead of their positions."""
    stored = list(bursts)
    labels = names or [str(index) for index in range(len(stored))]
    return _scan(field_scan.scan_fields, stored, labels, layouts or layout.Plan(), framing)


def messages(
    stream_entries: Sequence[cursor.StreamEntry],
    layouts: layout.Plan | None = None,
    *,
    framing: codec_burst.Framing = codec_burst.Framing.RAW,
) -> DecodedMessages:
    """Samples and events of entries of one session, with what else their messages say."""
    labels = [entry.id for entry in stream_entries]
    stored = [entry.data for entry in stream_entries]
    return _scan(field_scan.scan_messages, stored, labels, layouts or layout.Plan(), framing)


def _scan(
    scan: _Scan[_Decoded],
    stored: Sequence[bytes],
    labels: Sequence[str],
    layouts: layout.Plan,
    framing: codec_burst.Framing,
) -> _Decoded:
    raws = [codec_burst.decompress(data, framing, label) for data, label in zip(stored, labels, strict=True)]
    try:
        return scan(_parse(*alike_bursts.take(raws), labels), labels, layouts)
    except sample_columns.NonCanonicalBurst:
        rewritten = {index: _rewrite(raw, label) for index, (raw, label) in enumerate(zip(raws, labels, strict=True))}
        return scan(_parse(timestamped_fields.EMPTY, rewritten, labels), labels, layouts)


def entries(
    stream_entries: Iterable[cursor.StreamEntry],
    layouts: layout.Plan | None = None,
    *,
    framing: codec_burst.Framing = codec_burst.Framing.RAW,
    with_samples: bool = True,
) -> DecodedBursts:
    """The content of some entries of a stream, which should be of one session.

    `with_samples`: False leaves them out, and needs no layouts.
    """
    kept = list(stream_entries)
    names, stored = [entry.id for entry in kept], [entry.data for entry in kept]
    scan = field_scan.scan_fields if with_samples else field_scan.scan_without_samples
    return _scan(scan, stored, names, layouts or layout.Plan(), framing)


def _message(raw: bytes, label: str | None = None) -> stream_pb2.StreamDataBurst:
    try:
        message = stream_pb2.StreamDataBurst.FromString(raw)
    except DecodeError as error:
        raise codec_burst.bad_burst(label, f"not a StreamDataBurst: {error}") from error
    _check_count(len(message.data), label)
    return message


def _check_count(count: int, label: str | None) -> None:
    if count > limits.BURST_MAX_MESSAGES:
        raise codec_burst.bad_burst(label, f"{count} messages are more than {limits.BURST_MAX_MESSAGES}")


def _rewrite(raw: bytes, label: str) -> bytes:
    """A burst as protobuf writes it, without unknown fields."""
    message = _message(raw, label)
    message.DiscardUnknownFields()
    return message.SerializeToString()


def _parse(alike: TimestampedFields, others: Mapping[int, bytes], labels: Sequence[str]) -> field_scan.ParsedBursts:
    """Bursts with the messages of those that protobuf has to read; packed fields as bytes."""
    items = ((index, _parse_items(raw, labels[index])) for index, raw in others.items())
    return field_scan.ParsedBursts(alike, items, sum(map(len, others.values())))


def _parse_items(raw: bytes, label: str) -> Iterable[scan_pb2.Item]:
    try:
        scanned = scan_pb2.Burst.FromString(raw)
    except DecodeError as error:
        raise codec_burst.bad_burst(label, f"not a StreamDataBurst: {error}") from error
    _check_count(len(scanned.data), label)
    return scanned.data
