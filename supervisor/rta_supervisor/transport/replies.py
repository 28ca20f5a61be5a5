"""Replies of Redis as values: hashes, INFO, and XINFO of a stream that may not exist."""

from collections.abc import Mapping, Sequence
from typing import Any

from rta_supervisor.transport import commands, failures
from rta_supervisor.transport.link import Link
from rta_wire import entry_ids, redis_errors


def pairs_to_dict(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    """A hash as Redis replies it, names and values in turn, as a dictionary."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


def parse_info(raw: bytes) -> dict[str, str]:
    """The reply to INFO as a dictionary of all sections."""
    lines = (line.partition(":") for line in raw.decode(errors="replace").splitlines() if not line.startswith("#"))
    return {name: value for name, separator, value in lines if separator}


def stream_info_command(key: str) -> commands.Command:
    """The command whose reply `parse_stream_info` reads."""
    return ("XINFO", "STREAM", key)


def parse_stream_info(reply: Sequence[Any] | Exception) -> dict[bytes, Any] | None:
    """The fields of XINFO STREAM; None if the stream does not exist. Raises any other error."""
    if not isinstance(reply, Exception):
        return pairs_to_dict(reply)
    if redis_errors.is_no_such_key(reply):
        return None
    raise failures.classify(reply)


async def read_stream_info(link: Link, key: str) -> dict[bytes, Any] | None:
    """The fields of XINFO STREAM; None if the stream does not exist."""
    [reply] = await link.try_all([stream_info_command(key)])
    return parse_stream_info(reply)


def last_generated_id(info: dict[bytes, Any] | None) -> str:
    """Where a stream ends, by its XINFO; `entry_ids.MIN` if it does not exist."""
    return entry_ids.MIN if info is None else info[b"last-generated-id"].decode()


def text_names(fields: Mapping[bytes, Any]) -> dict[str, Any]:
    """Fields with their names as text."""
    return {name.decode(): value for name, value in fields.items()}
