"""Entry ids without a server: their order, their neighbours and their bounds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_wire import entry_ids

PARTS = st.one_of(
    st.integers(0, entry_ids.PART_MAX), st.sampled_from([0, 1, entry_ids.PART_MAX - 1, entry_ids.PART_MAX])
)
NUMBERS = st.tuples(PARTS, PARTS)


@given(NUMBERS)
def test_an_id_is_read_as_it_was_written(numbers: tuple[int, int]) -> None:
    """Parsing undoes formatting, and the time alone is the first of the two numbers."""
    entry_id = entry_ids.format_id(*numbers)
    assert entry_ids.parse(entry_id) == numbers
    assert entry_ids.ms_of(entry_id) == numbers[0]


def test_a_missing_sequence_number_is_zero() -> None:
    """Redis takes a time alone as an id, and so do we."""
    assert entry_ids.parse("17") == entry_ids.parse("17-0") == (17, 0)
    assert entry_ids.ms_of("17") == 17
    assert entry_ids.format_id(17) == "17-0"


@pytest.mark.parametrize("text", ["", "-", "a-1", "1-a", "1-2-3"])
def test_other_texts_are_no_ids(text: str) -> None:
    """What is no id is an error, never a low id."""
    with pytest.raises(ValueError, match="invalid literal"):
        entry_ids.parse(text)


@given(NUMBERS, NUMBERS)
def test_the_order_is_that_of_the_numbers(first: tuple[int, int], second: tuple[int, int]) -> None:
    """Ids compare by their numbers and not as texts: 10-0 comes after 9-0."""
    first_id, second_id = entry_ids.format_id(*first), entry_ids.format_id(*second)
    assert entry_ids.is_after(first_id, second_id) == (first > second)
    assert entry_ids.is_after(entry_ids.format_id(10), entry_ids.format_id(9))


@given(NUMBERS)
def test_next_and_previous_undo_each_other(numbers: tuple[int, int]) -> None:
    """Wherever an id has a neighbour, the neighbour's neighbour is the id itself."""
    entry_id = entry_ids.format_id(*numbers)
    if entry_id != entry_ids.MAX:
        assert entry_ids.previous_id(entry_ids.next_id(entry_id)) == entry_id
        assert entry_ids.is_after(entry_ids.next_id(entry_id), entry_id)
    if entry_id != entry_ids.MIN:
        assert entry_ids.next_id(entry_ids.previous_id(entry_id)) == entry_id
        assert entry_ids.is_after(entry_id, entry_ids.previous_id(entry_id))


@given(NUMBERS, NUMBERS)
def test_nothing_lies_between_neighbours(numbers: tuple[int, int], other: tuple[int, int]) -> None:
    """An id above another is the next one or comes after that."""
    entry_id, other_id = entry_ids.format_id(*numbers), entry_ids.format_id(*other)
    if entry_ids.is_after(other_id, entry_id):
        assert not entry_ids.is_after(entry_ids.next_id(entry_id), other_id)
        assert not entry_ids.is_after(entry_id, entry_ids.previous_id(other_id))


@given(NUMBERS)
def test_all_ids_are_between_the_bounds(numbers: tuple[int, int]) -> None:
    """No id is below MIN or above MAX, and the bounds have no neighbours beyond them."""
    entry_id = entry_ids.format_id(*numbers)
    assert not entry_ids.is_after(entry_ids.MIN, entry_id)
    assert not entry_ids.is_after(entry_id, entry_ids.MAX)
    assert entry_ids.previous_id(entry_ids.MIN) == entry_ids.MIN
    assert entry_ids.next_id(entry_ids.MAX) == entry_ids.MAX
