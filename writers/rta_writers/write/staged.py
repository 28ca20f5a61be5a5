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

from rta_wire import errors, keys
from rta_wire.codec.encode import Burst
from rta_wire.control.totals import Totals
from rta_writers.connection import pipeline as connection_pipeline
from rta_writers.control import resolve
from rta_writers.options.target import Target
from rta_writers.write import exactly_once, sink
from rta_writers.write.sink import SinkBase

BURSTS_PER_MOVE: Final = 32
"""About 2 MiB in one transaction."""

MANIFEST_TTL_AFTER_S: Final = 3600
"""How long a manifest outlives its commit, for a twin of the committer that is late."""


class StagedAttempt(msgspec.Struct, frozen=True):
    """What one attempt staged for one session."""

    attempt: str
    bursts: int


class Stager(SinkBase):
    """Stages the rows of one attempt. Sending a group twice overwrites it with itself."""

    def __init__(self, client: redis.Redis, target: Target, *, ttl_s: int) -> None:
        super().__init__(client, target)
        self.staged = StagedAttempt(uuid.uuid4().hex, 0)
        self._ttl_s = ttl_s
        self._waiting: Sequence[Burst] = ()
        self._in_flight = False
        self._key = target.keys.staged(target.stream, target.stream_session_id, self.staged.attempt)

    def append(
        self,
        rows: int,
        encode: sink.Encode,
        fingerprint: sink.Fingerprint = sink.no_fingerprint,  # noqa: ARG002 - any rows will do
    ) -> None:
        """The next rows. Those before them are staged when this returns."""
        bursts = list(encode(0))
        self.flush()
        self._waiting = bursts
        self._pipeline.with_retries(self._send_group, self._reset)
        self.rows_done += rows

    def flush(self) -> None:
        if self._waiting:
            self._pipeline.with_retries(self._complete, self._reset)

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
        self._pipeline.execute([("UNLINK", self._key)])

    def _send_group(self) -> None:
        words: list[Any] = []
        for place, burst in enumerate(self._waiting, self.staged.bursts):
            words += (place, msgspec.msgpack.encode(burst))
        if words:
            self._pipeline.send(
                [("HSET", self._key, *words), ("EXPIRE", self._key, self._ttl_s), ("GET", self._gate)],
            )
            self._in_flight = True

    def _complete(self) -> None:
        if not self._in_flight:
            self._send_group()
        self._in_flight = False
        *_, gate = self._pipeline.receive(3)
        for burst in self._waiting:
            self.written = self.written.with_burst(burst)
        self.staged = StagedAttempt(self.staged.attempt, self.staged.bursts + len(self._waiting))
        self._waiting = ()
        if gate != resolve.GATE_OPEN:
            raise resolve.closed_error(gate, self._target)

    def _reset(self) -> None:
        self._in_flight = False


def commit(
    client: redis.Redis, target: Target, parts: Sequence[StagedAttempt], *, unit: str, epoch: int, ttl_s: int
) -> exactly_once.ExactlyOnceAppender:
    """Moves an epoch into the stream. The appender tells what the unit has written and how it went."""
    mover = exactly_once.ExactlyOnceAppender(client, target, unit=unit, epoch=epoch)
    place = target.stream, target.stream_session_id
    manifest = target.keys.manifest(*place, unit, epoch)
    line = connection_pipeline.Pipeline(client, target.redis_url, keys.stream(target.stream))
    lost = errors.StagedLost(identity=target.identity, epoch=epoch, reason="they have expired")
    try:
        decided = line.with_retries(lambda: _decide(line, mover, manifest, parts, ttl_s), lambda: None)
        for part in decided:
            key = target.keys.staged(*place, part.attempt)
            for first in range(0, part.bursts, BURSTS_PER_MOVE):
                spots = range(first, min(first + BURSTS_PER_MOVE, part.bursts))
                take = functools.partial(_read_bursts, line, key, spots, lost)
                mover.append(len(spots), take)
        mover.flush()
        mine = {part.attempt for part in parts} | {part.attempt for part in decided}
        doomed = [target.keys.staged(*place, attempt) for attempt in sorted(mine)]
        line.with_retries(
            lambda: line.execute([("EXPIRE", manifest, MANIFEST_TTL_AFTER_S), *(("UNLINK", key) for key in doomed)]),
            lambda: None,
        )
    finally:
        line.release()
    return mover


def _decide(
    line: connection_pipeline.Pipeline,
    mover: exactly_once.ExactlyOnceAppender,
    manifest: str,
    parts: Sequence[StagedAttempt],
    ttl_s: int,
) -> list[StagedAttempt]:
    """The attempts that the epoch consists of: those of the first commit that got so far."""
    ours = msgspec.json.encode([part for part in parts if part.bursts])
    (stored,) = line.execute([("GET", manifest)])
    if stored is None:
        if mover.has_begun():
            # A manifest outlives its commit, so this commit was over and done with long ago.
            return []
        line.execute([("SET", manifest, ours, "NX", "EX", ttl_s)])
        (stored,) = line.execute([("GET", manifest)])
    decided: list[StagedAttempt] = msgspec.json.decode(stored, type=list[StagedAttempt])
    return decided


def _read_bursts(
    line: connection_pipeline.Pipeline, key: str, spots: range, lost: errors.StagedLost, skip: int
) -> Iterator[Burst]:
    (found,) = line.with_retries(lambda: line.execute([("HMGET", key, *spots[skip:])]), lambda: None)
    for raw in found:
        if raw is None:
            raise lost
        yield msgspec.msgpack.decode(raw, type=Burst)


def discard(client: redis.Redis, target: Target, parts: Sequence[StagedAttempt]) -> None:
    """Remove what attempts staged that will never be committed."""
    place = target.stream, target.stream_session_id
    names = [target.keys.staged(*place, part.attempt) for part in parts]
    if names:
        client.unlink(*names)
