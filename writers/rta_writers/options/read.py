"""Options of a reader: which there are, what each may be, and the values that they are parsed into."""

import enum
import re
from collections.abc import Mapping
from typing import Final, Self

import msgspec

from rta_wire import entry_ids, errors, keys, name_checks, redis_url
from rta_wire.codec import burst
from rta_wire.codec import layout as codec_layout
from rta_writers.options import layout as options_layout
from rta_writers.options import parse as options_parse
from rta_writers.options import target as options_target

PARTITIONS_MAX: Final = 256
ENTRIES_PER_TRIGGER_MAX: Final = 10_000_000
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
_ENTRY_ID: Final = re.compile(r"[0-9]{1,20}-[0-9]{1,20}")


class ReadForm(enum.StrEnum):
    """What a row of a read is: a sample, an event, or a whole entry of the stream."""

    SAMPLES = "samples"
    EVENTS = "events"
    ENTRIES = "entries"


def _offset(value: str) -> str:
    if value in (EARLIEST, LATEST):
        return value
    if _ENTRY_ID.fullmatch(value) and max(entry_ids.parse(value)) <= entry_ids.PART_MAX:
        return value
    raise ValueError("it is earliest, latest or the id of an entry, like 1700000000000-0")


READ_PARSERS: Final[dict[str, options_parse.ValueParser]] = {
    **options_target.TARGET_PARSERS,
    **options_layout.LAYOUT_PARSERS,
    "form": options_parse.one_of(ReadForm),
    "failOnDataLoss": options_parse.boolean,
    "followDays": options_parse.boolean,
    "waitForStream": options_parse.boolean,
    "startingOffset": _offset,
    "partitions": options_parse.integer(1, PARTITIONS_MAX),
    "maxEntriesPerTrigger": options_parse.integer(1, ENTRIES_PER_TRIGGER_MAX),
}

_KEY_FIELDS: Final = {"prefix": "keyPrefix", "session_template": "sessionTemplate"}
_FIELDS: Final = {
    "redis_url": "redisUrl",
    "session": "session",
    "stream": "stream",
    "framing": "framing",
    "form": "form",
    "fail_on_data_loss": "failOnDataLoss",
    "follow_days": "followDays",
    "wait_for_stream": "waitForStream",
    "starting_offset": "startingOffset",
    "partitions": "partitions",
    "max_entries_per_trigger": "maxEntriesPerTrigger",
}
"""The option for each field of `ReadOptions` that takes its value as it is."""


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What to read, all of a stream or one session of it, and how. Plain values that go from the driver to tasks."""

    redis_url: str
    session: str | None = None
    stream: str | None = None
    names: keys.Keys = keys.Keys()
    layouts: codec_layout.Plan = codec_layout.Plan()
    framing: burst.Framing = burst.Framing.RAW
    form: ReadForm = ReadForm.SAMPLES
    fail_on_data_loss: bool = True
    follow_days: bool = True
    """Whether the days of a source are read with the stream of its name."""
    wait_for_stream: bool = False
    """Whether a stream or a session that is not there is empty so far, and no error."""
    learns_template: bool = False
    """Whether the template of session keys is that which supervisors registered."""
    starting_offset: str = EARLIEST
    partitions: int | None = None
    max_entries_per_trigger: int | None = None

    def __repr__(self) -> str:
        shown = msgspec.structs.replace(self, redis_url=redis_url.redact(self.redis_url))
        return msgspec.Struct.__repr__(shown)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """The options of a Spark reader, complete and consistent, or an error that names the wrong one."""
        values = options_parse.parse_options(options, READ_PARSERS)
        if "redisUrl" not in values:
            raise errors.Usage(reason="Format 'rta' needs the option 'redisUrl'")
        if "session" not in values and "stream" not in values:
            raise errors.Usage(reason="Format 'rta' reads a session or a stream: set option 'session' or 'stream'")
        if "session" in values:
            name_checks.check_identity(values["session"])
        if "stream" in values:
            name_checks.check_stream_name(values["stream"])
        tables = (values.get(option, {}) for option in ("channels", "sampleType", "kind", "intervalNs"))
        return cls(
            names=keys.Keys(**{field: values[option] for field, option in _KEY_FIELDS.items() if option in values}),
            learns_template="sessionTemplate" not in values,
            layouts=options_layout.build_layouts(*tables),
            **{field: values[option] for field, option in _FIELDS.items() if option in values},
        )
