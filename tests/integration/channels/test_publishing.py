"""Publishing a configuration: what is kept where, what is refused, and what a second one changes."""

import anyio
import pytest

from rta_supervisor.settings import settings
from rta_wire import errors
from rta_wire.channels import config_json, model
from rta_wire.codec.layout import SampleType
from rta_wire.pb import control_pb2
from tests.integration.channels.conftest import ConfigWorld, build
from tests.support.channel_lists import ENGINE, numbered
from tests.support.session_values import control_entry
from tests.support.supervisor_parts import World

ENGINE_JSON = config_json.encode(ENGINE)
ENGINE_ID = config_json.identifier(ENGINE_JSON)


async def test_a_configuration_is_kept_in_redis_for_a_time_and_in_the_catalogue_for_ever(configs: ConfigWorld) -> None:
    """The identifier is the hash of the canonical JSON; lists know who published it, and how large it is."""
    reply = await configs.publish(ENGINE, "rig-4")
    assert reply.identifier == ENGINE_ID
    assert await configs.world.link.do("GET", f"rtas:config:{ENGINE_ID}") == ENGINE_JSON
    assert 0 < await configs.ttl_s(ENGINE_ID) <= configs.config.session.closed_ttl_s
    [info] = await configs.world.catalogue.config_infos(limit=9)
    assert (info.identifier, info.principal, info.application) == (ENGINE_ID, "rig-4", "engine")
    assert (info.channels, info.events, info.size_bytes) == (3, 1, len(ENGINE_JSON))
    assert await configs.world.catalogue.config(ENGINE_ID) == ENGINE_JSON


async def test_the_form_of_the_json_does_not_matter(configs: ConfigWorld) -> None:
    """Blanks between its words make no other configuration: the supervisor writes it in its canonical form."""
    spaced = ENGINE_JSON.decode().replace(",", " , ")
    request = control_pb2.PublishConfig(request_id="x", config_json=spaced)
    reply = await configs.service.publish(control_entry(), request)
    assert reply.identifier == ENGINE_ID
    assert await configs.store.get(ENGINE_ID) == ENGINE_JSON


@pytest.mark.parametrize("text", ["", "[]", "{", '{"engine": {}}', '{"engine": 3}', "\x00", '{"a": {}, "b": {}}'])
async def test_what_is_no_configuration_is_refused(configs: ConfigWorld, text: str) -> None:
    """With an error that says why; nothing is kept."""
    with pytest.raises(errors.BadChannels):
        await configs.service.publish(control_entry(), control_pb2.PublishConfig(request_id="x", config_json=text))
    assert await configs.world.link.do("KEYS", "rtas:config*") == []


async def test_clients_that_publish_the_same_one_at_once(configs: ConfigWorld) -> None:
    """All get its identifier, it is kept once, and it counts once for each principal."""
    replies: list[str] = []

    async def publish(principal: str) -> None:
        replies.append((await configs.publish(ENGINE, principal)).identifier)

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(publish, f"rig-{number % 2}")
    assert replies == [ENGINE_ID] * 8
    assert len(await configs.world.catalogue.config_infos(limit=9)) == 1
    assert await configs.store.get(ENGINE_ID) == ENGINE_JSON


async def test_publishing_again_renews_what_is_there(configs: ConfigWorld) -> None:
    """It lives longer, never shorter; one that expired is there again."""
    await configs.publish(ENGINE)
    key = configs.config.keys.config(ENGINE_ID)
    await configs.world.link.do("EXPIRE", key, 10)
    await configs.publish(ENGINE)
    assert await configs.ttl_s(ENGINE_ID) > 10
    await configs.world.link.do("EXPIRE", key, 10**6)
    await configs.publish(ENGINE)
    assert await configs.ttl_s(ENGINE_ID) > 10**6 - 10
    await configs.world.link.do("UNLINK", key)
    await configs.publish(ENGINE)
    assert await configs.world.link.do("GET", key) == ENGINE_JSON


@pytest.mark.parametrize("limits", [{"configs": 2}, {"config_bytes": 2**20}])
async def test_a_principal_publishes_so_much_within_a_day(world: World, limits: dict[str, int]) -> None:
    """More is refused by name; what is there can be published again, and other principals are not held back."""
    [name] = limits
    configs = build(world, settings.Settings(), **limits)
    lists = [numbered(1200 + number) for number in range(9)]
    published: list[model.ChannelList] = []

    async def publish_all() -> None:
        for channels in lists:
            await configs.publish(channels, "rig-4")
            published.append(channels)

    with pytest.raises(errors.LimitReached, match=rf"'rig-4'.*limits\.{name}"):
        await publish_all()
    assert 2 <= len(published) < 9
    refused = lists[len(published)]
    assert await configs.store.get(config_json.identifier(config_json.encode(refused))) is None
    assert (await configs.publish(published[0], "rig-4")).identifier
    assert (await configs.publish(refused, "rig-5")).identifier


async def test_what_viewers_cant_show_is_said_in_the_reply(configs: ConfigWorld) -> None:
    """A sentence for each, and how many more there are where there are very many."""
    assert not (await configs.publish(ENGINE)).warnings
    [warning] = (await configs.publish(numbered(1, type=SampleType.INT64))).warnings
    assert "'c1' is int64" in warning
    warnings = (await configs.publish(numbered(1000, max=None))).warnings
    assert len(warnings) == 201
    assert warnings[-1].startswith("800 more")


async def test_a_catalogue_that_is_away_gets_it_later(configs: ConfigWorld) -> None:
    """The client is not kept waiting: Redis has it, and it is saved once a session is bound to it."""
    path = configs.world.catalogue.path
    path.mkdir()
    await configs.publish(ENGINE)
    path.rmdir()
    assert await configs.world.catalogue.config(ENGINE_ID) is None
    await configs.open("run-1", ENGINE_ID)
    await configs.sync.sync()
    assert await configs.world.catalogue.config(ENGINE_ID) == ENGINE_JSON
