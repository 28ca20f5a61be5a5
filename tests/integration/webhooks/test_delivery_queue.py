"""The queue of a target, on a real server, against a model in Python: turns, limits, and version 1 of it beside."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from rta_supervisor.webhooks import delivery_queue, server_functions
from rta_supervisor.webhooks.server_functions import NewDelivery, QueueLimits
from rta_wire import keys

NAMES = keys.Keys()
TARGET = "t"
AMPLE = QueueLimits(session=1000, principal=1000, target=1000)
OLD_LIBRARY = Path(__file__).with_name("deliveries_1.lua")
"""As supervisors of version 0.1.0 load it, which may run beside this one."""

people = st.sampled_from(["alice", "alice2", "bob"])
sessions = st.sampled_from(["run", "run-1", "x"])
additions = st.tuples(st.just("add"), people, sessions)


@pytest.fixture(scope="module")
def queue(raw: redis.Redis) -> redis.Redis:
    raw.execute_command("FUNCTION", "LOAD", "REPLACE", OLD_LIBRARY.read_text())
    return raw


def delivery(number: int, principal: str, session: str, due_ms: int = 1000) -> NewDelivery:
    name = f"d{number}"
    return NewDelivery(name, name.encode(), due_ms, principal, session, number)


def add(client: redis.Redis, new: NewDelivery, limits: QueueLimits = AMPLE) -> list[delivery_queue.SurplusDelivery]:
    call = server_functions.add_delivery(NAMES, TARGET, new, limits)
    return delivery_queue.parse_surplus(client.execute_command(*call))


def take(client: redis.Redis, now_ms: int) -> str | int | None:
    """The id of a delivery; or the ms until one is due; or None."""
    reply: Any = client.execute_command(*server_functions.take_delivery(NAMES, TARGET, now_ms=now_ms, take_ms=500))
    if not reply:
        return None
    return int(reply[0]) if len(reply) == 1 else reply[0].decode()


def complete(client: redis.Redis, name: str) -> None:
    client.execute_command(*server_functions.complete_delivery(NAMES, TARGET, name))


def put_back(client: redis.Redis, name: str, due_ms: int) -> None:
    client.execute_command(*server_functions.reschedule_delivery(NAMES, TARGET, name, due_ms=due_ms))


def old(client: redis.Redis, function: str, *arguments: Any, name: str = "") -> Any:
    """Call a function of version 1."""
    names = [NAMES.hook_due(TARGET), NAMES.hook_bodies(TARGET), NAMES.hook_tries(TARGET)]
    names += [NAMES.hook_done(TARGET, name)] if name else []
    return client.execute_command("FCALL", f"rtas_hook_{function}_1", len(names), *names, *arguments)


def old_take(client: redis.Redis, now_ms: int) -> str | None:
    reply: Any = old(client, "take", now_ms, 500, 1000)
    return reply[0].decode() if len(reply) == 3 else None


def queue_keys(client: redis.Redis) -> list[bytes]:
    found: Any = client.keys("rtas:hook:*")
    return list(found)


def is_empty(client: redis.Redis) -> bool:
    """Whether the queue holds nothing but its turns and what was completed a moment ago."""
    return {name.rpartition(b":")[2] for name in queue_keys(client) if b":done:" not in name} <= {b"turns"}


@settings(max_examples=60)
@given(
    st.lists(additions, max_size=20),
    st.lists(additions | st.sampled_from([("take",), ("complete",), ("put back",), ("wait",)]), max_size=40),
)
def test_it_follows_a_model(queue: redis.Redis, first: list[tuple[str, ...]], steps: list[tuple[str, ...]]) -> None:
    """Whatever is added, taken, completed, put back or left by one who died: principals by name in turn, in each their
    sessions in turn, in each of those the oldest; nothing is lost or doubled."""
    queue.flushdb()
    now_ms, pending, due_ms, held = 1000, dict[str, NewDelivery](), dict[str, int](), list[str]()
    last, last_session = "", dict[str, str]()

    def after(names: set[str], name: str) -> str:
        return min((each for each in names if each > name), default=min(names))

    for number, (step, *arguments) in enumerate([*first, *steps]):
        if step == "add":
            new = delivery(number, arguments[0], arguments[1], now_ms)
            assert add(queue, new) == []
            pending[new.id], due_ms[new.id] = new, now_ms
        elif step == "take":
            ready = [new for new in pending.values() if due_ms[new.id] <= now_ms]
            taken = take(queue, now_ms)
            if not ready:
                assert taken == min((due - now_ms for due in due_ms.values()), default=None)
                continue
            last = after({new.principal for new in ready}, last)
            own = [new for new in ready if new.principal == last]
            session = last_session[last] = after({new.session for new in own}, last_session.get(last, ""))
            assert taken == min((new for new in own if new.session == session), key=lambda new: new.rank).id
            due_ms[str(taken)] = now_ms + 500
            held.append(str(taken))
        elif step == "wait":
            now_ms += 300
        elif held:
            name = held.pop()
            if step == "complete":
                complete(queue, name)
                pending.pop(name, None)
                due_ms.pop(name, None)
            elif name in pending:
                due_ms[name] = now_ms + 100
                put_back(queue, name, due_ms[name])
    for key in queue_keys(queue):
        assert int(str(queue.ttl(key))) > 0
    for name in pending:
        complete(queue, name)
    assert is_empty(queue)


def test_each_limit_names_the_oldest_of_its_own(queue: redis.Redis) -> None:
    """Of a session, of a principal, and of the principal with the most: never the delivery of another one, and not one
    that is posted at this moment."""
    queue.flushdb()
    limits = QueueLimits(session=3, principal=5, target=8)
    assert add(queue, delivery(0, "bob", "b"), limits) == []
    assert [add(queue, delivery(number, "alice", "a"), limits) for number in (1, 2, 3)] == [[], [], []]
    assert take(queue, 1000) == "d1"
    assert add(queue, delivery(4, "alice", "a"), limits) == []
    [surplus] = add(queue, delivery(5, "alice", "a"), limits)
    assert (surplus.limit, surplus.principal, surplus.id, surplus.body) == ("session", "alice", "d2", b"d2")
    complete(queue, "d2")
    assert add(queue, delivery(6, "alice", "a2"), limits) == []
    [surplus] = add(queue, delivery(7, "alice", "a3"), limits)
    assert (surplus.limit, surplus.principal, surplus.id) == ("principal", "alice", "d3")
    complete(queue, "d3")
    assert add(queue, delivery(8, "bob", "b"), limits) == []
    assert add(queue, delivery(9, "bob", "b2"), limits) == []
    [surplus] = add(queue, delivery(10, "carol", "c"), limits)
    assert (surplus.limit, surplus.principal, surplus.id) == ("target", "alice", "d4")


def test_a_delivery_is_queued_once(queue: redis.Redis) -> None:
    """Not while it is queued, and not right after it was completed."""
    queue.flushdb()
    add(queue, delivery(1, "alice", "a"))
    add(queue, delivery(1, "alice", "a"))
    assert (take(queue, 1000), take(queue, 1000)) == ("d1", 500)
    complete(queue, "d1")
    add(queue, delivery(1, "alice", "a"))
    assert take(queue, 9000) is None
    assert is_empty(queue)


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from(["new add", "old add"]), min_size=1, max_size=6),
    st.lists(
        st.sampled_from(["new add", "old add", "new take", "old take", "new end", "old end", "old back", "wait"]),
        max_size=40,
    ),
)
def test_version_1_beside_it(queue: redis.Redis, first: list[str], steps: list[str]) -> None:
    """Supervisors of both versions add, take and complete: nobody gets what the other holds, and all is delivered."""
    queue.flushdb()
    now_ms, held, added, completed = 1000, dict[str, int](), 0, Counter[str]()
    for number, step in enumerate([*first, *steps]):
        version, _, action = step.rpartition(" ")
        if action == "wait":
            now_ms += 300
        elif action == "add":
            added += 1
            if version == "new":
                add(queue, delivery(number, "alice", f"s{number % 3}", now_ms))
            else:
                old(queue, "add", f"d{number}", "body", now_ms, 10_000, 1000, name=f"d{number}")
        elif action == "take":
            name = take(queue, now_ms) if version == "new" else old_take(queue, now_ms)
            assert name != 0, "a supervisor would ask again and again"
            if isinstance(name, str):
                assert held.get(name, 0) <= now_ms, "another supervisor has it"
                held[name] = now_ms + 500
        elif action in ("end", "back") and (mine := [name for name, until_ms in held.items() if until_ms > now_ms]):
            held.pop(mine[0])
            if action == "back":
                old(queue, "put_back", mine[0], now_ms + 100)
                continue
            completed[mine[0]] += 1
            complete(queue, mine[0]) if version == "new" else old(queue, "settle", mine[0], 60, name=mine[0])
    for _ in range(1000):
        now_ms += 600
        reply = take(queue, now_ms)
        if reply is None:
            break
        if isinstance(reply, str):
            completed[reply] += 1
            complete(queue, reply)
    assert len(completed) == added
    assert set(completed.values()) <= {1}
