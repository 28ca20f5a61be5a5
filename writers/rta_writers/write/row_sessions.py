"""Divides rows by the sessions that they name, and finds the stream that each session is in by its first row."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rta_wire import errors, name_checks
from rta_writers.options import stream_template
from rta_writers.options.write import WriteOptions
from rta_writers.write import frames


class SessionRows(NamedTuple):
    """Rows of one session in their order, with the columns of the form alone."""

    identity: str
    stream: str
    rows: pa.RecordBatch


class RowDivider:
    """Divides the batches of one frame."""

    def __init__(self, options: WriteOptions, encoder: frames.FrameEncoder, schema: pa.Schema) -> None:
        template = options.stream_template
        self._default_stream: str | None = None
        by_column = stream_template.STREAM_COLUMN
        if not template.columns and by_column in schema.names and not encoder.has_column(by_column):
            self._default_stream = name_checks.unescape_stream_name(options.stream)
            template = stream_template.BY_COLUMN
        self._template = template
        named = {frames.SESSION, *template.columns}
        self._columns = [name for name in schema.names if name not in named or encoder.has_column(name)]

    def divide(self, batch: pa.RecordBatch) -> Iterator[SessionRows]:
        """Sessions in the order of their first rows. Rows of one session in two streams are an error."""
        names = _encode(batch, frames.SESSION)
        streams = self._streams(batch, names)
        rows = batch.select(self._columns)
        if len(streams) == 1:
            ((identity, stream),) = streams.items()
            yield SessionRows(identity, stream, rows)
            return
        codes = names.indices.to_numpy()
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(streams)))
        for (identity, stream), positions in zip(streams.items(), np.split(order, ends[:-1]), strict=True):
            yield SessionRows(identity, stream, rows.take(pa.array(positions)))

    def streams(self, batch: pa.RecordBatch) -> dict[str, str]:
        """The stream of each session that rows name, with the errors of `divide`."""
        return self._streams(batch, _encode(batch, frames.SESSION))

    def _streams(self, batch: pa.RecordBatch, names: Any) -> dict[str, str]:
        identities: Sequence[str] = names.dictionary.to_pylist()
        if not self._template.columns:
            return dict.fromkeys(identities, self._template.text)
        codes = names.indices.to_numpy()
        parts = {name: _encode(batch, name, self._default_stream) for name in self._template.columns}
        first_rows = np.empty(len(identities), np.int64)
        first_rows[codes[::-1]] = np.arange(len(codes))[::-1]  # the last assignment counts: that of the first row
        streams = [self._stream(parts, row) for row in first_rows.tolist()]
        differs = np.zeros(len(codes), np.bool_)
        for part in parts.values():
            part_codes = part.indices.to_numpy()
            differs |= part_codes != part_codes[first_rows][codes]
        for row in np.flatnonzero(differs).tolist():
            check_stream(identities[codes[row]], streams[codes[row]], self._stream(parts, row))
        return dict(zip(identities, streams, strict=True))

    def _stream(self, parts: dict[str, Any], row: int) -> str:
        return self._template.render({name: part[row].as_py() for name, part in parts.items()})


def check_stream(identity: str, stream: str, other: str) -> None:
    """Refuse a row that names another stream than the rows of its session before it."""
    if stream != other:
        raise errors.SessionConflict(identity=identity, what="the stream", theirs=stream, ours=other)


def _encode(batch: pa.RecordBatch, name: str, default: str | None = None) -> Any:
    """A column of texts or integers with a code for each value. A null is an error where there is no default."""
    array = batch.column(name)
    if array.null_count and default is not None:
        array = array.cast(pa.string()).fill_null(default)
    if array.null_count:
        row = int(np.argmax(array.is_null().to_numpy(zero_copy_only=False)))
        raise errors.BadSamples(reason=f"row {row} of a batch: the {name} is null", row=row)
    return array.dictionary_encode()
