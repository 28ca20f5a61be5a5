"""Errors that cross processes: pickled, in replies, and of a newer version; and how long their messages can be."""

import pickle
import string
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_wire import errors
from rta_wire.control import messages
from tests.unit.wire import strategies as g


def test_an_error_crosses_processes() -> None:
    """Spark pickles errors; a reply names them."""
    error = errors.SessionClosed(identity="a", state="closed")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (type(again), str(again), again.facts) == (errors.SessionClosed, str(error), error.facts)
    raw = messages.pack_reply("r", errors.NoSupervisor(url="u", prefix="p"))
    with pytest.raises(errors.NoSupervisor, match="against u") as caught:
        messages.unpack_reply(raw)
    assert caught.value.retriable


def test_an_error_of_a_newer_supervisor_is_still_an_error() -> None:
    """A code that we do not know keeps its sentence."""
    assert str(errors.from_reply("Novel", "Something new.", retriable=False)) == "Something new."


def error_types(root: type[errors.RtaError] = errors.RtaError) -> Iterator[type[errors.RtaError]]:
    yield root
    for error_type in root.__subclasses__():
        yield from error_types(error_type)


TEXTS = st.builds(
    lambda text, times: text * times, st.text(g.any_character, max_size=20), st.sampled_from([1, 300, 50_000])
)
FACTS = st.one_of(
    TEXTS,
    st.builds(lambda raw, times: raw * times, st.binary(max_size=5), st.sampled_from([1, 50_000])),
    st.builds(lambda number, bits: number << bits, st.integers(), st.sampled_from([0, 100_000])),
    st.lists(st.text(g.any_character), max_size=3).map(lambda items: items * 1000),
)


@given(st.data(), st.sampled_from(sorted(error_types(), key=lambda error_type: error_type.__name__)))
def test_no_error_is_long_whatever_its_facts_are(data: st.DataObject, error_type: type[errors.RtaError]) -> None:
    """Its message is bounded and can be encoded; so it fits into a reply, and stays what it is on the way."""
    template = error_type.__doc__ or ""
    names = {name for _, name, _, _ in string.Formatter().parse(template) if name}
    facts: dict[str, Any] = {name: data.draw(FACTS, label=name) for name in names}
    error = error_type(**facts)
    assert_bounded(str(error))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own bytes
    with pytest.raises(errors.RtaError) as caught:
        messages.unpack_reply(messages.pack_reply("r", error))
    # A reply without a text is given one.
    assert str(caught.value) == (str(error) or "The supervisor refused it as 'Usage' and gave no reason.")


@given(TEXTS, TEXTS)
def test_an_error_in_a_reply_is_cut(sentence: str, code: str) -> None:
    """Whatever a reply holds."""
    assert_bounded(str(errors.from_reply(code, sentence, retriable=False)))


def assert_bounded(sentence: str) -> None:
    assert len(sentence) <= errors.SENTENCE_MAX_CHARS
    sentence.encode()
