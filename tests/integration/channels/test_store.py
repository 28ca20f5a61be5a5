"""Reading configurations: Redis first, then the catalogue; nothing that was changed by somebody."""

import pytest

from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import errors, keys
from rta_wire.channels import config_json
from tests.integration.channels.conftest import ConfigWorld
from tests.support import acl
from tests.support.channel_lists import ENGINE

ENGINE_JSON = config_json.encode(ENGINE)
ENGINE_ID = config_json.identifier(ENGINE_JSON)
KEY = f"rtas:config:{ENGINE_ID}"


async def test_it_comes_from_redis_then_from_the_catalogue(configs: ConfigWorld) -> None:
    """A store without a supervisor reads both; what neither has is None."""
    await configs.publish(ENGINE)
    reading = ConfigStore(configs.world.link, keys.Keys(), configs.world.catalogue.reader())
    live_only = ConfigStore(configs.world.link, keys.Keys(), None)
    assert await reading.get(ENGINE_ID) == await live_only.get(ENGINE_ID) == ENGINE_JSON
    await configs.world.link.do("UNLINK", KEY)
    assert await reading.get(ENGINE_ID) == ENGINE_JSON
    assert await live_only.get(ENGINE_ID) is None
    for other in ("0" * len(ENGINE_ID), "", "*", "../x", ENGINE_ID.upper()):
        assert await reading.get(other) is None


@pytest.mark.parametrize("command", [("SET", KEY, "{}", "EX", 60), ("RPUSH", KEY, "x")])
async def test_what_somebody_else_put_there_is_not_given(configs: ConfigWorld, command: tuple[str, ...]) -> None:
    """The catalogue's one is given in its place, and publishing it again repairs Redis."""
    await configs.publish(ENGINE)
    await configs.world.link.do_all([("UNLINK", KEY), command, ("EXPIRE", KEY, 60)])
    assert await configs.store.get_live(ENGINE_ID) is None
    assert await configs.store.get(ENGINE_ID) == ENGINE_JSON
    await configs.publish(ENGINE)
    assert await configs.world.link.do("GET", KEY) == ENGINE_JSON


async def test_a_redis_that_is_away_matters_only_where_the_catalogue_has_none(configs: ConfigWorld) -> None:
    """Else the sentence says that Redis can't be reached."""
    await configs.publish(ENGINE)
    nowhere = Link(settings.RedisSettings(url="redis://127.0.0.1:1/0"))
    store = ConfigStore(nowhere, keys.Keys(), configs.world.catalogue)
    assert await store.get(ENGINE_ID) == ENGINE_JSON
    with pytest.raises(errors.RedisUnreachable):
        await store.get("0" * len(ENGINE_ID))
    await nowhere.close()


async def test_an_older_acl_is_named(configs: ConfigWorld) -> None:
    """A reader whose ACL is that of an older version gets what the catalogue has, else the rule that it lacks."""
    await configs.publish(ENGINE)
    with acl.running() as own:
        admin = Link(settings.RedisSettings(url=own.url))
        await admin.do("ACL", "SETUSER", "reader", "resetkeys", "%R~stream:*")
        url = own.url.replace("unix://", f"unix://reader:{acl.PASSWORD}@", 1)
        link = Link(settings.RedisSettings(url=url))
        assert await ConfigStore(link, keys.Keys(), configs.world.catalogue).get(ENGINE_ID) == ENGINE_JSON
        with pytest.raises(errors.RedisRefused, match=r"%R~rtas:config:\* \+get") as caught:
            await ConfigStore(link, keys.Keys(), None).get(ENGINE_ID)
        assert acl.PASSWORD not in str(caught.value)
        for each in (link, admin):
            await each.close()
