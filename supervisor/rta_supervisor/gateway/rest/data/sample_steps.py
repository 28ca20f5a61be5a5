"""Reads the samples or events of a session step by step, whole windows at a time, with bounded memory."""

import contextlib
import functools
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from typing import Final

import anyio.to_thread
import msgspec
import numpy as np

from rta_supervisor.gateway.rest.data import session_samples, time_index
from rta_supervisor.gateway.rest.data.session_samples import ChannelParts
from rta_supervisor.gateway.rest.data.stream_blocks import decode_limiter
from rta_supervisor.gateway.rest.data.time_index import Block, ReadStep
from rta_wire.arrays import U32, Bools
from rta_wire.chunks.channel_expression import ChannelSelection
from rta_wire.codec.scan.sample_columns import SampleColumns
from rta_wire.pb import data_pb2

KEPT_SAMPLES: Final = 4_000_000
"""Samples of blocks that the next step needs too: what is more is read again."""

FULL_READERS: Final = 2
"""Answers that are made at the same time with whole steps. Where there are more, each has smaller ones: what an answer
holds stays in memory for as long as its client does not read."""

SHARE_MIN: Final = 1 / 32

ReadSamples = Callable[[Block], Awaitable[list[SampleColumns]]]
ReadEvents = Callable[[Block, int, int], Awaitable[list[data_pb2.Event]]]
"""Reads the events of a block in a range of time, or more of them."""


class _Readers:
    """Counts the answers that are being made."""

    def __init__(self) -> None:
        self._count = 0

    @contextlib.contextmanager
    def share(self) -> Iterator[float]:
        """Of the samples that one answer alone may have in memory at a time."""
        self._count += 1
        try:
            yield max(SHARE_MIN, min(1.0, FULL_READERS / self._count))
        finally:
            self._count -= 1


_readers: Final = _Readers()


class _PassSelection(msgspec.Struct, frozen=True):
    """Every n-th channel of a selection."""

    selection: ChannelSelection
    number: int
    passes: int

    def mask(self, channels: U32) -> Bools:
        mask = self.selection.mask(channels)
        return mask if self.passes == 1 else mask & (channels % np.uint32(self.passes) == self.number)


async def samples(
    blocks: Sequence[Block],
    start_ns: int,
    end_ns: int,
    selection: ChannelSelection,
    read: ReadSamples,
    *,
    is_in_rows: bool = False,
) -> AsyncGenerator[ChannelParts, None]:
    """For each step the samples of its windows by channel, in the order of time; not sorted yet. `is_in_rows`: the
    channels of a window are all read at once, or what a row holds would depend on how many samples there are, and on
    how many others read."""
    with _readers.share() as share:
        steps = time_index.plan_samples(blocks, start_ns, end_ns, selection, share=share)
        if is_in_rows:
            steps = (msgspec.structs.replace(step, passes=1) for step in steps)
        async with contextlib.aclosing(
            _read_steps(blocks, steps, selection, read, kept_samples=KEPT_SAMPLES * share)
        ) as read_steps:
            async for parts in read_steps:
                yield parts


async def _read_steps(
    blocks: Sequence[Block],
    steps: Iterator[ReadStep],
    selection: ChannelSelection,
    read: ReadSamples,
    *,
    kept_samples: float,
) -> AsyncGenerator[ChannelParts, None]:
    kept: dict[int, list[SampleColumns]] = {}
    # Planned one by one: a session with many blocks has many steps, and others want their turn in between.
    following = next(steps, None)
    while following is not None:
        step, following = following, next(steps, None)
        for number in range(step.passes):
            parts: ChannelParts = {}
            chosen = _PassSelection(selection, number, step.passes)
            for index in step.blocks:
                columns = kept.get(index)
                if columns is None:
                    columns = await read(blocks[index])
                    if _is_kept(blocks, kept, index, following, kept_samples):
                        kept[index] = columns
                take = functools.partial(_take, parts, columns, chosen, step)
                await anyio.to_thread.run_sync(take, limiter=decode_limiter)
            if parts:
                yield parts
        needed = set() if following is None else set(following.blocks)
        kept = {index: columns for index, columns in kept.items() if index in needed}


def _is_kept(
    blocks: Sequence[Block],
    kept: dict[int, list[SampleColumns]],
    index: int,
    following: ReadStep | None,
    kept_samples: float,
) -> bool:
    if following is None or index not in following.blocks:
        return False
    return sum(blocks[other].samples for other in (*kept, index)) <= kept_samples


def _take(parts: ChannelParts, columns: list[SampleColumns], chosen: _PassSelection, step: ReadStep) -> None:
    for part in columns:
        session_samples.take_samples(parts, part, chosen, step.start_ns, step.end_ns)


async def events(
    blocks: Sequence[Block], start_ns: int, end_ns: int, read: ReadEvents
) -> AsyncGenerator[list[data_pb2.Event], None]:
    """For each step the events of its windows."""
    for step in time_index.plan_events(blocks, start_ns, end_ns):
        bounds = step.start_ns, step.end_ns
        found = [event for index in step.blocks for event in await read(blocks[index], *bounds)]
        yield [event for event in found if step.start_ns <= event.timestamp <= step.end_ns]
