"""The supervisor in one line, for `systemctl status`."""

from rta_supervisor.diagnostics import counters
from rta_supervisor.observe.sampler import Seen

MIB = 1024 * 1024


def line(seen: Seen, counts: counters.Counts) -> str:
    states = ", ".join(f"{count} {state}" for state, count in seen.sessions.items() if count) or "no sessions"
    waiting = sum(lane.waiting + lane.unacknowledged for lane in seen.lanes)
    words = [
        states,
        f"{counts.opened} opened and {sum(counts.closed.values())} closed here",
        f"{counts.reports} reports",
    ]
    if waiting:
        words.append(f"{waiting} messages waiting")
    if seen.dead_letters:
        words.append(f"{seen.dead_letters} dead letters")
    if seen.server is not None:
        limit = f" of {seen.server.max_bytes // MIB}" if seen.server.max_bytes else ""
        words.append(f"Redis {seen.server.used_bytes // MIB}{limit} MiB")
    return "; ".join(words)
