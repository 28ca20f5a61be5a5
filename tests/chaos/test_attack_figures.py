"""The figures of an attack: what counts, and which of them do not keep their limits."""

from tests.chaos.attacks import figures, recording
from tests.chaos.attacks.figures import Figure
from tests.chaos.attacks.recording import Step


def steps(*, open_ms: float = 10.0, error: str = "") -> list[Step]:
    """A quiet run, but for the last open."""
    quiet = [
        Step(what, float(n), ms)
        for n in range(200)
        for what, ms in (
            ("ping", 1.0), ("open", 10.0), ("update", 10.0), ("close", 10.0), ("range age", 200.0),
            ("operator list", 50.0), ("operator abandon", 50.0), ("health", 5.0), ("webhook", 30.0),
        )
    ]  # fmt: skip
    return [*quiet, *(Step("open", 200.0 + n, open_ms, error) for n in range(5))]


def test_a_quiet_run_keeps_all_limits() -> None:
    """Nothing to complain about."""
    assert figures.complaint(figures.of_steps("none", steps())) == ""


def test_a_victim_may_be_slower_than_a_ping_by_250_ms() -> None:
    """The 99th percentile counts, and the complaint says which one it is."""
    assert figures.complaint(figures.of_steps("opens", steps(open_ms=251.0))) == ""
    assert figures.complaint(figures.of_steps("opens", steps(open_ms=260.0))) == "opens: open p99 ms 260, more than 251"


def test_a_step_that_failed_is_no_quick_one() -> None:
    """It took no time, and the victim got nothing."""
    assert figures.complaint(figures.of_steps("opens", steps(error="NoReply"))) == "opens: failed steps 5, more than 0"


def test_without_steps_nothing_is_right() -> None:
    """Nobody measured: a command that was never answered is later than any limit."""
    assert "operator max ms" in figures.complaint(figures.of_steps("none", []))


def test_percentiles() -> None:
    """Of many values the one that the share does not exceed, of none 0."""
    assert recording.percentile([float(n) for n in range(100)], 0.99) == 99.0
    assert recording.percentile([], 0.99) == 0.0


def test_a_figure_without_a_limit_keeps_it() -> None:
    """It is there to be looked at."""
    assert Figure("a", "b", 1e9).is_kept
    assert not Figure("a", "b", 1.0, 0).is_kept
