"""Section `[archive]`: where Parquet files go, how they are written, and whether Redis keeps data until then."""

from pathlib import Path
from typing import Final

import msgspec

from rta_supervisor.settings import sources
from rta_supervisor.settings.sections import checks
from rta_wire import name_checks
from rta_wire.codec import burst

LEVEL_MIN: Final = 1
LEVEL_MAX: Final = 19


class ArchiveSourceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How samples of one source are stored, which the bursts themselves do not say."""

    sample_type: str = "double"
    """One type, or `7=int64, *=float`, as in the option `sampleType` of the Spark source."""
    framing: burst.Framing = burst.Framing.RAW


class ArchiveSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The folder of the archive, and what holds for all sources and for single ones."""

    path: str = ""
    required: bool = False
    max_bytes: int = 0
    alarm_at: float = 0.8
    every_s: float = 0
    """How often a supervisor starts a run itself; 0: never."""
    level: int = 3
    split_bytes: bool = False
    sources: dict[str, ArchiveSourceSettings] = {}

    @property
    def folder(self) -> str:
        """The absolute path, empty where there is none: others have another working directory."""
        return str(Path(self.path).absolute()) if self.path else ""

    def for_source(self, source: str) -> ArchiveSourceSettings:
        """How samples of a source are stored: as its table says, else by the defaults."""
        return self.sources.get(source, ArchiveSourceSettings())

    def check(self) -> None:
        is_missing = self.required and not self.path
        other_level = f"it is not between {LEVEL_MIN} and {LEVEL_MAX}"
        checks.refuse_first(
            [
                ("archive.path", is_missing, "it is empty, and archive.required waits for it"),
                ("archive.max_bytes", self.max_bytes < 0, checks.BELOW_0),
                ("archive.every_s", self.every_s < 0, checks.BELOW_0),
                ("archive.path", self.every_s > 0 and not self.path, "it is empty, and archive.every_s needs it"),
                ("archive.alarm_at", not 0 < self.alarm_at <= 1, "it is not above 0 and at most 1"),
                ("archive.level", not LEVEL_MIN <= self.level <= LEVEL_MAX, other_level),
            ]
        )
        for source in self.sources:
            checks.refuse_bad_name(
                sources.dotted(("archive", "sources", source)), name_checks.check_stream_name, source
            )
