"""External ids of sessions in a catalogue of either kind."""

from rta_supervisor.catalogue import factory
from rta_supervisor.catalogue.interface import Catalogue
from rta_supervisor.catalogue.model import CatalogueExternalId, Query
from rta_supervisor.settings import settings
from tests.integration.catalogue import backends
from tests.support.catalogue_rows import ROW, numbered_row


async def test_sessions_are_found_by_their_external_ids(backend: Catalogue) -> None:
    """Every principal's, newest first; saving one again changes nothing."""
    rows = [numbered_row(number) for number in (1, 2, 3)]
    external_ids = [
        CatalogueExternalId("job", "p", "run-1", 1),
        CatalogueExternalId("job", "q", "run-2", 2),
        CatalogueExternalId("other", "p", "run-3", 3),
    ]
    await backend.save(rows)
    assert await backend.external_ids("job") == []
    for _ in range(2):
        await backend.save_external_ids(external_ids)
    assert await backend.external_ids("job") == external_ids[1::-1]
    found = await backend.find(Query(external_id="job"), limit=10)
    assert [row.identity for row in found] == ["run-2", "run-1"]
    assert await backend.find(Query(external_id="job", text="run-3"), limit=10) == []


async def test_a_catalogue_of_an_older_supervisor_has_no_external_ids(
    backend: Catalogue, catalogue_settings: settings.CatalogueSettings
) -> None:
    """One that is only read is searched in vain; one that is written to gets the table, and its version stays."""
    await backend.save([ROW])
    await backend.close()
    backends.drop_table(catalogue_settings, "external_ids")
    reading = factory.create_read_only(settings.Settings(catalogue=catalogue_settings))
    assert await reading.get(ROW.identity) == ROW
    assert await reading.external_ids("job") == []
    assert await reading.find(Query(external_id="job"), limit=10) == []
    await reading.close()
    await backend.save_external_ids([CatalogueExternalId("job", "p", "run-1", 1)])
    assert len(await backend.external_ids("job")) == 1
