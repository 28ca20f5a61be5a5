"""Texts from outside are cut: never longer than asked for, and never changed where they are short."""

from hypothesis import given
from hypothesis import strategies as st

from rta_wire import quoting
from tests.unit.wire import strategies as g

ANY_TEXT = st.builds(
    lambda text, times: text * times,
    st.text(g.any_character, max_size=30),
    st.integers(1, 1000),
)


@given(ANY_TEXT, st.integers(50, 2000))
def test_a_cut_text_has_its_beginning_and_its_length(text: str, max_chars: int) -> None:
    """A short text stays; of a long one the beginning and the length are left. Cutting twice is cutting once."""
    short = quoting.cut(text, max_chars)
    assert len(short) <= max_chars
    assert quoting.cut(short, max_chars) == short
    if len(text) <= max_chars:
        assert short == text
    else:
        beginning, _, length = short.rpartition("... (")
        assert text.startswith(beginning)
        assert length == f"{len(text)} characters)"


@given(ANY_TEXT)
def test_an_encodable_text_can_be_encoded(text: str) -> None:
    """Only what UTF-8 has no bytes for is changed."""
    encoded = quoting.encodable(text).encode()
    if not any("\ud800" <= char <= "\udfff" for char in text):
        assert encoded.decode() == text


@given(ANY_TEXT)
def test_printable_keeps_what_can_be_read(text: str) -> None:
    """The result is printable, and a printable text is not changed."""
    escaped = quoting.printable(text)
    assert escaped.isprintable()
    if text.isprintable():
        assert escaped == text
