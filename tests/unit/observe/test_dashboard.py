"""The dashboard of Grafana: the file in conf/ is what its program writes."""

import json

from tools import dashboard


def test_the_dashboard_is_as_written() -> None:
    """The file is up to date with tools/dashboard.py."""
    assert json.loads(dashboard.TARGET.read_text()) == dashboard.dashboard()
