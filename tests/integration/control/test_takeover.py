"""What the dead have left, where Redis has forgotten it as well."""

import pytest

from rta_supervisor.control import takeover
from rta_supervisor.settings import settings
from rta_supervisor.transport.failures import DataLost
from rta_supervisor.transport.link import Link


async def test_a_control_stream_that_is_gone_is_a_loss_and_not_the_end(url: str) -> None:
    """Whoever looks for messages of the dead just after Redis was emptied says so, and the supervisor goes on."""
    config = settings.Settings(redis=settings.RedisSettings(url=url))
    link = Link(config.redis)
    key = config.keys.reports("default")
    with pytest.raises(DataLost, match="rtas:ctl:default: no such key"):
        await takeover.take_over(link, config.keys, key, "us", lease_s=1)
    await link.close()
