"""Configurations live with the sessions that are bound to them, and come back with them."""

import pytest

from rta_supervisor.channels import sync
from rta_supervisor.channels.binding import ConfigBinder
from rta_supervisor.diagnostics import counters
from rta_supervisor.recovery.recovery import Recovery, RecoverySteps
from rta_supervisor.session.state_machine import SessionEvent
from rta_wire import errors, limits, session
from rta_wire.channels import config_json
from rta_wire.pb import control_pb2
from tests.integration.channels.conftest import ConfigWorld
from tests.support import supervisor_parts
from tests.support.channel_lists import ENGINE, numbered
from tests.support.session_values import control_entry

ENGINE_JSON = config_json.encode(ENGINE)
ENGINE_ID = config_json.identifier(ENGINE_JSON)
OTHER_ID = config_json.identifier(config_json.encode(numbered(4)))
FOREIGN = {"identifier": "by hand", "channelOffset": 100}


async def test_a_bound_configuration_lives_as_long_as_its_sessions(configs: ConfigWorld) -> None:
    """Renewed while a session is open, it outlives the session; one that no session is bound to expires."""
    await configs.publish(ENGINE)
    await configs.publish(numbered(4))
    await configs.open("run-1", ENGINE_ID)
    await configs.sync.sync()
    times = configs.config.session
    assert await configs.ttl_s(ENGINE_ID) > times.open_ttl_s
    assert await configs.ttl_s(OTHER_ID) <= times.closed_ttl_s
    await configs.world.service.end(await configs.world.record(), SessionEvent.CLOSE)
    await configs.world.catalogue_writer.flush()
    ttl_s = await configs.ttl_s(ENGINE_ID)
    assert ttl_s > await configs.world.link.do("TTL", configs.config.keys.session("run-1"))
    await configs.world.link.do("EXPIRE", configs.config.keys.config(ENGINE_ID), 10)
    await configs.sync.sync()
    assert await configs.ttl_s(ENGINE_ID) <= 10


async def test_it_outlives_a_session_that_ends_before_any_renewal(configs: ConfigWorld) -> None:
    """Also one that was published long before the session was opened."""
    configs.world.service.choose_config = ConfigBinder(configs.store, configs.config).choose
    await configs.publish(ENGINE)
    await configs.world.link.do("EXPIRE", configs.config.keys.config(ENGINE_ID), 10)
    await configs.open("run-1", ENGINE_ID)
    await configs.world.service.end(await configs.world.record(), SessionEvent.CLOSE)
    await configs.world.catalogue_writer.flush()
    session_ttl_s = await configs.world.link.do("TTL", configs.config.keys.session("run-1"))
    assert await configs.ttl_s(ENGINE_ID) > session_ttl_s


async def test_after_redis_lost_its_data_it_is_back_with_its_sessions(configs: ConfigWorld) -> None:
    """Recovery restores the sessions and then what they are bound to; the next list takes the place of the old one."""
    await configs.publish(ENGINE)
    await configs.open("run-1", ENGINE_ID, configBindings=[FOREIGN])
    await configs.world.link.do("FLUSHALL")
    world = configs.world
    recovery = Recovery(
        *(world.link, world.sessions, world.restorer, world.catalogue),
        config=supervisor_parts.required(configs.config),
        steps=RecoverySteps(complete=(configs.sync.sync,)),
    )
    await recovery.restore()
    assert await world.link.do("GET", configs.config.keys.config(ENGINE_ID)) == ENGINE_JSON
    assert await configs.ttl_s(ENGINE_ID) > configs.config.session.open_ttl_s
    await configs.open("run-1", OTHER_ID, entry_id="2-0")
    assert await configs.bindings("run-1") == [("by hand", 100), (OTHER_ID, 0)]


async def test_a_catalogue_of_another_host_gets_what_redis_has(configs: ConfigWorld) -> None:
    """Each host has a catalogue of its own: one that saw neither the publishing nor the open has the configuration."""
    await configs.publish(ENGINE)
    await configs.open("run-1", ENGINE_ID)
    await configs.world.catalogue.close()
    configs.world.catalogue.path.unlink()
    await configs.sync.sync()
    assert await configs.world.catalogue.config(ENGINE_ID) == ENGINE_JSON


async def test_a_binding_to_what_nobody_published_is_counted(configs: ConfigWorld) -> None:
    """By hand or by a client, known by its form or not; it keeps nothing else from being renewed."""
    await configs.publish(ENGINE)
    await configs.open("run-1", ENGINE_ID, configBindings=[FOREIGN])
    await configs.open("run-2", OTHER_ID)
    await configs.open("run-3", ENGINE_ID)
    await configs.sync.sync()
    assert counters.counts.configs_missing == 2
    assert await configs.ttl_s(ENGINE_ID) > configs.config.session.open_ttl_s
    bound = await sync.bound_configs(configs.world.link, configs.config.keys)
    assert bound == {ENGINE_ID: 2, "by hand": 1, OTHER_ID: 1}
    await configs.publish(numbered(4))
    await configs.sync.sync()
    assert counters.counts.configs_missing == 1


async def test_bindings_by_hand_stay_and_ours_is_replaced(configs: ConfigWorld) -> None:
    """A job that starts again with more channels binds another configuration: at its open, or by an update."""
    await configs.open("run-1", ENGINE_ID, configBindings=[FOREIGN])
    assert await configs.bindings("run-1") == [("by hand", 100), (ENGINE_ID, 0)]
    await configs.open("run-1", ENGINE_ID, entry_id="2-0", configBindings=[])
    assert await configs.bindings("run-1") == [("by hand", 100), (ENGINE_ID, 0)]
    await configs.open("run-1", OTHER_ID, entry_id="3-0")
    assert await configs.bindings("run-1") == [("by hand", 100), (OTHER_ID, 0)]
    update = control_pb2.UpdateSession(identity="run-1", config_identifier=ENGINE_ID)
    await configs.world.service.update(control_entry(entry_id="4-0"), update)
    assert await configs.bindings("run-1") == [("by hand", 100), (ENGINE_ID, 0)]
    await configs.world.service.update(control_entry(entry_id="3-5"), _update(config=OTHER_ID))
    assert await configs.bindings("run-1") == [("by hand", 100), (ENGINE_ID, 0)], "a late one changes nothing newer"


async def test_bindings_that_are_set_as_a_property(configs: ConfigWorld) -> None:
    """What a user sets stands as it is, also one of ours at an offset; a client's binding is added to it."""
    await configs.open("run-1", "")
    assert await configs.bindings("run-1") == []
    by_hand = [FOREIGN, {"identifier": ENGINE_ID, "channelOffset": 500}]
    await configs.world.service.update(control_entry(entry_id="2-0"), _update(configBindings=by_hand))
    assert await configs.bindings("run-1") == [("by hand", 100), (ENGINE_ID, 500)]
    await configs.world.service.update(control_entry(entry_id="3-0"), _update(config=OTHER_ID))
    assert await configs.bindings("run-1") == [("by hand", 100), (ENGINE_ID, 500), (OTHER_ID, 0)]
    await configs.world.service.update(control_entry(entry_id="4-0"), _update(configBindings=None))
    assert await configs.bindings("run-1") == []
    assert await sync.bound_configs(configs.world.link, configs.config.keys) == {}


async def test_a_session_is_bound_to_so_many_configurations_only(configs: ConfigWorld) -> None:
    """Each is kept and looked for: a client that makes up more is refused, in an open and in an update."""
    made_up = [{"identifier": f"{number:040x}", "channelOffset": 0} for number in range(limits.SESSION_MAX_CONFIGS + 1)]
    with pytest.raises(errors.BadSessionJson, match="more than 256"):
        await configs.open("run-1", "", configBindings=made_up)
    await configs.open("run-1", "", configBindings=made_up[:-1])
    with pytest.raises(errors.BadSessionJson, match="more than 256"):
        await configs.world.service.update(control_entry(entry_id="2-0"), _update(configBindings=made_up))
    await configs.sync.sync()
    assert counters.counts.configs_missing == limits.SESSION_MAX_CONFIGS


def _update(config: str = "", **properties: object) -> control_pb2.UpdateSession:
    text = session.dump_properties(properties) if properties else ""
    return control_pb2.UpdateSession(identity="run-1", config_identifier=config, properties_json=text)
