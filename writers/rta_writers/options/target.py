"""Which session a writer appends to, as plain options: they are all that crosses from the driver to a task."""

from typing import Final

import msgspec

from rta_wire import keys
from rta_writers.options import parse

OPTION_OF: Final = {
    "redis_url": "redisUrl",
    "identity": "session",
    "stream": "stream",
    "stream_session_id": "streamSessionId",
    "principal": "principal",
    "key_prefix": "keyPrefix",
    "session_template": "sessionTemplate",
}
"""Fields of a target, and what they are called among the options of a Spark reader or writer."""


class Target(msgspec.Struct, frozen=True):
    """An open session and the Redis that it lives in."""

    redis_url: str
    identity: str
    stream: str
    stream_session_id: int
    principal: str = keys.DEFAULT_PRINCIPAL
    key_prefix: str = keys.Keys().prefix
    session_template: str = keys.Keys().session_template

    @property
    def keys(self) -> keys.Keys:
        return keys.Keys(prefix=self.key_prefix, session_template=self.session_template)

    def options(self) -> dict[str, str]:
        """For `.options(**…)` of a Spark reader or writer."""
        return {option: str(getattr(self, field)) for field, option in OPTION_OF.items()}


TARGET_PARSERS: Final[dict[str, parse.ValueParser]] = {
    "redisUrl": parse.text,
    "session": parse.text,
    "stream": parse.text,
    "streamSessionId": parse.integer(0, 2**63 - 1),
    "principal": parse.text,
    "keyPrefix": parse.text,
    "sessionTemplate": parse.text,
}
"""Where the data is: common to readers and writers."""
