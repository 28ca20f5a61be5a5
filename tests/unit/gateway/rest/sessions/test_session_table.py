"""The table of sessions in memory."""

import itertools
from collections.abc import Iterator

import pytest

from rta_supervisor.gateway.rest.sessions.listed_session import ListedSession
from rta_supervisor.gateway.rest.sessions.session_table import SessionQuery, SessionTable
from rta_wire.query import criteria, sort_order

CRITERION = criteria.parse('{"$or": [{"details.A": {"$contains": "x"}}, {"details.A": {"$in": [1, 2]}}, {"group": 1}]}')
SORT = sort_order.parse(["version:desc"])
LOOKS = 3 + 3 + 1
"""A column is made for each of three properties, three conditions look at one, and one is sorted by."""


def test_a_query_is_stopped_between_two_looks_at_all_sessions() -> None:
    """Whatever it asks for: nobody else is served meanwhile."""
    for allowed in range(LOOKS + 1):
        looks = itertools.count()

        def check(looks: Iterator[int] = looks, allowed: int = allowed) -> None:
            if next(looks) >= allowed:
                raise TimeoutError

        table = SessionTable()
        table.put(ListedSession("s", "rig", 1, b'{"identity": "s", "details": {"A": 2}}'))
        query = SessionQuery(CRITERION, SORT)
        if allowed == LOOKS:
            assert [row.identity for row in table.find(query, check)] == ["s"]
        else:
            with pytest.raises(TimeoutError):
                table.find(query, check)
