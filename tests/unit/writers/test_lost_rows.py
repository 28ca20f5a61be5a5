"""What a process remembers of acknowledged units: bounded in number and time."""

from rta_wire.control.totals import Mark, Totals
from rta_writers.write import lost_rows


def test_what_is_remembered_is_bounded() -> None:
    """The oldest units are dropped, and rows so old that their mark may have expired are no loss."""
    now_s = 0.0
    units = lost_rows.AcknowledgedUnits(lambda: now_s)
    unit_keys = [lost_rows.UnitKey("url", "run", "marks", str(unit)) for unit in range(lost_rows.UNITS_MAX + 1)]
    for key in unit_keys:
        units.record(key, 1, 1)
    assert units.pop_missing(unit_keys[0], Mark(), epoch=2) is None
    assert units.pop_missing(unit_keys[1], Mark(1, 1, Totals()), epoch=2) is None
    assert units.pop_missing(unit_keys[1], Mark(), epoch=2) == lost_rows.AcknowledgedRows(1, 1, 0.0)
    assert units.pop_missing(unit_keys[1], Mark(), epoch=2) is None, "given once"
    now_s = lost_rows.KEEP_S
    assert units.pop_missing(unit_keys[2], Mark(), epoch=2) is None
