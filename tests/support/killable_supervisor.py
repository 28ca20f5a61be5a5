"""A supervisor that ends itself with SIGKILL between two effects. Run as a program, with the number of the effect.

Every command that changes a session is an effect of its own here: what the daemon sends together is sent one by one, so
that there is a place to die between any two.
"""

import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from rta_supervisor.cli import entry as cli_entry
from rta_supervisor.transport import commands
from rta_supervisor.transport.link import Link

NOT_ABOUT_SESSIONS = (
    *("rtas_begin_1", "rtas_missing_1", "rtas_raise_floor_2"),
    *("rtas_take_1", "rtas_release_1", "rtas_retire_1"),
)
EFFECTS = ("FCALL", "XADD", "SADD", "ZADD", "INCRBY", "HSET", "SET")

_left = int(os.environ["RTA_TEST_KILL_AT"])
_try_all = Link.try_all


_word = os.environ.get("RTA_TEST_KILL_WORD")
"""Only commands that start with this word, or functions of this name, are effects."""


_cold = ("rtas_freeze_1", "rtas_switch_1", "rtas_shed_1") if os.environ.get("RTA_TEST_COLD") else ()
"""Only the steps of a compaction are effects."""


def _is_effect(call: Sequence[Any]) -> bool:
    if _cold:
        return call[0] == "FCALL" and call[1] in _cold
    if _word is not None:
        return _word in call[:2]
    return call[0] in EFFECTS and call[1] not in NOT_ABOUT_SESSIONS and ":node" not in str(call[1])


async def try_all(self: Link, batch: Sequence[commands.Command]) -> list[Any]:
    global _left  # noqa: PLW0603 - one number for the whole process is the point
    answers = []
    for call in batch:
        if _is_effect(call):
            _left -= 1
            if _left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        answers += await _try_all(self, [call])
    return answers


if __name__ == "__main__":
    Link.try_all = try_all  # type: ignore[method-assign]
    sys.exit(cli_entry.main())
