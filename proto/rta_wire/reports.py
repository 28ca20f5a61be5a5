"""Many reports joined into few: the hot path of the supervisor, where a microsecond a report is a lot.

Says the same of every message as `control` does. A message that is not quite in order goes there for its error.
"""

from typing import Final, NoReturn

from google.protobuf.message import DecodeError

from rta_wire import control, control_pb2, errors, keys, limits
from rta_wire.totals import Totals

Key = tuple[str, int]
"""Identity and stream session id."""

_parse: Final = control_pb2.Control.FromString
_totals: Final = Totals.from_message


class Joined:
    """What some reports come to, by session and unit. Times outside the bounds are refused: a range can't be undone."""

    def __init__(self, *, earliest_ns: int, latest_ns: int) -> None:
        self.sessions: dict[Key, dict[str, Totals]] = {}
        self._earliest_ns = earliest_ns
        self._latest_ns = latest_ns

    def add(self, raw: bytes | None) -> Key:
        """Join one more report. One that raises has changed nothing."""
        if raw is None or len(raw) > limits.CONTROL_MAX_BYTES:
            _refuse(raw)
        try:
            message = _parse(raw)
        except DecodeError:
            _refuse(raw)
        kind = message.WhichOneof("body")
        if kind != "progress" or message.version != control.VERSION:
            return self._add_heartbeat(message, raw)
        report = message.progress
        unit = report.unit
        key = report.identity, report.stream_session_id
        units = self.sessions.get(key)
        before = None if units is None else units.get(unit)
        if before is None:
            control.check(report)
        totals = _totals(report.totals)
        if totals.start_ns is not None and totals.end_ns is not None:
            if totals.start_ns > totals.end_ns:
                control.check(report)
            if totals.start_ns < self._earliest_ns or totals.end_ns > self._latest_ns:
                reason = f"its time range {totals.start_ns} to {totals.end_ns} is before 1970 or too far ahead"
                raise errors.ImplausibleReport(unit=unit, identity=report.identity, reason=reason)
        if before is not None and not totals.covers_all_of(before):
            if not totals.is_in_line_with(before):
                reason = "some of its totals are ahead of an earlier report and some are behind"
                raise errors.ImplausibleReport(unit=unit, identity=report.identity, reason=reason)
            totals = totals.joined(before)
        if units is None:
            units = self.sessions[key] = {}
        units[unit] = totals
        return key

    def _add_heartbeat(self, message: control_pb2.Control, raw: bytes) -> Key:
        if message.version != control.VERSION or not message.HasField("heartbeat"):
            _refuse(raw)
        report = message.heartbeat
        key = keys.check_identity(report.identity), report.stream_session_id
        self.sessions.setdefault(key, {})
        return key


def _refuse(raw: bytes | None) -> NoReturn:
    """With the words that `control` has for it."""
    control.check(control.unpack(raw))
    raise errors.BadMessage(reason="a request came in the lane of reports")
