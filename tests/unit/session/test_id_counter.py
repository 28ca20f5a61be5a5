"""The counter of stream session ids: which values can be counted on."""

import pytest

from rta_supervisor.session import id_counter
from rta_wire import errors


@pytest.mark.parametrize(("raw", "last_id"), [(None, 0), (b"0", 0), (b"17", 17), (str(2**62).encode(), 2**62)])
def test_numbers_are_counted_on(raw: bytes | None, last_id: int) -> None:
    """None: no session has had an id yet."""
    assert id_counter.parse_last_id(raw) == last_id


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"x", b"-1", b" 5", b"5\n", b"+5", b"05", b"1_000", b"1.5", b"\xff", b"x" * 10**6, b"9" * 10**6),
        *(b"%d" % 2**63, b"%d" % (2**62 + 1)),
    ],
)
def test_what_redis_can_not_count_on_is_refused(raw: bytes) -> None:
    """The error has the key, the value, cut, and what to do."""
    with pytest.raises(
        errors.IdCounterUnusable, match=r"'lastStreamSessionId' .*\(DEL lastStreamSessionId\)"
    ) as caught:
        id_counter.parse_last_id(raw)
    assert len(str(caught.value)) < 500
    assert caught.value.exit_code == 78
