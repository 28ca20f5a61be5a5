"""The reading half of the Spark data source: rows of a session or a stream, in batch and as a stream of entries."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec
import pyarrow as pa
from pyspark.sql import types as sql
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import from_arrow_schema

from rta_wire import errors
from rta_writers.connection import redis_client
from rta_writers.read import batches
from rta_writers.read import plan as read_plan
from rta_writers.read.batches import Bounds

_TIME: Final = ("time",)
_NEVER_NULL: Final = {("time",), ("channel",), ("value",), (batches.NUMBER,), ("event_definition_id",), ("entry",)}


def schema_of(options: read_plan.Options) -> sql.StructType:
    """The columns that a read gives, as Spark names them."""
    return from_arrow_schema(batches.schema(options))


class RangePartition(InputPartition):
    """A range of entries for one task."""

    def __init__(self, where: read_plan.Range) -> None:
        super().__init__(where)
        self.where = where


class Reading:
    """What both readers do in a task."""

    def __init__(self, given: dict[str, str], schema: sql.StructType) -> None:
        self._given = given
        self._names = schema.fieldNames()
        self._bounds = Bounds()
        ours = schema_of(read_plan.Options.read(given))
        for field in schema.fields:
            if field.name not in ours.fieldNames() or ours[field.name].dataType != field.dataType:
                raise errors.Usage(
                    reason=f"Format 'rta' does not give a column {field.simpleString()}; it gives {ours.simpleString()}"
                )

    def rows(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, RangePartition):
            for batch in batches.batches(read_plan.Options.read(self._given), partition.where, self._bounds):
                yield batch.select(self._names)


class BatchReader(Reading, DataSourceReader):
    """Everything that stands in the stream when the query is planned."""

    def partitions(self) -> list[InputPartition]:
        options = read_plan.Options.read(self._given)
        with redis_client.connect(options.redis_url) as client:
            place = read_plan.find(client, options)
            now = read_plan.counters(client, options, place.stream)
            if options.starting_offset == read_plan.LATEST:
                return []
            if options.starting_offset != read_plan.EARLIEST:
                place = msgspec.structs.replace(place, after=options.starting_offset)
            missing = read_plan.lost(client, options, place, now)
            if missing is None or (missing and options.session is not None):
                read_plan.report_gap(options, place.stream, place.after, missing)
            names = read_plan.identities(client, options, place)
            return [RangePartition(one) for one in read_plan.ranges(place, now, options, names, now.last_id)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return self.rows(partition)


class FilteringReader(BatchReader):
    """Takes filters over from Spark. Spark refuses such a reader unless the session allows it, so it is one apart."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        for one in filters:
            bounds = narrowed(self._bounds, one)
            if bounds is None:
                yield one
            else:
                self._bounds = bounds


def narrowed(bounds: Bounds, one: Filter) -> Bounds | None:
    """Bounds that a filter leaves, or None where they can't express it."""
    column = getattr(one, "attribute", None)
    if isinstance(one, IsNotNull):
        return bounds if column in _NEVER_NULL else None
    if isinstance(one, EqualNullSafe) and one.value is None:
        return None
    if column == _TIME:
        return _at_times(bounds, one)
    field = {("channel",): "channels", (batches.SESSION,): "sessions", (batches.NUMBER,): "numbers"}.get(
        tuple(column or ())
    )
    wanted: frozenset[Any] | None = None
    if isinstance(one, (EqualTo, EqualNullSafe)):
        wanted = frozenset([one.value])
    elif isinstance(one, In):
        wanted = frozenset(one.value)
    if field is None or wanted is None:
        return None
    before: frozenset[Any] | None = getattr(bounds, field)
    return msgspec.structs.replace(bounds, **{field: wanted if before is None else wanted & before})


def _at_times(bounds: Bounds, one: Filter) -> Bounds | None:
    if not isinstance(
        one, (EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual)
    ) or not isinstance(one.value, int):
        return None
    start: int | None = None
    end: int | None = None
    if isinstance(one, (EqualTo, EqualNullSafe)):
        start = end = one.value
    elif isinstance(one, (GreaterThan, GreaterThanOrEqual)):
        start = one.value + isinstance(one, GreaterThan)
    else:
        end = one.value - isinstance(one, LessThan)
    starts = [ns for ns in (bounds.start_ns, start) if ns is not None]
    ends = [ns for ns in (bounds.end_ns, end) if ns is not None]
    return msgspec.structs.replace(bounds, start_ns=max(starts) if starts else None, end_ns=min(ends) if ends else None)
