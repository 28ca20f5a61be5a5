"""Whose request is served next: principals take turns by their weights, and the sessions of a principal take turns. The
requests of one session stay in order, and only one of them is served at a time. Pure.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

Item = TypeVar("Item")

ALONE_AFTER: Final = 200
"""Requests of one principal after each other, until it counts as the only one that asks."""

SHARED_SERVED: Final = 32
LEAST_SERVED: Final = 4
"""Requests that are served at a time of all principals that ask, and the least of one. Several principals that send a
flood each take no more of the machine than one of them does beside a few others."""


class _PrincipalQueue(Generic[Item]):
    """The requests of one principal, by session."""

    __slots__ = ("is_listed", "name", "priority", "ready", "served", "served_until", "waiting")

    def __init__(self, name: str, priority: int) -> None:
        self.name = name
        self.priority = priority
        self.waiting: dict[str, deque[Item]] = {}
        """By session; a session that is served has its further requests here."""
        self.ready: deque[str] = deque()
        """Sessions with requests, none of which is served, in the order of their turns."""
        self.served: set[str] = set()
        self.served_until = 0.0
        """The virtual time at which the next turn is due: a turn takes 1 / weight."""
        self.is_listed = False


class FairQueue(Generic[Item]):
    """Requests in hand, and the order in which they are served.

    Weighted fair queueing: the principal whose next turn is due first in virtual time is served next. One that had no
    request for a while gets no turns for that while.
    """

    def __init__(
        self,
        weight: Callable[[str], float],
        is_operator: Callable[[str], bool],
        *,
        principal_max_served: int,
        alone_max_served: int,
    ) -> None:
        """`is_operator`: principals that go before all others. `principal_max_served`: requests of one principal that
        are served at a time; `alone_max_served`: where no other principal was served lately."""
        self._weight = weight
        self._is_operator = is_operator
        self._max_served = principal_max_served
        self._alone_max_served = alone_max_served
        self._last_principal = ""
        self._alone_for = 0
        """Requests of one principal that were served after each other."""
        self._queues: dict[str, _PrincipalQueue[Item]] = {}
        self._due: list[tuple[int, float, str]] = []
        """A heap of principals that have a request to serve: priority, virtual time, name."""
        self._active: set[str] = set()
        """Principals that have requests in hand."""
        self._virtual_time = 0.0
        self.waiting = 0
        """Requests that are in hand and not served yet."""

    def add(self, principal: str, session: str, items: Iterable[Item], *, first: bool = False) -> None:
        """Add requests of a session in their order. `first`: before those that wait already."""
        queue = self._queues.get(principal)
        if queue is None:
            queue = self._queues[principal] = _PrincipalQueue(principal, 0 if self._is_operator(principal) else 1)
        requests = queue.waiting.get(session)
        if requests is None:
            requests = queue.waiting[session] = deque()
            if session not in queue.served:
                queue.ready.append(session)
        before = len(requests)
        if first:
            requests.extendleft(reversed(list(items)))
        else:
            requests.extend(items)
        self.waiting += len(requests) - before
        self._list(queue)

    @property
    def has_next(self) -> bool:
        """Whether a request can be served now."""
        return bool(self._due)

    def next(self, *, operators_only: bool = False) -> Item | None:
        """The request to serve now; None where there is none. Its session has no other turn until `done`."""
        if not self._due or (operators_only and self._due[0][0] > 0):
            return None
        _, due, principal = heapq.heappop(self._due)
        queue = self._queues[principal]
        queue.is_listed = False
        self._virtual_time = max(self._virtual_time, due)
        queue.served_until = due + 1 / self._weight(principal)
        session = queue.ready.popleft()
        requests = queue.waiting[session]
        request = requests.popleft()
        if not requests:
            del queue.waiting[session]
        queue.served.add(session)
        self.waiting -= 1
        self._alone_for = self._alone_for + 1 if principal == self._last_principal else 0
        self._last_principal = principal
        self._list(queue)
        return request

    def done(self, principal: str, session: str) -> None:
        """Note that the request of a session that `next` gave is served."""
        queue = self._queues[principal]
        queue.served.remove(session)
        if session in queue.waiting:
            queue.ready.append(session)
        self._list(queue)

    def clear(self) -> None:
        """Forget all requests. None may be served at that time."""
        self._queues.clear()
        self._due.clear()
        self._active.clear()
        self.waiting = 0

    def _max_served_of_one(self) -> int:
        """How many requests of one principal are served at a time: the fewer, the more of them ask at once. What is
        served together takes its time from each other."""
        if self._alone_for >= ALONE_AFTER:
            return self._alone_max_served
        return min(self._max_served, max(LEAST_SERVED, SHARED_SERVED // max(1, len(self._active))))

    def _list(self, queue: _PrincipalQueue[Item]) -> None:
        """List a principal that has a request to serve."""
        if queue.ready or queue.served:
            self._active.add(queue.name)
        else:
            self._active.discard(queue.name)
        max_served = self._max_served_of_one()
        if not queue.is_listed and queue.ready and len(queue.served) < max_served:
            queue.is_listed = True
            queue.served_until = max(queue.served_until, self._virtual_time)
            heapq.heappush(self._due, (queue.priority, queue.served_until, queue.name))
