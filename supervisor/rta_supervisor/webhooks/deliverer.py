"""Posts the queued deliveries of one target. Each target has a deliverer in a task of its own: a target that hangs
delays no other.
"""

import random
from typing import Final

import anyio

from rta_supervisor.diagnostics import counters, log, loop_watch
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import RETRIABLE_ERRORS, DataLost
from rta_supervisor.transport.link import Link
from rta_supervisor.webhooks import http_post, signature
from rta_supervisor.webhooks.backoff import backoff_s
from rta_supervisor.webhooks.breaker import Breaker
from rta_supervisor.webhooks.delivery_queue import DeliveryQueue, WebhookDelivery
from rta_wire import __version__, errors

POLL_S: Final = 2.0
"""How often to look for deliveries that another supervisor queued or took and did not complete."""

OUTAGE_PAUSE_S: Final = 1.0
TAKE_FACTOR: Final = 2
"""A delivery is taken for this many times `timeout_s`: then another supervisor may take it."""


class Deliverer:
    """Empties the queue of one target."""

    def __init__(self, link: Link, name: str, queue: DeliveryQueue, config: settings.Settings) -> None:
        self._link = link
        self._name = name
        self._queue = queue
        self._config = config
        self._target = config.webhooks.to[name]
        self._secret = self._target.key_bytes(name)
        self._breaker = Breaker(
            failures=self._config.webhooks.breaker_failures, open_s=self._config.webhooks.breaker_open_s
        )
        self._queued = anyio.Event()
        self._log = log.get(webhook=name)

    def wake(self) -> None:
        """Look at the queue at once: this supervisor has added a delivery."""
        self._queued.set()

    async def run(self) -> None:
        """Deliver until cancelled."""
        while True:
            pause_s = self._breaker.wait_s(anyio.current_time())
            loop_watch.report_alive(pause_s + self._config.webhooks.timeout_s + POLL_S)
            await anyio.sleep(pause_s)
            try:
                await self._deliver_next()
            except RETRIABLE_ERRORS as error:
                # Server functions that Redis lost are loaded again by recovery.
                if not isinstance(error, DataLost):
                    self._link.outage_log.log_failure(error)
                await anyio.sleep(OUTAGE_PAUSE_S)

    async def _deliver_next(self) -> None:
        """Post the delivery that is due, or wait until one may be."""
        self._queued = anyio.Event()
        take_ms = int(self._config.webhooks.timeout_s * TAKE_FACTOR * 1000)
        taken = await self._queue.take(now_ms(), take_ms=take_ms)
        if isinstance(taken, WebhookDelivery):
            await self._deliver(taken)
            return
        with anyio.move_on_after(POLL_S if taken is None else min(taken, POLL_S)):
            await self._queued.wait()

    async def _deliver(self, delivery: WebhookDelivery) -> None:
        if not delivery.body:
            await self._queue.complete(delivery.id)
            return
        try:
            await self._post(delivery)
        except http_post.PostFailed as error:
            self._count("failed")
            if self._breaker.record_failure(anyio.current_time()):
                self._log.warning("webhook_paused", reason=str(error), pause_s=self._config.webhooks.breaker_open_s)
            await self._retry_or_drop(delivery, error)
            return
        await self._queue.complete(delivery.id)
        self._count("taken")
        self._log.debug("webhook_delivered", delivery=delivery.id, attempt=delivery.attempt)
        if self._breaker.record_success():
            self._log.info("webhook_resumed")

    async def _post(self, delivery: WebhookDelivery) -> None:
        at_s = now_ms() // 1000
        headers = {
            "User-Agent": f"rta-supervisor/{__version__}",
            "Rta-Delivery": delivery.id,
            "Rta-Attempt": str(delivery.attempt),
            signature.SIGNATURE_HEADER: signature.sign(self._secret, delivery.body, at_s),
        }
        await http_post.post(self._target.url, delivery.body, headers, timeout_s=self._config.webhooks.timeout_s)

    async def _retry_or_drop(self, delivery: WebhookDelivery, error: errors.RtaError) -> None:
        """Try again later, or keep the delivery among the dead letters where it was tried often enough."""
        facts = {"delivery": delivery.id, "attempt": delivery.attempt, "reason": str(error)}
        if delivery.attempt < self._config.webhooks.tries:
            pause_s = backoff_s(delivery.attempt, self._config.webhooks.first_retry_s, random.random())  # noqa: S311 - jitter
            await self._queue.reschedule(delivery, due_ms=now_ms() + int(pause_s * 1000))
            self._log.info("webhook_not_taken", **facts, retry_s=round(pause_s, 1))
            return
        reason = f"A webhook was not taken in {delivery.attempt} tries: {error}"
        await self._queue.give_up(delivery, "WebhookNotTaken", reason)
        self._log.error("webhook_dropped", **facts)

    def _count(self, outcome: str) -> None:
        counters.counts.webhooks[self._name, outcome] += 1
