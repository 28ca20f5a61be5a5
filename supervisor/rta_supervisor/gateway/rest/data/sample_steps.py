"""Reads the samples or events of a session step by step, whole windows at a time, with bounded memory."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
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
from rta_wire.codec.sample_columns import SampleColumns
from rta_wire.pb import data_pb2

KEPT_SAMPLES: Final = 4_000_000
"""Samples of blocks that the next step needs too: what is more is read again."""

ReadSamples = Callable[[Block], Awaitable[list[SampleColumns]]]
ReadEvents = Callable[[Block], Awaitable[list[data_pb2.Event]]]


class _PassSelection(msgspec.Struct, frozen=True):
    """Every n-th channel of a selection."""

    selection: ChannelSelection
    number: int
    passes: int

    def mask(self, channels: U32) -> Bools:
        mask = self.selection.mask(channels)
        return mask if self.passes == 1 else mask & (channels % np.uint32(self.passes) == self.number)


async def samples(
    blocks: Sequence[Block], start_ns: int, end_ns: int, selection: ChannelSelection, read: ReadSamples
) -> AsyncIterator[ChannelParts]:
    """For each step the samples of its windows by channel, in the order of time; not sorted yet."""
    steps = list(time_index.plan_samples(blocks, start_ns, end_ns, selection))
    kept: dict[int, list[SampleColumns]] = {}
    for step, following in zip(steps, [*steps[1:], None], strict=False):
        for number in range(step.passes):
            parts: ChannelParts = {}
            chosen = _PassSelection(selection, number, step.passes)
            for index in step.blocks:
                columns = kept.get(index)
                if columns is None:
                    columns = await read(blocks[index])
                    if _is_kept(blocks, kept, index, following):
                        kept[index] = columns
                await anyio.to_thread.run_sync(_take, parts, columns, chosen, step, limiter=decode_limiter)
            if parts:
                yield parts
        needed = set() if following is None else set(following.blocks)
        kept = {index: columns for index, columns in kept.items() if index in needed}


def _is_kept(
    blocks: Sequence[Block], kept: dict[int, list[SampleColumns]], index: int, following: ReadStep | None
) -> bool:
    if following is None or index not in following.blocks:
        return False
    return sum(blocks[other].samples for other in (*kept, index)) <= KEPT_SAMPLES


def _take(parts: ChannelParts, columns: list[SampleColumns], chosen: _PassSelection, step: ReadStep) -> None:
    for part in columns:
        session_samples.take_samples(parts, part, chosen, step.start_ns, step.end_ns)


async def events(
    blocks: Sequence[Block], start_ns: int, end_ns: int, read: ReadEvents
) -> AsyncIterator[list[data_pb2.Event]]:
    """For each step the events of its windows."""
    for step in time_index.plan_events(blocks, start_ns, end_ns):
        found = [event for index in step.blocks for event in await read(blocks[index])]
        yield [event for event in found if step.start_ns <= event.timestamp <= step.end_ns]
