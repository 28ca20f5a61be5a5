"""What the doctor says about the configurations that sessions are bound to."""

import msgspec

from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.observe.doctor import findings
from rta_supervisor.observe.doctor.binding_checks import BindingChecks
from rta_supervisor.settings import settings
from rta_wire import session
from rta_wire.channels import config_json
from rta_wire.pb import control_pb2
from tests.support.channel_lists import ENGINE
from tests.support.session_values import control_entry
from tests.support.supervisor_parts import World

ENGINE_JSON = config_json.encode(ENGINE)
ENGINE_ID = config_json.identifier(ENGINE_JSON)


async def test_a_binding_to_what_nobody_published_is_a_line_of_the_doctor(world: World) -> None:
    """It names the configuration; one that is published here, and a session without one, are in order."""
    base = settings.Settings(catalogue=settings.CatalogueSettings(path=str(world.catalogue.path)))
    checks = BindingChecks(world.link, base)
    await world.open("without")
    assert (await checks.configurations()).level == findings.OK
    text = session.dump(session.build("run-1")).decode()
    request = control_pb2.OpenSession(identity="run-1", stream="rig", session_json=text, config_identifier=ENGINE_ID)
    await world.service.open(control_entry(), request)
    finding = await checks.configurations()
    assert finding.level == findings.WARN
    assert f"1 of 1 that nobody published here: {ENGINE_ID}" in finding.found
    elsewhere = msgspec.structs.replace(base, catalogue=settings.CatalogueSettings(path="/nowhere/c.sqlite"))
    finding = await BindingChecks(world.link, elsewhere).configurations()
    assert (finding.level, "can't be told" in finding.remedy) == (findings.WARN, True)
    await ConfigStore(world.link, base.keys, None).put_live(ENGINE_ID, ENGINE_JSON, ttl_s=60)
    finding = await checks.configurations()
    assert (finding.level, finding.found) == (findings.OK, "1 bound to live sessions, all published here")
