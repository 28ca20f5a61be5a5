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
        count = read_size.count(["a"], most)
        assert 1 <= count <= most
        assert size > last or count * size <= READ_TARGET_BYTES
        read_size.note({"a": [size] * count}, most)
        last = size


def test_small_messages_are_soon_read_in_whole_batches() -> None:
    """The number doubles with each read, also an empty one, and large messages make it small at once."""
    read_size = ReadSize()
    counts = []
    for turn in range(9):
        counts.append(read_size.count(["a"], BATCH))
        read_size.note({"a": [100] * counts[-1] if turn % 2 == 0 else []}, BATCH)
    assert counts == [FIRST_COUNT, 16, 32, 64, 128, 256, 512, BATCH, BATCH]
    read_size.note({"a": [200_000] * BATCH}, BATCH)
    assert read_size.count(["a"], BATCH) == READ_TARGET_BYTES // 200_000


def test_small_messages_of_others_say_nothing_about_a_stream() -> None:
    """A principal that is left out of some reads is read as carefully afterwards as its last messages need."""
    read_size = ReadSize()
    read_size.note({"large": [200_000] * FIRST_COUNT, "small": [100]}, BATCH)
    for _ in range(9):
        read_size.note({"small": [100]}, BATCH)
    assert read_size.count(["small"], BATCH) == BATCH
    assert read_size.count(["small", "large"], BATCH) <= READ_TARGET_BYTES // 200_000


def test_streams_that_are_busy_at_the_same_time_share_a_read() -> None:
    """A read takes entries of all of them."""
    read_size = ReadSize()
    streams = [f"stream-{n}" for n in range(4)]
    read_size.note({name: [200_000] * FIRST_COUNT for name in streams}, BATCH)
    assert read_size.count(streams, BATCH) * 200_000 * len(streams) <= READ_TARGET_BYTES
