"""Clients for more than one server take the options of the URL, as those of one server do."""

import pytest
import redis

from rta_writers.connection import redis_client


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/2", "redis+sentinel://127.0.0.1:1/main/2"])
def test_options_of_the_url_count(url: str) -> None:
    """Options in the query of a URL override our defaults, and no others."""
    with redis_client.connect(f"{url}?socket_timeout=0.7") as client:
        chosen = client.connection_pool.connection_kwargs
    assert (chosen["socket_timeout"], chosen["socket_connect_timeout"], chosen["db"]) == (
        0.7,
        redis_client.TIMEOUT_S,
        2,
    )


def test_sentinels_are_asked_for_no_database() -> None:
    """Sentinels have no databases. Their timeout is that of the master."""
    with redis_client.connect("redis+sentinel://u:p@127.0.0.1:1/main/2?socket_timeout=0.7") as client:
        discovery = client.discovery
        connections = [
            sentinels.sentinels[0].connection_pool.connection_kwargs
            for sentinels in (discovery, discovery.with_password)
        ]
    assert [(chosen.get("db", 0), chosen["socket_timeout"], chosen.get("password")) for chosen in connections] == [
        (0, 0.7, None),
        (0, 0.7, "p"),
    ]


def test_sentinels_that_know_no_master_are_named() -> None:
    """In one clause, with and without a password: the options of connections are nobody's concern."""
    for account in ("", "u:p@"):
        with (
            redis_client.connect(f"redis+sentinel://{account}127.0.0.1:1,127.0.0.1:2/main") as client,
            pytest.raises(redis.exceptions.ConnectionError) as caught,
        ):
            client.ping()
        assert str(caught.value) == "no Sentinel names a master 'main', of 127.0.0.1:1, 127.0.0.1:2"
