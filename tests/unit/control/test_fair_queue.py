"""Whose request is served next: order within a session, shares of principals, and that nothing is lost."""

import itertools
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.control.fair_queue import ALONE_AFTER, LEAST_SERVED, SHARED_SERVED, FairQueue

Request = tuple[str, str, int]
"""Principal, session, number."""

PRINCIPALS = ("a", "b", "c", "op")


def queue_of(weights: dict[str, float] | None = None, *, at_a_time: int = 1000) -> FairQueue[Request]:
    return FairQueue(
        lambda principal: (weights or {}).get(principal, 1.0),
        lambda principal: principal == "op",
        principal_max_served=at_a_time,
        alone_max_served=at_a_time,
    )


def add(queue: FairQueue[Request], *requests: Request, first: bool = False) -> None:
    for request in requests:
        queue.add(request[0], request[1], [request], first=first)


def serve(queue: FairQueue[Request], count: int) -> list[Request]:
    """The next requests, each done before the next one is asked for."""
    served = []
    for _ in range(count):
        request = queue.next()
        assert request is not None
        queue.done(*request[:2])
        served.append(request)
    return served


steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(PRINCIPALS), st.sampled_from("xyz")),
        st.tuples(st.just("next")),
        st.tuples(st.just("done"), st.integers(0, 20)),
    ),
    max_size=200,
)


@given(steps=steps, at_a_time=st.integers(1, 3))
def test_a_session_is_served_in_order_and_alone(steps: list[tuple[object, ...]], at_a_time: int) -> None:
    """However adding and serving interleave: every request once, in the order of its session, within the limits."""
    queue = queue_of(at_a_time=at_a_time)
    numbers = itertools.count()
    waiting: dict[tuple[str, str], list[Request]] = {}
    serving: list[Request] = []

    def take_next() -> bool:
        busy = Counter(request[0] for request in serving)
        request = queue.next()
        servable = [
            requests[0]
            for session, requests in waiting.items()
            if requests and session not in {other[:2] for other in serving} and busy[session[0]] < at_a_time
        ]
        assert (request is None) == (not servable)
        if request is not None:
            assert request in servable
            assert request[0] == "op" or "op" not in {other[0] for other in servable}
            waiting[request[:2]].remove(request)
            serving.append(request)
        return request is not None

    for step in steps:
        if step[0] == "add":
            added = (str(step[1]), str(step[2]), next(numbers))
            waiting.setdefault(added[:2], []).append(added)
            add(queue, added)
        elif step[0] == "next":
            take_next()
        elif serving:
            request = serving.pop(int(str(step[1])) % len(serving))
            queue.done(*request[:2])
        assert queue.waiting == sum(map(len, waiting.values()))
    while serving or take_next():
        request = serving.pop()
        queue.done(*request[:2])
    assert not any(waiting.values())


@given(
    weights=st.dictionaries(st.sampled_from("abc"), st.sampled_from([0.5, 1.0, 2.0, 5.0]), min_size=2),
    count=st.integers(1, 60),
)
def test_principals_are_served_by_their_weights(weights: dict[str, float], count: int) -> None:
    """While all have requests, none is ahead of another by more than one turn of each."""
    queue = queue_of(weights)
    for principal in weights:
        add(queue, *((principal, f"s{number % 7}", number) for number in range(100)))
    served = Counter(request[0] for request in serve(queue, count))
    for one, other in itertools.permutations(weights, 2):
        ahead = served[one] / weights[one] - served[other] / weights[other]
        assert ahead <= 1 / weights[one] + 1 / weights[other] + 1e-9


def test_whoever_comes_late_is_served_next() -> None:
    """A principal that was silent gets the next turn despite a flood, and no more turns than others for its silence."""
    queue = queue_of()
    add(queue, *(("a", f"s{number}", number) for number in range(10_000)))
    serve(queue, 500)
    add(queue, *(("b", "x", number) for number in range(500)))
    assert Counter(request[0] for request in serve(queue, 2)) == {"a": 1, "b": 1}
    assert Counter(request[0] for request in serve(queue, 100)) == {"a": 50, "b": 50}


def test_sessions_of_a_principal_take_turns() -> None:
    """On an install without principals everybody is the same one: a flood about one session holds up no other."""
    queue = queue_of()
    add(queue, *(("a", "flooded", number) for number in range(1000)))
    serve(queue, 10)
    add(queue, ("a", "other", 0))
    assert ("a", "other", 0) in serve(queue, 2)


def test_who_asks_alone_is_served_more_at_a_time() -> None:
    """Until another principal asks."""
    queue: FairQueue[Request] = FairQueue(lambda _: 1.0, lambda _: False, principal_max_served=2, alone_max_served=5)
    add(queue, *(("a", f"s{number}", number) for number in range(ALONE_AFTER + 100)))

    def served_at_a_time() -> int:
        served = []
        while (request := queue.next()) is not None:
            served.append(request)
        for request in served:
            queue.done(*request[:2])
        return len(served)

    assert served_at_a_time() == 2
    serve(queue, ALONE_AFTER)
    assert served_at_a_time() == 5
    add(queue, ("b", "x", 0))
    serve(queue, 2)
    assert served_at_a_time() == 2


def test_operators_go_first_and_have_workers_of_their_own() -> None:
    """Whoever serves operators alone gets nothing else."""
    queue = queue_of()
    add(queue, *(("a", f"s{number}", number) for number in range(10)))
    assert queue.next(operators_only=True) is None
    add(queue, ("op", "x", 0), ("op", "y", 1))
    assert queue.next(operators_only=True) == ("op", "x", 0)
    assert queue.next() == ("op", "y", 1)
    assert queue.next() == ("a", "s0", 0)


def test_what_is_woken_goes_before_later_requests_of_its_session() -> None:
    """And what is cleared is gone."""
    queue = queue_of()
    add(queue, ("a", "s", 2), ("a", "s", 3))
    queue.add("a", "s", [("a", "s", 0), ("a", "s", 1)], first=True)
    assert [request[2] for request in serve(queue, 4)] == [0, 1, 2, 3]
    add(queue, ("a", "s", 4))
    queue.clear()
    assert queue.next() is None
    assert queue.waiting == 0


@given(count=st.integers(1, 40))
def test_principals_that_ask_together_share_what_is_served_at_a_time(count: int) -> None:
    """The more principals have floods in hand, the fewer of each are served at a time, and none is left over."""
    queue = queue_of(at_a_time=16)
    principals = [f"p{number}" for number in range(count)]
    for number in range(SHARED_SERVED):
        for principal in principals:
            add(queue, (principal, f"s{number}", number))
    serving = []
    while (request := queue.next()) is not None:
        serving.append(request)
    share = min(16, max(LEAST_SERVED, SHARED_SERVED // count))
    assert Counter(request[0] for request in serving) == dict.fromkeys(principals, share)

    finished: Counter[str] = Counter()
    while serving:
        principal, session, _ = serving.pop()
        queue.done(principal, session)
        finished[principal] += 1
        while (request := queue.next()) is not None:
            serving.append(request)
    assert finished == dict.fromkeys(principals, SHARED_SERVED)
