"""Columns of the files of the archive. New columns come last: files without them stay readable."""

from typing import Final

import pyarrow as pa

RAW_DATA_TYPE: Final = pa.list_(pa.field("element", pa.float64()))
_TEXT: Final = pa.dictionary(pa.int32(), pa.string())

SAMPLES: Final = pa.schema(
    [
        pa.field("identity", _TEXT, nullable=False),
        pa.field("stream_session_id", pa.int64(), nullable=False),
        pa.field("channel", pa.int64(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("value", pa.float64(), nullable=False),
        pa.field("integer", pa.decimal128(20, 0)),
        pa.field("name", _TEXT),
        pa.field("unit", _TEXT),
    ]
)
"""`value` is exact for all types but whole numbers of 64 bits: `integer` has those with all their digits. `name` and
`unit` are those of the session's configuration, null for channels that it does not have."""

EVENTS: Final = pa.schema(
    [
        pa.field("identity", pa.string(), nullable=False),
        pa.field("stream_session_id", pa.int64(), nullable=False),
        pa.field("event_definition_id", pa.int32(), nullable=False),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("app_name", pa.string(), nullable=False),
        pa.field("status_text", pa.string(), nullable=False),
        pa.field("raw_data", RAW_DATA_TYPE),
        pa.field("entry_ms", pa.uint64()),
        pa.field("entry_seq", pa.uint64()),
        pa.field("position", pa.int32()),
    ]
)
"""The last three say where in the stream an event was: the id of its entry, and its index in that burst."""

MESSAGES: Final = pa.schema(
    [
        pa.field("identity", _TEXT, nullable=False),
        pa.field("stream_session_id", pa.int64(), nullable=False),
        pa.field("chunk", pa.int32(), nullable=False),
        pa.field("entry_ms", pa.uint64(), nullable=False),
        pa.field("entry_seq", pa.uint64(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("kind", _TEXT, nullable=False),
        pa.field("channel", pa.int64()),
        pa.field("time", pa.int64(), nullable=False),
        pa.field("step", pa.int64(), nullable=False),
        pa.field("samples", pa.int64(), nullable=False),
        pa.field("sample_type", _TEXT, nullable=False),
        pa.field("row_set", _TEXT),
    ]
)
"""A line for each message with samples, in the order of the stream.

`chunk` counts the groups in which rows of the file with samples are sorted by channel. `step` is the interval of
periodic data and the scale of the deltas of timestamped data. A row has its channels in `row_set`, with commas, and no
`channel`; its `sample_type` has as many types as channels where they differ."""

READ_COLUMNS: Final = ("channel", "time", "value", "integer")
"""What has to be read of a file with samples."""
