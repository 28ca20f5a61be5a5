"""Rows of a catalogue that the command line searches and exports."""

import anyio
import msgspec

from rta_supervisor.catalogue import factory
from rta_supervisor.catalogue.model import CatalogueRow
from rta_supervisor.settings import settings
from rta_wire.control.totals import Totals
from rta_wire.session import State
from tests.support.catalogue_rows import LOCATION, numbered_row

NOWHERE = "unix:///nonexistent/socket"
START_NS = 1_700_000_000_123_456_789


def json_of(number: int, **details: object) -> str:
    return msgspec.json.encode({"identifier": f"Run {number}", "state": "closed", "details": details}).decode()


ROWS = [
    numbered_row(1, json=json_of(1, Rig=4), state=State.CLOSED, totals=Totals(1, 2, 3, 4, START_NS, START_NS + 1)),
    numbered_row(2, json=json_of(2, Rig=5), state=State.FAILED, stream="other"),
    numbered_row(3, json="not JSON", totals=Totals()),
    numbered_row(4, json=msgspec.json.encode({"identifier": '=1+1;"x"\n', "state": "open"}).decode(), stream="other"),
]


def save(config: settings.CatalogueSettings, rows: list[CatalogueRow]) -> None:
    async def work() -> None:
        catalogue = factory.create(settings.Settings(catalogue=config))
        await catalogue.save(rows)
        await catalogue.save_locations([LOCATION, msgspec.structs.replace(LOCATION, stream_session_id=1, kind="files")])
        await catalogue.close()

    anyio.run(work)
