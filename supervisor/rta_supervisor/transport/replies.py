"""Replies of Redis as values: hashes, INFO, and the end of a stream."""

from collections.abc import Sequence

from rta_supervisor.transport import commands
from rta_wire import keys


def stream_info_command(stream: str) -> commands.Command:
    """Asks where a stream ends; `last_id_in` reads the answer."""
    return ("XINFO", "STREAM", keys.stream(stream))


def last_generated_id(info: Sequence[bytes] | Exception) -> str:
    if not isinstance(info, Exception):
        return pairs_to_dict(info)[b"last-generated-id"].decode()
    if "no such key" in str(info):
        return "0-0"
    raise info


def pairs_to_dict(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    """A hash as Redis answers it: names and values in turn."""
    return dict(zip(flat[::2], flat[1::2], strict=True))


def parse_info(raw: bytes) -> dict[str, str]:
    lines = (line.partition(":") for line in raw.decode(errors="replace").splitlines() if not line.startswith("#"))
    return {name: value for name, separator, value in lines if separator}
