"""Recent events: how many are kept, and how long they are."""

from rta_supervisor.diagnostics.recent_events import EVENTS_MAX, RecentEvents


def test_recent_events_are_bounded_and_short() -> None:
    """The newest are kept, long texts are cut, and tracebacks stay in the log."""
    recent = RecentEvents()
    for number in range(EVENTS_MAX + 5):
        recent(None, "", {"event": f"e{number}", "level": "info", "long": "x" * 1000, "exception": "trace"})
    kept = recent.after(0)
    assert (len(kept), kept[-1].event, len(kept[-1].facts["long"])) == (EVENTS_MAX, f"e{EVENTS_MAX + 4}", 300)
    assert "exception" not in kept[-1].facts
    assert recent.after(kept[-2].number) == kept[-1:]
