"""Reads the manifests in the folder of a session, and checks that its files are there and as they were."""

from pathlib import Path

from rta_supervisor.archive import verify
from rta_wire import errors
from rta_wire.archive import manifest as archive_manifest
from rta_wire.archive import names
from rta_wire.archive.folder import SessionArchive
from rta_wire.archive.manifest import Manifest, ManifestFile


def read_session(folder: Path, identity: str, *, with_content: bool = False) -> SessionArchive:
    """What the archive has of a session; nothing where there is no folder.

    A part counts as damaged whose files don't have the sizes that its manifest says, nor, `with_content`, the SHA-256:
    that takes as long as reading all of the session. Raises `ArchiveDamaged` where the
    manifest of the whole session can't be read, or where files are damaged of a session without parts.
    """
    if not folder.exists():
        return SessionArchive(identity)
    manifests = {path.name: path.read_bytes() for path in folder.glob("*.json") if names.is_manifest(path.name)}
    archive = SessionArchive.parse(identity, manifests, str(folder))
    for part in archive.parts:
        if problem := _find_damage(folder, part.files, with_content=with_content):
            error = archive_manifest.damaged(identity, str(folder), problem)
            if archive.whole is not None and not archive.whole.parts:
                raise error
            archive = archive.with_damaged(part.number, str(error))
    return archive


def read(folder: Path, identity: str) -> Manifest | None:
    """The manifest of a closed session all of which is in the archive; None where there is no folder.

    Raises `ArchiveDamaged` where it is missing or wrong, or a file does not have the size that it says.
    """
    archive = read_session(folder, identity)
    for problem in archive.damaged.values():
        raise errors.ArchiveDamaged(problem, identity=identity, path=str(folder), reason=problem)
    if archive.whole is None and folder.exists():
        raise archive_manifest.damaged(identity, str(folder), "it has no manifest")
    return archive.whole


def _find_damage(folder: Path, files: tuple[ManifestFile, ...], *, with_content: bool) -> str:
    for file in files:
        try:
            size = (folder / file.name).stat().st_size
        except FileNotFoundError:
            return f"{file.name} is gone"
        if size != file.size_bytes:
            return f"{file.name} has {size} bytes, not {file.size_bytes}"
        if with_content and verify.sha256(folder / file.name) != file.sha256:
            return f"{file.name} does not have the content that it was written with"
    return ""
