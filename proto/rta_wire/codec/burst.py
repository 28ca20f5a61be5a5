"""Encodes and decodes bursts as bytes: cuts messages into bursts, compresses, frames and decompresses them, and counts
each for the totals of its unit.
"""

import enum
import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import lz4.block
import msgspec
import numpy as np

from rta_wire import errors, limits
from rta_wire.arrays import I64


class Framing(enum.StrEnum):
    """What comes before the LZ4 block: nothing, or its size before compression in four bytes."""

    RAW = "raw"
    SIZE_PREFIXED = "size-prefixed"


class EncodeOptions(msgspec.Struct, frozen=True):
    """How bursts are made. A retry makes the same bursts only with the same options."""

    target_bytes: int = limits.BURST_TARGET_BYTES
    group_rows: int = limits.ENCODE_GROUP_ROWS
    level: int = limits.LZ4_LEVEL
    """0 is LZ4's fast mode, 1 to 12 its high compression, below 0 faster still and larger."""
    framing: Framing = Framing.RAW
    in_time_order: bool = True
    """Whether samples of a channel are sorted by time. Else late samples keep their place and take ten bytes more."""

    def __post_init__(self) -> None:
        checks = {
            "target_bytes": 1 <= self.target_bytes <= limits.BURST_MAX_BYTES // 2,
            "group_rows": 1 <= self.group_rows <= limits.ENCODE_GROUP_ROWS_MAX,
            "level": limits.LZ4_LEVEL_MIN <= self.level <= limits.LZ4_LEVEL_MAX,
        }
        for name, is_valid in checks.items():
            if not is_valid:
                raise errors.BadConfiguration(where=name, reason=f"{getattr(self, name)} is out of range")


class Burst(msgspec.Struct, frozen=True):
    """The `data` of one entry of a stream, and what it adds to the totals of its writer."""

    data: bytes
    raw_bytes: int
    samples: int
    start_ns: int
    end_ns: int
    events: int = 0


PIECES: Final = 4
"""Buffers of one message: head, deltas or ids, middle, samples. Kinds of messages that need fewer have empty ones."""


class MessageBlock(NamedTuple):
    """Encoded messages, `PIECES` buffers each, and of each message its size, samples and range of times."""

    pieces: list[bytes | memoryview]
    sizes: I64
    samples: I64
    start_ns: I64
    end_ns: I64
    events: int = 0
    """How many of the messages are events: all or none."""


def cut_bursts(blocks: Iterable[MessageBlock], options: EncodeOptions) -> Iterator[Burst]:
    """Cuts the messages of `blocks` into bursts of about equal size, near the target and never over the limit."""
    waiting: list[MessageBlock] = []
    size = 0
    for block in blocks:
        if len(block.sizes):
            waiting.append(block)
            size += int(block.sizes.sum())
        if size >= _BURSTS_PER_CUT * options.target_bytes:
            yield from _cut(waiting, options)
            waiting, size = [], 0
    if waiting:
        yield from _cut(waiting, options)


_BURSTS_PER_CUT: Final = 3
"""Bursts that messages are collected for before they are cut: enough for even sizes, and memory stays bounded."""


def _cut(blocks: list[MessageBlock], options: EncodeOptions) -> Iterator[Burst]:
    block = blocks[0] if len(blocks) == 1 else _join(blocks)
    # Lists, since numpy takes longer to add up ten numbers than Python does.
    samples, start_ns, end_ns = block.samples.tolist(), block.start_ns.tolist(), block.end_ns.tolist()
    for first, last in cut_ranges(block.sizes, options.target_bytes):
        raw = b"".join(block.pieces[PIECES * first : PIECES * last])
        yield Burst(
            data=compress(raw, options.level, options.framing),
            raw_bytes=len(raw),
            samples=sum(samples[first:last]),
            start_ns=min(start_ns[first:last]),
            end_ns=max(end_ns[first:last]),
            events=last - first if block.events else 0,
        )


def _join(blocks: list[MessageBlock]) -> MessageBlock:
    pieces = [piece for block in blocks for piece in block.pieces]
    sizes, samples, start_ns, end_ns = (np.concatenate(columns) for columns in list(zip(*blocks, strict=True))[1:5])
    return MessageBlock(pieces, sizes, samples, start_ns, end_ns, blocks[0].events)


def cut_ranges(sizes: I64, target_bytes: int) -> list[tuple[int, int]]:
    """Ranges of messages, one for each burst. Depends on the sizes alone."""
    ends = np.cumsum(sizes)
    total = int(ends[-1])
    bursts = -(-total // target_bytes)
    # Even sizes: filling each burst up to the target would leave a small one at the end of every group.
    targets = [total * burst // bursts for burst in range(1, bursts)]
    stops = sorted({*(np.searchsorted(ends, targets) + 1).tolist(), len(sizes)})
    ranges = list(zip([0, *stops], stops, strict=False))
    if all(_fits(ends, first, last) for first, last in ranges):
        return ranges
    return _cut_greedily(sizes.tolist(), target_bytes)


def _fits(ends: I64, first: int, last: int) -> bool:
    """Whether the messages of a range are within the limits of one burst."""
    size = int(ends[last - 1]) - (int(ends[first - 1]) if first else 0)
    return size <= limits.BURST_MAX_BYTES and last - first <= limits.BURST_MAX_MESSAGES


def _cut_greedily(sizes: list[int], target_bytes: int) -> list[tuple[int, int]]:
    """Ranges for messages near the limit: a new burst wherever the next message would pass the target."""
    ranges, first, burst_size = [], 0, 0
    for index, size in enumerate(sizes):
        if size > limits.BURST_MAX_BYTES:
            raise errors.BadSamples(reason=f"a message of {size} bytes is over {limits.BURST_MAX_BYTES}", row=index)
        if burst_size and (burst_size + size > target_bytes or index - first == limits.BURST_MAX_MESSAGES):
            ranges.append((first, index))
            first, burst_size = index, 0
        burst_size += size
    return [*ranges, (first, len(sizes))]


_HIGH_COMPRESSION: Final = "high_compression"


def compress(raw: bytes, level: int = limits.LZ4_LEVEL, framing: Framing = Framing.RAW) -> bytes:
    """A burst compressed and framed, as it is stored."""
    if len(raw) > limits.BURST_MAX_BYTES:
        raise errors.BadSamples(reason=f"a burst of {len(raw)} bytes is over {limits.BURST_MAX_BYTES}")
    prefix = framing is Framing.SIZE_PREFIXED
    data: bytes
    if level > 0:
        data = lz4.block.compress(raw, mode=_HIGH_COMPRESSION, compression=level, store_size=prefix)
    else:
        data = lz4.block.compress(raw, mode="fast", acceleration=1 - level, store_size=prefix)
    return data


def decompress(data: bytes, framing: Framing = Framing.RAW, label: str | None = None) -> bytes:
    """The burst in the `data` of an entry, at most 1 MiB. `label` names the entry in errors."""
    block, claimed = data, None
    if framing is Framing.SIZE_PREFIXED:
        if len(data) < _PREFIX.size:
            raise bad_burst(label, f"{len(data)} bytes are too few for a size")
        (claimed,) = _PREFIX.unpack_from(data)
        block = data[_PREFIX.size :]
    try:
        raw: bytes = lz4.block.decompress(block, uncompressed_size=limits.BURST_MAX_BYTES)
    except (lz4.block.LZ4BlockError, ValueError) as error:
        raise bad_burst(label, f"not an LZ4 block of at most {limits.BURST_MAX_BYTES} bytes: {error}") from error
    if claimed is not None and claimed != len(raw):
        raise bad_burst(label, f"the size before it says {claimed} bytes, the LZ4 block holds {len(raw)}")
    return raw


_PREFIX: Final = struct.Struct("<I")


def bad_burst(label: str | None, reason: str) -> errors.BadBurst:
    """The error for a burst that can't be decoded. `label` is the id of its entry, where that is known."""
    if label is None:
        return errors.BadBurst(reason=reason)
    return errors.BadBurst(reason=f"entry {label}: {reason}", entry=label)
