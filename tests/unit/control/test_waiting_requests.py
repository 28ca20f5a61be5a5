"""Requests that wait: found by topic, request id and time, compared with a plain list."""

import operator

import hypothesis
from hypothesis import strategies as st

from rta_supervisor.control.waiting_requests import RECHECK_MAX_MS, RECHECK_MS, RequestInHand, Wait, WaitingRequests
from rta_wire import errors
from tests.support.session_values import control_entry


def request(request_id: str, principal: str = "p") -> RequestInHand:
    return RequestInHand(control_entry(principal), errors.BadMessage(reason="none"), "s", request_id)


def ids(requests: list[RequestInHand]) -> list[str]:
    return [found.request_id for found in requests]


def wait_for(topic: str, *, at_least: int, until_ms: int = 10**9) -> Wait:
    return Wait(topic, until_ms, lambda value: operator.ge(value, at_least))


@hypothesis.given(
    rows=st.lists(
        st.tuples(st.sampled_from("xyz"), st.integers(1, 5), st.integers(1, 1500), st.sampled_from(["p", "q"])),
        max_size=30,
    ),
    looks=st.lists(
        st.one_of(
            st.tuples(st.just("met"), st.sampled_from("xyz"), st.integers(0, 6)),
            st.tuples(st.just("request"), st.integers(0, 30)),
            st.tuples(st.just("due"), st.integers(0, 1600)),
        ),
        max_size=20,
    ),
)
def test_what_is_taken_is_what_a_list_would_give(
    rows: list[tuple[str, int, int, str]], looks: list[tuple[object, ...]]
) -> None:
    """All requests that are met, asked for or over, in their order, and each once."""
    waiting = WaitingRequests()
    model: dict[str, tuple[str, int, int, str]] = {}
    for number, row in enumerate(rows):
        topic, at_least, until_ms, principal = row
        waiting.add(request(str(number), principal), wait_for(topic, at_least=at_least, until_ms=until_ms), 0)
        model[str(number)] = row
    for look in looks:
        if look[0] == "met":
            expected = [key for key, row in model.items() if row[0] == look[1] and int(str(look[2])) >= row[1]]
            assert ids(waiting.take_met(str(look[1]), look[2])) == expected
        elif look[0] == "request":
            expected = [str(look[1])] if str(look[1]) in model else []
            found = waiting.take_request(str(look[1]))
            assert ids([found] if found is not None else []) == expected
        else:
            expected = [key for key, row in model.items() if row[2] <= int(str(look[1]))]
            assert sorted(ids(waiting.take_due(int(str(look[1]))))) == sorted(expected)
        for key in expected:
            del model[key]
        assert len(waiting) == len(model)
        assert all((topic in waiting) == any(row[0] == topic for row in model.values()) for topic in "xyz")


def test_one_of_a_topic_is_looked_at_again_ever_more_seldom() -> None:
    """Nobody may report what it waits for: the oldest of each topic is served again, the others wait on."""
    waiting = WaitingRequests()
    for name in ("first", "second"):
        waiting.add(request(name), wait_for("x", at_least=1), 0)
    assert waiting.next_due_ms() == RECHECK_MS
    assert waiting.take_due(RECHECK_MS - 1) == []
    [found] = waiting.take_due(RECHECK_MS)
    assert found.request_id == "first"
    [second] = waiting.take_met("x", 1)
    assert second.request_id == "second"
    pauses = []
    now_ms = 0
    for _ in range(5):
        waiting.add(found, wait_for("x", at_least=1), now_ms)
        due_ms = waiting.next_due_ms()
        assert due_ms is not None
        pauses.append(due_ms - now_ms)
        now_ms = due_ms
        [found] = waiting.take_due(now_ms)
    assert pauses == [2 * RECHECK_MS, 4 * RECHECK_MS, 8 * RECHECK_MS, RECHECK_MAX_MS, RECHECK_MAX_MS]


def test_a_request_that_is_served_again_keeps_its_place() -> None:
    """The count of a principal goes down with the reply: no other request can take its place meanwhile."""
    waiting = WaitingRequests()
    waiting.add(request("a"), wait_for("x", at_least=1), 0)
    waiting.add(request("b", "q"), wait_for("x", at_least=1), 0)
    [found] = waiting.take_due(RECHECK_MS)
    assert (len(waiting), waiting.count("p"), waiting.count("q")) == (1, 1, 1)
    waiting.add(found, wait_for("x", at_least=1), RECHECK_MS)
    assert (len(waiting), waiting.count("p")) == (2, 1)
    for taken in waiting.take_met("x", 1):
        waiting.finish(taken)
    waiting.finish(request("never waited"))
    assert (len(waiting), waiting.count("p"), waiting.count("q")) == (0, 0, 0)


def test_topics_take_turns() -> None:
    """Each pass looks at others, until all had their turn."""
    waiting = WaitingRequests()
    for number in range(5):
        waiting.add(request(str(number)), wait_for(f"t{number}", at_least=1), 0)
    passes = [waiting.next_topics(2) for _ in range(3)]
    assert passes == [["t0", "t1"], ["t2", "t3"], ["t4", "t0"]]


def test_many_that_come_and_go_leave_nothing_behind() -> None:
    """Deadlines of requests that are gone are forgotten long before they are over."""
    waiting = WaitingRequests()
    for number in range(20_000):
        waiting.add(request(str(number)), wait_for("x", at_least=1), 0)
        waiting.take_request(str(number))
    assert len(waiting) == 0
    assert len(waiting._deadlines) < 5000
