"""Says what became of every acknowledged sample. Shares no code with the writer: its own RESP, LZ4 and protobuf.

It follows a session as a reader does: from its first entry to the Session JSON that closes it. What comes after that
nobody reads, so it counts as lost.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from tests.acceptance import independent_reader
from tests.chaos import stamps

PAGE: Final = 500
OPEN_STATES: Final = ("open", "waiting")
NOTHING: Final = np.empty(0, np.int64)

Entry = tuple[bytes, bytes, bytes]
"""Entry id, stream session id, burst."""


@dataclass(frozen=True)
class Session:
    """What a reader of one session got."""

    codes: stamps.Codes
    late: stamps.Codes
    """Samples after the end of the session."""

    state: str
    is_well_formed: bool
    """Session JSON first, and last as well where the session is closed."""

    mangled: int
    """Samples whose value, time and channel contradict each other."""


@dataclass(frozen=True)
class Verdict:
    """One or more sessions, judged."""

    samples: int = 0
    acknowledged: int = 0
    lost: int = 0
    duplicated: int = 0
    disordered: int = 0
    mangled: int = 0
    malformed: int = 0
    """Sessions whose entries break the order rules of the protocol."""

    def __add__(self, other: "Verdict") -> "Verdict":
        return Verdict(*(mine + theirs for mine, theirs in zip(self.numbers(), other.numbers(), strict=True)))

    def numbers(self) -> list[int]:
        return [getattr(self, name) for name in self.__dataclass_fields__]

    def without_order(self) -> "Verdict":
        """For runs in which nobody promised an order."""
        return replace(self, disordered=0)

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.duplicated or self.disordered or self.mangled or self.malformed)


def read(port: int, stream: str) -> list[Entry]:
    """Every entry of a stream, in order."""
    with independent_reader.Redis(port) as redis:
        return list(_pages(redis, stream))


def _pages(redis: independent_reader.Redis, stream: str) -> Iterator[Entry]:
    after = b"-"
    while page := redis.do("XRANGE", f"stream:{stream}", after, "+", "COUNT", str(PAGE)):
        yield from (as_entry(found) for found in page)
        after = b"(" + page[-1][0]


def order(entry_id: bytes) -> tuple[int, int]:
    milliseconds, _, number = entry_id.partition(b"-")
    return int(milliseconds), int(number)


def as_entry(raw: Any) -> Entry:
    entry_id, fields = raw
    assert fields[0::2] == [b"id", b"data"], "exactly two fields"
    return entry_id, fields[1], fields[3]


@dataclass
class _Following:
    codes: list[stamps.Codes] = field(default_factory=list)
    late: list[stamps.Codes] = field(default_factory=list)
    state: str = ""
    first: int = 0
    last: int = 0
    mangled: int = 0


def follow(entries: Iterable[Entry]) -> dict[int, Session]:
    """Sessions by their stream session id."""
    followed: dict[int, _Following] = {}
    for _, number, data in entries:
        session = followed.setdefault(int(number), _Following())
        items = [
            next(independent_reader.protobuf(item))
            for at, item in independent_reader.protobuf(independent_reader.lz4_block(data))
            if at == 1
        ]
        for kind, value in items:
            session.first = session.first or kind
            session.last = kind
            if kind == 2:
                session.state = json.loads(value)["state"]
            elif kind == 4:
                codes, mangled = timestamped(value)
                session.mangled += mangled
                (session.codes if session.state in OPEN_STATES else session.late).append(codes)
    return {number: _session(session) for number, session in followed.items()}


def _session(followed: _Following) -> Session:
    codes, late = np.concatenate([NOTHING, *followed.codes]), np.concatenate([NOTHING, *followed.late])
    is_well_formed = followed.first == 2 and (followed.state in OPEN_STATES or followed.last == 2)
    return Session(codes, late, followed.state, is_well_formed, followed.mangled)


def timestamped(raw: bytes) -> tuple[stamps.Codes, int]:
    """Values of one message, and how many of them do not fit their time or channel."""
    fields = dict(independent_reader.protobuf(raw))
    packed = np.frombuffer(fields[4], np.uint8)
    deltas = packed.astype(np.int64) if (packed < 0x80).all() else np.array(list(_varints(fields[4])), np.int64)
    times = independent_reader.fixed64(fields[2]) + np.cumsum(deltas) * independent_reader.signed(fields[3])
    values = np.frombuffer(fields[5], "<f8")
    codes = stamps.from_values(values)
    is_right = (
        (stamps.values(codes) == values)
        & (times == stamps.times_ns(codes))
        & (fields.get(1, 0) == stamps.channels(codes))
    )
    return codes[is_right], int((~is_right).sum())


def _varints(packed: bytes) -> Iterator[int]:
    at = 0
    while at < len(packed):
        value, at = independent_reader.varint(packed, at)
        yield independent_reader.signed(value)


def acknowledged(logs: Sequence[Path]) -> stamps.Codes:
    """What writers noted as acknowledged, each sample once."""
    groups = {
        (int(unit), int(epoch), int(seq), int(count))
        for path in logs
        if path.exists()
        for kind, unit, epoch, seq, count in _noted(path)
        if kind == "A"
    }
    return np.unique(np.concatenate([NOTHING, *(stamps.codes(*group) for group in groups)]))


def _noted(path: Path) -> Iterator[list[str]]:
    for line in path.read_text().splitlines():
        fields = line.split()
        if len(fields) == 5:
            yield fields


def judge(session: Session | None, expected: stamps.Codes) -> Verdict:
    """What a reader got against what was acknowledged."""
    if session is None:
        return Verdict(acknowledged=len(expected), lost=len(expected))
    return Verdict(
        samples=len(session.codes),
        acknowledged=len(expected),
        lost=len(np.setdiff1d(expected, session.codes)),
        duplicated=len(session.codes) - len(np.unique(session.codes)),
        disordered=disordered(session.codes),
        mangled=session.mangled,
        malformed=int(not session.is_well_formed),
    )


def disordered(codes: stamps.Codes) -> int:
    """Samples of a channel that stand behind a later one of it."""
    count = 0
    channels = stamps.channels(codes)
    for channel in np.unique(channels):
        of_channel = codes[channels == channel]
        count += int((of_channel < np.maximum.accumulate(of_channel)).sum())
    return count
