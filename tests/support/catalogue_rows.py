"""Rows of a catalogue."""

import msgspec

from rta_supervisor.catalogue.model import CatalogueRow, StorageLocation
from rta_wire.control.totals import Totals
from rta_wire.session import State

ROW = CatalogueRow("run-1", "rig", 1, "default", State.OPEN, "{}", Totals(1, 2, 3, 4, 10, 20), 1, 1000, 2000)
LOCATION = StorageLocation("rig", 0, "cold", "cold:rig", "1-0", "9-0", 9, 900, 5)


def numbered_row(number: int, **changes: object) -> CatalogueRow:
    """A row of the session `run-<number>`."""
    return msgspec.structs.replace(ROW, identity=f"run-{number}", stream_session_id=number, **changes)
