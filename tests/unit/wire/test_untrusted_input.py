"""Bytes that somebody else wrote: whatever they are, they are read or refused by name, in bounded time and memory."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rta_wire import errors, limits, redis_url, session
from rta_wire.control import messages as control_messages
from rta_wire.pb import control_pb2, stream_pb2
from tests.support import fuzz_targets
from tests.unit.wire import strategies as g

TIME_LIMIT_S = 3.0

quickly = settings(g.thorough, max_examples=5_000 if g.SOAK else 60)


@st.composite
def mutated(draw: st.DrawFn, name: str) -> bytes:
    """Good bytes with some changed, cut, put in or doubled."""
    raw = bytearray(draw(st.sampled_from(fuzz_targets.seeds(name))))
    for _ in range(draw(st.integers(0, 6))):
        spot = draw(st.integers(0, len(raw)))
        how = draw(st.sampled_from(["set", "cut", "insert", "double"]))
        if how == "set" and spot < len(raw):
            raw[spot] = draw(st.integers(0, 255))
        elif how == "cut":
            del raw[spot : spot + draw(st.integers(1, 20))]
        elif how == "insert":
            raw[spot:spot] = draw(st.binary(max_size=12))
        else:
            raw[spot:spot] = raw[max(0, spot - 30) : spot]
    return bytes(raw)


@pytest.mark.parametrize("name", fuzz_targets.TARGETS)
@quickly
@given(data=st.data())
def test_any_bytes_are_read_or_refused_by_name(name: str, data: st.DataObject) -> None:
    """Random bytes and mutations of good ones, at every place where bytes come in."""
    fuzz_targets.TARGETS[name](data.draw(mutated(name) | st.binary(max_size=600)))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@quickly
@given(
    st.dictionaries(
        st.sampled_from(["identity", "state", "timestamp", "identifier", "details", "timeRange", "quality", "children"])
        | st.text(max_size=5),
        json_values,
        max_size=4,
    )
)
def test_any_document_is_read_or_refused_by_name(document: dict[str, Any]) -> None:
    """Documents that are JSON, with the wrong things in the right places."""
    fuzz_targets.session_json(json.dumps(document).encode())


def nested(opening: str, closing: str, depth: int) -> bytes:
    return (opening * depth + "1" + closing * depth).encode()


FULL = limits.SESSION_JSON_MAX_BYTES
DOCUMENTS = {
    "deep lists": nested("[", "]", FULL // 2 - 1),
    "deep objects": nested('{"a":', "}", FULL // 7),
    "depth without an end": b"[" * FULL,
    "brackets in a text": b'{"a":"' + b"[" * (FULL - 10) + b'"}',
    "one name twice at the end": b"{" + b"".join(b'"a%d":0,' % n for n in range(24_000)) + b'"a23999":0}',
    "one name all over": b"{" + b'"a":0,' * (FULL // 6 - 1) + b'"a":0}',
    "a long number": b'{"a":' + b"9" * (FULL - 10) + b"}",
    "a large number": b'{"a":1e' + b"9" * 1000 + b"}",
    "broken UTF-8": b'{"a":"' + b"\xff" * 1000 + b'"}',
    "half of a character": b'{"a":"\\ud800"}',
    "a byte order mark": b"\xff\xfe" + b"\x00" * 1000,
    "escapes": b'{"a":"' + b"\\u0000" * (FULL // 6 - 2) + b'"}',
    "too much": b" " * (FULL + 1),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_hostile_documents_take_no_time(name: str) -> None:
    """Session JSON of the most bytes that are taken, of whatever costs the most."""
    started_s = time.perf_counter()
    fuzz_targets.session_json(DOCUMENTS[name])
    assert time.perf_counter() - started_s < TIME_LIMIT_S


def messages() -> dict[str, bytes]:
    """Control messages of the most bytes that are taken."""
    full = limits.CONTROL_MAX_BYTES
    broken = control_messages.pack(control_pb2.Heartbeat(identity="r" * 50, stream_session_id=1)).replace(
        b"r" * 50, b"\xff" * 50
    )
    return {
        "broken UTF-8": broken,
        "groups in groups": b"\x7b" * full,
        "unknown fields": b"\x78\x01" * (full // 2),
        "empty bodies": b"\x22\x00" * (full // 2),
        "a size that lies": b"\x12\xff\xff\xff\xff\x07" + bytes(1000),
        "a number without an end": b"\x80" * full,
        "too much": bytes(full + 1),
        "nothing": b"",
    }


@pytest.mark.parametrize("name", messages())
def test_hostile_messages_take_no_time(name: str) -> None:
    """In both lanes."""
    raw = messages()[name]
    started_s = time.perf_counter()
    fuzz_targets.request(raw)
    fuzz_targets.report(raw)
    assert time.perf_counter() - started_s < TIME_LIMIT_S
    with pytest.raises(errors.BadMessage):
        control_messages.unpack(raw)


def test_text_of_broken_utf8_in_a_burst_is_refused() -> None:
    """Session JSON and events hold text, and protobuf wants it valid."""
    item = stream_pb2.StreamDataBurst()
    item.data.add().session_json = "a" * 50
    item.data.add().event.app_name = "a" * 50
    raw = item.SerializeToString().replace(b"a" * 50, b"\xc3" * 50)
    fuzz_targets.message(raw)
    with pytest.raises(errors.BadSessionJson):
        session.parse(b'{"a": "\xff"}')


@quickly
@given(
    password=st.text(st.characters(codec="ascii", exclude_categories=["Cc"], exclude_characters="&"), min_size=5),
    user=st.sampled_from(["", "me"]),
    form=st.sampled_from(
        ["redis://{u}:{p}@h:1/0", "rediss://{u}:{p}@h?db=1", "unix://{u}:{p}@/run/r", "redis://h?password={p}"]
    ),
)
def test_no_password_is_ever_shown(password: str, user: str, form: str) -> None:
    """Whatever characters it has, and wherever it stands."""
    url = form.format(u=user, p=password)
    shown = redis_url.redact(url)
    assert password not in shown.replace("password=***", "") or password in form
    assert redis_url.has_password(url)
    assert redis_url.redact(shown) == shown
