"""When streams are compacted and how fast, as the settings say."""

import msgspec

from rta_wire import errors
from rta_wire.cold import batch as cold_batch


class CompactSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    after_s: float = 0
    every_s: float = 60.0
    bytes_per_s: int = 20_000_000
    streams_per_hour: int = 60
    paused: bool = False
    codec: str = cold_batch.ZSTD
    level: int = cold_batch.LEVEL

    @property
    def options(self) -> cold_batch.ColdCompression:
        return cold_batch.ColdCompression(self.codec, self.level)


def check(compact: CompactSettings) -> None:
    lowest, highest = cold_batch.LEVELS.get(compact.codec, (0, 0))
    wrong = (
        ("after_s", compact.after_s < 0, "it is below 0"),
        ("every_s", compact.every_s <= 0, "it is not above 0"),
        ("bytes_per_s", compact.bytes_per_s < 1, "it is not above 0"),
        ("streams_per_hour", compact.streams_per_hour < 1, "it is not above 0"),
        ("codec", compact.codec not in cold_batch.CODECS, f"it is one of {', '.join(cold_batch.CODECS)}"),
        ("level", not lowest <= compact.level <= highest, f"of {compact.codec} it is between {lowest} and {highest}"),
    )
    for name, is_wrong, reason in wrong:
        if is_wrong:
            raise errors.BadConfiguration(where=f"compact.{name}", reason=reason)
