"""Keys that writers left behind: they get a lifetime, or go with their session."""

from typing import Any

import redis

from rta_supervisor.retention import key_sweep_rules
from rta_supervisor.retention.key_sweep import KeySweep
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import keys

NAMES = keys.Keys()
OPEN_TTL_S = settings.SessionSettings().open_ttl_s


async def sweep_all(sweep: KeySweep) -> None:
    while not await sweep.sweep():
        pass
    await sweep.remove_waiting()


async def test_every_key_that_a_writer_makes_gets_a_lifetime(link: Link, client: redis.Redis) -> None:
    """Among many others, which stay as they are."""
    client.mset({f"other:{number}": 1 for number in range(5000)})
    made_up: list[Any] = [
        NAMES.marks("rig", 1),
        NAMES.staged("rig", 1, "a"),
        "rtas:dd:{stream:made-up",
        b"rtas:sg:{stream:\xff}:7:a",
    ]
    for key in made_up:
        client.hset(key, "u", "x")
    texts = [NAMES.fence("rig", 1, "u"), NAMES.staging_manifest("rig", 1, "u", 0)]
    for key in texts:
        client.set(key, "x")
    client.sadd(NAMES.members("job"), "run")
    client.hset(NAMES.marks("rig", 2), "u", "x")
    client.expire(NAMES.marks("rig", 2), 50)
    client.set(NAMES.gate("rig", 1), "open", ex=100)
    await sweep_all(KeySweep(link, settings.Settings()))
    for key in (*made_up, *texts, NAMES.members("job")):
        assert OPEN_TTL_S - 10 < int(str(client.ttl(key))) <= OPEN_TTL_S, key
    assert int(str(client.ttl(NAMES.marks("rig", 2)))) <= 50
    assert client.ttl("other:7") == -1
    client.delete(made_up[-1], *(f"other:{number}" for number in range(5000)))


async def test_a_reply_that_was_moved_to_another_name_gets_a_lifetime(link: Link, client: redis.Redis) -> None:
    """Whoever may read replies may move them, and a key that is made so has none; other replies keep theirs."""
    client.rpush(NAMES.reply("a"), "x")
    client.expire(NAMES.reply("a"), 50)
    client.rpush(NAMES.reply("b"), "x")
    client.expire(NAMES.reply("b"), 50)
    client.blmove(NAMES.reply("b"), NAMES.reply("made-up"), 1)
    assert client.ttl(NAMES.reply("made-up")) == key_sweep_rules.NO_TTL
    await sweep_all(KeySweep(link, settings.Settings()))
    reply_ttl_s = settings.Settings().control.reply_ttl_s
    assert reply_ttl_s - 10 < int(str(client.ttl(NAMES.reply("made-up")))) <= reply_ttl_s
    assert int(str(client.ttl(NAMES.reply("a")))) <= 50


async def test_what_is_left_of_a_session_that_has_ended_goes(link: Link, client: redis.Redis) -> None:
    """Fences, and what is large; nothing of a session that is open."""
    text = b"x" * (key_sweep_rules.LARGE_BYTES + 1000)
    for number, gate in ((1, "open"), (2, "finished")):
        client.set(NAMES.gate("rig", number), gate, ex=100)
        client.set(NAMES.fence("rig", number, "u"), "0 1 2", ex=100)
        client.hset(NAMES.marks("rig", number), "u", "0 1 1 1 1 1 5 9")
        client.expire(NAMES.marks("rig", number), 100)
        client.hset(NAMES.staged("rig", number, "a"), "0", text)
        client.expire(NAMES.staged("rig", number, "a"), 100)
    await sweep_all(KeySweep(link, settings.Settings()))
    left = {key.decode() for key in client.keys("rtas:*")}  # type: ignore[union-attr]
    of_open = {NAMES.gate("rig", 1), NAMES.fence("rig", 1, "u"), NAMES.marks("rig", 1), NAMES.staged("rig", 1, "a")}
    assert left == {*of_open, NAMES.gate("rig", 2), NAMES.marks("rig", 2)}


async def test_under_an_older_acl_nothing_is_swept(client: redis.Redis, url: str) -> None:
    """Without SCAN nothing is swept, and nothing else suffers."""
    client.execute_command("ACL", "SETUSER", "old", "on", "nopass", "~*", "&*", "+@all", "-scan", "-hscan", "-zscan")
    old_link = Link(settings.RedisSettings(url=url.replace("://", "://old:x@", 1)))
    try:
        sweep = KeySweep(old_link, settings.Settings())
        assert await sweep.sweep()
        assert not sweep._is_allowed
    finally:
        await old_link.close()
        client.execute_command("ACL", "DELUSER", "old")
