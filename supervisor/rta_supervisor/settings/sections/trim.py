"""Sections `[trim]`: how long, how large and how old a live stream may become, for all streams and for single ones;
and `[other_producers]`."""

from collections.abc import Iterator

import msgspec

from rta_supervisor.settings import sources
from rta_supervisor.settings.sections import checks
from rta_wire import day_streams, name_checks


class TrimLimits(msgspec.Struct, frozen=True):
    """The limits of one stream. 0 means no limit, but for `max_entries`.

    `entry_s` and `entry_bytes` are the time and the memory that one of `max_entries` stands for: where entries are many
    and small, more of them stay. 0: none.
    """

    max_entries: int
    entry_s: float
    entry_bytes: int
    max_bytes: int
    max_age_s: float
    min_retention_s: float
    idle_stream_s: float
    exact: bool


class StreamTrimSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of one stream or source that differ from those of all; None: as for all."""

    max_entries: int | None = None
    entry_s: float | None = None
    entry_bytes: int | None = None
    max_bytes: int | None = None
    max_age_s: float | None = None
    min_retention_s: float | None = None
    idle_stream_s: float | None = None
    exact: bool | None = None


class TrimSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of all streams, and of those that have their own."""

    enabled: bool = True
    every_s: float = 30.0
    max_entries: int = 10_000
    entry_s: float = 0.5
    entry_bytes: int = 51_200
    max_bytes: int = 0
    max_age_s: float = 0
    min_retention_s: float = 60.0
    idle_stream_s: float = 7 * day_streams.DAY_S
    exact: bool = False
    streams: dict[str, StreamTrimSettings] = {}

    def limits_for(self, stream: str) -> TrimLimits:
        """The limits of a stream: its own, else those of its source, else those of all."""
        overrides = self.streams.get(stream) or self.streams.get(day_streams.source_of(stream), StreamTrimSettings())
        return TrimLimits(
            *(
                getattr(self, name) if (value := getattr(overrides, name)) is None else value
                for name in TrimLimits.__struct_fields__
            )
        )

    def all_limits(self) -> Iterator[tuple[str, TrimLimits]]:
        """The dotted name of every table of limits, with the limits that follow from it."""
        yield "trim", self.limits_for("")
        for stream in self.streams:
            yield _table(stream), self.limits_for(stream)

    def check(self) -> None:
        checks.refuse_first([("trim.every_s", self.every_s <= 0, checks.NOT_ABOVE_0)])
        for stream in self.streams:
            checks.refuse_bad_name(_table(stream), name_checks.check_stream_name, stream)
        for where, limits in self.all_limits():
            checks.refuse_first([(f"{where}.max_entries", limits.max_entries < 1, checks.NOT_ABOVE_0)])
            checks.refuse_first(
                (f"{where}.{name}", getattr(limits, name) < 0, checks.BELOW_0)
                for name in ("entry_s", "entry_bytes", "max_bytes", "max_age_s", "min_retention_s", "idle_stream_s")
            )


class OtherProducersSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Section `[other_producers]`: streams and sessions that no supervisor opened. By default they are left alone."""

    trim_streams: bool = False
    remove_sessions_after_s: float = 0

    def check(self) -> None:
        name = "other_producers.remove_sessions_after_s"
        checks.refuse_first([(name, self.remove_sessions_after_s < 0, checks.BELOW_0)])


def _table(stream: str) -> str:
    return sources.dotted(("trim", "streams", stream))
