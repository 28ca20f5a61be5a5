"""What can be set about the archive, and what is wrong with it."""

from typing import Final

import msgspec

from rta_wire import errors, keys
from rta_wire.codec import burst

LEVEL_MIN: Final = 1
LEVEL_MAX: Final = 19


class ArchiveSourceSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How samples of one source are stored: the wire does not say it."""

    sample_type: str = "double"
    """One type, or `7=int64, *=float`, as in the option `sampleType` of the Spark source."""
    framing: burst.Framing = burst.Framing.RAW


class ArchiveSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str = ""
    required: bool = False
    max_bytes: int = 0
    alarm_at: float = 0.8
    level: int = 3
    split_bytes: bool = False
    sources: dict[str, ArchiveSourceSettings] = {}

    def for_source(self, source: str) -> ArchiveSourceSettings:
        return self.sources.get(source, ArchiveSourceSettings())


def check(archive: ArchiveSettings) -> None:
    wrong = (
        ("path", archive.required and not archive.path, "it is empty, and archive.required waits for it"),
        ("max_bytes", archive.max_bytes < 0, "it is below 0"),
        ("alarm_at", not 0 < archive.alarm_at <= 1, "it is not above 0 and at most 1"),
        ("level", not LEVEL_MIN <= archive.level <= LEVEL_MAX, f"it is not between {LEVEL_MIN} and {LEVEL_MAX}"),
    )
    for name, is_wrong, reason in wrong:
        if is_wrong:
            raise errors.BadConfiguration(where=f"archive.{name}", reason=reason)
    for source in archive.sources:
        keys.check_stream_name(source)
