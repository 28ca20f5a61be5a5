"""The folders of the archive: the staging folder in which files are written, and how files get to their place: flushed
to disk and renamed, the manifest that names them last.
"""

import contextlib
import fcntl
import os
import re
import shutil
import uuid
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Final

from rta_wire import errors
from rta_wire.archive import names

LOCK: Final = ".archive.lock"
_DATA_FILE: Final = re.compile(r"(?:part|events|messages)-([0-9]{5,})-[0-9a-f]{32}\.parquet")


@contextlib.contextmanager
def staging_folder(path: Path) -> Iterator[Path]:
    """A folder inside the archive for unfinished files, while the archive is locked for one run.

    What killed runs left is removed. Raises `ArchiveBusy` where another run has the lock.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        lock = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise unwritable(path, error) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise errors.ArchiveBusy(path=str(path)) from error
        remove_leftovers(path)
        staging = path / f"{names.STAGING_PREFIX}{uuid.uuid4().hex}"
        try:
            staging.mkdir()
        except OSError as error:
            raise unwritable(path, error) from error
        try:
            yield staging
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    finally:
        os.close(lock)


def remove_leftovers(path: Path) -> None:
    """Remove the staging folders of runs that were killed."""
    for leftover in path.glob(f"{names.STAGING_PREFIX}*"):
        shutil.rmtree(leftover, ignore_errors=True)


def write_durably(path: Path, data: bytes) -> None:
    """Write a file so that it is whole and on disk, or not there."""
    new = path.with_name(f".{path.name}.new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Flush a file or a folder to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def move_files(staging: Path, target: Path, files: Iterable[str]) -> None:
    """Rename finished files to their folder in the archive. They count once a manifest names them."""
    moved = sorted(files)
    for name in moved:
        sync(staging / name)
    created = [folder for folder in (target, target.parent, target.parent.parent) if not folder.exists()]
    target.mkdir(parents=True, exist_ok=True)
    for name in moved:
        (staging / name).rename(target / name)
    for folder in (target, *(folder.parent for folder in created)):
        sync(folder)


def remove_unnamed(folder: Path, named: Collection[str], kept_parts: Collection[int] = ()) -> None:
    """Remove files of parts that no manifest names: a run was killed before it wrote one, or wrote the part anew.

    `kept_parts`: numbers of parts whose manifest can't be read. Their files stay.
    """
    for path in folder.glob("*.parquet"):
        matched = _DATA_FILE.fullmatch(path.name)
        if matched and path.name not in named and int(matched[1]) not in kept_parts:
            path.unlink()


def unwritable(path: Path, error: OSError) -> errors.ArchiveUnwritable:
    """The error for people to an error of the operating system."""
    return errors.ArchiveUnwritable(path=str(path), reason=names.describe_os_error(error))
