"""Whether Redis has all of a session: against a row of the catalogue, and against reports of its units."""

from typing import Any

import pytest

from rta_supervisor.catalogue.model import CatalogueRow
from rta_supervisor.recovery import completeness
from rta_wire.control.totals import Totals
from rta_wire.session import State
from tests.support.session_values import session_record

REPORTED = Totals(2, 20, 200, 100, 5, 9)


def row(**fields: Any) -> CatalogueRow:
    """What the catalogue has of session 1 in version 3, with all that was reported."""
    defaults = {
        "identity": "run",
        "stream": "rig",
        "stream_session_id": 1,
        "principal": "p",
        "state": State.OPEN,
        "json": "{}",
        "totals": REPORTED,
        "version": 3,
        "opened_ms": 1,
        "updated_ms": 1,
        "position": "0-0",
    }
    return CatalogueRow(**{**defaults, **fields})


@pytest.mark.parametrize(
    ("fields", "is_complete"),
    [
        ({}, True),
        ({"version": 4, "totals": Totals(3, 30, 300, 150, 4, 10)}, True),
        ({"version": 2}, False),
        ({"totals": Totals(2, 19, 200, 100, 5, 9)}, False),
        ({"totals": Totals(1, 20, 200, 100, 5, 9)}, False),
        ({"lost_data": True}, False),
        ({"state": State.FAILED, "version": 1, "totals": Totals()}, True),
        ({"stream_session_id": 2, "version": 1, "totals": Totals()}, True),
    ],
)
def test_a_session_is_complete_with_what_the_catalogue_has_of_it(fields: dict[str, Any], *, is_complete: bool) -> None:
    """An older version, fewer samples or bursts, or a noted loss is not; a closed or a later session needs nothing."""
    record = session_record(**{"version": 3, "totals": REPORTED, **fields})
    assert completeness.is_complete(record, row()) is is_complete


def test_a_session_that_is_not_there_is_not_complete() -> None:
    """Even if the catalogue has no data of it."""
    assert not completeness.is_complete(None, row(totals=Totals()))


@pytest.mark.parametrize(
    ("unit_totals", "is_missing"),
    [
        ({"u": REPORTED, "v": REPORTED}, False),
        ({"u": REPORTED.sum_of(REPORTED), "v": REPORTED}, False),
        ({"u": REPORTED}, True),
        ({"u": REPORTED, "v": Totals(2, 19, 200, 100, 5, 9)}, True),
        ({}, True),
    ],
)
def test_what_a_unit_reported_and_redis_does_not_have_is_missing(
    unit_totals: dict[str, Totals], *, is_missing: bool
) -> None:
    """Each unit is compared with its own totals; more than was reported is fine."""
    reported = {"u": REPORTED, "v": REPORTED}
    assert completeness.misses_reported(session_record(), unit_totals, reported) is is_missing
    for fields in ({"lost_data": True}, {"state": State.CLOSED}):
        assert not completeness.misses_reported(session_record(**fields), unit_totals, reported)
