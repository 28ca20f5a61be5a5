"""Commands about a session whose identity does not exist."""

import pytest

import rta_writers
from tests.support.commands import refused, run


@pytest.mark.parametrize(
    "arguments", [["sessions", "show", "run-71"], ["sessions", "close", "run-71", "--yes"], ["tail", "run-71"]]
)
def test_an_unknown_session_is_named_with_the_nearest(
    url: str, sessions: rta_writers.SessionClient, arguments: list[str]
) -> None:
    """Ends with 66 and names the session that was probably meant."""
    sessions.open("run-17", stream="rig")
    sessions.open("other", stream="rig")
    refused(run(url, *arguments), 66, "There is no session 'run-71'; the nearest is 'run-17'")
