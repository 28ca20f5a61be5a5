"""The manifest of an archived session: what its files hold, what they were made of, and what is missing."""

import hashlib
from pathlib import Path
from typing import Final, Self

import msgspec

from rta_supervisor.archive import folders
from rta_wire import content_digest, errors

FORMAT: Final = 1


class ManifestFile(msgspec.Struct, frozen=True):
    """One file beside the manifest."""

    name: str
    kind: str
    rows: int
    size_bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of the files of one session."""

    format: int = FORMAT
    identity: str
    stream_session_id: int
    stream: str
    source: str
    date: str
    state: str
    version: int
    entries: int
    first_id: str
    last_id: str
    rows: dict[str, int]
    """By kind."""
    content: dict[str, str]
    """Sums over the bits of all rows, by kind, in whichever order they stand."""
    complete: bool
    missing: tuple[str, ...] = ()
    session_sha256: str
    files: tuple[ManifestFile, ...]
    checksum: str = ""
    """Over what the session is and holds, not over how that is divided into files."""

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def with_checksum(self) -> Self:
        return msgspec.structs.replace(self, checksum=self._sum())

    def _sum(self) -> str:
        same = (self.format, self.identity, self.stream_session_id, self.stream)
        held = (sorted(self.rows.items()), sorted(self.content.items()), self.session_sha256)
        return hashlib.sha256(msgspec.json.encode([*same, *held])).hexdigest()

    def with_document(self, document: bytes, version: int, state: str) -> Self:
        """The same files beside other Session JSON."""
        found = hashlib.sha256(document).hexdigest()
        return msgspec.structs.replace(self, session_sha256=found, version=version, state=state).with_checksum()

    def write(self, folder: Path) -> None:
        folders.write_durably(
            folder / folders.MANIFEST, msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"
        )


def content(samples: content_digest.Digest, events: content_digest.Digest) -> tuple[dict[str, int], dict[str, str]]:
    """Rows and sums by kind."""
    kinds = {"samples": samples, "events": events}
    return {kind: one.rows for kind, one in kinds.items()}, {kind: one.text for kind, one in kinds.items()}


def read(folder: Path, identity: str) -> Manifest | None:
    """The manifest of a finished folder, None where there is no folder. Its files have to be as long as it says."""
    path = folder / folders.MANIFEST
    try:
        found = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        if not folder.exists():
            return None
        raise errors.ArchiveDamaged(identity=identity, path=str(folder), reason="it has no manifest") from None
    except msgspec.DecodeError as error:
        reason = f"its manifest can't be read ({error})"
        raise errors.ArchiveDamaged(identity=identity, path=str(folder), reason=reason) from error
    if found.with_checksum().checksum != found.checksum:
        raise errors.ArchiveDamaged(identity=identity, path=str(folder), reason="its manifest contradicts itself")
    for file in found.files:
        try:
            size = (folder / file.name).stat().st_size
        except FileNotFoundError:
            size = -1
        if size != file.size_bytes:
            reason = f"{file.name} has {size} bytes, not {file.size_bytes}" if size >= 0 else f"{file.name} is gone"
            raise errors.ArchiveDamaged(identity=identity, path=str(folder), reason=reason)
    return found
