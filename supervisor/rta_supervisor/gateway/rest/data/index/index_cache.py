"""Keeps time indexes in files, so that a gateway that starts again need not make them anew.

Files are named by what they are about. Any of them can be deleted at any time. All methods block.
"""

import contextlib
import hashlib
import os
import tempfile
from pathlib import Path
from typing import Final

from rta_supervisor.diagnostics import log

SUFFIX: Final = ".index"
_PARTIAL: Final = ".partial"


class IndexCache:
    """A folder of files, the oldest of which go when there are too many bytes. Without a folder nothing is kept."""

    def __init__(self, folder: Path | None, max_bytes: int) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._is_failing = False

    @property
    def is_there(self) -> bool:
        return self._folder is not None

    def load(self, key: str) -> bytes | None:
        """What was saved under a key, None where nothing was."""
        if (path := self._path(key)) is None:
            return None
        try:
            data = path.read_bytes()
            os.utime(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._note(error)
            return None
        return data

    def save(self, key: str, data: bytes) -> None:
        """Keep bytes under a key, in place of those that were there. A folder that can't be written is logged."""
        if (path := self._path(key)) is None or len(data) > self._max_bytes:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, suffix=_PARTIAL, delete=False) as file:
                file.write(data)
            Path(file.name).replace(path)
            self._make_room(path.parent)
        except OSError as error:
            self._note(error)
        else:
            self._is_failing = False

    def remove(self, key: str) -> None:
        """Forget what can't be read."""
        if (path := self._path(key)) is not None:
            with contextlib.suppress(OSError):
                path.unlink()

    def _path(self, key: str) -> Path | None:
        return None if self._folder is None else self._folder / (hashlib.sha256(key.encode()).hexdigest() + SUFFIX)

    def _make_room(self, folder: Path) -> None:
        files = []
        for path in folder.iterdir():
            if path.suffix in (SUFFIX, _PARTIAL):
                with contextlib.suppress(FileNotFoundError):
                    status = path.stat()
                    files.append((status.st_mtime_ns, status.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self._max_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size

    def _note(self, error: OSError) -> None:
        if not self._is_failing:
            self._is_failing = True
            log.get().warning("gateway_cache_failed", error=str(error))
