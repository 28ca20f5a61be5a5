"""The file with tokens: a line for each with a name, the token, and the prefixes of the streams that it may see.

Read again when it changes; a mistake in it is logged, and what it said before stays in force.
"""

import hashlib
from pathlib import Path
from typing import Final

from rta_supervisor.diagnostics import log
from rta_supervisor.gateway.access.grant import Grant
from rta_supervisor.settings.sections.servers.http import MAKE_TOKEN, TOKEN_MIN_CHARS
from rta_wire import errors

WHERE: Final = "gateway.token_file"
FILE_MAX_BYTES: Final = 1024 * 1024


def parse(text: str, path: Path) -> dict[bytes, Grant]:
    """Grants by the digest of their token: who looks one up by it learns nothing from the time that takes."""
    grants: dict[bytes, Grant] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        where = f"{path}, line {number}"
        if len(words) < 3:
            raise errors.BadConfiguration(
                where=WHERE, reason=f"{where}: it needs a name, a token, and prefixes of streams or *"
            )
        name, token, *prefixes = words
        if len(token) < TOKEN_MIN_CHARS:
            raise errors.BadConfiguration(
                where=WHERE, reason=f"{where}: the token has less than {TOKEN_MIN_CHARS} characters. {MAKE_TOKEN}"
            )
        if (key := digest(token)) in grants:
            raise errors.BadConfiguration(where=WHERE, reason=f"{where}: the token stands in an earlier line too")
        grants[key] = Grant(name, tuple(prefixes), proof=key)
    return grants


def digest(token: str) -> bytes:
    return hashlib.sha256(token.encode(errors="surrogateescape")).digest()


class TokenFile:
    """The tokens of a file, as it is now."""

    def __init__(self, path: Path) -> None:
        """Raises `BadConfiguration` for a file that can't be read or has a mistake."""
        self._path = path
        self._grants: dict[bytes, Grant] = {}
        self._read_version: tuple[int, int] | None = None
        self._read(self._version())

    def find(self, token: str) -> Grant | None:
        """What a token may see; None where it is no token of the file."""
        return self._grants.get(digest(token))

    def has(self, grant: Grant) -> bool:
        """Whether the file still gives somebody this grant."""
        return grant in self._grants.values()

    def refresh(self) -> None:
        """Read the file again if it changed."""
        try:
            version = self._version()
            if version != self._read_version:
                self._read(version)
                log.get().info("gateway_tokens_read", path=str(self._path), tokens=len(self._grants))
        except errors.BadConfiguration as error:
            log.get().error("gateway_tokens_refused", error=str(error))

    def _version(self) -> tuple[int, int]:
        try:
            status = self._path.stat()
        except OSError as error:
            raise self._unreadable(error) from error
        return status.st_mtime_ns, status.st_ino

    def _read(self, version: tuple[int, int]) -> None:
        # Noted before it is parsed: a mistake is logged once, and not at each look.
        self._read_version = version
        try:
            with self._path.open("rb") as file:
                raw = file.read(FILE_MAX_BYTES + 1)
            text = raw.decode()
        except OSError as error:
            raise self._unreadable(error) from error
        except UnicodeDecodeError as error:
            raise errors.BadConfiguration(where=WHERE, reason=f"{self._path} is not UTF-8: {error}") from error
        if len(raw) > FILE_MAX_BYTES:
            raise errors.BadConfiguration(where=WHERE, reason=f"{self._path} is over {FILE_MAX_BYTES} bytes")
        self._grants = parse(text, self._path)

    def _unreadable(self, error: OSError) -> errors.BadConfiguration:
        return errors.BadConfiguration(where=WHERE, reason=f"{self._path} can't be read: {error.strerror}")
