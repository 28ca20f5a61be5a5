"""Configurations in a catalogue of either kind."""

import anyio
import msgspec
import pytest

from rta_supervisor.catalogue import factory
from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import ConfigInfo, ConfigRow
from rta_supervisor.settings import settings
from rta_wire import errors
from tests.integration.catalogue import backends
from tests.support.catalogue_rows import ROW

CONFIG = ConfigRow(ConfigInfo("5" * 64, "p", "engine", 2, 1, 11, 7), b'{"a": "\xc3\xa9"}')


async def test_the_first_configuration_of_an_identifier_stays(backend: Catalogue) -> None:
    """What is saved again under its identifier changes nothing; lists have the newest first."""
    assert await backend.config(CONFIG.info.identifier) is None
    assert await backend.save_config(CONFIG)
    assert not await backend.save_config(ConfigRow(CONFIG.info, b"{}"))
    later = ConfigRow(msgspec.structs.replace(CONFIG.info, identifier="6" * 64, published_ms=8), bytes(3 * 2**20))
    assert await backend.save_config(later)
    assert await backend.config(CONFIG.info.identifier) == CONFIG.data
    assert await backend.config(later.info.identifier) == later.data
    assert await backend.config_infos(limit=9) == [later.info, CONFIG.info]
    assert await backend.config_infos(limit=1) == [later.info]
    assert await backend.has_configs(["5" * 64, "7" * 64]) == {"5" * 64}


async def test_two_that_save_a_configuration_at_once_agree(
    backend: Catalogue, catalogue_settings: settings.CatalogueSettings
) -> None:
    """Neither fails, and there is one row."""
    other = backends.create(catalogue_settings)
    async with anyio.create_task_group() as tasks:
        for one in (backend, other) * 4:
            tasks.start_soon(one.save_config, CONFIG)
    await other.close()
    assert await backend.config_infos(limit=9) == [CONFIG.info]


async def test_a_catalogue_of_an_older_supervisor_has_no_configurations(
    backend: Catalogue, catalogue_settings: settings.CatalogueSettings
) -> None:
    """One that is only read has none; one that is written to gets the tables, and the version of sessions stays."""
    await backend.save([ROW])
    await backend.close()
    for table in ("configs", "configs_version"):
        backends.drop_table(catalogue_settings, table)
    reading = factory.create_read_only(settings.Settings(catalogue=catalogue_settings))
    assert await reading.config(CONFIG.info.identifier) is None
    assert await reading.config_infos(limit=9) == []
    assert await reading.has_configs([CONFIG.info.identifier]) == set()
    await reading.close()
    assert await backend.save_config(CONFIG)
    assert await backend.config(CONFIG.info.identifier) == CONFIG.data


async def test_configurations_of_a_newer_version_are_refused_and_sessions_are_not(
    backend: Catalogue, catalogue_settings: settings.CatalogueSettings
) -> None:
    """A later program may store configurations in another way; sessions beside them are read and written as before."""
    await backend.save_config(CONFIG)
    backends.execute(catalogue_settings, "configs_version", "UPDATE {} SET number = 2")
    with pytest.raises(errors.CatalogueTooNew, match="schema 2"):
        await backend.config(CONFIG.info.identifier)
    await backend.save([ROW])
    assert await backend.get(ROW.identity) == ROW
