"""How many messages are read at a time: few where they are large, and soon many where they are small."""

from hypothesis import given
from hypothesis import strategies as st

from rta_supervisor.control.read_size import FIRST_COUNT, READ_TARGET_BYTES, ReadSize
from rta_wire import limits

BATCH = 1000


@given(
    st.lists(st.sampled_from([0, 1, 100, 5000, 200_000, limits.CONTROL_MAX_BYTES]), max_size=30), st.integers(1, 5000)
)
def test_a_read_is_large_once_at_most(sizes: list[int], most: int) -> None:
    """Whatever was read before, a read of entries as large as the last ones is no larger than meant."""
    read_size = ReadSize()
    last = limits.CONTROL_MAX_BYTES
    for size in sizes:
        count = read_size.count(most)
        assert 1 <= count <= most
        assert size > last or count * size <= READ_TARGET_BYTES
        read_size.note([size] * count, most)
        last = size


def test_small_messages_are_soon_read_in_whole_batches() -> None:
    """The number doubles with each read, empty reads change nothing, and large messages make it small at once."""
    read_size = ReadSize()
    counts = []
    for _ in range(9):
        counts.append(read_size.count(BATCH))
        read_size.note([100] * counts[-1], BATCH)
        read_size.note([], BATCH)
    assert counts == [FIRST_COUNT, 16, 32, 64, 128, 256, 512, BATCH, BATCH]
    read_size.note([200_000] * BATCH, BATCH)
    assert read_size.count(BATCH) == READ_TARGET_BYTES // 200_000
