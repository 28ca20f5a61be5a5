"""Arrow batches in long form to numpy columns, checked."""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rta_wire import errors, limits

CHANNEL: Final = "channel"
TIME: Final = "time"
VALUE: Final = "value"

Columns = tuple[npt.NDArray[np.uint32], npt.NDArray[np.int64], npt.NDArray[np.float64]]


def long_form(batch: pa.RecordBatch | pa.Table) -> Columns:
    """Channels, times in ns and values. A null value is an absent sample; any other null is an error."""
    for name in (CHANNEL, TIME):
        if (nulls := batch.column(name).null_count) > 0:
            raise errors.BadSamples(reason=f"column {name!r} holds {nulls} nulls")
    if batch.column(VALUE).null_count > 0:
        batch = batch.filter(pc.is_valid(batch.column(VALUE)))
    channels = batch.column(CHANNEL).to_numpy()
    if len(channels) and not 0 <= channels.min() <= channels.max() <= limits.CHANNEL_ID_MAX:
        raise errors.BadSamples(reason=f"a channel id is not between 0 and {limits.CHANNEL_ID_MAX}")
    return (
        channels.astype(np.uint32),
        _times_ns(batch.column(TIME)),
        batch.column(VALUE).to_numpy().astype(np.float64),
    )


def _times_ns(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.int64]:
    if pa.types.is_timestamp(column.type):
        try:
            column = column.cast(pa.timestamp("ns", column.type.tz))
        except pa.ArrowInvalid as error:
            raise errors.BadSamples(reason=f"a time does not fit into 64 bits of nanoseconds: {error}") from error
    times_ns: npt.NDArray[np.int64] = column.cast(pa.int64()).to_numpy()
    return times_ns
