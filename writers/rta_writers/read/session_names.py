"""The session that a read names by its external id. Such an id belongs to a principal, and only a supervisor may read
what it stands for: it is asked, on the driver, as that principal.
"""

from typing import Final

import msgspec
import redis.exceptions

from rta_wire import errors, redis_url
from rta_writers.connection import redis_client, retry
from rta_writers.control import look
from rta_writers.control.requests import RequestSender
from rta_writers.options.read import ReadOptions

TIMEOUT_S: Final = 60.0


def resolve(options: ReadOptions) -> ReadOptions:
    """The options with the identity of the session in place of its external id."""
    if options.external_id is None:
        return options
    with redis_client.connect(options.redis_url) as client:
        sender = RequestSender(client, options.redis_url, options.names, options.principal, timeout_s=TIMEOUT_S)
        try:
            identity = look.identity_of(sender, options.external_id)
        except redis.exceptions.NoPermissionError as error:
            raise _refused(options, error) from error
        except errors.RedisRefused as error:
            if isinstance(error.__cause__, redis.exceptions.NoPermissionError):
                raise _refused(options, error.__cause__) from error
            raise
        except retry.REDIS_ERRORS as error:
            raise retry.to_rta_error(options.redis_url, error) from error
    return msgspec.structs.replace(options, session=identity, external_id=None)


def _refused(options: ReadOptions, error: redis.exceptions.NoPermissionError) -> errors.RedisRefused:
    return errors.RedisRefused(
        f"This user may not send requests as principal {options.principal!r}, and a supervisor has to be asked for the "
        f"session of external id {options.external_id!r}. Name its identity by option 'session', or give the user the "
        "lines of conf/acl/writer.acl for that principal.",
        url=redis_url.redact(options.redis_url),
        reason=str(error),
    )
