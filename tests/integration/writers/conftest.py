"""What tests of the appenders share."""

import pytest
import redis

from rta_writers.options.target import Target
from rta_writers.write.delivery.exactly_once import ExactlyOnceAppender
from tests.integration.writers.appends import Make


@pytest.fixture
def appender(client: redis.Redis, target: Target) -> Make:
    def make(unit: str = "u", epoch: int = 0) -> ExactlyOnceAppender:
        return ExactlyOnceAppender(client, target, unit=unit, epoch=epoch)

    return make
