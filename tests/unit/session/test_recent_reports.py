"""Reports in memory: the latest of each unit, for long enough and not for ever."""

from rta_supervisor.session.recent_reports import KEEP_S, RecentReports
from rta_wire.control.totals import Totals

FIRST, SECOND = Totals(1, 1, 1, 1), Totals(2, 2, 2, 2)


def test_the_latest_totals_of_each_unit_are_kept() -> None:
    """By session; a session without data, which sent a heartbeat, has no units."""
    reports = RecentReports(lambda: 0.0)
    reports.add({("run", 1): {"u": FIRST, "v": FIRST}, ("idle", 2): {}})
    reports.add({("run", 1): {"v": SECOND}, ("run", 3): {"u": SECOND}})
    assert reports.latest_totals() == {
        ("run", 1): {"u": FIRST, "v": SECOND},
        ("run", 3): {"u": SECOND},
        ("idle", 2): {},
    }


def test_reports_are_kept_once_or_twice_the_time() -> None:
    """Not less than the time, and not more than two of them while reports come."""
    now_s = 0.0
    reports = RecentReports(lambda: now_s)
    reports.add({("old", 1): {"u": FIRST}})
    now_s = KEEP_S + 1
    reports.add({("run", 2): {"u": FIRST}})
    assert set(reports.latest_totals()) == {("old", 1), ("run", 2)}
    now_s = 2 * (KEEP_S + 1)
    reports.add({("run", 2): {"v": SECOND}})
    assert reports.latest_totals() == {("run", 2): {"u": FIRST, "v": SECOND}}


def test_what_was_given_is_not_changed() -> None:
    """Reports are copied: the batch that they come from is used again."""
    reports = RecentReports(lambda: 0.0)
    units = {"u": FIRST}
    reports.add({("run", 1): units})
    reports.add({("run", 1): {"u": SECOND}})
    assert units == {"u": FIRST}
