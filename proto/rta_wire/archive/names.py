"""Names of folders and files of the archive, and of what keeps files from being written."""

import datetime
import errno
import re
from pathlib import PurePosixPath
from typing import Final

MANIFEST: Final = "manifest.json"
"""The manifest of a closed session. Where it is missing, the session is open or its last part is not there yet."""

IDLE: Final = "idle.json"
"""Says of an open session up to where its stream has nothing behind its last part."""

SESSION: Final = "session.json"
CONFIG_PREFIX: Final = "config-"
"""Before the identifier of a configuration, in the name of its file."""

STAGING_PREFIX: Final = ".tmp-"
"""A folder with this prefix belongs to a run, or to one that was killed. Readers of Parquet ignore it."""

DAMAGED_PREFIX: Final = ".damaged-"
"""Before the names of files that were found damaged and were archived anew."""

NAME_MAX_CHARS: Final = 80
_FULL: Final = tuple(f"[errno {code}]" for code in (errno.ENOSPC, errno.EDQUOT))
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_PART_MANIFEST: Final = re.compile(r"part-([0-9]{5,})\.json")
_PREFIXES: Final = {"samples": "part", "events": "events", "messages": "messages"}


def session_folder(source: str, opened_ms: int, identity: str, stream_session_id: int) -> PurePosixPath:
    """The folder of a session inside the archive, made of what never changes about the session."""
    return PurePosixPath(f"date={day(opened_ms)}", f"source={source}", session_name(identity, stream_session_id))


def session_name(identity: str, stream_session_id: int | str) -> str:
    """The last name of the folder of a session. `*` in place of the id makes a pattern for all of that identity."""
    return f"session={_UNSAFE.sub('_', identity)[:NAME_MAX_CHARS]}-{stream_session_id}"


def day(at_ms: int) -> str:
    """The date of a time in UTC, as YYYY-MM-DD."""
    return datetime.datetime.fromtimestamp(at_ms / 1000, datetime.UTC).date().isoformat()


def part_manifest(number: int) -> str:
    """The name of the manifest of a part."""
    return f"part-{number:05d}.json"


def part_number(name: str) -> int | None:
    """The number of the part whose manifest has this name, None where it is another file."""
    matched = _PART_MANIFEST.fullmatch(name)
    return int(matched[1]) if matched else None


def is_manifest(name: str) -> bool:
    """Whether a file is a manifest of a part or of a whole session, or the mark of an idle one."""
    return name in (MANIFEST, IDLE) or part_number(name) is not None


def config_file(identifier: str) -> str:
    """The name of the file with a configuration that the session is bound to."""
    return f"{CONFIG_PREFIX}{identifier}.json"


def data_file(kind: str, number: int, token: str) -> str:
    """The name of a file with rows of one kind: samples, events or messages. Files that belong together share the
    token."""
    return f"{_PREFIXES[kind]}-{number:05d}-{token}.parquet"


def messages_of(samples_name: str) -> str:
    """The name of the file with the messages of a file with samples."""
    return f"messages-{samples_name.removeprefix('part-')}"


def describe_os_error(error: OSError) -> str:
    """Why a file can't be written, for people. Arrow has the number of an error in its text only."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT) or any(code in str(error) for code in _FULL):
        return "the disk is full"
    return error.strerror or str(error)
