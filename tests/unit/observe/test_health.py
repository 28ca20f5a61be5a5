"""The line for `systemctl status`."""

from rta_supervisor.diagnostics import counters
from rta_supervisor.observe import health
from rta_supervisor.observe.sampler import Observation
from rta_supervisor.observe.summaries import ControlStreamSummary, ServerSummary


def test_the_status_line_leaves_out_what_there_is_not() -> None:
    """Before the first observation it has counts alone; problems show if there are any."""
    counts = counters.Counts()
    assert health.status_line(Observation(), counts) == "no sessions; 0 opened and 0 closed here; 0 reports"
    counts.opened, counts.reports = 3, 40
    counts.closed["failed"] += 1
    observation = Observation(
        sessions={"waiting": 0, "open": 2},
        control_streams=(ControlStreamSummary("k", "p", "requests", 4, 1, None, 0, True),),
        dead_letters=7,
        server=ServerSummary("Redis", "7.4", "primary", "noeviction", 5 << 20, 9 << 20, 1, 0),
    )
    assert health.status_line(observation, counts) == (
        "2 open; 3 opened and 1 closed here; 40 reports; 5 messages waiting; 7 dead letters; Redis 5 of 9 MiB"
    )
