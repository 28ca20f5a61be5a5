"""Options of readers: every mistake is named before any task starts."""

import pytest

from rta_wire import errors
from rta_writers.options import read as options_read


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "set option 'session', 'externalId' or 'stream'"),
        ({"session": "a", "externalId": "b"}, "'session' and 'externalId' both name a session"),
        ({"externalId": "b", "waitForStream": "true"}, "'waitForStream' needs the identity of a session"),
        ({"externalID": "b", "form": "wide", "columns": ""}, "'columns'"),
        ({"stream": "rig", "form": "wide"}, "set option 'session' or 'externalId'"),
        ({"stream": "rig", "startingOffset": "now"}, "'startingOffset' is 'now': it is earliest, latest or the id"),
        ({"stream": "rig", "failOnDataLost": "false"}, "Did you mean 'failOnDataLoss'"),
        ({"stream": "rig", "form": "sample"}, "Did you mean 'samples'"),
    ],
)
def test_a_wrong_option_of_a_reader_is_named(options: dict[str, str], message: str) -> None:
    """Readers know options of their own and say so."""
    with pytest.raises(errors.Usage, match=message):
        options_read.ReadOptions.parse({"redisUrl": "redis://localhost", **options})
