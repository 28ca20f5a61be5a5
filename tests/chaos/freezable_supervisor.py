"""A supervisor that stops itself with SIGSTOP in the middle of a write. Run as a program.

The file that RTA_TEST_FREEZE names says when: how many effects from now, and how much of the bytes of that effect are
sent before it stops. Nothing happens while there is no such file.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rta_supervisor.cli import entry as cli_entry
from rta_supervisor.transport import commands
from rta_supervisor.transport import pipeline as transport_pipeline
from rta_supervisor.transport.link import Link

NOT_ABOUT_SESSIONS = (
    *("rtas_begin_1", "rtas_missing_1", "rtas_raise_floor_2"),
    *("rtas_take_1", "rtas_release_1", "rtas_retire_1"),
)
EFFECTS = ("FCALL", "XADD", "SADD", "ZADD", "INCRBY", "HSET", "SET")
OUR_OWN = (":node", ":beat:", "rtas:slot:")

_order_path = Path(os.environ["RTA_TEST_FREEZE"])
_try_all = Link.try_all
_done = 0


def _is_effect(call: Sequence[Any]) -> bool:
    if call[0] not in EFFECTS or call[1] in NOT_ABOUT_SESSIONS:
        return False
    return not any(part in str(word) for part in OUR_OWN for word in call[1:4])


def _order() -> tuple[int, float] | None:
    """In how many effects, and after which share of the bytes."""
    if not _order_path.exists():
        return None
    effects, share = _order_path.read_text().split()
    return int(effects), float(share)


def _forget_order() -> None:
    _order_path.unlink()


async def try_all(self: Link, batch: Sequence[commands.Command]) -> list[Any]:
    global _done  # noqa: PLW0603 - one number for the whole process is the point
    answers = []
    for call in batch:
        if _is_effect(call) and (order := _order()):
            _done += 1
            if _done >= order[0]:
                _done = 0
                _forget_order()
                answers.append(await _frozen(self, call, order[1]))
                continue
        answers += await _try_all(self, [call])
    return answers


async def _frozen(link: Link, call: commands.Command, share: float) -> Any:
    """Some of the bytes, then nothing for a long time, then the rest."""
    raw = transport_pipeline.pack(call)
    cut = round(len(raw) * share)
    pool = link.topology.pool  # type: ignore[attr-defined]
    connection: Any = await pool.get_connection()
    try:
        await connection.send_packed_command(raw[:cut])
        print(f'{{"event": "frozen", "call": "{call[1]!s}", "cut": {cut}, "of": {len(raw)}}}', flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        await connection.send_packed_command(raw[cut:])
        connection.batch_parser.wanted = 1
        [answer] = await connection.read_response()
        return answer
    finally:
        await pool.release(connection)


if __name__ == "__main__":
    Link.try_all = try_all  # type: ignore[method-assign]
    sys.exit(cli_entry.main())
