"""What people call sessions, which only their JSON says: read once for each version of a session."""

from collections.abc import Sequence
from typing import Final

import msgspec

from rta_supervisor.observe.summaries import SessionSummary
from rta_supervisor.transport.link import Link
from rta_wire import keys, quoting

IDENTIFIER_MAX_CHARS: Final = 200


class _NamedSession(msgspec.Struct):
    identifier: str = ""


class IdentifierReader:
    """The identifiers of the sessions that pages show."""

    def __init__(self, link: Link, names: keys.Keys) -> None:
        self._link = link
        self._keys = names
        self._known: dict[tuple[str, int, int], str] = {}

    async def read(self, sessions: Sequence[SessionSummary]) -> dict[str, str]:
        """Identifiers by identity. JSON is read of sessions that are new or have changed."""
        versions = {(each.identity, each.stream_session_id, each.version): each.identity for each in sessions}
        self._known = {version: name for version, name in self._known.items() if version in versions}
        changed = [version for version in versions if version not in self._known]
        documents = await self._link.try_all(
            [("HGET", self._keys.session(versions[version]), keys.JSON) for version in changed]
        )
        for version, document in zip(changed, documents, strict=True):
            self._known[version] = _identifier_in(document)
        return {identity: self._known[version] for version, identity in versions.items()}


def _identifier_in(document: bytes | Exception | None) -> str:
    """The identifier in a Session JSON; empty where that is gone, or somebody spoilt it."""
    if not isinstance(document, bytes):
        return ""
    try:
        identifier = msgspec.json.decode(document, type=_NamedSession).identifier
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ""
    return quoting.cut(identifier, IDENTIFIER_MAX_CHARS)
