"""Which bytes of a burst are which message: found without decoding samples, so that what a viewer wants can be cut out.

Works on bursts of any producer: several kinds of messages in one, with or without a size before the LZ4 block. Pure.
"""

import contextlib
import struct
from typing import Final

import lz4.block
from google.protobuf.message import DecodeError

from rta_wire import errors, limits
from rta_wire.codec.burst import bad_burst, decompress
from rta_wire.codec.protobuf import message_tags
from rta_wire.pb import data_pb2

ITEM_JSON: Final = 0x12
ITEM_TIME_RANGE: Final = 0x1A
ITEM_EVENT: Final = 0x3A
_PREFIX: Final = struct.Struct("<I")

Span = tuple[int, int]
"""Where a message begins and ends in a burst, with its tag and length."""


def open_block(data: bytes, label: str) -> tuple[bytes, bytes]:
    """A burst as it stands in an entry, as a raw LZ4 block and as what that holds, whichever framing it has."""
    if len(data) > _PREFIX.size:
        (claimed,) = _PREFIX.unpack_from(data)
        # The first bytes of a raw block read as a number are hardly ever a size that a burst can have.
        if claimed <= limits.BURST_MAX_BYTES:
            try:
                raw: bytes = lz4.block.decompress(data[_PREFIX.size :], uncompressed_size=max(claimed, 1))
                if len(raw) == claimed:
                    return data[_PREFIX.size :], raw
            except (lz4.block.LZ4BlockError, ValueError):
                pass
    return data, decompress(data, label=label)


class BurstIndex:
    """The messages of one burst by what they are about."""

    __slots__ = ("channels", "events", "notices", "raw", "rows", "session_json")

    def __init__(self, raw: bytes, label: str) -> None:
        self.raw = raw
        self.channels: dict[int, list[Span]] = {}
        """Messages that are about one channel."""
        self.rows: list[tuple[tuple[int, ...], Span]] = []
        """Messages that are about several."""
        self.events: list[Span] = []
        self.notices: list[Span] = []
        """Session JSON and time ranges, which reach everybody."""
        self.session_json: list[bytes] = []
        try:
            self._walk()
        except (IndexError, ValueError) as error:
            raise bad_burst(label, f"not a StreamDataBurst: {error}") from error

    @property
    def has_data(self) -> bool:
        return bool(self.channels or self.rows)

    def last_messages(self) -> dict[int, bytes]:
        """The newest message about each channel, as it stands in the burst."""
        raw = self.raw
        messages = {channel: raw[spans[-1][0] : spans[-1][1]] for channel, spans in self.channels.items()}
        for channel_ids, (start, end) in self.rows:
            messages.update(dict.fromkeys(channel_ids, raw[start:end]))
        return messages

    def cut(self, *, all_events: bool, all_channels: bool, channel_ids: frozenset[int], notices: bool) -> bytes:
        """The messages that are wanted, in their order, as a serialized burst; empty where there are none."""
        spans: list[Span] = list(self.notices) if notices else []
        if all_events:
            spans += self.events
        if all_channels:
            spans += [span for each in self.channels.values() for span in each]
            spans += [span for _, span in self.rows]
        elif channel_ids:
            channels = self.channels
            # From the smaller side: a viewer may want five of a thousand, or a thousand of which a burst has five.
            if len(channel_ids) <= len(channels):
                wanted = [channel for channel in channel_ids if channel in channels]
            else:
                wanted = [channel for channel in channels if channel in channel_ids]
            spans += [span for channel in wanted for span in channels[channel]]
            spans += [span for ids, span in self.rows if not channel_ids.isdisjoint(ids)]
        spans.sort()
        raw = self.raw
        return b"".join([raw[start:end] for start, end in spans])

    def _walk(self) -> None:
        """Find where each message begins and ends, of what kind it is, and which channel it is about."""
        raw, end, position = self.raw, len(self.raw), 0
        channels = self.channels
        while position < end:
            start = position
            if raw[position] != message_tags.BURST_DATA:
                raise ValueError(f"tag {raw[position]} at byte {position}")
            size = raw[position + 1]
            position += 2
            if size >= 0x80:
                size, position = _varint(raw, position - 1)
            stop = position + size
            if stop > end:
                raise ValueError(f"a message at byte {start} of {size} bytes ends behind the burst")
            kind = raw[position] if size else 0
            if kind in (message_tags.ITEM_TIMESTAMPED, message_tags.ITEM_PERIODIC):
                body = position + 2
                while raw[body - 1] >= 0x80:
                    body += 1
                if body < stop and raw[body] == message_tags.CHANNEL_ID:
                    channel = raw[body + 1]
                    if channel >= 0x80:
                        channel, _ = _varint(raw, body + 1)
                else:
                    channel = _channel_behind(raw[body:stop])
                if channel in channels:
                    channels[channel].append((start, stop))
                else:
                    channels[channel] = [(start, stop)]
            elif size:
                self._add_rare(kind, position, (start, stop))
            position = stop

    def _add_rare(self, kind: int, position: int, span: Span) -> None:
        size, body = _varint(self.raw, position + 1)
        if kind == message_tags.ITEM_ROW:
            self.rows.append((_row_channels(self.raw, body, body + size), span))
        elif kind == ITEM_EVENT:
            self.events.append(span)
        elif kind in (ITEM_JSON, ITEM_TIME_RANGE):
            self.notices.append(span)
            if kind == ITEM_JSON:
                self.session_json.append(self.raw[body : body + size])


def _row_channels(raw: bytes, position: int, end: int) -> tuple[int, ...]:
    """The channels of a row: packed, as protobuf writes them, or one by one, as it reads them too."""
    channel_ids: list[int] = []
    start = position
    while position < end:
        tag = raw[position]
        if tag == message_tags.ROW_CHANNEL_IDS:
            size, position = _varint(raw, position + 1)
            stop = position + size
            while position < stop:
                channel, position = _varint(raw, position)
                channel_ids.append(channel)
        elif tag == message_tags.CHANNEL_ID:
            channel, position = _varint(raw, position + 1)
            channel_ids.append(channel)
        else:
            break
    if not channel_ids:
        # The channels may stand behind other fields.
        with contextlib.suppress(DecodeError):
            return tuple(data_pb2.RowData.FromString(raw[start:end]).channel_ids)
    return tuple(channel_ids)


def _channel_behind(message: bytes) -> int:
    """The channel of a message that does not begin with it. Channel 0 is left out, as protobuf leaves out every 0; else
    it stands behind other fields: their order is the producer's to choose."""
    with contextlib.suppress(DecodeError):
        # Timestamped and periodic data have it in the same field.
        return data_pb2.TimestampedData.FromString(message).channel_id
    return 0


def _varint(raw: bytes, position: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        byte = raw[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than ten bytes")


def parse_entry(data: bytes, label: str) -> tuple[bytes, BurstIndex]:
    """The raw LZ4 block and the index of a burst as it stands in an entry. Raises `BadBurst`."""
    try:
        block, raw = open_block(data, label)
        return block, BurstIndex(raw, label)
    except errors.BadBurst:
        # A raw block whose first bytes happen to read as its size is opened as what it is.
        return data, BurstIndex(decompress(data, label=label), label)
