"""Section `[compact]`: when streams move into cold streams, how fast, and how they are compressed there."""

import msgspec

from rta_supervisor.settings.sections import checks
from rta_wire.cold import batch as cold_batch


class CompactSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When and how to compact. `after_s = 0` switches it off."""

    after_s: float = 0
    every_s: float = 60.0
    bytes_per_s: int = 20_000_000
    streams_per_hour: int = 60
    paused: bool = False
    codec: str = cold_batch.ZSTD
    level: int = cold_batch.LEVEL

    @property
    def options(self) -> cold_batch.ColdCompression:
        """Codec and level, as a cold batch takes them."""
        return cold_batch.ColdCompression(self.codec, self.level)

    def check(self) -> None:
        lowest, highest = cold_batch.LEVELS.get(self.codec, (0, 0))
        is_unknown, codecs = self.codec not in cold_batch.CODECS, ", ".join(cold_batch.CODECS)
        other_level = f"of {self.codec} it is between {lowest} and {highest}"
        checks.refuse_first(
            [
                ("compact.after_s", self.after_s < 0, checks.BELOW_0),
                ("compact.every_s", self.every_s <= 0, checks.NOT_ABOVE_0),
                ("compact.bytes_per_s", self.bytes_per_s < 1, checks.NOT_ABOVE_0),
                ("compact.streams_per_hour", self.streams_per_hour < 1, checks.NOT_ABOVE_0),
                ("compact.codec", is_unknown, f"it is one of {codecs}"),
                ("compact.level", not lowest <= self.level <= highest, other_level),
            ]
        )
