"""The bodies of answers with data: steps of samples or events to bytes, encoded in worker threads."""

import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Final, TypeVar

import anyio.to_thread
import numpy as np

from rta_supervisor.gateway.rest.answers import Body
from rta_supervisor.gateway.rest.data import row_forms, session_samples
from rta_supervisor.gateway.rest.data.row_forms import RowForm, SampleRows
from rta_supervisor.gateway.rest.data.session_samples import ChannelParts
from rta_supervisor.gateway.rest.data.stream_blocks import decode_limiter
from rta_wire.arrays import I64, Array
from rta_wire.chunks import event_chunks, row_chunks, sample_chunks, transfer
from rta_wire.chunks.envelope import SampleEnvelope
from rta_wire.chunks.transfer import Chunk, ChunkPacker
from rta_wire.codec.layout import Kind, Plan, SampleType
from rta_wire.pb import data_pb2

PIECE_BYTES: Final = 256 * 1024
"""About how much is sent at a time."""

ROWS_AT_ONCE: Final = 32_768
"""Rows that are encoded and sent at a time: up to 3 MB."""

T = TypeVar("T")

Samples = AsyncGenerator[ChannelParts, None]
Events = AsyncGenerator[list[data_pb2.Event], None]


async def sample_chunks_body(steps: Samples, kind: Kind, layouts: Plan) -> Body:
    """Chunks of samples."""
    packer = ChunkPacker()
    async with contextlib.aclosing(steps):
        async for parts in steps:
            for piece in await _in_thread(lambda: _packed(_chunks(parts, kind, layouts), packer)):  # noqa: B023 - used at once
                yield piece


def _chunks(parts: ChannelParts, kind: Kind, layouts: Plan) -> Iterator[Chunk]:
    ordered = ((channel, *session_samples.in_time_order(parts[channel])) for channel in sorted(parts))
    if kind is Kind.ROW:
        yield from row_chunks.rows([row_chunks.SortedSamples(*samples) for samples in ordered])
        return
    for channel, times, values in ordered:
        if kind is Kind.PERIODIC:
            yield from sample_chunks.periodic(channel, times, values, layouts.layout(channel).interval_ns)
        else:
            yield from sample_chunks.timestamped(channel, times, values)


async def event_chunks_body(steps: Events) -> Body:
    """Chunks of events."""
    packer = ChunkPacker()
    async with contextlib.aclosing(steps):
        async for events in steps:
            ordered = event_chunks.in_time_order(events)
            for piece in await _in_thread(lambda: _packed(event_chunks.events(ordered), packer)):  # noqa: B023
                yield piece


def _packed(chunks: Iterator[Chunk], packer: transfer.ChunkPacker) -> list[bytes]:
    pieces: list[bytes] = []
    waiting: list[bytes] = []
    size = 0
    for chunk in chunks:
        packed = packer.pack(chunk)
        waiting.append(packed)
        size += len(packed)
        if size >= PIECE_BYTES:
            pieces.append(b"".join(waiting))
            waiting, size = [], 0
    return [*pieces, b"".join(waiting)] if waiting else pieces


async def sample_rows_body(
    steps: Samples, rows: SampleRows, form: RowForm, sample_type: SampleType, bounds_ns: tuple[int, int]
) -> Body:
    """Samples as rows, those of the range alone: step by step in time, and in a step channel by channel."""
    yield form.head()

    def cut(parts: ChannelParts, channel: int) -> tuple[I64, Array]:
        times, values = session_samples.in_time_order(parts.pop(channel))
        first, last = np.searchsorted(times, bounds_ns[0]), np.searchsorted(times, bounds_ns[1], "right")
        return times[first:last], values[first:last]

    async with contextlib.aclosing(steps):
        async for parts in steps:
            for channel in sorted(parts):
                times, values = await _in_thread(lambda: cut(parts, channel))  # noqa: B023 - used at once
                for first in range(0, len(times), ROWS_AT_ONCE):
                    part = slice(first, first + ROWS_AT_ONCE)
                    yield await _in_thread(
                        lambda: form.rows(rows.samples(channel, times[part], values[part], sample_type))  # noqa: B023
                    )
    yield form.tail()


async def envelope_body(envelope: SampleEnvelope, rows: SampleRows, form: RowForm) -> Body:
    """The steps of an envelope, channel by channel."""
    yield form.head()
    for channel_steps in envelope.channels():
        yield await _in_thread(lambda: form.rows(rows.envelope(channel_steps)))  # noqa: B023 - used at once
    yield form.tail()


async def event_rows_body(steps: Events, form: RowForm, bounds_ns: tuple[int, int]) -> Body:
    """Events of the range as rows."""
    yield form.head()
    async with contextlib.aclosing(steps):
        async for events in steps:
            wanted = [event for event in events if bounds_ns[0] <= event.timestamp <= bounds_ns[1]]
            if wanted:
                yield await _in_thread(lambda: form.rows(row_forms.event_table(wanted)))  # noqa: B023 - used at once
    yield form.tail()


async def _in_thread(work: Callable[[], T]) -> T:
    return await anyio.to_thread.run_sync(work, limiter=decode_limiter)
