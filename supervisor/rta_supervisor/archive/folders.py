"""Where the files of a session are, and how they get there: written aside, made safe on the disk, then renamed."""

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
"""Folders that begin so are what a run left that did not come to its end. Readers of Parquet pass over them."""

NAME_MAX_CHARS: Final = 80
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")


def session_folder(source: str, opened_ms: int, identity: str, stream_session_id: int) -> Path:
    """The folder of a session inside the archive: it depends on nothing that changes."""
    name = _UNSAFE.sub("_", identity)[:NAME_MAX_CHARS]
    return Path(f"date={day(opened_ms)}", f"source={source}", f"session={name}-{stream_session_id}")


def day(at_ms: int) -> str:
    """The day of a moment, in UTC."""
    return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC).date().isoformat()


@contextlib.contextmanager
def staging_folder(path: Path) -> Iterator[Path]:
    """A folder inside the archive for files that are not finished. One run at a time; what others left is removed."""
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
        clear(path)
        aside = path / f"{STAGING_PREFIX}{uuid.uuid4().hex}"
        try:
            aside.mkdir()
        except OSError as error:
            raise unwritable(path, error) from error
        try:
            yield aside
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    finally:
        os.close(lock)


def clear(path: Path) -> None:
    """Remove what runs left that were killed."""
    for left in path.glob(f"{STAGING_PREFIX}*"):
        shutil.rmtree(left, ignore_errors=True)


def write_durably(path: Path, data: bytes) -> None:
    """A whole file or none, safe on the disk."""
    aside = path.with_name(f".{path.name}.new")
    with aside.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    """Make a file or a folder safe on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def move_into_place(staging: Path, target: Path) -> None:
    """Rename a finished folder into its place. The last step: what has its name is whole."""
    for path in sorted(staging.iterdir()):
        sync(path)
    sync(staging)
    made = [folder for folder in (target.parent, target.parent.parent) if not folder.exists()]
    target.parent.mkdir(parents=True, exist_ok=True)
    staging.rename(target)
    for folder in (target.parent, *(one.parent for one in made)):
        sync(folder)


def unwritable(path: Path, error: OSError) -> errors.ArchiveUnwritable:
    reason = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else (error.strerror or str(error))
    return errors.ArchiveUnwritable(path=str(path), reason=reason)
