"""Section `[catalogue]`: the SQLite file or the PostgreSQL database that holds all sessions."""

import re
from typing import Final

import msgspec

from rta_supervisor.settings.sections import checks
from rta_wire import redis_url

SCHEMES: Final = ("postgresql", "postgres")
SCHEMA_NAME: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class CatalogueSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file by `path`, or a database by `url`; how often it is written, and whether sessions wait for it."""

    path: str = ""
    url: str = ""
    password_file: str = ""
    schema: str = "rta_supervisor"
    timeout_s: float = 5.0
    flush_s: float = 1.0
    progress_flush_s: float = 2.0
    required: bool = False

    def check(self) -> None:
        checks.refuse_first(
            [
                ("catalogue.flush_s", self.flush_s <= 0, checks.NOT_ABOVE_0),
                ("catalogue.timeout_s", self.timeout_s <= 0, checks.NOT_ABOVE_0),
                ("catalogue.progress_flush_s", self.progress_flush_s <= 0, checks.NOT_ABOVE_0),
            ]
        )
        if self.url:
            self._check_url()
        else:
            without_url = "it is for catalogue.url: name one"
            checks.refuse_first([("catalogue.password_file", bool(self.password_file), without_url)])

    def _check_url(self) -> None:
        scheme, separator, _ = self.url.partition("://")
        has_two_passwords = bool(self.password_file) and redis_url.has_password(self.url)
        bad_schema = "it has other characters than a-z, 0-9 and _, or it is too long"
        checks.refuse_first(
            [
                ("catalogue.url", scheme not in SCHEMES or not separator, "it does not begin with postgresql://"),
                ("catalogue.url", bool(self.path), "there is catalogue.path too. Use one of them"),
                ("catalogue.password_file", has_two_passwords, "the URL has a password too. Use one of them"),
                ("catalogue.schema", SCHEMA_NAME.fullmatch(self.schema) is None, bad_schema),
            ]
        )
