"""Settings of the archive: which are refused."""

import pytest

from rta_supervisor.settings import settings
from rta_wire import errors


def test_settings_that_make_no_sense_are_named() -> None:
    """A value that is impossible is refused by the dotted name of its setting."""
    for values, where in (
        ({"required": True}, "archive.path"),
        ({"max_bytes": -1}, "archive.max_bytes"),
        ({"alarm_at": 0}, "archive.alarm_at"),
        ({"level": 20}, "archive.level"),
    ):
        with pytest.raises(errors.BadConfiguration, match=where):
            settings.load(environ={}, overrides={f"archive.{name}": value for name, value in values.items()})
