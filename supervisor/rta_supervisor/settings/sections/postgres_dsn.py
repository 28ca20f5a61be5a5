"""Parameters of a connection to PostgreSQL, from `catalogue.url` and a password that is kept elsewhere.

A password in the URL comes first, then the file `catalogue.password_file`, then the environment, then systemd's
credentials. After these libpq looks where it always does: PGPASSWORD, ~/.pgpass.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from rta_wire import credentials, errors, redis_url

PASSWORD_VARIABLE: Final = "RTA_CATALOGUE_PASSWORD"  # noqa: S105 - a name, not a secret
CREDENTIAL: Final = "catalogue-password"
CONNECT_MIN_S: Final = 2
"""libpq waits at least this long, whatever it is given."""


def parameters(
    url: str, *, password_file: str, timeout_s: float, environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Parameters for libpq, the password among them: not to be printed. Files are read anew each time, since a password
    may change while a supervisor runs."""
    import psycopg  # noqa: PLC0415 - the extra `postgres`; most have a file
    from psycopg import conninfo  # noqa: PLC0415

    environ = os.environ if environ is None else environ
    try:
        url_parameters = conninfo.conninfo_to_dict(url)
    except psycopg.Error:
        # The message of libpq may quote a part of the password.
        reason = "it is no URL of a PostgreSQL. Write '/', '@', '?' and '#' in a password as %2F, %40, %3F and %23"
        raise errors.BadConfiguration(where=f"catalogue.url {redis_url.redact(url)!r}", reason=reason) from None
    defaults: dict[str, Any] = {
        "application_name": "rta-supervisor",
        "connect_timeout": max(CONNECT_MIN_S, round(timeout_s)),
        "tcp_user_timeout": int(timeout_s * 1000),
        "keepalives_idle": max(1, round(timeout_s)),
        "keepalives_interval": 1,
        "keepalives_count": 3,
    }
    if "password" not in url_parameters and (password := _password(password_file, environ)):
        defaults["password"] = password
    return defaults | {name: value for name, value in url_parameters.items() if value is not None}


def _password(file: str, environ: Mapping[str, str]) -> str | None:
    if file:
        return credentials.read_secret("catalogue.password_file", file)
    if password := environ.get(PASSWORD_VARIABLE):
        return credentials.check_utf8(PASSWORD_VARIABLE, password)
    directory = environ.get(credentials.CREDENTIALS_VARIABLE)
    if directory and (path := Path(directory) / CREDENTIAL).exists():
        return credentials.read_secret(CREDENTIAL, str(path))
    return None
