"""Section `[redis]`: the server, how to sign in, and how long to wait for it."""

from urllib.parse import urlsplit

import msgspec

from rta_supervisor.settings.sections import checks
from rta_wire import errors, redis_url


class RedisSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to reach Redis."""

    url: str = "redis://127.0.0.1:6379/0"
    password_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    timeout_s: float = 5.0
    startup_patience_s: float = 1.0
    allow_eviction: bool = False

    def check(self) -> None:
        checks.refuse_first([("redis.startup_patience_s", self.startup_patience_s < 0, checks.BELOW_0)])
        try:
            if redis_url.parse(self.url).mode is redis_url.RedisMode.SINGLE:
                _ = urlsplit(self.url).port
        except errors.BadConfiguration as error:
            raise errors.BadConfiguration(where="redis.url", reason=error.facts["reason"]) from error
        except ValueError as error:
            bad_url = redis_url.bad_url(self.url, error)
            raise errors.BadConfiguration(where="redis.url", reason=bad_url.facts["reason"]) from error
