"""Messages of dead supervisors: taken over once, and a control stream that is gone is a loss."""

from typing import Any

import pytest
import redis

from rta_supervisor.control import server_functions as control_functions
from rta_supervisor.control.takeover import Takeover
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
    takeover = Takeover(link, config, [config.keys.reports("default")], "us", kind="reports")
    with pytest.raises(DataLost, match="rtas:ctl:default: no such key"):
        await takeover.claim_from_dead()
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
