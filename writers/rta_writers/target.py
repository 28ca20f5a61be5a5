"""Which session a writer appends to, as plain options: they are all that crosses from the driver to a task."""

from collections.abc import Mapping
from typing import Final, Self

import msgspec

from rta_wire import errors, keys

_NAMES: Final = {
    "redisUrl": "redis_url",
    "session": "identity",
    "stream": "stream",
    "streamSessionId": "stream_session_id",
    "principal": "principal",
    "keyPrefix": "key_prefix",
}


class Target(msgspec.Struct, frozen=True):
    """An open session and the Redis that it lives in."""

    redis_url: str
    identity: str
    stream: str
    stream_session_id: int
    principal: str = keys.DEFAULT_PRINCIPAL
    key_prefix: str = keys.Keys().prefix

    @property
    def keys(self) -> keys.Keys:
        return keys.Keys(prefix=self.key_prefix)

    def options(self) -> dict[str, str]:
        """For `.options(**…)` of a Spark reader or writer."""
        return {option: str(getattr(self, field)) for option, field in _NAMES.items()}

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Self:
        """What `options` gave, after Spark has folded the case of the names."""
        given = {name.lower(): value for name, value in options.items()}
        found = {field: given[option.lower()] for option, field in _NAMES.items() if option.lower() in given}
        try:
            target = msgspec.convert(found, cls, strict=False)
        except msgspec.ValidationError as error:
            raise errors.Usage(
                reason=f"The options of format 'rta' are not complete: {error}. "
                "Pass those of an open session: .options(**session.options)"
            ) from error
        keys.check_identity(target.identity)
        keys.check_stream_name(target.stream)
        return target
