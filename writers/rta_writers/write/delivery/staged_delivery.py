"""Staged delivery: bursts of an attempt wait beside the stream, and the commit of an epoch moves them into it.

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
from rta_wire.codec.burst import Burst
from rta_wire.control.totals import Totals
from rta_writers.connection.pipeline import Pipeline
from rta_writers.control import session_resolver
from rta_writers.options.target import Target
from rta_writers.write.delivery import appender as write_appender
from rta_writers.write.delivery import exactly_once
from rta_writers.write.task_result import StagedAttempt

BURSTS_PER_MOVE: Final = 32
"""Bursts that are moved in one transaction, about 2 MiB."""

MANIFEST_TTL_AFTER_S: Final = 3600
"""How long a manifest outlives its commit, for another commit of the same epoch that is late."""


class Stager(write_appender.Appender):
    """Stages the rows of one attempt. Sending a group twice overwrites it with itself."""

    def __init__(self, client: redis.Redis, target: Target, *, ttl_s: int) -> None:
        super().__init__(client, target)
        self.staged = StagedAttempt(uuid.uuid4().hex, 0)
        self._ttl_s = ttl_s
        self._group_bursts: Sequence[Burst] = ()
        self._is_sent = False
        self._key = _staged_key(target, self.staged)

    def append(
        self,
        rows: int,
        encode_rows: write_appender.EncodeRows,
        fingerprint_rows: write_appender.FingerprintRows = write_appender.no_fingerprint,  # noqa: ARG002 - rows are not compared
    ) -> None:
        """Stage the next group of rows. The groups before it are staged when this returns."""
        bursts = list(encode_rows(0))
        self.flush()
        self._group_bursts = bursts
        self._pipeline.with_retries(self._send_group, self._reset)
        self.rows_done += rows

    @property
    def is_under_way(self) -> bool:
        return bool(self._group_bursts)

    def flush(self) -> None:
        if self._group_bursts:
            self._pipeline.with_retries(self._complete, self._reset)

    def known_totals(self) -> Totals:
        """Nothing: before the commit no row is in the stream."""
        return Totals()

    def totals(self) -> Totals:
        """What this attempt staged."""
        self.flush()
        return self.written

    def discard(self) -> None:
        """Remove what was staged, where the attempt will not be committed."""
        self.close()
        self._pipeline.execute([("UNLINK", self._key)])

    def _send_group(self) -> None:
        fields: list[Any] = []
        for index, burst in enumerate(self._group_bursts, self.staged.bursts):
            fields += (index, msgspec.msgpack.encode(burst))
        if fields:
            self._pipeline.send(
                [("HSET", self._key, *fields), ("EXPIRE", self._key, self._ttl_s), ("GET", self._gate)],
            )
            self._is_sent = True

    def _complete(self) -> None:
        if not self._is_sent:
            self._send_group()
        self._is_sent = False
        *_, gate = self._pipeline.receive(3)
        for burst in self._group_bursts:
            self.written = self.written.with_burst(burst)
        self.staged = StagedAttempt(self.staged.attempt, self.staged.bursts + len(self._group_bursts))
        self._group_bursts = ()
        if gate != session_resolver.GATE_OPEN:
            raise session_resolver.closed_error(gate, self._target)

    def _reset(self) -> None:
        self._is_sent = False


def commit(
    client: redis.Redis, target: Target, attempts: Sequence[StagedAttempt], *, unit: str, epoch: int, ttl_s: int
) -> Totals:
    """Move the attempts of an epoch into the stream. Gives what the unit has written to the session in all."""
    appender = exactly_once.ExactlyOnceAppender(client, target, unit=unit, epoch=epoch)
    manifest = target.keys.staging_manifest(target.stream, target.stream_session_id, unit, epoch)
    pipeline = Pipeline(client, target.redis_url, keys.stream(target.stream))
    lost_error = errors.StagedLost(identity=target.identity, epoch=epoch, reason="they have expired")
    try:
        chosen = pipeline.with_retries(
            lambda: _choose_attempts(pipeline, appender, manifest, attempts, ttl_s), _nothing_to_reset
        )
        for attempt in chosen:
            for first in range(0, attempt.bursts, BURSTS_PER_MOVE):
                indices = range(first, min(first + BURSTS_PER_MOVE, attempt.bursts))
                read = functools.partial(_read_bursts, pipeline, _staged_key(target, attempt), indices, lost_error)
                appender.append(len(indices), read)
        appender.flush()
        staged_keys = sorted({_staged_key(target, attempt) for attempt in (*attempts, *chosen)})
        commands = [("EXPIRE", manifest, MANIFEST_TTL_AFTER_S), *(("UNLINK", key) for key in staged_keys)]
        pipeline.with_retries(lambda: pipeline.execute(commands), _nothing_to_reset)
    finally:
        pipeline.release()
        appender.close()
    return appender.known_totals()


def discard(client: redis.Redis, target: Target, attempt: StagedAttempt, *, unit: str, epoch: int) -> None:
    """Remove what an attempt staged that will never be committed. Where the commit of its epoch was cut off with this
    attempt in its manifest, the next one goes on from what was staged."""
    stored: Any = client.get(target.keys.staging_manifest(target.stream, target.stream_session_id, unit, epoch))
    if stored is None or attempt not in msgspec.json.decode(stored, type=list[StagedAttempt]):
        client.unlink(_staged_key(target, attempt))


def _staged_key(target: Target, attempt: StagedAttempt) -> str:
    return target.keys.staged(target.stream, target.stream_session_id, attempt.attempt)


def _choose_attempts(
    pipeline: Pipeline,
    appender: exactly_once.ExactlyOnceAppender,
    manifest: str,
    attempts: Sequence[StagedAttempt],
    ttl_s: int,
) -> list[StagedAttempt]:
    """The attempts that the epoch consists of: those of the first commit that wrote a manifest."""
    (stored,) = pipeline.execute([("GET", manifest)])
    if stored is None:
        if appender.has_begun():
            # A manifest outlives its commit, so an earlier commit of the epoch was completed long ago.
            return []
        own_manifest = msgspec.json.encode([attempt for attempt in attempts if attempt.bursts])
        pipeline.execute([("SET", manifest, own_manifest, "NX", "EX", ttl_s)])
        (stored,) = pipeline.execute([("GET", manifest)])
    chosen: list[StagedAttempt] = msgspec.json.decode(stored, type=list[StagedAttempt])
    return chosen


def _read_bursts(
    pipeline: Pipeline, key: str, indices: range, lost_error: errors.StagedLost, skipped: int
) -> Iterator[Burst]:
    (bursts,) = pipeline.with_retries(lambda: pipeline.execute([("HMGET", key, *indices[skipped:])]), _nothing_to_reset)
    for raw in bursts:
        if raw is None:
            raise lost_error
        yield msgspec.msgpack.decode(raw, type=Burst)


def _nothing_to_reset() -> None:
    """For commands that know nothing of the connection: they are sent again on another one."""
