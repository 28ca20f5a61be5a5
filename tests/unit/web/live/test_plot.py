"""Requests for a plot: those that are refused."""

import pytest

from rta_supervisor.web.live import plot
from rta_wire import errors


@pytest.mark.parametrize(
    "query",
    [{"channels": "1,x"}, {"channels": "1,2,3,4,5,6,7,8,9"}, {"window_s": "0"}, {"window_s": "nan"}, {"type": "text"}],
)
def test_bad_requests_are_refused(query: dict[str, str]) -> None:
    """Numbers that are none, too many channels, a window or a type that there is not: each with a sentence."""
    with pytest.raises(errors.Usage, match="plot"):
        plot.PlotRequest.parse(query)
