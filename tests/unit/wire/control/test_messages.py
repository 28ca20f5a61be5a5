"""Control messages: each kind survives the wire, and what is no message is refused."""

import copy
import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_wire import errors
from rta_wire.control import messages, payload
from rta_wire.pb import control_pb2

PAYLOAD, [PIECE] = payload.split("p", b"data")
PIECE.request_id = "r"
CONFIG = "0123456789" * 4

MESSAGES: list[Any] = [
    control_pb2.OpenSession(request_id="r", identity="i", stream="s", session_json="{}"),
    control_pb2.CloseSession(request_id="r", identity="i", state="closed"),
    control_pb2.Progress(identity="i", stream_session_id=1, unit="u"),
    control_pb2.Heartbeat(identity="i", stream_session_id=1),
    control_pb2.UpdateSession(request_id="r", identity="i", properties_json="{}", state="waiting"),
    control_pb2.CancelRequest(request_id="r", target_request_id="s"),
    control_pb2.ResurrectSession(request_id="r", identity="i"),
    control_pb2.GetSession(request_id="r", identity="i", json_offset=7),
    control_pb2.GetSession(request_id="r", external_id="x"),
    control_pb2.ListSessions(
        request_id="r",
        text="a b",
        states=["open", "closed"],
        stream="s",
        since_ns=-1,
        details={"Rig": "4"},
        after=control_pb2.PageCursor(stream_session_id=1, identity="i"),
    ),
    control_pb2.ListSessions(request_id="r"),
    PIECE,
    control_pb2.OpenSession(request_id="r", identity="i", stream="s", payload=PAYLOAD),
    control_pb2.UpdateSession(request_id="r", identity="i", payload=PAYLOAD),
    control_pb2.OpenSession(request_id="r", identity="i", stream="s", config_identifier=CONFIG),
    control_pb2.UpdateSession(request_id="r", identity="i", config_identifier=CONFIG),
    control_pb2.PublishConfig(request_id="r", config_json="{}"),
    control_pb2.PublishConfig(request_id="r", payload=PAYLOAD),
    control_pb2.PublishConfig(request_id="r", payload=control_pb2.Payload(id="p", pieces=64)),
    control_pb2.GetConfig(request_id="r", identifier=CONFIG, offset=7),
]


@pytest.mark.parametrize("message", MESSAGES)
def test_a_control_message_survives_the_wire(message: Any) -> None:
    """Each kind comes back as it was."""
    assert messages.check(messages.unpack(messages.pack(message))) == message


@pytest.mark.parametrize(
    "message",
    [
        control_pb2.OpenSession(request_id="r", identity="i\n", stream="s"),
        control_pb2.OpenSession(request_id="r", identity="i", stream="s{}"),
        control_pb2.CloseSession(request_id="r", identity="i", state="open"),
        control_pb2.CloseSession(request_id="r", identity="i", state=""),
        control_pb2.UpdateSession(request_id="r", identity="i", state="closed"),
        control_pb2.CancelRequest(request_id="r", target_request_id="a b"),
        control_pb2.ResurrectSession(request_id="r", identity="i{}"),
        control_pb2.OpenSession(request_id="r", identity="i", stream="s", external_id="x\n"),
        control_pb2.UpdateSession(request_id="r", external_id="x\n"),
        control_pb2.UpdateSession(request_id="r", identity="i", external_id="x"),
        control_pb2.GetSession(request_id="r"),
        control_pb2.GetSession(request_id="r", identity="i", external_id="x"),
        control_pb2.GetSession(request_id="r", external_id="x\n"),
        control_pb2.ListSessions(request_id="r", states=["ajar"]),
        control_pb2.ListSessions(request_id="r", stream="s{}"),
        control_pb2.ListSessions(request_id="r", text="x" * 1025),
        control_pb2.ListSessions(request_id="r", details={"x": "y" * 1024}),
        control_pb2.ListSessions(request_id="r", details={str(number): "" for number in range(21)}),
        control_pb2.ListSessions(request_id="r", after=control_pb2.PageCursor(stream_session_id=1)),
        control_pb2.ListSessions(request_id="r", after=control_pb2.PageCursor(stream_session_id=2**63, identity="i")),
        control_pb2.NoteArchived(request_id="r", identity="i", checksum="0" * 64, entries=2**63),
        control_pb2.StorePiece(request_id="r", payload_id="p", data=b"data", checksum=b"other"),
        control_pb2.StorePiece(request_id="r", payload_id="p{}", data=b"data", checksum=PIECE.checksum),
        control_pb2.StorePiece(request_id="r", payload_id="p", number=64, data=b"data", checksum=PIECE.checksum),
        control_pb2.StorePiece(request_id="r", payload_id="p", checksum=hashlib.sha256().digest()),
        control_pb2.OpenSession(request_id="r", identity="i", stream="s", session_json="{}", payload=PAYLOAD),
        control_pb2.UpdateSession(request_id="r", identity="i", properties_json="{}", payload=PAYLOAD),
        control_pb2.UpdateSession(request_id="r", identity="i", payload=control_pb2.Payload(id="p", pieces=9)),
        control_pb2.UpdateSession(request_id="r", identity="i", payload=control_pb2.Payload(id="p")),
        control_pb2.UpdateSession(request_id="r", identity="i", payload=control_pb2.Payload(id="p*", pieces=1)),
        control_pb2.TrimStream(request_id="r", stream="s"),
        control_pb2.TrimStream(request_id="r", stream="s{}", keep_entries=1),
        control_pb2.TrimStream(request_id="r", stream="s", keep_entries=0),
        control_pb2.TrimStream(request_id="r", stream="s", keep_entries=2**53 + 1),
        control_pb2.PublishConfig(request_id="r"),
        control_pb2.PublishConfig(request_id="r", config_json="{}", payload=PAYLOAD),
        control_pb2.PublishConfig(request_id="r", payload=control_pb2.Payload(id="p", pieces=65)),
        control_pb2.GetConfig(request_id="r"),
        control_pb2.GetConfig(request_id="r", identifier=CONFIG.upper() + "x"),
        control_pb2.OpenSession(request_id="r", identity="i", stream="s", config_identifier="../x"),
        control_pb2.UpdateSession(request_id="r", identity="i", config_identifier=CONFIG[:-1]),
        control_pb2.Progress(identity="i", unit=""),
        control_pb2.Progress(identity="i", unit="u", totals=control_pb2.Totals(start_time=2, end_time=1)),
        control_pb2.Heartbeat(identity=""),
    ],
)
def test_a_control_message_with_bad_names_is_refused(message: Any) -> None:
    """What can't be a key, a state or a range never reaches Redis."""
    with pytest.raises(errors.RtaError):
        messages.check(message)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        b"",
        b"\xff" * 20,
        b"x" * (256 * 1024 + 1),
        control_pb2.Control(version=2, heartbeat=control_pb2.Heartbeat(identity="i")).SerializeToString(),
        control_pb2.Control(version=1).SerializeToString(),
    ],
)
def test_bytes_that_are_no_control_message_are_refused(raw: bytes | None) -> None:
    """Absent, empty, junk, too large, of another version, without body."""
    with pytest.raises(errors.BadMessage):
        messages.unpack(raw)


@pytest.mark.parametrize("text", ["", "a b", "a\n", "ä", "*", "x" * 129, "x" * 200_000, "\x00" * 200_000])
def test_every_id_of_a_message_is_checked_and_cut(text: str) -> None:
    """An error names the field and quotes a bounded part of it. A wrong request id gives no message, so that no reply
    can be sent to it."""
    for request in (message for message in MESSAGES if isinstance(message, messages.Request)):
        spoilt = copy.deepcopy(request)
        spoilt.request_id = text
        with pytest.raises(errors.BadName, match="Request id") as caught:
            messages.unpack(messages.pack(spoilt))
        assert len(str(caught.value)) < errors.SENTENCE_MAX_CHARS
    with pytest.raises(errors.BadName, match="Target request id"):
        messages.check(control_pb2.CancelRequest(request_id="r", target_request_id=text))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Identity", control_pb2.Heartbeat(identity="x" * 257)),
        ("Identity", control_pb2.UpdateSession(identity="x" * 257)),
        ("Unit", control_pb2.Progress(identity="i", unit="x" * 257)),
        ("External id", control_pb2.OpenSession(identity="i", stream="s", external_id="x" * 257)),
        ("Stream name", control_pb2.OpenSession(identity="i", stream="x" * 129)),
    ],
)
def test_an_error_names_the_field_of_a_name_that_is_too_long(name: str, message: Any) -> None:
    """Each has its limit, wherever it stands."""
    with pytest.raises(errors.BadName, match=name):
        messages.check(message)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_message_or_a_named_error(raw: bytes) -> None:
    """No input raises anything that is not ours."""
    try:
        message = messages.check(messages.unpack(raw))
    except errors.RtaError:
        return
    assert messages.pack(message)


def test_a_reply_about_a_configuration_survives_the_wire() -> None:
    """The identifier with the warnings, and a part of the JSON; an error is raised by its name."""
    published = control_pb2.ConfigReply(identifier=CONFIG, warnings=["one", "two"])
    part = control_pb2.ConfigPart(identifier=CONFIG, data=b"{", size_bytes=2)
    assert messages.unpack_config(messages.pack_reply("r", published)) == published
    assert messages.unpack_config_part(messages.pack_reply("r", part)) == part
    refused = messages.pack_reply("r", errors.BadChannels(where="channel 'rpm'", reason="its name stands there twice"))
    with pytest.raises(errors.BadChannels, match="channel 'rpm': its name stands there twice"):
        messages.unpack_config(refused)
