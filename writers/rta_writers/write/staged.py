"""Staged delivery: bursts of an attempt wait beside the stream, and the commit of an epoch moves one attempt's of each.

Every attempt stages under a name of its own, so a retry may compute other rows. The first commit of an epoch writes
down which attempts it consists of (the manifest) and then moves their bursts with appends that happen once: the mark
counts bursts of the manifest. A commit that was cut off anywhere is repeated from the manifest, not from new attempts.
Only plain commands are used: a writer needs no right to run scripts.
"""

import functools
import uuid
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
import redis

from rta_wire import errors
from rta_wire.codec.encode import Burst
from rta_wire.control.totals import Totals
from rta_writers.connection import pipeline as connection_pipeline
from rta_writers.options.target import Target
from rta_writers.write import exactly_once
from rta_writers.write.sink import Attempt

BURSTS_PER_MOVE: Final = 32
"""About 2 MiB in one transaction."""

MANIFEST_TTL_AFTER_S: Final = 3600
"""How long a manifest outlives its commit, for a twin of the committer that is late."""


class Part(msgspec.Struct, frozen=True):
    """What one attempt staged for one session."""

    attempt: str
    bursts: int


class Stager(Attempt):
    """Stages the rows of one attempt. Sending a group twice overwrites it with itself."""

    def __init__(self, client: redis.Redis, target: Target, *, ttl_s: int) -> None:
        super().__init__(client, target)
        self.part = Part(uuid.uuid4().hex, 0)
        self._ttl_s = ttl_s
        self._waiting: Sequence[Burst] = ()
        self._in_flight = False
        self._key = target.keys.staged(target.stream, target.stream_session_id, self.part.attempt)

    def append(
        self,
        rows: int,
        encode: exactly_once.Encode,
        fingerprint: exactly_once.Fingerprint = exactly_once.no_fingerprint,  # noqa: ARG002 - any rows will do
    ) -> None:
        """The next rows. Those before them are staged when this returns."""
        bursts = list(encode(0))
        self.flush()
        self._waiting = bursts
        self._talk.patiently(self._launch, self._forget)
        self.row += rows

    def flush(self) -> None:
        if self._waiting:
            self._talk.patiently(self._complete, self._forget)

    def known_totals(self) -> Totals:
        """Nothing can be seen in the stream before the commit."""
        return Totals()

    def totals(self) -> Totals:
        """What this attempt staged."""
        self.flush()
        return self.written

    def discard(self) -> None:
        """Remove what was staged: nobody will commit it."""
        self.close()
        self._talk.ask([("UNLINK", self._key)])

    def _launch(self) -> None:
        words: list[Any] = []
        for place, burst in enumerate(self._waiting, self.part.bursts):
            words += (place, msgspec.msgpack.encode(burst))
        if words:
            self._talk.send(
                [("HSET", self._key, *words), ("EXPIRE", self._key, self._ttl_s), ("GET", self._gate)],
            )
            self._in_flight = True

    def _complete(self) -> None:
        if not self._in_flight:
            self._launch()
        self._in_flight = False
        *_, gate = self._talk.receive(3)
        for burst in self._waiting:
            self.written = self.written.plus(burst)
        self.part = Part(self.part.attempt, self.part.bursts + len(self._waiting))
        self._waiting = ()
        connection_pipeline.check_gate(gate, self._target)

    def _forget(self) -> None:
        self._in_flight = False


def commit(
    client: redis.Redis, target: Target, parts: Sequence[Part], *, unit: str, epoch: int, ttl_s: int
) -> exactly_once.Appender:
    """Moves an epoch into the stream. The appender tells what the unit has written and how it went."""
    mover = exactly_once.Appender(client, target, unit=unit, epoch=epoch)
    place = target.stream, target.stream_session_id
    manifest = target.keys.manifest(*place, unit, epoch)
    line = connection_pipeline.Talk(client, target)
    lost = errors.StagedLost(identity=target.identity, epoch=epoch, reason="they have expired")
    try:
        decided = line.patiently(lambda: _decide(line, mover, manifest, parts, ttl_s), lambda: None)
        for part in decided:
            key = target.keys.staged(*place, part.attempt)
            for first in range(0, part.bursts, BURSTS_PER_MOVE):
                spots = range(first, min(first + BURSTS_PER_MOVE, part.bursts))
                take = functools.partial(_take, line, key, spots, lost)
                mover.append(len(spots), take)
        mover.flush()
        mine = {part.attempt for part in parts} | {part.attempt for part in decided}
        doomed = [target.keys.staged(*place, attempt) for attempt in sorted(mine)]
        line.patiently(
            lambda: line.ask([("EXPIRE", manifest, MANIFEST_TTL_AFTER_S), *(("UNLINK", key) for key in doomed)]),
            lambda: None,
        )
    finally:
        line.hang_up()
    return mover


def _decide(
    line: connection_pipeline.Talk, mover: exactly_once.Appender, manifest: str, parts: Sequence[Part], ttl_s: int
) -> list[Part]:
    """The attempts that the epoch consists of: those of the first commit that got so far."""
    ours = msgspec.json.encode([part for part in parts if part.bursts])
    (stored,) = line.ask([("GET", manifest)])
    if stored is None:
        if mover.begun():
            # A manifest outlives its commit, so this commit was over and done with long ago.
            return []
        line.ask([("SET", manifest, ours, "NX", "EX", ttl_s)])
        (stored,) = line.ask([("GET", manifest)])
    decided: list[Part] = msgspec.json.decode(stored, type=list[Part])
    return decided


def _take(
    line: connection_pipeline.Talk, key: str, spots: range, lost: errors.StagedLost, skip: int
) -> Iterator[Burst]:
    (found,) = line.patiently(lambda: line.ask([("HMGET", key, *spots[skip:])]), lambda: None)
    for raw in found:
        if raw is None:
            raise lost
        yield msgspec.msgpack.decode(raw, type=Burst)


def discard(client: redis.Redis, target: Target, parts: Sequence[Part]) -> None:
    """Remove what attempts staged that will never be committed."""
    place = target.stream, target.stream_session_id
    names = [target.keys.staged(*place, part.attempt) for part in parts]
    if names:
        client.unlink(*names)
