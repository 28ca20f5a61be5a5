"""Requests that wait for something: found by what they wait for, by their request id and by their time. Pure.

A request costs nothing while it waits. It is taken out and served again when what it waits for has come, at its
deadline, when it is cancelled, and seldom in between, in case nobody reports what it waits for.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from rta_supervisor.control.entry import ControlEntry
from rta_wire import errors
from rta_wire.control import messages

RECHECK_MS: Final = 2000
RECHECK_MAX_MS: Final = 16_000
"""The first and the longest time after which a request that waits is served again, whatever is known by then."""


class Wait(msgspec.Struct, frozen=True):
    """What a request waits for."""

    topic: str
    """What has to change: the identity of a session."""

    until_ms: int
    """When it waits no longer."""

    is_met: Callable[[Any], bool]
    """Whether what is known of the topic by now is what the request waits for."""


class RequestInHand(msgspec.Struct):
    """A request that was read and has no reply yet."""

    entry: ControlEntry
    message: messages.Message | errors.RtaError
    """The error says why the entry has no message."""

    session: str = ""
    """Its identity. Requests of one principal about the same session are served one after another."""

    request_id: str = ""
    target_id: str = ""
    """The request that it cancels."""

    waits: int = 0
    """How often it was served and had to wait."""


class _Waiting(msgspec.Struct):
    request: RequestInHand
    wait: Wait


class WaitingRequests:
    """All requests of one supervisor that wait."""

    def __init__(self) -> None:
        self._by_topic: dict[str, dict[int, _Waiting]] = {}
        """Waiting requests by topic and number, which goes up: each topic's in the order of their waiting."""
        self._by_request_id: dict[str, tuple[str, int]] = {}
        self._by_principal: Counter[str] = Counter()
        """Requests that wait or did so and have no reply yet: one that is served again keeps its place."""
        self._count = self._number = 0
        self._deadlines: list[tuple[int, int, str]] = []
        self._rechecks: list[tuple[int, str]] = []
        self._to_recheck: set[str] = set()

    def __len__(self) -> int:
        return self._count

    def __contains__(self, topic: str) -> bool:
        return topic in self._by_topic

    def count(self, principal: str) -> int:
        """How many requests of a principal wait, or did so and have no reply yet."""
        return self._by_principal[principal]

    def add(self, request: RequestInHand, wait: Wait, now_ms: int) -> None:
        """Let a request wait."""
        self._number += 1
        self._by_topic.setdefault(wait.topic, {})[self._number] = _Waiting(request, wait)
        self._by_request_id[request.request_id] = (wait.topic, self._number)
        self._by_principal[request.entry.principal] += not request.waits
        self._count += 1
        heapq.heappush(self._deadlines, (wait.until_ms, self._number, wait.topic))
        if wait.topic not in self._to_recheck:
            self._to_recheck.add(wait.topic)
            pause_ms = min(RECHECK_MS << min(request.waits, 10), RECHECK_MAX_MS)
            heapq.heappush(self._rechecks, (now_ms + pause_ms, wait.topic))
        request.waits += 1
        if len(self._deadlines) > 2 * len(self) + RECHECK_MS:
            self._deadlines = [row for row in self._deadlines if row[1] in self._by_topic.get(row[2], ())]
            heapq.heapify(self._deadlines)

    def take_met(self, topic: str, value: Any) -> list[RequestInHand]:
        """Take out the requests that waited for what is known of a topic now."""
        waiting = self._by_topic.get(topic, {})
        return self._take(topic, [number for number, row in waiting.items() if row.wait.is_met(value)])

    def take_request(self, request_id: str) -> RequestInHand | None:
        """Take out a request by its id; None where it does not wait."""
        place = self._by_request_id.get(request_id)
        return None if place is None else self._take(place[0], [place[1]])[0]

    def take_due(self, now_ms: int) -> list[RequestInHand]:
        """Take out the requests whose time is over, and the oldest of each topic that is due to be looked at again."""
        due: list[RequestInHand] = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, number, topic = heapq.heappop(self._deadlines)
            if number in self._by_topic.get(topic, ()):
                due += self._take(topic, [number])
        while self._rechecks and self._rechecks[0][0] <= now_ms:
            _, topic = heapq.heappop(self._rechecks)
            self._to_recheck.discard(topic)
            if topic in self._by_topic:
                due += self._take(topic, [next(iter(self._by_topic[topic]))])
        return due

    def next_due_ms(self) -> int | None:
        """When `take_due` has something to give at the earliest."""
        return min((heap[0][0] for heap in (self._deadlines, self._rechecks) if heap), default=None)

    def next_topics(self, count: int) -> list[str]:
        """Some topics, others each time until all had their turn."""
        topics = [topic for topic, _ in zip(self._by_topic, range(count), strict=False)]
        for topic in topics:
            self._by_topic[topic] = self._by_topic.pop(topic)
        return topics

    def finish(self, request: RequestInHand) -> None:
        """Note that a request that may have waited has a reply."""
        if request.waits:
            self._by_principal[request.entry.principal] -= 1

    def clear(self) -> None:
        """Forget all requests."""
        self.__init__()  # type: ignore[misc]

    def _take(self, topic: str, numbers: Iterable[int]) -> list[RequestInHand]:
        waiting = self._by_topic.get(topic, {})
        requests: list[RequestInHand] = []
        for number in numbers:
            request = waiting.pop(number).request
            # The same request may wait twice: a client repeats it after an outage.
            if self._by_request_id.get(request.request_id) == (topic, number):
                del self._by_request_id[request.request_id]
            self._count -= 1
            requests.append(request)
        if not waiting:
            self._by_topic.pop(topic, None)
        return requests
