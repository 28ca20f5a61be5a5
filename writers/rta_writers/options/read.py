"""Options of a reader, parsed once."""

import enum
import re
from collections.abc import Mapping
from typing import Final, Self

import msgspec

from rta_wire import errors, keys
from rta_wire.codec import burst
from rta_wire.codec import layout as codec_layout
from rta_writers.options import parse as options_parse
from rta_writers.options.layout import LAYOUT_PARSERS, build_layouts
from rta_writers.options.target import TARGET_PARSERS

PARTITIONS_MAX: Final = 256


ENTRIES_PER_TRIGGER_MAX: Final = 10_000_000


EARLIEST: Final = "earliest"


LATEST: Final = "latest"


_ENTRY_ID: Final = re.compile(r"\d{1,20}-\d{1,20}")


class ReadForm(enum.StrEnum):
    """What is read."""

    SAMPLES = "samples"
    EVENTS = "events"
    ENTRIES = "entries"


def _offset(given: str) -> str:
    if given in (EARLIEST, LATEST) or _ENTRY_ID.fullmatch(given):
        return given
    raise ValueError("it is earliest, latest or the id of an entry, like 1700000000000-0")


READ_PARSERS: Final[dict[str, options_parse.ValueParser]] = {
    **TARGET_PARSERS,
    **LAYOUT_PARSERS,
    "form": options_parse.one_of(ReadForm),
    "failOnDataLoss": options_parse.boolean,
    "startingOffset": _offset,
    "partitions": options_parse.integer(1, PARTITIONS_MAX),
    "maxEntriesPerTrigger": options_parse.integer(1, ENTRIES_PER_TRIGGER_MAX),
}


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a read asked for: all of a stream, or one session in it."""

    redis_url: str
    session: str | None = None
    stream: str | None = None
    names: keys.Keys = keys.Keys()
    layouts: codec_layout.Plan = codec_layout.Plan()
    framing: burst.Framing = burst.Framing.RAW
    form: ReadForm = ReadForm.SAMPLES
    fail_on_data_loss: bool = True
    starting_offset: str = EARLIEST
    partitions: int | None = None
    max_entries_per_trigger: int | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> Self:
        found = options_parse.parse_options(given, READ_PARSERS)
        if "redisUrl" not in found:
            raise errors.Usage(reason="Format 'rta' needs the option 'redisUrl'")
        if "session" not in found and "stream" not in found:
            raise errors.Usage(reason="Format 'rta' reads a session or a stream: set option 'session' or 'stream'")
        if "session" in found:
            keys.check_identity(found["session"])
        if "stream" in found:
            keys.check_stream_name(found["stream"])
        names = {
            field: found[option]
            for field, option in {"prefix": "keyPrefix", "session_template": "sessionTemplate"}.items()
            if option in found
        }
        layout = [found.get(option, {}) for option in ("channels", "sampleType", "kind", "intervalNs")]
        simple = {
            "redis_url": "redisUrl",
            "session": "session",
            "stream": "stream",
            "framing": "framing",
            "form": "form",
            "fail_on_data_loss": "failOnDataLoss",
            "starting_offset": "startingOffset",
            "partitions": "partitions",
            "max_entries_per_trigger": "maxEntriesPerTrigger",
        }
        return cls(
            names=keys.Keys(**names),
            layouts=build_layouts(layout[0], layout[1], layout[2], layout[3]),
            **{field: found[option] for field, option in simple.items() if option in found},
        )
