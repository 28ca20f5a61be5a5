"""Rows of a catalogue that commands search and export: closed, failed, without valid JSON, with a hostile name."""

import anyio
import msgspec

from rta_supervisor.catalogue import factory
from rta_supervisor.catalogue.model import CatalogueRow
from rta_supervisor.settings import settings
from rta_wire.control.totals import Totals
from rta_wire.session import State
from tests.support.catalogue_rows import LOCATION, numbered_row

START_NS = 1_700_000_000_123_456_789


def session_json(number: int, **details: object) -> str:
    return msgspec.json.encode({"identifier": f"Run {number}", "state": "closed", "details": details}).decode()


ROWS = [
    numbered_row(1, json=session_json(1, Rig=4), state=State.CLOSED, totals=Totals(1, 2, 3, 4, START_NS, START_NS + 1)),
    numbered_row(2, json=session_json(2, Rig=5), state=State.FAILED, stream="other"),
    numbered_row(3, json="not JSON", totals=Totals()),
    numbered_row(4, json=msgspec.json.encode({"identifier": '=1+1;"x"\n', "state": "open"}).decode(), stream="other"),
]


def save(config: settings.CatalogueSettings, rows: list[CatalogueRow]) -> None:
    """Writes rows, and where data of a stream and of one of its sessions are, to a catalogue; makes it if needed."""

    async def write() -> None:
        catalogue = factory.create(settings.Settings(catalogue=config))
        await catalogue.save(rows)
        await catalogue.save_locations([LOCATION, msgspec.structs.replace(LOCATION, stream_session_id=1, kind="files")])
        await catalogue.close()

    anyio.run(write)
