"""Messages of dead supervisors: taken over once, and a control stream that is gone is a loss."""

from typing import Any

import anyio
import pytest
import redis
from hypothesis import example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from rta_supervisor.control import server_functions as control_functions
from rta_supervisor.control import takeover
from rta_supervisor.control.takeover import Takeover
from rta_supervisor.diagnostics import counters
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import DataLost
from rta_supervisor.transport.link import Link
from rta_wire import keys
from tests.support import supervisor_parts
from tests.support.waiting import wait_until

NAMES = keys.Keys()


async def test_a_control_stream_that_is_gone_is_a_loss_and_not_the_end(url: str) -> None:
    """Whoever looks for messages of the dead just after Redis was emptied says so, and the supervisor goes on."""
    config = settings.Settings(redis=settings.RedisSettings(url=url))
    link = Link(config.redis)
    ours = Takeover(link, config, [config.keys.reports("default")], "us", kind="reports")
    with pytest.raises(DataLost, match="rtas:ctl:default: no such key"):
        await ours.claim_from_dead()
    await link.close()


async def test_settling_twice_hides_no_eviction(link: Link, client: redis.Redis) -> None:
    """Two supervisors acknowledge one message: it counts once, and a message that is evicted then is missed."""
    key = NAMES.reports("default")
    await link.do(*control_functions.create_group(NAMES, key))
    ids = [client.xadd(key, {"m": b"x"}).decode() for _ in range(2)]  # type: ignore[union-attr]
    client.xreadgroup(keys.CONTROL_GROUP, "a", {key: ">"}, count=1)
    for _ in range(2):
        await link.do(*control_functions.acknowledge(NAMES, key, ids[:1]))
    client.xtrim(key, maxlen=0)
    assert await link.do(*control_functions.count_evicted(NAMES, key)) == 1


async def test_messages_of_the_dead_are_claimed_once(link: Link, client: redis.Redis) -> None:
    """Of two supervisors one gets them; one that is alive keeps its own; the dead are removed from the group."""
    key = NAMES.requests("default")
    await link.do(*control_functions.create_group(NAMES, key))
    for number in range(20):
        client.xadd(key, {"m": str(number)})
    client.xreadgroup(keys.CONTROL_GROUP, "dead", {key: ">"}, count=12)
    client.xreadgroup(keys.CONTROL_GROUP, "alive", {key: ">"}, count=3)
    client.xreadgroup(keys.CONTROL_GROUP, "idle", {key: ">"}, count=5)
    handled: Any = client.xpending_range(key, keys.CONTROL_GROUP, "-", "+", 20, consumername="idle")
    client.xack(key, keys.CONTROL_GROUP, *(message["message_id"] for message in handled))
    for name in ("alive", "a", "b"):
        client.set(NAMES.alive(name), 1, ex=60)

    def is_old_enough() -> bool:
        pending: Any = client.xpending_range(key, keys.CONTROL_GROUP, "-", "+", 20, idle=20)
        return len(pending) == 15

    wait_until(is_old_enough, what="messages that are old enough")
    claims = [
        await Takeover(link, config, [key], consumer, kind="requests").claim_from_dead()
        for consumer, config in (("a", supervisor_parts.config(0.02)), ("b", supervisor_parts.config(3600.02)))
    ]
    assert claims == [[key], []]
    consumers: Any = client.xinfo_consumers(key, keys.CONTROL_GROUP)
    assert {consumer["name"]: consumer["pending"] for consumer in consumers} == {b"a": 12, b"alive": 3}


OLD_MS = 3_600_000
READERS = ("dead", "alive", "a", "b")
"""Who has read messages: a supervisor that is gone, one that does nothing more, and the two that claim."""

Counts = tuple[tuple[int, int], ...]
"""How many messages each of the readers of a control stream has read: long ago, and just now."""


def hand_out(client: redis.Redis, key: str, counts: Counts) -> dict[str, set[str]]:
    """Fill a control stream and let its readers read. Gives the ids of each reader, and those of old messages."""
    client.xgroup_create(key, keys.CONTROL_GROUP, "0", mkstream=True)
    ids: dict[str, set[str]] = {"old": set()}
    for reader, (old, new) in zip(READERS, counts, strict=True):
        read = [client.xadd(key, {"m": b"x"}).decode() for _ in range(old + new)]  # type: ignore[union-attr]
        ids[reader] = set(read)
        ids["old"] |= set(read[:old])
        if read:
            client.xreadgroup(keys.CONTROL_GROUP, reader, {key: ">"}, count=len(read))
        if old:
            client.xclaim(key, keys.CONTROL_GROUP, reader, 0, read[:old], idle=OLD_MS)
    return ids


def owners(client: redis.Redis, key: str) -> dict[str, str]:
    """Who has each message that is not acknowledged."""
    pending: Any = client.xpending_range(key, keys.CONTROL_GROUP, "-", "+", 10_000)
    return {message["message_id"].decode(): message["consumer"].decode() for message in pending}


async def claim(url: str, streams: list[str], *, from_dead: bool) -> dict[str, list[str]]:
    """Two supervisors claim at the same time, a few messages at a time. Gives what each of them says."""
    config = settings.Settings(
        redis=settings.RedisSettings(url=url),
        node=settings.NodeSettings(lease_s=OLD_MS / 1000),
        control=settings.ControlSettings(retry_s=OLD_MS / 2000, batch=3),
    )
    reported: dict[str, list[str]] = {}

    async def take(consumer: str) -> None:
        link = Link(config.redis)
        ours = Takeover(link, config, streams, consumer, kind="requests")
        reported[consumer] = await (ours.claim_from_dead() if from_dead else ours.claim_idle())
        await link.close()

    async with anyio.create_task_group() as takers:
        for consumer in ("a", "b"):
            takers.start_soon(take, consumer)
    return reported


few = st.integers(0, 8)


@hypothesis_settings(max_examples=60, deadline=None)
@example(counts=[((7, 1), (4, 2), (0, 0), (5, 0)), ((0, 0), (0, 0), (0, 0), (0, 3)), ((1, 0),) * 4], from_dead=False)
@example(counts=[((7, 1), (4, 2), (0, 0), (5, 0)), ((0, 0), (0, 0), (0, 0), (0, 3)), ((1, 0),) * 4], from_dead=True)
@given(
    counts=st.lists(st.tuples(*[st.tuples(few, few)] * len(READERS)), min_size=1, max_size=5),
    from_dead=st.booleans(),
)
def test_claims_of_many_principals_take_each_message_once(
    raw: redis.Redis, counts: list[Counts], from_dead: bool
) -> None:
    """Whatever readers have in however many control streams, two that claim at once get each old message between them
    exactly once, lose none, leave what is new or a living reader's, and name the streams where they got any."""
    raw.flushall()
    url = f"unix://{raw.connection_pool.connection_kwargs['path']}"
    client = redis.Redis.from_url(url)
    for name in ("alive", "a", "b"):
        client.set(NAMES.alive(name), 1)
    streams = [NAMES.requests(f"p{number}") for number in range(len(counts))]
    ids = {key: hand_out(client, key, each) for key, each in zip(streams, counts, strict=True)}
    before = {key: owners(client, key) for key in streams}
    counted = counters.counts.redelivered
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(takeover, "CLAIM_MAX", 3)
        reported = anyio.run(lambda: claim(url, streams, from_dead=from_dead))
    claimed = 0
    for key in streams:
        after = owners(client, key)
        takeable = ids[key]["old"] & ids[key]["dead"] if from_dead else ids[key]["old"]
        claimed += len(takeable)
        assert after.keys() == before[key].keys()
        assert {after[entry_id] for entry_id in takeable} <= {"a", "b"}
        assert {entry_id: after[entry_id] for entry_id in after.keys() - takeable} == {
            entry_id: owner for entry_id, owner in before[key].items() if entry_id not in takeable
        }
        assert (key in reported["a"] + reported["b"]) == bool(takeable)
    if not from_dead:
        assert counters.counts.redelivered - counted == claimed
    client.close()
