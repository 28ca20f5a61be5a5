"""The golden vectors are what we write, and we read what they hold."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rta_wire.codec import burst
from rta_wire.pb import stream_pb2
from tests.golden import make

INDEX: dict[str, Any] = json.loads(make.INDEX.read_text())


def stored(name: str, suffix: str) -> bytes:
    """A committed file."""
    return (make.HERE / f"{name}.{suffix}").read_bytes()


@pytest.mark.parametrize("name", INDEX)
def test_a_vector_is_made_again_byte_by_byte(name: str) -> None:
    """Our encoder still writes exactly the bytes that others have checked themselves against."""
    vector = make.vectors()[name]
    assert vector.data == stored(name, "burst")
    assert burst.decompress(vector.data, vector.framing) == stored(name, "pb")


@pytest.mark.parametrize("name", INDEX)
def test_a_vector_is_read_as_its_index_says(name: str) -> None:
    """Our decoder finds in the committed file what the committed index says."""
    vector = make.vectors()[name]
    assert make.described(vector._replace(data=stored(name, "burst"))) == INDEX[name]


@pytest.mark.parametrize("name", INDEX)
def test_a_vector_is_what_protobuf_writes(name: str) -> None:
    """Any protobuf library that writes the same message writes the same bytes."""
    raw = stored(name, "pb")
    assert stream_pb2.StreamDataBurst.FromString(raw).SerializeToString() == raw


def test_every_vector_is_listed_and_nothing_else_lies_there() -> None:
    """A file without an entry, or an entry without its files, would go unchecked."""
    files = {path.name for path in Path(make.HERE).iterdir() if re.search(r"\.(burst|pb)$", path.name)}
    assert set(make.vectors()) == set(INDEX)
    assert files == {f"{name}.{suffix}" for name in INDEX for suffix in ("burst", "pb")}
