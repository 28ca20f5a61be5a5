"""The manifest of an archived session: what its files hold, what they were made from, and what is missing."""

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
    """What `manifest.json` says about the files of one session."""

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
    """How many, by kind: samples and events."""
    content: dict[str, str]
    """Digests of all rows, by kind. They do not depend on the order of the rows."""
    complete: bool
    missing: tuple[str, ...] = ()
    session_sha256: str
    files: tuple[ManifestFile, ...]
    checksum: str = ""
    """Over the session and its content, not over how that is divided into files."""

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def with_checksum(self) -> Self:
        session = (self.format, self.identity, self.stream_session_id, self.stream)
        content = (sorted(self.rows.items()), sorted(self.content.items()), self.session_sha256)
        checksum = hashlib.sha256(msgspec.json.encode([*session, *content])).hexdigest()
        return msgspec.structs.replace(self, checksum=checksum)

    def with_document(self, document: bytes, version: int, state: str) -> Self:
        """The manifest of the same files beside other Session JSON."""
        sha256 = hashlib.sha256(document).hexdigest()
        return msgspec.structs.replace(self, session_sha256=sha256, version=version, state=state).with_checksum()

    def write(self, folder: Path) -> None:
        folders.write_durably(
            folder / folders.MANIFEST, msgspec.json.format(msgspec.json.encode(self), indent=2) + b"\n"
        )


def content(samples: content_digest.Digest, events: content_digest.Digest) -> tuple[dict[str, int], dict[str, str]]:
    """The fields `rows` and `content` of a manifest."""
    digests = {"samples": samples, "events": events}
    rows = {kind: digest.rows for kind, digest in digests.items()}
    return rows, {kind: digest.text for kind, digest in digests.items()}


def read(folder: Path, identity: str) -> Manifest | None:
    """The manifest of a finished folder, None where there is no folder.

    Raises `ArchiveDamaged` where it is missing or wrong, or a file does not have the size that it says.
    """
    path = folder / folders.MANIFEST
    try:
        manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
    except FileNotFoundError:
        if not folder.exists():
            return None
        raise errors.ArchiveDamaged(identity=identity, path=str(folder), reason="it has no manifest") from None
    except msgspec.DecodeError as error:
        reason = f"its manifest can't be read ({error})"
        raise errors.ArchiveDamaged(identity=identity, path=str(folder), reason=reason) from error
    if manifest.with_checksum().checksum != manifest.checksum:
        raise errors.ArchiveDamaged(identity=identity, path=str(folder), reason="its manifest contradicts itself")
    for file in manifest.files:
        try:
            size = (folder / file.name).stat().st_size
        except FileNotFoundError:
            size = -1
        if size != file.size_bytes:
            reason = f"{file.name} has {size} bytes, not {file.size_bytes}" if size >= 0 else f"{file.name} is gone"
            raise errors.ArchiveDamaged(identity=identity, path=str(folder), reason=reason)
    return manifest
