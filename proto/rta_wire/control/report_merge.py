"""Many reports merged into few: the hot path of the supervisor, where a microsecond a report is a lot.

Accepts and refuses the same messages as `messages`, which also makes the errors.

Reports of a unit differ only in their totals, which are the last bytes of a report. The first report of a unit is
parsed and checked; of the next ones that begin with the same bytes, only the totals are read.
"""

import struct
from typing import Final, NoReturn

from google.protobuf.message import DecodeError

from rta_wire import errors, limits, name_checks
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2

SessionKey = tuple[str, int]
"""Identity and stream session id."""

_parse: Final = control_pb2.Control.FromString
_totals: Final = Totals.from_message

_TAIL: Final = struct.Struct("<BQBQBQBQBqBq")
"""Complete totals on the wire: six numbers of 64 bits, a tag before each."""

_TAIL_BYTES: Final = _TAIL.size
_TAGS: Final = b"\x09\x11\x19\x21\x29\x31"
_FIELD_BYTES: Final = _TAIL_BYTES // len(_TAGS)
_unpack_tail: Final = _TAIL.unpack


class MergedReports:
    """Totals of some reports, by session and unit. Reports with times outside the bounds are refused, because a time
    range that was widened once can't be narrowed again."""

    def __init__(self, *, earliest_ns: int, latest_ns: int) -> None:
        self.sessions: dict[SessionKey, dict[str, Totals]] = {}
        self._earliest_ns = earliest_ns
        self._latest_ns = latest_ns
        self._by_head: dict[bytes, tuple[SessionKey, dict[str, Totals], str]] = {}

    def add(self, raw: bytes | None) -> SessionKey:
        """Merges one more report. A report that raises an error has changed nothing."""
        if raw is not None and (same_head := self._by_head.get(raw[:-_TAIL_BYTES])) is not None:
            key, units, unit = same_head
            tail = raw[-_TAIL_BYTES:]
            before = units[unit]
            _, bursts, _, samples, _, raw_bytes, _, stored_bytes, _, start_ns, _, end_ns = _unpack_tail(tail)
            if (
                tail[::_FIELD_BYTES] == _TAGS
                and bursts >= before.bursts
                and samples >= before.samples
                and raw_bytes >= before.raw_bytes
                and stored_bytes >= before.stored_bytes
                and self._earliest_ns <= start_ns <= before.start_ns
                and self._latest_ns >= end_ns >= before.end_ns
            ):
                units[unit] = Totals(bursts, samples, raw_bytes, stored_bytes, start_ns, end_ns)
                return key
        return self._add_parsed(raw)

    def _add_parsed(self, raw: bytes | None) -> SessionKey:
        if raw is None or len(raw) > limits.CONTROL_MAX_BYTES:
            _refuse(raw)
        try:
            message = _parse(raw)
        except DecodeError:
            _refuse(raw)
        kind = message.WhichOneof("body")
        if kind != "progress" or message.version != messages.VERSION:
            return self._add_heartbeat(message, raw)
        report = message.progress
        unit = report.unit
        key = report.identity, report.stream_session_id
        units = self.sessions.get(key)
        before = None if units is None else units.get(unit)
        if before is None:
            messages.check(report)
        totals = _totals(report.totals)
        if totals.start_ns is not None and totals.end_ns is not None:
            if totals.start_ns > totals.end_ns:
                messages.check(report)
            if totals.start_ns < self._earliest_ns or totals.end_ns > self._latest_ns:
                reason = f"its time range {totals.start_ns} to {totals.end_ns} is before 1970 or too far ahead"
                raise errors.ImplausibleReport(unit=unit, identity=report.identity, reason=reason)
        if before is not None and not totals.dominates(before):
            if not totals.is_comparable(before):
                reason = "some of its totals are ahead of an earlier report and some are behind"
                raise errors.ImplausibleReport(unit=unit, identity=report.identity, reason=reason)
            totals = totals.max_of(before)
        if units is None:
            units = self.sessions[key] = {}
        units[unit] = totals
        self._remember_head(message, raw, key, units)
        return key

    def _remember_head(
        self, message: control_pb2.Control, raw: bytes, key: SessionKey, units: dict[str, Totals]
    ) -> None:
        """Keeps the bytes before the totals of a report that has all fields, in order, as `rta_writers` writes it."""
        if raw[-_TAIL_BYTES::_FIELD_BYTES] == _TAGS and len(raw) > _TAIL_BYTES:
            message.DiscardUnknownFields()
            if message.SerializeToString() == raw:
                self._by_head[raw[:-_TAIL_BYTES]] = (key, units, message.progress.unit)

    def _add_heartbeat(self, message: control_pb2.Control, raw: bytes) -> SessionKey:
        if message.version != messages.VERSION or not message.HasField("heartbeat"):
            _refuse(raw)
        report = message.heartbeat
        key = name_checks.check_identity(report.identity), report.stream_session_id
        self.sessions.setdefault(key, {})
        return key


def _refuse(raw: bytes | None) -> NoReturn:
    """Raises the error that `messages` has for the bytes."""
    messages.check(messages.unpack(raw))
    raise errors.BadMessage(reason="a request came in the lane of reports")
