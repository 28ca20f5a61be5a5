"""Options of a writer: which there are, what each may be, and the values that they are parsed into."""

import enum
from collections.abc import Mapping
from typing import Any, Final, Self

import msgspec

from rta_wire import errors, keys, limits, name_checks, redis_url
from rta_wire import session as session_json
from rta_wire.channels import model
from rta_wire.codec import burst, encode, layout
from rta_writers.options import layout as options_layout
from rta_writers.options import parse, stream_template
from rta_writers.options import target as options_target

GROUP_ROWS: Final = 2 * limits.ENCODE_GROUP_ROWS
"""Rows that are encoded and sent together. More than suits the codec alone: beside a JVM, each group costs more."""

WAIT_TIMEOUT_S: Final = 30.0
STAGED_TTL_S: Final = 24 * 3600
STAGED_TTL_MAX_S: Final = 30 * 24 * 3600
FLUSH_MAX_MS: Final = 60_000


class DeliveryGuarantee(enum.StrEnum):
    """How often a row stands in the stream that is tried more than once.

    EXACTLY_ONCE: once; a retry has to compute the same rows. STAGED: once, from the commit of its epoch on; a retry may
    compute other rows. AT_LEAST_ONCE: once or more often.
    """

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    STAGED = "staged"


class Form(enum.StrEnum):
    """What a row of the frame is: LONG a sample, WIDE a time with a column for each channel, EVENTS an event, ROWS one
    message of row data. AUTO: the columns say which of them."""

    AUTO = "auto"
    LONG = "long"
    WIDE = "wide"
    EVENTS = "events"
    ROWS = "rows"


WRITE_PARSERS: Final[dict[str, parse.ValueParser]] = {
    **options_target.TARGET_PARSERS,
    **options_layout.LAYOUT_PARSERS,
    "delivery": parse.one_of(DeliveryGuarantee),
    "form": parse.one_of(Form),
    "wait": parse.boolean,
    "waitTimeoutS": parse.seconds,
    "job": parse.text,
    "epoch": parse.integer(0, limits.EPOCH_MAX),
    "group": parse.text,
    "timeoutS": parse.seconds,
    "sessionProperties": parse.json_object,
    "burstBytes": parse.integer(1, limits.BURST_MAX_BYTES // 2),
    "groupRows": parse.integer(1, limits.ENCODE_GROUP_ROWS_MAX),
    "compressionLevel": parse.integer(limits.LZ4_LEVEL_MIN, limits.LZ4_LEVEL_MAX),
    "inTimeOrder": parse.boolean,
    "stagedTtlS": parse.integer(60, STAGED_TTL_MAX_S),
    "flushMs": parse.integer(1, FLUSH_MAX_MS),
}


class WriteOptions(msgspec.Struct, frozen=True, kw_only=True, rename="camel", repr_omit_defaults=True):
    """What a job asked for. Without a session the frame names one in each row, and `stream` may be a template of stream
    names. Plain values that go to tasks."""

    redis_url: str
    stream: str
    session: str | None = None
    stream_session_id: int | None = None
    principal: str = keys.DEFAULT_PRINCIPAL
    key_prefix: str = keys.Keys().prefix
    session_template: str = keys.Keys().session_template
    channels: dict[str, int] = {}
    sample_type: dict[str, layout.SampleType] = {}
    kind: dict[str, layout.Kind] = {}
    interval_ns: dict[str, int] = {}
    framing: burst.Framing = burst.Framing.RAW
    delivery: DeliveryGuarantee = DeliveryGuarantee.EXACTLY_ONCE
    form: Form = Form.AUTO
    wait: bool = False
    wait_timeout_s: float = WAIT_TIMEOUT_S
    job: str | None = None
    epoch: int = 0
    group: str | None = None
    timeout_s: float = options_target.REQUEST_TIMEOUT_S
    """How long tasks wait for the sessions that they open."""
    session_properties: dict[str, Any] = {}
    burst_bytes: int = limits.BURST_TARGET_BYTES
    group_rows: int = GROUP_ROWS
    compression_level: int = limits.LZ4_LEVEL
    in_time_order: bool = True
    staged_ttl_s: int = STAGED_TTL_S
    config: str | None = None
    """The identifier of the configuration that says what the channels are."""
    channel_list: model.ChannelList | None = None
    """The channels of that configuration: no option, but set in each process that encodes rows."""
    flush_ms: int | None = None
    """How long a row waits for others before it is sent, at most. None: as suits whoever writes."""

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> Self:
        """The options of a Spark writer, complete and consistent, or an error that names the wrong one."""
        values = parse.parse_options(options, WRITE_PARSERS)
        for required in ("redisUrl", "stream"):
            if required not in values:
                raise errors.Usage(
                    reason=f"Format 'rta' needs the option {required!r}. "
                    "Pass those of an open session: .options(**session.options)"
                )
        parsed = cls(**{_field_name(option): value for option, value in values.items()})
        parsed._check()
        return parsed

    def __repr__(self) -> str:
        shown = msgspec.structs.replace(self, redis_url=redis_url.redact(self.redis_url), channel_list=None)
        return msgspec.Struct.__repr__(shown)

    def _check(self) -> None:
        if self.session is None:
            stream_template.StreamTemplate.parse(self.stream)
        else:
            name_checks.check_stream_name(self.stream)
        name_checks.check_principal(self.principal)
        if (self.session is None) != (self.stream_session_id is None):
            raise errors.Usage(
                reason="Options 'session' and 'streamSessionId' go together. "
                "Pass those of an open session: .options(**session.options)"
            )
        if self.session is not None:
            name_checks.check_identity(self.session)
        if self.job is not None:
            # The longest name of a unit of the job.
            name_checks.check_unit(f"{self.job}/{limits.CHANNEL_ID_MAX}")
        keys.Keys(prefix=self.key_prefix, session_template=self.session_template)
        if "identity" in self.session_properties:
            raise errors.Usage(reason="Option 'sessionProperties' has an 'identity', which the rows or 'session' give")
        session_json.dump(session_json.build("any", **self.session_properties))
        ids = list(self.channels.values())
        if len(set(ids)) != len(ids):
            raise errors.Usage(reason="Option 'channels' gives one channel id to two names")
        if self.config is None:
            self.layout_plan()  # with a configuration they are checked against that

    @property
    def keys(self) -> keys.Keys:
        return keys.Keys(prefix=self.key_prefix, session_template=self.session_template)

    @property
    def stream_template(self) -> stream_template.StreamTemplate:
        return stream_template.StreamTemplate.parse(self.stream)

    def target(self, identity: str, stream_session_id: int, stream: str = "") -> options_target.Target:
        """A session in the Redis of these options. `stream` is the one that it is in, where that is another one."""
        return options_target.Target(
            self.redis_url,
            identity,
            stream or self.stream,
            stream_session_id,
            self.principal,
            self.key_prefix,
            self.session_template,
        )

    def layout_plan(self, default_kind: layout.Kind = layout.Kind.TIMESTAMPED) -> layout.Plan:
        """The layouts of all channels."""
        if self.channel_list is not None:
            return self.channel_list.layouts(default=layout.Layout(kind=default_kind))
        return options_layout.build_layouts(self.channels, self.sample_type, self.kind, self.interval_ns, default_kind)

    def encode_options(self) -> encode.Options:
        """Sizes, compression and framing of bursts, for the encoder."""
        return encode.Options(
            target_bytes=self.burst_bytes,
            group_rows=self.group_rows,
            level=self.compression_level,
            framing=self.framing,
            in_time_order=self.in_time_order,
        )


def _field_name(option: str) -> str:
    return "".join(f"_{character.lower()}" if character.isupper() else character for character in option)
