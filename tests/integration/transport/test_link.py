"""Batches of commands on a real server: in order, once, and with errors distinguished from outages."""

from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
import redis

from rta_supervisor.embedded import server
from rta_supervisor.settings import settings
from rta_supervisor.transport import pipeline as transport_pipeline
from rta_supervisor.transport import server_check
from rta_supervisor.transport.failures import OUTAGE_ERRORS, DataLost
from rta_supervisor.transport.link import Link
from rta_wire import errors
from tests.support import proxy


@pytest.fixture
async def link(url: str) -> AsyncIterator[Link]:
    link = Link(settings.RedisSettings(url=url))
    yield link
    await link.close()


async def test_replies_come_in_order(link: Link) -> None:
    """Replies come in the order of their commands, however many there are and of whatever type."""
    count = 3 * transport_pipeline.READ_MAX_REPLIES + 7
    replies = await link.do_all([("ECHO", number) for number in range(count)])
    assert replies == [str(number).encode() for number in range(count)]
    assert await link.do_all([]) == []
    mixed = await link.do_all([("SET", "a", 1.5, "EX", 9), ("GET", "a"), ("GET", b"none"), ("LRANGE", "l", 0, -1)])
    assert mixed == [b"OK", b"1.5", None, []]


async def test_the_first_error_is_raised_after_all_have_run(link: Link, client: redis.Redis) -> None:
    """Commands after the error are done, and the connection can be used on."""
    client.set("text", "x", ex=9)
    with pytest.raises(redis.exceptions.ResponseError, match="WRONGTYPE"):
        await link.do_all([("SET", "a", 1, "EX", 9), ("LPUSH", "text", 1), ("NOSUCH",), ("SET", "b", 2, "EX", 9)])
    assert (client.get("a"), client.get("b")) == (b"1", b"2")
    assert await link.do("ECHO", "next") == b"next"
    with pytest.raises(DataLost):
        await link.do("FCALL", "rtas_gone_1", 0)


async def test_a_lost_reply_is_an_outage_and_nothing_is_retried(
    shared_server: server.EmbeddedServer, client: redis.Redis
) -> None:
    """A command whose reply is lost is done once, and raises an outage."""
    with proxy.between(str(shared_server.socket_path)) as between:
        link = Link(settings.RedisSettings(url=between.url))
        await link.do("PING")
        between.swallow_reply_to(b"counter")
        with pytest.raises(OUTAGE_ERRORS):
            await link.do_all([("INCR", "counter"), ("EXPIRE", "counter", 9)])
        assert await link.do("ECHO", "again") == b"again"
        await link.close()
    assert client.get("counter") == b"1"


async def test_a_server_that_is_gone_is_an_outage(link: Link) -> None:
    """A server that does not exist raises an outage, and other links are not affected."""
    gone = Link(settings.RedisSettings(url="unix:///nowhere/valkey.sock"))
    with pytest.raises(OUTAGE_ERRORS):
        await gone.do_all([("PING",), ("PING",)])
    await gone.close()
    assert await link.do("PING") == b"PONG"


async def test_a_cancelled_batch_leaves_no_replies_behind(link: Link) -> None:
    """The next user of the link gets its own reply."""
    with anyio.move_on_after(0.05):
        await link.do_all([("ECHO", "old"), ("BLPOP", "nothing", 2), ("ECHO", "old")])
    replies: list[Any] = [await link.do("ECHO", number) for number in range(3)]
    assert replies == [b"0", b"1", b"2"]


async def test_many_at_once_do_not_mix(link: Link) -> None:
    """Each of several tasks on one link gets its own replies."""

    async def work(number: int) -> None:
        for turn in range(20):
            assert await link.do_all([("ECHO", f"{number}-{turn}")] * 50) == [f"{number}-{turn}".encode()] * 50

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(work, number)


async def test_a_wrong_password_is_not_waited_out(url: str, client: redis.Redis) -> None:
    """A wrong password is raised at once, although the link would wait for a server that is away."""
    client.config_set("requirepass", "right")
    try:
        link = Link(settings.RedisSettings(url=f"{url}?password=wrong", startup_patience_s=60))
        with anyio.fail_after(10), pytest.raises(errors.RedisRefused):
            await server_check.connect(link)
        await link.close()
    finally:
        client.config_set("requirepass", "")
