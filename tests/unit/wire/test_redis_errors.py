"""Errors of Redis: what is none of them has no class."""

from rta_wire import redis_errors


def test_what_is_not_redis_has_no_row() -> None:
    """An error of ours is not taken for one of Redis."""
    assert redis_errors.classify(KeyError("x")) is None
