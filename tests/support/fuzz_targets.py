"""Every place where the project reads bytes that somebody else wrote, as one function each.

A function returns on good bytes, and on bad ones where an error of ours names them; anything else is a fault. Used by
properties in `make test` and by a fuzzer in `make fuzz`. Needs the wire and nothing else.
"""

import functools
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import lz4.block

from rta_wire import errors, keys, limits, name_checks, session
from rta_wire.codec import burst as codec_burst
from rta_wire.codec import decode, layout
from rta_wire.cold import batch as cold_batch
from rta_wire.cold import byte_split, lz4_roundtrip
from rta_wire.control import messages, report_merge
from rta_wire.control.totals import Mark, Totals
from rta_wire.pb import control_pb2
from rta_wire.stream import cold_index, cursor

T = TypeVar("T")

GOLDEN: Final = Path(__file__).parents[1] / "golden"
LONGEST_ERROR: Final = 2000

LAYOUTS: Final = layout.Plan(
    [
        (1, layout.Layout(layout.SampleType.INT16)),
        (2, layout.Layout(layout.SampleType.UINT8, layout.Kind.PERIODIC)),
        (3, layout.Layout(layout.SampleType.FLOAT, layout.Kind.ROW)),
    ]
)


def burst(data: bytes) -> None:
    """An entry of a stream, as it stands there."""
    for framing in codec_burst.Framing:
        _tried(functools.partial(decode.burst, data, framing))
        _tried(functools.partial(decode.columns, [data], LAYOUTS, framing=framing))


def message(raw: bytes) -> None:
    """What is inside an entry: a fuzzer finds its way there more easily without compression."""
    data = lz4.block.compress(raw[: limits.BURST_MAX_BYTES], store_size=False)
    _tried(lambda: decode.burst(data))
    _tried(lambda: decode.columns([data, data], LAYOUTS))


def entry(raw: bytes) -> None:
    """The fields of an entry."""
    middle = len(raw) // 2
    fields = {keys.ENTRY_ID: raw[:middle], keys.ENTRY_DATA: raw[middle:]}
    part = cursor.StreamPage([(b"1-1", fields)], 1, 1, "1-1", "1-1", is_complete=True)
    _tried(lambda: list(cursor.StreamCursor(lambda _: part).step()))


def batch(raw: bytes) -> None:
    """A batch of a cold stream, and one whose checksum is right whatever it holds."""
    _tried(lambda: cold_batch.unpack_entries(raw))
    _tried(
        lambda: cold_batch.unpack_entries(raw[:5] + zlib.crc32(raw[13:]).to_bytes(4, "little") + raw[9:13] + raw[13:])
    )


def held_cold(raw: bytes) -> None:
    """What the index says of one."""
    _tried(lambda: cold_index.parse(raw))


def request(raw: bytes) -> None:
    """A message in a control stream."""
    _tried(lambda: messages.check(messages.unpack(raw)))
    _tried(lambda: messages.unpack_reply(raw))


def report(raw: bytes) -> None:
    """The same, on the quick way that reports take. Both ways agree on what is a report."""
    joined = report_merge.MergedReports(earliest_ns=0, latest_ns=2**62)
    for _ in range(2):
        _tried(lambda: joined.add(raw))
    for (identity, number), units in joined.sessions.items():
        name_checks.check_identity(identity)
        assert 0 <= number < 2**64
        for unit, totals in units.items():
            assert Totals.from_strings(totals.to_strings()) == totals
            name_checks.check_unit(unit)


def session_json(raw: bytes) -> None:
    """A document; what is taken can be written and read again."""
    document = _tried(lambda: session.parse(raw))
    if document is not None:
        # What a client may send can hold half of a character, which nobody can write.
        again = _tried(lambda: session.dump(document))
        assert again is None or session.parse(again) == document
    _tried(lambda: session.parse_properties(raw))
    _tried(lambda: session.identity_in(raw.decode(errors="replace")))


def mark(raw: bytes) -> None:
    """A unit's mark, which a writer wrote."""
    text = raw.decode(errors="replace")
    found = _tried(lambda: Mark.from_text(text))
    if found is not None:
        assert Mark.from_text(found.text()) == found


def names(raw: bytes) -> None:
    """Names of streams, sessions and units."""
    text = raw.decode(errors="surrogateescape")
    for check in (
        name_checks.check_stream_name,
        name_checks.check_identity,
        name_checks.check_unit,
        name_checks.check_principal,
    ):
        _tried(functools.partial(check, text))


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    one.__name__: one for one in (burst, message, entry, batch, held_cold, request, report, session_json, mark, names)
}


def _tried(call: Callable[[], T]) -> T | None:
    try:
        return call()
    except errors.RtaError as error:
        words = str(error)
    assert 0 < len(words) < LONGEST_ERROR, "an error that is as long as what it is about"
    return None


def seeds(name: str) -> list[bytes]:
    """Good bytes of a kind: where mutations start."""
    if name in ("burst", "message"):
        return [path.read_bytes() for path in sorted(GOLDEN.glob("*.burst" if name == "burst" else "*.pb"))]
    return _SEEDS[name]


_TOTALS: Final = Totals(1, 2, 3, 4, 5, 6)
_JSON: Final = session.dump(
    session.build("run", details={"Rig": 4, "Name": "ä"}, extDetails={"a": {"b": 1.5}}, quality=0.5)
)
_PROGRESS: Final = messages.pack(
    control_pb2.Progress(identity="run", stream_session_id=7, unit="u", totals=_TOTALS.to_message())
)
_SEEDS: Final = {
    "entry": [b"7data"],
    "batch": [
        cold_batch.pack_batch(
            [
                lz4_roundtrip.Lz4Unpacker().unpack(
                    lz4_roundtrip.RawEntry("5-1", (b"id", b"7", b"data", path.read_bytes()))
                )
            ],
            byte_split.WidthChooser(),
            live_bytes=9,
        )
        for path in sorted(GOLDEN.glob("*.burst"))
    ],
    "held_cold": [cold_index.dump(cold_index.ColdExtent("1-0", "9-0", 1, 1, 1, 1, 1, 1, 41, 5))],
    "request": [
        messages.pack(
            control_pb2.OpenSession(request_id="r", identity="run", stream="rig", session_json=_JSON.decode())
        ),
        messages.pack(control_pb2.CloseSession(request_id="r", identity="run", state="closed")),
        messages.pack(control_pb2.UpdateSession(request_id="r", identity="run", properties_json="{}", state="open")),
        messages.pack(control_pb2.CancelRequest(request_id="r", target_request_id="q")),
        messages.pack_reply("r", control_pb2.SessionReply(identity="run")),
        messages.pack_reply("r", errors.UnknownSession(identity="run")),
    ],
    "report": [_PROGRESS, messages.pack(control_pb2.Heartbeat(identity="run", stream_session_id=7))],
    "session_json": [_JSON, b'{"children": [[[{}]]], "identity": "\\ud800", "quality": 1e400}'],
    "mark": [Mark(3, 4, _TOTALS).text().encode(), b"0 1 2 3 4 5 - -"],
    "names": [b"rig-4.a", "größe".encode()],
}
