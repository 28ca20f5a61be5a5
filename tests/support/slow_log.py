"""What Redis itself says about the commands that it ran: how long each kept it, and how many arguments each had."""

import contextlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import redis

KEPT_COMMANDS = 100_000
_MORE = re.compile(rb"\.\.\. \((\d+) more arguments\)$")


class RanCommand(NamedTuple):
    """A command as the slow log has it: long arguments are cut there."""

    words: list[bytes]
    arguments: int
    duration_us: int

    @property
    def name(self) -> str:
        """The name of the command, of a function call that of the function."""
        return self.words[1 if self.words[0] == b"FCALL" else 0].decode()


@contextlib.contextmanager
def recorded(client: redis.Redis, *, slower_than_us: int = 0) -> Iterator[list[RanCommand]]:
    """Fills the list, at the end, with all commands that ran on the server meanwhile, or with those that took long.

    Commands in a function come before its call, which includes their time.
    """
    before: Any = client.config_get("slowlog-*")
    client.config_set("slowlog-max-len", KEPT_COMMANDS)
    client.execute_command("SLOWLOG", "RESET")
    client.config_set("slowlog-log-slower-than", slower_than_us)
    ran: list[RanCommand] = []
    try:
        yield ran
    finally:
        client.config_set("slowlog-log-slower-than", -1)
        entries: Any = client.slowlog_get(KEPT_COMMANDS)
        ran += [_parse(entry) for entry in reversed(entries)]
        for name, value in before.items():
            client.config_set(name, value)


def _parse(entry: dict[str, Any]) -> RanCommand:
    command: bytes = entry["command"]
    more = _MORE.search(command)
    words = command.split(b" ")
    arguments = len(words) if more is None else len(command[: more.start()].split()) + int(more[1])
    return RanCommand(words, arguments, entry["duration"])
