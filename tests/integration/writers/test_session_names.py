"""Reads that name their session by an external id."""

from collections.abc import Iterator

import pytest
import redis

import rta_writers
from rta_wire import errors, keys
from rta_writers.options.read import ReadOptions
from rta_writers.read import session_names
from tests.support import acl, supervisors
from tests.support.waiting import wait_until


@pytest.fixture
def daemon(url: str) -> Iterator[supervisors.Supervisor]:
    with supervisors.running(url, {"RTA_CONTROL__PRINCIPALS": '["alice", "bob"]'}) as running:
        yield running


def resolve(url: str, **options: str) -> str | None:
    return session_names.resolve(ReadOptions.parse({"redisUrl": url, **options})).session


@pytest.mark.usefixtures("daemon")
def test_an_external_id_is_that_of_its_principal(url: str, client: redis.Redis) -> None:
    """It stands for a session of that principal, also when Redis has forgotten the session, and is never taken for an
    identity, nor an identity for it."""
    alice, bob = (rta_writers.SessionClient(url, principal=name) for name in ("alice", "bob"))
    alice.open("run-1", stream="rig", external_id="order: 7").close()
    bob.open("order: 7", stream="rig", external_id="other")
    assert resolve(url, externalId="order: 7", principal="alice") == "run-1"
    assert resolve(url, session="order: 7") == "order: 7"
    wait_until(lambda: client.hget("rtas:st:{sessions:run-1}", keys.SAFE), what="the catalogue to have it")
    client.delete("sessions:run-1", "rtas:st:{sessions:run-1}", keys.Keys().external("alice", "order: 7"))
    assert resolve(url, externalId="order: 7", principal="alice") == "run-1"
    for wanted in ("order: 7", "run-1"):
        with pytest.raises(
            errors.UnknownExternalId, match=f"no session with the external id '{wanted}' of principal 'bob'"
        ):
            resolve(url, externalId=wanted, principal="bob")
    with pytest.raises(errors.PrincipalNotServed):
        resolve(url, externalId="order: 7", principal="carol")


def test_without_a_supervisor_nobody_knows_an_external_id(url: str) -> None:
    """The error says so at once."""
    with pytest.raises(errors.NoSupervisor):
        resolve(url, externalId="order-7")


def test_a_user_that_may_only_read_is_told_what_it_lacks() -> None:
    """A reader of conf/acl can't ask a supervisor: the error says what to do instead."""
    with acl.running() as server:
        own = server.url.replace("://", f"://reader:{acl.PASSWORD}@")
        with pytest.raises(
            errors.RedisRefused, match="Name its identity by option 'session', or give the user"
        ) as caught:
            resolve(own, externalId="order-7", principal="rig-4")
        assert acl.PASSWORD not in str(caught.value)
