"""What decoded entries hold, as records: samples with the names, units and converted values of their channels where
these are known, events with their texts, states and time ranges. Pure.

Fields are named as `--json` prints them.
"""

from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np

from rta_supervisor.cli import output
from rta_wire import session
from rta_wire.channels import model
from rta_wire.channels.conversions import TextConversion
from rta_wire.codec import decode

NAME_MIN_CHARS: Final = 12
EVENT_MIN_CHARS: Final = 8


def records(bursts: decode.DecodedBursts, channels: model.ChannelList) -> Iterator[dict[str, Any]]:
    """A record for each thing in decoded bursts."""
    for document in bursts.session_json:
        yield {"kind": "session", "document": msgspec.Raw(document.encode())}
    for start_ns, end_ns in bursts.time_ranges_ns:
        yield {"kind": "time_range", "start_ns": start_ns, "end_ns": end_ns}
    for columns in bursts.samples.values():
        rows = columns.rows()
        converted = _converted(rows, columns.values, channels)
        samples = zip(rows.tolist(), columns.times_ns.tolist(), columns.values.tolist(), strict=True)
        for place, (channel_id, time_ns, value) in enumerate(samples):
            record = {"kind": "sample", "channel": channel_id, "time_ns": time_ns, "value": value}
            if (channel := channels.by_id.get(channel_id)) is not None:
                record |= _described(channel, value, converted.get(place))
            yield record
    for event in bursts.events:
        definition = channels.event_by_id.get(event.event_definition_id)
        yield {
            "kind": "event",
            "definition": event.event_definition_id,
            **({} if definition is None else {"text": definition.text, "priority": definition.priority}),
            "time_ns": event.timestamp,
            "app": event.app_name,
            "status": event.status_text,
            "raw_data": list(event.raw_data),
        }


def _described(channel: model.Channel, value: float, converted: float | None) -> dict[str, Any]:
    """What the configuration adds to a sample. `converted`: its value in the unit of the channel, if that differs."""
    described: dict[str, Any] = {"name": channel.name, "unit": channel.unit}
    if isinstance(channel.conversion, TextConversion):
        return described | {"text": channel.conversion.text(value)}
    return described if converted is None else described | {"converted": converted}


def _converted(rows: Any, values: Any, channels: model.ChannelList) -> dict[int, float]:
    """Values that a conversion gives for samples, by the places of the samples."""
    converted: dict[int, float] = {}
    for channel_id in np.unique(rows).tolist():
        channel = channels.by_id.get(channel_id)
        if channel is None or channel.conversion is None or isinstance(channel.conversion, TextConversion):
            continue
        places = np.flatnonzero(rows == channel_id)
        converted |= zip(places.tolist(), channel.conversion.convert(values[places]).tolist(), strict=True)
    return converted


def format_record(record: dict[str, Any]) -> str:
    """A record as a line of text, without its session."""
    kind = record["kind"]
    if kind == "sample":
        return f"{output.format_time_ns(record['time_ns'])}  {_format_sample(record)}"
    if kind == "event":
        return f"{output.format_time_ns(record['time_ns'])}  {_format_event(record)}"
    if kind == "time_range":
        start, end = output.format_time_ns(record["start_ns"]), output.format_time_ns(record["end_ns"])
        return f"{end}  time range from {start}"
    document = session.parse(bytes(record["document"]))
    return f"{output.escape(document['identity'])} is {document['state']}: {output.escape(document['identifier'])}"


def _format_sample(record: dict[str, Any]) -> str:
    if "name" not in record:
        return f"channel {record['channel']:<6} {record['value']}"
    name = f"{output.escape(record['name']):<{NAME_MIN_CHARS}}"
    if record.get("text"):
        return f"{name} {output.escape(record['text'])} ({record['value']:g})"
    return f"{name} {record.get('converted', record['value'])} {output.escape(record['unit'])}".rstrip()


def _format_event(record: dict[str, Any]) -> str:
    texts = (record.get("text", ""), record["app"], record["status"])
    text = " ".join(output.escape(text) for text in texts if text)
    return f"event {record['definition']:<{EVENT_MIN_CHARS}} {text} {record['raw_data'] or ''}".rstrip()
