"""Fills the envelope of a request: with cells where steps are made of them, with samples of the other blocks."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio.to_thread

from rta_supervisor.gateway.rest.data import sample_steps, session_samples
from rta_supervisor.gateway.rest.data.sample_steps import ReadSamples
from rta_supervisor.gateway.rest.data.session_samples import ChannelParts
from rta_supervisor.gateway.rest.data.stream_blocks import decode_limiter
from rta_supervisor.gateway.rest.data.time_index import Block, BlockFilter, TimeSpan
from rta_wire.chunks import envelope_cells
from rta_wire.chunks.channel_expression import ChannelSelection
from rta_wire.chunks.envelope import SampleEnvelope
from rta_wire.chunks.envelope_cells import EnvelopeCells

SUMMED_MAX_BYTES: Final = 32 * 1024 * 1024
"""Cells that are added to an envelope at a time. They are of all channels, and a long session has many."""

ReadCells = Callable[[Block], Awaitable[EnvelopeCells | None]]


async def fill(
    envelope: SampleEnvelope,
    blocks: Sequence[Block],
    selection: ChannelSelection,
    read_samples: ReadSamples,
    read_cells: ReadCells,
) -> None:
    """Adds all samples of the range of an envelope, each once."""
    bounds_ns = envelope.bounds_ns
    summed: list[EnvelopeCells] = []
    summed_bytes = 0
    others: list[Block] = []
    block_filter = BlockFilter(selection)
    for block in blocks:
        if block.sample_span is None or not block_filter.has(block, *bounds_ns):
            continue
        cells = await _cells(envelope, block, block.sample_span, read_cells)
        if cells is None:
            others.append(block)
            continue
        summed.append(cells)
        summed_bytes += cells.size_bytes
        if summed_bytes > SUMMED_MAX_BYTES:
            await anyio.to_thread.run_sync(envelope.add_cells, summed, selection, limiter=decode_limiter)
            summed, summed_bytes = [], 0
    if summed:
        await anyio.to_thread.run_sync(envelope.add_cells, summed, selection, limiter=decode_limiter)
    async for parts in sample_steps.samples(others, *bounds_ns, selection, read_samples):
        await anyio.to_thread.run_sync(_add, envelope, parts, limiter=decode_limiter)


async def _cells(envelope: SampleEnvelope, block: Block, span: TimeSpan, read_cells: ReadCells) -> EnvelopeCells | None:
    """The cells of a block, None where steps of the envelope are not made of them."""
    shortest = envelope_cells.level_of(block.samples, 1, span.end_ns - span.start_ns)
    if not envelope.takes(shortest, span.start_ns, span.end_ns):
        return None
    cells = await read_cells(block)
    return cells if cells is not None and envelope.takes(cells.level, span.start_ns, span.end_ns) else None


def _add(envelope: SampleEnvelope, parts: ChannelParts) -> None:
    for channel, runs in parts.items():
        for times, values in session_samples.joined(runs):
            envelope.add(channel, times, values)
