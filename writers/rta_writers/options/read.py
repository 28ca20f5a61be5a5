"""Options of a reader: which there are, what each may be, and the values that they are parsed into."""

import enum
from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec

from rta_wire import entry_ids, errors, keys, limits, name_checks, redis_url
from rta_wire.codec import burst
from rta_wire.codec import layout as codec_layout
from rta_writers.options import layout as options_layout
from rta_writers.options import parse as options_parse
from rta_writers.options import target as options_target

PARTITIONS_MAX: Final = 256
ENTRIES_PER_TRIGGER_MAX: Final = 10_000_000
EARLIEST: Final = "earliest"
LATEST: Final = "latest"
NO_ARCHIVE: Final = "none"
"""In place of the folder of the archive."""


class ReadForm(enum.StrEnum):
    """What a row of a read is: a sample, an event, a whole entry of the stream, or a time with a column for each
    channel."""

    SAMPLES = "samples"
    EVENTS = "events"
    ENTRIES = "entries"
    WIDE = "wide"


def _offset(value: str) -> str:
    if value in (EARLIEST, LATEST):
        return value
    if entry_ids.is_valid(value):
        return value
    raise ValueError("it is earliest, latest or the id of an entry, like 1700000000000-0")


READ_PARSERS: Final[dict[str, options_parse.ValueParser]] = {
    **options_target.TARGET_PARSERS,
    **options_layout.LAYOUT_PARSERS,
    "externalId": options_parse.text,
    "form": options_parse.one_of(ReadForm),
    "names": options_parse.boolean,
    "columns": options_parse.names,
    "gridNs": options_parse.integer(1, limits.TIME_NS_MAX),
    "pushFilters": options_parse.boolean,
    "failOnDataLoss": options_parse.boolean,
    "archive": str,
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
    "external_id": "externalId",
    "principal": "principal",
    "stream": "stream",
    "framing": "framing",
    "form": "form",
    "config": "config",
    "wants_names": "names",
    "channels": "channels",
    "columns": "columns",
    "grid_ns": "gridNs",
    "push_filters": "pushFilters",
    "fail_on_data_loss": "failOnDataLoss",
    "follow_days": "followDays",
    "wait_for_stream": "waitForStream",
    "archive": "archive",
    "starting_offset": "startingOffset",
    "partitions": "partitions",
    "max_entries_per_trigger": "maxEntriesPerTrigger",
}
"""The option for each field of `ReadOptions` that takes its value as it is."""


class ReadOptions(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What to read, all of a stream or one session of it, and how. Plain values that go from the driver to tasks."""

    redis_url: str
    session: str | None = None
    external_id: str | None = None
    """In place of the session: the name that a principal gave it. No task sees it: the driver asks whose it is."""
    principal: str = keys.DEFAULT_PRINCIPAL
    stream: str | None = None
    names: keys.Keys = keys.Keys()
    layouts: codec_layout.Plan = codec_layout.Plan()
    framing: burst.Framing = burst.Framing.RAW
    form: ReadForm = ReadForm.SAMPLES
    push_filters: bool | None = None
    """Whether the reader applies filters of a query; None: where Spark keeps those of two queries apart."""
    fail_on_data_loss: bool = True
    follow_days: bool = True
    """Whether the days of a source are read with the stream of its name."""
    wait_for_stream: bool = False
    """Whether a stream or a session that is not there is empty so far, and no error."""
    archive: str | None = None
    """The folder of the archive, `NO_ARCHIVE` to read Redis alone; None: the one that supervisors registered."""
    learns_template: bool = False
    """Whether the template of session keys is that which supervisors registered."""
    starting_offset: str = EARLIEST
    partitions: int | None = None
    max_entries_per_trigger: int | None = None
    config: str | None = None
    """The configuration of sessions whose JSON binds none."""
    channels: dict[str, int] = {}
    wants_names: bool = False
    """Whether rows shall have names of channels, whatever sessions there are."""
    columns: tuple[str, ...] = ()
    """Names of the channels that a read in wide form has; empty for all."""
    grid_ns: int | None = None
    """In wide form: a row for each multiple of this, with the last value of each channel. None: one for each time."""
    has_names: bool = False
    """Whether rows have the names and units of their channels. No option, but found out on the driver."""
    sample_types: frozenset[codec_layout.SampleType] = frozenset()
    """Types of the samples that are read, as far as configurations say."""

    def __repr__(self) -> str:
        shown = msgspec.structs.replace(self, redis_url=redis_url.redact(self.redis_url))
        return msgspec.Struct.__repr__(shown)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> Self:
        """The options of a Spark reader, complete and consistent, or an error that names the wrong one."""
        values = options_parse.parse_options(options, READ_PARSERS)
        if "redisUrl" not in values:
            raise errors.Usage(reason="Format 'rta' needs the option 'redisUrl'")
        _check_names(values)
        if "stream" in values:
            name_checks.check_stream_name(values["stream"])
        _check_wide(values)
        tables = (values.get(option, {}) for option in ("channels", "sampleType", "kind", "intervalNs"))
        return cls(
            names=keys.Keys(**{field: values[option] for field, option in _KEY_FIELDS.items() if option in values}),
            learns_template="sessionTemplate" not in values,
            layouts=options_layout.build_layouts(*tables),
            **{field: values[option] for field, option in _FIELDS.items() if option in values},
        )


def _check_names(values: Mapping[str, Any]) -> None:
    """Refuse what names no session or stream, or a session in two ways."""
    if not {"session", "externalId", "stream"} & set(values):
        raise errors.Usage(
            reason="Format 'rta' reads a session or a stream: set option 'session', 'externalId' or 'stream'"
        )
    if "session" in values:
        name_checks.check_identity(values["session"])
    if "principal" in values:
        name_checks.check_principal(values["principal"])
    if "externalId" not in values:
        return
    name_checks.check_external_id(values["externalId"])
    if "session" in values:
        raise errors.Usage(reason="Options 'session' and 'externalId' both name a session: set one of them")
    if values.get("waitForStream"):
        raise errors.Usage(
            reason="Option 'waitForStream' needs the identity of a session, or a stream: an external id stands for "
            "nothing until its session is opened"
        )


def _check_wide(values: Mapping[str, object]) -> None:
    if values.get("form") is ReadForm.WIDE:
        if "session" not in values and "externalId" not in values:
            raise errors.Usage(
                reason="A read in form 'wide' is about one session: set option 'session' or 'externalId'"
            )
        return
    for option in ("columns", "gridNs"):
        if option in values:
            raise errors.Usage(reason=f"Option {option!r} is for a read in form 'wide'")
