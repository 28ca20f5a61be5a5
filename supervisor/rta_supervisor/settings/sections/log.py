"""Section `[log]`: which events are logged, and how they are written."""

from typing import Final

import msgspec

from rta_supervisor.settings.sections import checks

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("auto", "json", "console")


class LogSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Level and format of the log."""

    level: str = "info"
    format: str = "auto"

    def check(self) -> None:
        checks.refuse_first(
            [
                ("log.level", self.level not in LEVELS, f"it is one of {', '.join(LEVELS)}"),
                ("log.format", self.format not in FORMATS, f"it is one of {', '.join(FORMATS)}"),
            ]
        )
