"""Tells the Session Service what is due, round by round. All calls of a round have one sequence, which is stored before
the first of them: whatever becomes of a call, a later one about the same session has a higher sequence.
"""

import collections
import random
from collections.abc import Iterator, Sequence
from typing import Final

import anyio

from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.publications import table
from rta_supervisor.catalogue.publications.model import DuePublication, RefusedPublication
from rta_supervisor.diagnostics import counters, log
from rta_supervisor.nodes.server_clock import JUMP_MS, Clock, now_ms
from rta_supervisor.publish import pace
from rta_supervisor.publish.calls import RoundOutcome, SessionCall
from rta_supervisor.publish.config_uploads import ConfigUploads
from rta_supervisor.publish.refused_calls import RefusedCalls
from rta_supervisor.publish.sequence import CallSequence, LastSequence
from rta_supervisor.publish.toolkit_client import CallFailed, CallRefused, SessionMissing, ToolkitClient
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_supervisor.webhooks.backoff import backoff_s
from rta_supervisor.webhooks.breaker import Breaker
from rta_wire import errors, keys

ROUND_MAX: Final = 1000
"""Sessions that are told in one round."""

ROUND_S: Final = 1.0
"""How long a round makes calls: with a slow service too, a session that is opened or closed meanwhile comes soon."""

CALLS_AT_ONCE: Final = 16
FIRST_RETRY_S: Final = 1.0
RETRY_MAX_S: Final = 60.0
LOOKBACK_MS: Final = 10 * 60 * 1000
"""How long after it was read from Redis the row of a closed session may come into the catalogue."""


class Publisher:
    """Brings the Session Service in step with the catalogue. One at a time does that, under a lease."""

    def __init__(
        self,
        link: Link,
        catalogue: Catalogue,
        config: settings.Settings,
        client: ToolkitClient,
        configs: ConfigUploads,
        *,
        catalogue_name: str = "",
        clock: Clock = now_ms,
    ) -> None:
        """`catalogue_name`: tells catalogues of several hosts apart."""
        self._link = link
        self._publications = catalogue.publications
        self._config = config
        self._client = client
        self._configs = configs
        self._catalogue_name = catalogue_name or catalogue.name
        self._clock = clock
        self._tick_s = pace.tick_s(config.publish.every_s)
        self._sequence = CallSequence(link, config.keys, self._publications, self._catalogue_name)
        self._refused = RefusedCalls(link, config)
        self.breaker = Breaker(failures=config.publish.breaker_failures, open_s=config.publish.breaker_open_s)
        self.problem = ""
        """Why the service is left alone, or was when it failed last."""
        self._attempts: collections.Counter[str] = collections.Counter()
        self._retry_at_s: dict[str, float] = {}
        self._closed_since_ms: int | None = None
        self._log = log.get()

    async def last_sequence(self) -> LastSequence:
        """What a round begins with: of those that begin with the same one, the first tells something."""
        return await self._sequence.last()

    async def run_round(self, period_s: float, last_sequence: LastSequence) -> bool:
        """Note what has changed and tell what is due. Gives whether there is more to tell at once.

        `period_s`: how often the time range of a session is told. `last_sequence`: as it was before the lease was
        looked at; where another publisher has told something since, this one tells nothing.
        """
        await self._note()
        if self.breaker.wait_s(anyio.current_time()) > 0:
            return False
        at_ms = self._clock()
        # Rounds come once in a tick: what is due in less than half of one is told now.
        due_ms = at_ms + int(self._tick_s * 1000 / 2)
        found = await self._publications.due(
            range_before_ms=due_ms - int(period_s * 1000),
            heartbeat_before_ms=due_ms - int(max(self._config.publish.heartbeat_s, period_s) * 1000),
            future_ms=at_ms + JUMP_MS,
            limit=ROUND_MAX + len(self._retry_at_s),
        )
        due = self._without_paused(found)
        is_cut = bool(due) and await self._tell(due, last_sequence, at_ms)
        return (is_cut or len(due) >= ROUND_MAX) and not self.breaker.is_open

    async def _note(self) -> None:
        """Note new sessions, and what closed since the last time. What operators want again comes first."""
        await self._take_retries()
        at_ms = self._clock()
        if self._closed_since_ms is None:
            self._closed_since_ms = await self._first_closed_since(at_ms)
        # The clock may have gone back since.
        closed_since_ms = min(self._closed_since_ms, at_ms - LOOKBACK_MS)
        await self._publications.note(closed_since_ms=closed_since_ms, at_ms=at_ms)
        if at_ms - LOOKBACK_MS > self._closed_since_ms + LOOKBACK_MS // 10:
            self._closed_since_ms = at_ms - LOOKBACK_MS
            await self._publications.raise_mark(table.CLOSED_SEEN_MS, self._closed_since_ms)

    async def _first_closed_since(self, at_ms: int) -> int:
        """From when on closed sessions are noted: where this catalogue stopped last time. Where another one has been
        published from since, its sessions are no business of this one, which may know them as they were."""
        last = await self._link.do("HGET", self._config.keys.publishing(), keys.PUBLISHING_CATALOGUE)
        is_ours = last is None or last.decode(errors="replace") == self._catalogue_name
        stored_ms = await self._publications.mark(table.CLOSED_SEEN_MS)
        recent_ms = at_ms - LOOKBACK_MS
        if not stored_ms:
            await self._publications.raise_mark(table.CLOSED_SEEN_MS, recent_ms)
        return stored_ms if is_ours and stored_ms else recent_ms

    async def _take_retries(self) -> None:
        """Do what operators asked for with `publish retry`."""
        key = self._config.keys.publish_retries()
        entries = await self._link.do("XRANGE", key, "-", "+", "COUNT", ROUND_MAX)
        if not entries:
            return
        identities = {
            dict(zip(flat[::2], flat[1::2], strict=True)).get(keys.RETRY_IDENTITY, b"") for _, flat in entries
        }
        named = [identity.decode(errors="replace") for identity in identities if identity]
        if b"" in identities:
            await self._publications.retry_refused()
        await self._publications.retry(named, at_ms=self._clock())
        self._resume()
        self._attempts.clear()
        self._configs.forget()
        await self._link.do("XDEL", key, *(entry_id for entry_id, _ in entries))
        self._log.info("publish_retried", sessions=sorted(named), all_refused=b"" in identities)

    def _without_paused(self, found: Sequence[DuePublication]) -> list[DuePublication]:
        """Without sessions whose call failed a moment ago."""
        now_s = anyio.current_time()
        return [one for one in found if self._retry_at_s.get(one.identity, 0.0) <= now_s][:ROUND_MAX]

    async def _tell(self, due: Sequence[DuePublication], last_sequence: LastSequence, at_ms: int) -> bool:
        """Tell what was due at a time. Gives whether something is left because the round has taken long enough."""
        outcome = RoundOutcome(at_ms)
        await self._client.reconnect_if_stuck()
        calls = await self._prepared(due, outcome)
        # Before the sequence is taken: whoever takes the next one knows of them.
        await self._publications.add_categories(
            {call.due.identity: call.new_categories for call in calls if call.new_categories}
        )
        sequence = await self._sequence.take_next(last_sequence, at_ms=self._clock())
        if sequence is None:
            self._log.debug("publish_overtaken", sessions=len(calls))
            return False
        for call in calls:
            call.request.sequence.value = sequence
        try:
            await self._call_all(calls, outcome)
        finally:
            # What was delivered is saved even where the process is told to stop meanwhile.
            with anyio.CancelScope(shield=True):
                await self._save(outcome)
        return outcome.is_cut

    async def _prepared(self, due: Sequence[DuePublication], outcome: RoundOutcome) -> list[SessionCall]:
        """The calls that can be made now: configurations are stored first."""
        calls: list[SessionCall] = []
        for one in due:
            try:
                calls.append(SessionCall(one))
            except errors.BadSessionJson as error:
                message = one.json.encode(errors="replace")
                outcome.refusals.append(RefusedPublication(one, str(error), message))
        until_s = anyio.current_time() + ROUND_S
        configs = await self._configs.ensure((name for call in calls for name in call.configs), until_s)
        ready: list[SessionCall] = []
        for call in calls:
            if not configs.unreached.isdisjoint(call.configs):
                outcome.is_cut = True
            elif reasons := [configs.failed[name] for name in call.configs if name in configs.failed]:
                self._postpone(call.due.identity, reasons[0])
            else:
                ready.append(call)
                if not configs.missing.isdisjoint(call.configs):
                    # Without a digest it is told again with the next time range or heartbeat, and they are looked for.
                    call.digest = ""
        return ready

    async def _call_all(self, calls: Sequence[SessionCall], outcome: RoundOutcome) -> None:
        """Make all calls, some at a time; none any more once the breaker has opened."""
        waiting = list(calls)
        if waiting and self.breaker.is_open:
            # It was open until now: one call decides, about a session that has not failed, or the least often.
            first = min(waiting, key=lambda call: self._attempts[call.due.identity])
            waiting.remove(first)
            await self._call(first, outcome)
        queue = iter(waiting)
        until_s = anyio.current_time() + ROUND_S
        async with anyio.create_task_group() as group:
            for _ in range(min(CALLS_AT_ONCE, len(calls))):
                group.start_soon(self._call_in_turn, queue, until_s, outcome)

    async def _call_in_turn(self, queue: Iterator[SessionCall], until_s: float, outcome: RoundOutcome) -> None:
        for call in queue:
            if self.breaker.is_open:
                return
            if anyio.current_time() > until_s:
                outcome.is_cut = True
                return
            await self._call(call, outcome)

    async def _call(self, call: SessionCall, outcome: RoundOutcome) -> None:
        due = call.due
        try:
            await self._client.update_session(call.request)
        except CallFailed as error:
            counters.counts.publications["failed"] += 1
            self._postpone(due.identity, str(error))
            if self.breaker.record_failure(anyio.current_time()):
                self.problem = str(error)
                self._configs.forget()
                self._log.warning("publish_paused", service="session", reason=str(error))
            return
        except CallRefused as error:
            self._forget_failures(due.identity)
            outcome.refusals.append(RefusedPublication(due, str(error), call.request.SerializeToString()))
        except SessionMissing as error:
            # It has lost the session, or somebody has removed it there.
            counters.counts.publications["failed"] += 1
            self._postpone(due.identity, str(error))
            outcome.lost.append(due.identity)
        else:
            counters.counts.publications[call.kind] += 1
            self._forget_failures(due.identity)
            outcome.deliveries.append(call.delivered(outcome.at_ms))
        if self.breaker.record_success():
            self._log.info("publish_resumed", service="session")
            self._resume()

    def _resume(self) -> None:
        """Try everything again: the service is back. How often a session failed is known until a call about it works:
        those that always fail keep no others waiting."""
        self.problem = ""
        self._retry_at_s.clear()

    def _forget_failures(self, identity: str) -> None:
        self._attempts.pop(identity, None)
        self._retry_at_s.pop(identity, None)

    def _postpone(self, identity: str, reason: str) -> None:
        self._attempts[identity] += 1
        attempt = self._attempts[identity]
        pause_s = min(backoff_s(attempt, FIRST_RETRY_S, random.random()), RETRY_MAX_S)  # noqa: S311 - jitter
        self._retry_at_s[identity] = anyio.current_time() + pause_s
        self._log.debug("publish_failed", session=identity, attempt=attempt, reason=reason, retry_s=round(pause_s, 1))

    async def _save(self, outcome: RoundOutcome) -> None:
        await self._publications.save_deliveries(outcome.deliveries)
        for refusal in outcome.refusals:
            await self._refused.add_session(refusal)
        await self._publications.save_refusals(outcome.refusals)
        await self._publications.forget(outcome.lost)
