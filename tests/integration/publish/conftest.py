"""What tests of publishing share."""

from collections.abc import Iterator

import pytest

from tests.support.toolkit_services import ToolkitServices


@pytest.fixture
def services() -> Iterator[ToolkitServices]:
    """A Session Service and a Config Service that run."""
    made = ToolkitServices()
    with made.running():
        yield made
