"""Whether Redis has as much of a session as others know of it: the catalogue, or reports of its writers. Pure."""

from collections.abc import Mapping

from rta_supervisor.catalogue.model import CatalogueRow
from rta_supervisor.session.model import SessionRecord
from rta_wire.control.totals import Totals


def is_complete(record: SessionRecord | None, row: CatalogueRow) -> bool:
    """Whether Redis has as much of a session as the catalogue, or more, or a later session of that identity."""
    if record is None:
        return False
    if record.ref.stream_session_id != row.stream_session_id or record.state.is_closed:
        return True
    return record.version >= row.version and not record.lost_data and record.totals.missing_from(row.totals) is None


def misses_reported(record: SessionRecord, folded: Mapping[str, Totals], units: Mapping[str, Totals]) -> bool:
    """Whether an open session without a noted loss has less than its units have reported. `folded`: what it has."""
    if record.state.is_closed or record.lost_data:
        return False
    return any(unit not in folded or not folded[unit].has_arrived(totals) for unit, totals in units.items())
