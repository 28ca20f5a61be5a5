"""How publishing goes, as it is shown after a while without news."""

import msgspec
import pytest

from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.publish.status import PublishStatus


def test_the_oldest_change_ages_where_no_news_come() -> None:
    """A status that is a moment old is as it says; after that nobody publishes, and the change gets older."""
    fresh = PublishStatus(node="n", at_ms=now_ms(), period_s=5.0, waiting=1, oldest_s=3.0, refused=0, problem="")
    assert fresh.oldest_now_s == 3.0
    old = msgspec.structs.replace(fresh, at_ms=now_ms() - 600_000)
    assert old.is_stale
    assert old.oldest_now_s == pytest.approx(603, abs=5)
