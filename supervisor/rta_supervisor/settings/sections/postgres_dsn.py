"""How to get at a PostgreSQL: an address that people may see, and a password that they may not.

What stands in the URL comes first, then `catalogue.password_file`, then the environment, then what systemd hands to a
service. After these libpq looks where it always does: PGPASSWORD, ~/.pgpass.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rta_wire import credentials, errors, redis_url

SCHEMES: Final = ("postgresql", "postgres")
PASSWORD_VARIABLE: Final = "RTA_CATALOGUE_PASSWORD"  # noqa: S105 - a name, not a secret
CREDENTIAL: Final = "catalogue-password"
SCHEMA_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")
CONNECT_MIN_S: Final = 2
"""libpq takes less for as much."""


def check(*, url: str, path: str, password_file: str, schema: str) -> None:
    """What can be told without asking anybody."""
    if not url:
        if password_file:
            raise errors.BadConfiguration(where="catalogue.password_file", reason="it is for catalogue.url: name one")
        return
    if url.partition("://")[0] not in SCHEMES or "://" not in url:
        raise errors.BadConfiguration(where="catalogue.url", reason="it does not begin with postgresql://")
    if path:
        raise errors.BadConfiguration(where="catalogue.url", reason="there is catalogue.path too. Use one of them")
    if password_file and redis_url.has_password(url):
        raise errors.BadConfiguration(
            where="catalogue.password_file", reason="the URL has a password too. Use one of them"
        )
    if not SCHEMA_NAME.fullmatch(schema):
        raise errors.BadConfiguration(
            where="catalogue.schema", reason="it has other characters than a-z, 0-9 and _, or it is too long"
        )


def parameters(
    url: str, *, password_file: str, timeout_s: float, environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """What libpq is told. Not to be printed. Files are read anew each time: a password may be changed meanwhile."""
    import psycopg  # noqa: PLC0415 - the extra `postgres`; most have a file
    from psycopg import conninfo  # noqa: PLC0415

    environ = os.environ if environ is None else environ
    try:
        given = conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        # What libpq says of it may quote a part of the password.
        reason = "it is no URL of a PostgreSQL. Write '/', '@', '?' and '#' in a password as %2F, %40, %3F and %23"
        raise errors.BadConfiguration(where=f"catalogue.url {redis_url.redact(url)!r}", reason=reason) from None
    usual: dict[str, Any] = {
        "application_name": "rta-supervisor",
        "connect_timeout": max(CONNECT_MIN_S, round(timeout_s)),
        "tcp_user_timeout": int(timeout_s * 1000),
        "keepalives_idle": max(1, round(timeout_s)),
        "keepalives_interval": 1,
        "keepalives_count": 3,
    }
    if "password" not in given and (password := _password(password_file, environ)):
        usual["password"] = password
    return usual | {name: value for name, value in given.items() if value is not None}


def _password(file: str, environ: Mapping[str, str]) -> str | None:
    if file:
        return credentials.read_secret("catalogue.password_file", file)
    if password := environ.get(PASSWORD_VARIABLE):
        return password
    directory = environ.get(credentials.CREDENTIALS_VARIABLE)
    if directory and (path := Path(directory) / CREDENTIAL).exists():
        return credentials.read_secret(CREDENTIAL, str(path))
    return None
