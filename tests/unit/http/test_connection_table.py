"""Which connection has to make room for another."""

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.http import connection_table
from rta_supervisor.http.connection_table import CONNECTIONS, PER_ADDRESS, ConnectionTable

MAX_CONNECTIONS, MAX_PER_ADDRESS = 6, 3


def test_connections_elsewhere_take_files_of_these() -> None:
    """Where fewer files are left than the settings allow connections, those count; more of them change nothing."""
    table: ConnectionTable[int] = ConnectionTable(max_connections=MAX_CONNECTIONS, max_per_address=MAX_PER_ADDRESS)
    table.add("a", 1)
    assert table.reached("b", 2) is None
    assert table.reached("b", 1) == table.reached("b", -5) == CONNECTIONS
    assert table.reached("b", MAX_CONNECTIONS + 1) is None
    for number in range(2, 1 + MAX_CONNECTIONS):
        table.add(str(number), number)
    assert table.reached("b", MAX_CONNECTIONS + 1) == CONNECTIONS


def test_a_network_of_one_ipv6_host_counts_as_one_address() -> None:
    """Its owner may use any address in it. IPv4 in the form of IPv6 counts as what it is."""
    assert connection_table.client_address("10.0.0.7") == connection_table.client_address("::ffff:10.0.0.7")
    first, second, other = map(
        connection_table.client_address, ("2001:db8::1", "2001:db8::ffff:2%eth0", "2001:db8:1::1")
    )
    assert first == second == "2001:db8::/64"
    assert other != first


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.booleans()), max_size=40))
def test_the_table_stays_within_its_limits(steps: list[tuple[str, bool, bool]]) -> None:
    """Connections come and go: no limit is passed, what responds is never closed for others, and an address below its
    share is not closed while another has more."""
    table: ConnectionTable[int] = ConnectionTable(max_connections=MAX_CONNECTIONS, max_per_address=MAX_PER_ADDRESS)
    open_: dict[int, tuple[str, bool]] = {}  # the oracle: address and whether it waits, oldest first
    for number, (address, is_waiting, ends) in enumerate(steps):
        if ends and open_:
            oldest = next(iter(open_))
            table.remove(open_.pop(oldest)[0], oldest)
        own = [each for each, (owner, _) in open_.items() if owner == address]
        limit = PER_ADDRESS if len(own) == MAX_PER_ADDRESS else CONNECTIONS if len(open_) == MAX_CONNECTIONS else None
        assert table.reached(address) == limit
        if limit is not None:
            waiting = [
                each for each, (owner, waits) in open_.items() if waits and (limit == CONNECTIONS or owner == address)
            ]
            loser = table.oldest_waiting(address if limit == PER_ADDRESS else None)
            assert (loser is None) == (not waiting)
            if loser is None:
                continue
            owners = [open_[each][0] for each in waiting]
            owner = open_[loser][0]
            assert owners.count(owner) == max(map(owners.count, owners))
            assert loser == next(each for each in waiting if open_[each][0] == owner)
            table.remove(open_.pop(loser)[0], loser)
        table.add(address, number)
        table.set_waiting(address, number, is_waiting=is_waiting)
        open_[number] = (address, is_waiting)
        assert len(table) == len(open_) <= MAX_CONNECTIONS
