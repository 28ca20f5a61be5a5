"""What becomes of a key that a writer made: marks, fences, staged bursts, manifests, members of groups, and replies
that it moved to another name. Pure.
"""

import enum
import re
from typing import Final

import msgspec

from rta_wire import keys

NO_TTL: Final = -1
LARGE_BYTES: Final = 4_000_000
"""Memory of a key that should not expire by itself: Redis may be busy with freeing it for more than 5 ms."""

FINISHED: Final = "finished"
"""The gate of a session that has ended."""


class SweepAction(enum.StrEnum):
    """What is done with a key."""

    KEEP = "kept"
    EXPIRE = "given a lifetime"
    REMOVE = "removed"
    REMOVE_IN_PARTS = "removed in parts"


class KeyFacts(msgspec.Struct, frozen=True):
    """What Redis says of a key."""

    name: str
    ttl_s: int
    used_bytes: int
    is_hash: bool = False
    gate: str = ""
    """The gate of the session that it belongs to; empty where there is none."""
    is_fence: bool = False


def decide(key: KeyFacts, lifetime_s: int) -> SweepAction:
    """What to do with a key. `lifetime_s`: how long the marks of a session live after its last append.

    Marks are never removed from a session that may be open. One without a gate is not open, unless Redis has just lost
    the gate: so a key is removed only if it was left alone for half of its lifetime.
    """
    is_over = key.gate == FINISHED or (not key.gate and NO_TTL < key.ttl_s < lifetime_s / 2)
    if is_over and key.used_bytes > LARGE_BYTES:
        return SweepAction.REMOVE_IN_PARTS if key.is_hash else SweepAction.REMOVE
    if is_over and key.is_fence:
        return SweepAction.REMOVE
    return SweepAction.EXPIRE if key.ttl_s == NO_TTL else SweepAction.KEEP


def is_of_writers(names: keys.Keys, name: str) -> bool:
    """Whether writers make keys of this name."""
    return name.startswith((*_stream_prefixes(names), names.members("")))


def is_reply(names: keys.Keys, name: str) -> bool:
    """Whether a key has the name of a reply. Supervisors write replies with a lifetime; moved to another name, as
    readers of replies may, one has none."""
    return name.startswith(names.reply(""))


def gate_of(names: keys.Keys, name: str) -> str:
    """The gate of the session that a key belongs to; empty where its name does not say one."""
    for prefix in _stream_prefixes(names):
        match = _SESSION.match(name.removeprefix(prefix)) if name.startswith(prefix) else None
        if match is not None:
            return names.gate(match["stream"], int(match["number"]))
    return ""


def is_fence(names: keys.Keys, name: str) -> bool:
    """Whether a key is the fence of a unit: its name goes on after that of the marks."""
    prefix = names.marks("", 0).partition("{")[0]
    match = _SESSION.match(name.removeprefix(prefix)) if name.startswith(prefix) else None
    return match is not None and match["rest"] == ":"


def scan_pattern(names: keys.Keys) -> str:
    """A pattern for SCAN that matches every key of writers and every reply, and few others."""
    words = [
        whole.removeprefix(names.prefix) for whole in (*_stream_prefixes(names), names.members(""), names.reply(""))
    ]
    letters = ["".join(dict.fromkeys(pair)) for pair in zip(*(word[:2] for word in words), strict=True)]
    return names.prefix + "".join(f"[{choice}]" for choice in letters) + "*"


_SESSION: Final = re.compile(r"\{stream:(?P<stream>[\w.-]+)\}:(?P<number>\d{1,18})(?P<rest>:|$)", re.ASCII)


def _stream_prefixes(names: keys.Keys) -> tuple[str, ...]:
    """How the names of keys beside a stream begin, up to its hash tag."""
    whole = (names.marks("", 0), names.staged("", 0, ""), names.staging_manifest("", 0, "", 0))
    return tuple(name.partition("{")[0] for name in whole)
