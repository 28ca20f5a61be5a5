"""The session that a writer appends to, and the options that name it."""

from typing import Final

import msgspec

from rta_wire import keys, redis_url
from rta_writers.options import parse

REQUEST_TIMEOUT_S: Final = 60.0
"""How long a request waits for its reply, and for a supervisor that is away, where nobody says it."""

OPTION_NAMES: Final = {
    "redis_url": "redisUrl",
    "identity": "session",
    "stream": "stream",
    "stream_session_id": "streamSessionId",
    "principal": "principal",
    "key_prefix": "keyPrefix",
    "session_template": "sessionTemplate",
}
"""The option of a Spark reader or writer for each field of a target."""

TARGET_PARSERS: Final[dict[str, parse.ValueParser]] = {
    "redisUrl": parse.text,
    "session": parse.text,
    "stream": parse.text,
    "streamSessionId": parse.integer(0, 2**63 - 1),
    "principal": parse.text,
    "keyPrefix": parse.text,
    "sessionTemplate": parse.text,
    "config": parse.config_identifier,
}
"""Options that readers and writers share: which Redis, which session, which stream."""


class Target(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """An open session and the Redis that it is in: plain values that go from the driver to tasks."""

    redis_url: str
    identity: str
    stream: str
    stream_session_id: int
    principal: str = keys.DEFAULT_PRINCIPAL
    key_prefix: str = keys.Keys().prefix
    session_template: str = keys.Keys().session_template

    def __repr__(self) -> str:
        return msgspec.Struct.__repr__(msgspec.structs.replace(self, redis_url=redis_url.redact(self.redis_url)))

    @property
    def keys(self) -> keys.Keys:
        return keys.Keys(prefix=self.key_prefix, session_template=self.session_template)

    def options(self) -> dict[str, str]:
        """For `.options(**…)` of a Spark reader or writer."""
        return {option: str(getattr(self, field)) for field, option in OPTION_NAMES.items()}
