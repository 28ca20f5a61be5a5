"""Options of readers: every mistake is named before any task starts."""

import pytest

from rta_wire import errors
from rta_writers.options import read as options_read


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "set option 'session' or 'stream'"),
        ({"stream": "rig", "startingOffset": "now"}, "'startingOffset' is 'now': it is earliest, latest or the id"),
        ({"stream": "rig", "failOnDataLost": "false"}, "Did you mean 'failOnDataLoss'"),
        ({"stream": "rig", "form": "sample"}, "Did you mean 'samples'"),
    ],
)
def test_a_wrong_option_of_a_reader_is_named(options: dict[str, str], message: str) -> None:
    """Readers know options of their own and say so."""
    with pytest.raises(errors.Usage, match=message):
        options_read.ReadOptions.parse({"redisUrl": "redis://localhost", **options})
