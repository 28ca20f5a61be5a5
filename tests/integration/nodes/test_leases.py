"""Leases of duties: one supervisor has each at a time."""

import anyio

from rta_supervisor.nodes import leases as nodes_leases
from rta_supervisor.transport.link import Link
from tests.support.supervisor_parts import config


async def test_one_supervisor_has_a_duty_at_a_time(link: Link) -> None:
    """A second supervisor gets a lease when the first has not renewed it for its length, and the first learns of it."""
    first, second = (nodes_leases.Leases(link, config(), name) for name in ("first", "second"))
    await first.renew()
    await second.renew()
    assert (first.of("trim").is_ours, second.of("trim").is_ours) == (True, False)
    with anyio.fail_after(5):
        while not second.of("trim").is_ours:
            await second.renew()
    assert not first.of("trim").is_ours, "by its own clock too"
    await first.renew()
    assert (first.of("trim").is_ours, second.of("trim").is_ours) == (False, True)
    await second.release()
    await first.renew()
    assert first.of("trim").is_ours, "what is given back need not expire"


async def test_a_duty_that_was_won_is_done_at_once(link: Link) -> None:
    """A supervisor that wins a lease does its duty without waiting for the usual time."""
    leases = nodes_leases.Leases(link, config(), "first")
    assert await leases.of("trim").next_turn(0.01) is None
    await leases.renew()
    with anyio.fail_after(5):
        assert await leases.of("trim").next_turn(3600) is not None
