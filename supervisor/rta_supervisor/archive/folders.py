"""The folders of the archive: the folder of each session, and the staging folder in which files are written, flushed to
disk and renamed into place.
"""

import contextlib
import datetime
import errno
import fcntl
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rta_wire import errors

MANIFEST: Final = "manifest.json"
SESSION: Final = "session.json"
LOCK: Final = ".archive.lock"
STAGING_PREFIX: Final = ".tmp-"
"""A folder with this prefix belongs to a run, or to one that was killed. Readers of Parquet ignore it."""

NAME_MAX_CHARS: Final = 80
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


def session_folder(source: str, opened_ms: int, identity: str, stream_session_id: int) -> Path:
    """The folder of a session inside the archive, made of what never changes about the session."""
    name = _UNSAFE.sub("_", identity)[:NAME_MAX_CHARS]
    return Path(f"date={day(opened_ms)}", f"source={source}", f"session={name}-{stream_session_id}")


def day(at_ms: int) -> str:
    """The date of a time in UTC, as YYYY-MM-DD."""
    return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC).date().isoformat()


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
        staging = path / f"{STAGING_PREFIX}{uuid.uuid4().hex}"
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
    for leftover in path.glob(f"{STAGING_PREFIX}*"):
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


def move_into_place(staging: Path, target: Path) -> None:
    """Rename a finished folder to its name in the archive. It is the last step: a folder with that name is whole."""
    for path in sorted(staging.iterdir()):
        sync(path)
    sync(staging)
    created = [folder for folder in (target.parent, target.parent.parent) if not folder.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    staging.rename(target)
    for folder in (target.parent, *(folder.parent for folder in created)):
        sync(folder)


def unwritable(path: Path, error: OSError) -> errors.ArchiveUnwritable:
    """The error for people to an error of the operating system."""
    reason = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else (error.strerror or str(error))
    return errors.ArchiveUnwritable(path=str(path), reason=reason)
