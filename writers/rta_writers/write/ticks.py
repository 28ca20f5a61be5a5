"""Ticks of a recorder: one double of each of some channels, from Python's numbers to a burst without Arrow.

A tick has the bursts and the fingerprint of the same rows in a batch of Arrow. Between ticks a processor falls asleep
and its caches go cold, so that each function on the way costs several times what it does in a tight loop.
"""

import array
from collections.abc import Iterable, Set
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from rta_wire.codec import single_samples
from rta_wire.codec.burst import Burst
from rta_writers.write import fingerprint, input_columns
from rta_writers.write.frames import LONG_COLUMNS, LongEncoder

CHANNEL_SETS_MAX: Final = 64
_INT64: Final = np.dtype(np.int64)
_FLOAT64: Final = np.dtype(np.float64)
_SHORT_INTEGERS: Final[frozenset[np.dtype[Any]]] = frozenset(map(np.dtype, ("i1", "i2", "i4", "u1", "u2", "u4")))
_NUMBERS: Final[frozenset[np.dtype[Any]]] = _SHORT_INTEGERS | {_INT64, np.dtype(np.float32)}
_SEQUENCES: Final = (list, tuple)


class _ChannelSet(NamedTuple):
    """Channels that ticks have, in the order of their rows."""

    template: single_samples.Template
    id_sum: int
    """The sum of their ids, which is their part of a fingerprint."""


class TickEncoder:
    """Takes ticks of one task, where its frame is in long form and all of its channels have timestamped doubles."""

    def __init__(self, encoder: LongEncoder) -> None:
        self.encoder = encoder
        self._rows_end = min(single_samples.ROWS_MAX + 1, encoder.group_rows)
        self._channel_sets: dict[bytes, _ChannelSet | None] = {}

    def take(self, channels: Any, times_ns: Any, values: Any) -> "Tick | None":
        """The rows as a tick, None where they are anything else or have a mistake: a batch of Arrow tells."""
        try:
            ids, times, samples = _integers(channels), _integers(times_ns), _doubles(values)
        except OverflowError:
            return None
        if ids is None or times is None or samples is None:
            return None
        rows = len(times)
        if not len(ids) == rows == len(samples) or not 0 < rows < self._rows_end:
            return None
        id_bytes = ids.tobytes()
        channel_set = self._channel_set(id_bytes)
        return None if channel_set is None else Tick(self.encoder, channel_set, id_bytes, times, samples)

    def _channel_set(self, ids: bytes) -> _ChannelSet | None:
        try:
            return self._channel_sets[ids]
        except KeyError:
            if len(self._channel_sets) >= CHANNEL_SETS_MAX:
                self._channel_sets.clear()
            made = self._channel_sets[ids] = self._new_channel_set(ids)
            return made

    def _new_channel_set(self, ids: bytes) -> _ChannelSet | None:
        template = single_samples.template_for(ids, _INT64)
        numbers = np.frombuffer(ids, _INT64)
        known_ids = self.encoder.known_ids
        if template is None or (known_ids is not None and not known_ids.has_all(numbers.view(np.uint64))):
            return None
        return _ChannelSet(template, int(numbers.sum()))


class Tick:
    """Rows that are one double of each of some channels. They are copies: the caller may change its own."""

    __slots__ = ("_channel_set", "_encoder", "_ids", "_samples", "_times", "_values", "num_rows")

    def __init__(
        self, encoder: LongEncoder, channel_set: _ChannelSet, ids: bytes, times: "array.array[int]", values: Any
    ) -> None:
        self.num_rows = len(times)
        self._encoder = encoder
        self._channel_set = channel_set
        self._ids = ids
        self._times = times
        self._values = values
        self._samples: list[int] = memoryview(values).cast("B").cast("Q").tolist()
        """The bits of the values, as integers."""

    def encode_rows(self, skipped: int) -> Iterable[Burst]:
        """The bursts of the rows without the first ones."""
        options = self._encoder.encoder.options
        burst = None if skipped else self._channel_set.template.encode(self._times.tolist(), self._samples, options)
        return self._encoder.bursts(self.to_batch().slice(skipped)) if burst is None else (burst,)

    def fingerprint_rows(self, rows: int) -> int:
        """The fingerprint of the first rows."""
        if rows != self.num_rows:
            return fingerprint.first_rows(self.to_batch(), rows)
        return fingerprint.of_sums(self._channel_set.id_sum, sum(self._times), sum(self._samples))

    def to_batch(self) -> pa.RecordBatch:
        """The rows as a batch of Arrow."""
        columns = [
            input_columns.from_buffer(pa.int64(), self._ids),
            input_columns.from_buffer(pa.int64(), self._times),
            input_columns.from_buffer(pa.float64(), self._values),
        ]
        return pa.record_batch(columns, LONG_COLUMNS)


def _integers(source: Any) -> "array.array[int] | None":
    """A copy of integers; None where they are anything else. Raises OverflowError where one has more than 64 bits."""
    if type(source) in _SEQUENCES:
        return array.array("q", source) if set(map(type, source)) <= input_columns.INTS else None
    source = _vector(source, _INT64, _SHORT_INTEGERS)
    return None if source is None else array.array("q", source.tobytes())


def _doubles(source: Any) -> "array.array[float] | None":
    """A copy of numbers; None where no double is one of them, or they are anything else."""
    if type(source) in _SEQUENCES:
        return array.array("d", source) if input_columns.are_doubles(source, set(map(type, source))) else None
    if type(source) is np.ndarray and source.dtype == _INT64 and _has_large(source):
        return None
    source = _vector(source, _FLOAT64, _NUMBERS)
    return None if source is None else array.array("d", source.tobytes())


def _has_large(integers: Any) -> bool:
    """Whether a double may not have each of these integers."""
    largest = input_columns.EXACT_INT_MAX
    return integers.size > 0 and not (-largest <= integers.min() and integers.max() <= largest)


def _vector(source: Any, dtype: np.dtype[Any], others: Set[np.dtype[Any]]) -> Any:
    """An array of one of these types with the first of them; None where it is anything else."""
    if type(source) is not np.ndarray or source.ndim != 1:
        return None
    if source.dtype == dtype:
        return source
    return source.astype(dtype) if source.dtype in others else None
