"""How long calls of supervisors keep Redis, each with the largest input that it may have, by Redis' slow log.

Server functions, and those commands that read or change many things at once.
"""

import random
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import anyio

from bench import control_calls, load
from bench.measure import Case, constant
from rta_supervisor.compaction import server_functions as compaction_functions
from rta_supervisor.control import control_streams
from rta_supervisor.control import server_functions as control_functions
from rta_supervisor.retention import server_functions as retention_functions
from rta_supervisor.retention import trimmer
from rta_supervisor.retention.trim_requests import rules
from rta_supervisor.session import server_functions
from rta_supervisor.session.model import SessionRecord, SessionRef
from rta_supervisor.session.records import fold_calls, totals_store
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, function_loader
from rta_supervisor.transport.link import Link
from rta_supervisor.webhooks import server_functions as webhook_functions
from rta_supervisor.webhooks.server_functions import NewDelivery
from rta_wire import entry_ids, keys, limits
from rta_wire.control.totals import Mark, Totals
from rta_wire.session import State

LONGEST_MS = 5.0
TOTALS = Totals(1, 1, 100, 50, load.START_NS, load.START_NS + 1)
BURST = b"x" * limits.BURST_TARGET_BYTES
FEW_MARKS = 200
"""As many as come with the shutting of a gate."""

Calls = control_calls.Calls


def _record(name: str, version: int = 1) -> SessionRecord:
    ref = SessionRef(name, load.STREAM, _number(name))
    document = b"{" + b" " * (limits.SESSION_JSON_MAX_BYTES - 2) + b"}"
    return SessionRecord(ref, State.OPEN, keys.DEFAULT_PRINCIPAL, version, opened_ms=1, document=document)


def _number(name: str) -> int:
    return int(name.rpartition("-")[2])


def _names(turn: int, count: int = 1) -> list[str]:
    return [f"session-{turn * 1000 + number + 1}" for number in range(count)]


def _opened(name: str) -> commands.Command:
    return server_functions.open_session(load.NAMES, _record(name), position="0-0", now_ms=1, ttl_s=load.TTL_S)


def _small(names: Sequence[str]) -> list[commands.Command]:
    """Sessions with short documents."""
    state = {keys.STREAM_SESSION_ID: "", keys.STREAM_NAME: load.STREAM, keys.STATE: "open"}
    return [
        ("HSET", load.NAMES.session_state(name), *_flat({**state, keys.STREAM_SESSION_ID: _number(name)}))
        for name in names
    ]


def _flat(fields: dict[Any, Any]) -> list[Any]:
    return [part for pair in fields.items() for part in pair]


def _fold(names: Sequence[str], units: int) -> commands.Command:
    reports = [((name, _number(name)), {f"unit-{n}": TOTALS for n in range(units)}) for name in names]
    return server_functions.fold(load.NAMES, reports, max_units=100_000)


def opening(turn: int) -> list[commands.Command]:
    return [_opened(*_names(turn))]


def new_json(turn: int) -> list[commands.Command]:
    """With as many new properties as a session may have."""
    [name] = _names(turn)
    record = _record(name)
    fields = {keys.property_field(f"p{n}"): "1-0" for n in range(settings.Settings().limits.session_properties)}
    call = server_functions.put_json(
        load.NAMES, record, record.document, State.OPEN, now_ms=1, ttl_s=load.TTL_S, extra_fields=fields
    )
    return [_opened(name), call]


def last_entry(turn: int) -> list[commands.Command]:
    [name] = _names(turn)
    record = _record(name)
    opening_entry = server_functions.publish_opening(load.NAMES, record, ttl_s=load.TTL_S)
    gate = server_functions.seal(load.NAMES, record.ref, ttl_s=load.TTL_S)
    end = server_functions.publish_end(load.NAMES, _record(name, version=2), ttl_s=load.TTL_S)
    return [_opened(name), opening_entry, gate, end]


def folding_units(turn: int) -> list[commands.Command]:
    names = _names(turn)
    return [*_small(names), _fold(names, fold_calls.CALL_UNITS)]


def folding_sessions(turn: int) -> list[commands.Command]:
    names = _names(turn, totals_store.CALL_SESSIONS)
    return [*_small(names), _fold(names, fold_calls.CALL_UNITS // totals_store.CALL_SESSIONS)]


def refreshing(turn: int) -> list[commands.Command]:
    names = _names(turn, totals_store.CALL_SESSIONS)
    refs = [(SessionRef(name, load.STREAM, _number(name)), load.TTL_S) for name in names]
    return [*_small(names), _fold(names, 1), server_functions.refresh(load.NAMES, refs)]


def time_ranges(turn: int) -> list[commands.Command]:
    numbers = [_number(name) for name in _names(turn, totals_store.CALL_SESSIONS)]
    gates = [("SET", load.NAMES.gate(load.STREAM, number), "open", "EX", load.TTL_S) for number in numbers]
    ranges = [(number, b"%d" % load.START_NS, b"%d" % (load.START_NS + turn + 1)) for number in numbers]
    return [*gates, server_functions.publish_time_ranges(load.NAMES, load.STREAM, ranges, ttl_s=load.TTL_S)]


def shutting(turn: int) -> list[commands.Command]:
    [name] = _names(turn)
    ref = SessionRef(name, load.STREAM, _number(name))
    marks = load.NAMES.marks(load.STREAM, ref.stream_session_id)
    mark = Mark(0, 1, TOTALS).text()
    return [
        ("HSET", marks, *_flat({f"unit-{n}": mark for n in range(FEW_MARKS)})),
        server_functions.seal(load.NAMES, ref, ttl_s=load.TTL_S),
    ]


def acknowledging(turn: int) -> list[commands.Command]:
    key = load.NAMES.requests(f"p{turn}")
    ids = [entry_ids.format_id(1, n) for n in range(control_streams.ACKNOWLEDGE_MAX)]
    return [
        control_functions.create_group(load.NAMES, key),
        *(("XADD", key, entry_id, keys.CONTROL_FIELD, b"x" * 200) for entry_id in ids),
        ("XREADGROUP", "GROUP", keys.CONTROL_GROUP, "bench", "COUNT", len(ids), "STREAMS", key, ">"),
        control_functions.acknowledge(load.NAMES, key, ids),
    ]


def dead_letter(turn: int) -> list[commands.Command]:
    fields = {b"m": b"x" * limits.CONTROL_MAX_BYTES}
    return [control_functions.add_dead_letter(load.NAMES, f"p{turn % 2}", fields, max_entries=5)]


def trimming(turn: int, data: bytes = BURST) -> list[commands.Command]:
    """As `streams trim` does, with bursts as writers make them."""
    stream, length = f"trimmed-{turn}-{len(data)}", 2 * retention_functions.CALL_MAX_ENTRIES
    entries = length if len(data) < limits.KIB else 200
    most = rules.entries_per_call(entries, entries * (len(data) + 50), retention_functions.CALL_MAX_ENTRIES)
    kept = settings.TrimSettings(max_entries=1, exact=True).limits_for(stream)
    call = retention_functions.trim(stream, kept, entry_ids.MAX, most=most)
    return [*(("XADD", keys.stream(stream), "*", "id", "1", "data", data) for _ in range(entries)), call]


def trimming_by_duty(turn: int) -> list[commands.Command]:
    """As the duty does behind a node of small entries: as many large ones as such a node may have."""
    stream = f"trimmed-by-duty-{turn}"
    kept = settings.TrimSettings(max_entries=1).limits_for(stream)
    entry = ("XADD", keys.stream(stream), "*", "id", "1", "data", BURST)
    call = retention_functions.trim(stream, kept, entry_ids.MAX, most=trimmer.NODE_ENTRIES)
    return [*[entry] * (2 * trimmer.NODE_ENTRIES), call]


def trimming_small(turn: int) -> list[commands.Command]:
    return trimming(turn, b"x" * 100)


def adding_batch(turn: int) -> list[commands.Command]:
    """A cold batch of bytes that can't be compressed."""
    batch = random.Random(turn).randbytes(limits.COLD_BATCH_LIVE_BYTES)  # noqa: S311 - no secret
    return [compaction_functions.append_batch(f"cold-{turn}", "1-1", "0-0", batch, until_ms=commands.FOREVER)]


def removing_what_is_cold(turn: int) -> list[commands.Command]:
    """As many entries as a cold batch has, and as many bytes."""
    stream, count = f"shed-{turn}", limits.COLD_BATCH_MAX_ENTRIES
    data = b"x" * (limits.COLD_BATCH_MAX_BYTES // count - 20)
    entries = [
        ("XADD", keys.stream(stream), entry_ids.format_id(1, n + 1), "id", "1", "data", data) for n in range(count)
    ]
    return [*entries, compaction_functions.trim_live(stream, entry_ids.format_id(1, count), until_ms=commands.FOREVER)]


def _delivery(number: int) -> commands.Command:
    delivery = NewDelivery(f"d{number}", b"x" * 1000, 1, keys.DEFAULT_PRINCIPAL, f"run-{number}", 1)
    most = settings.Settings().limits.webhook_deliveries
    limits_ = webhook_functions.QueueLimits(100, most, 5 * most)
    return webhook_functions.add_delivery(load.NAMES, "bench", delivery, limits_)


def _waiting(turn: int) -> list[commands.Command]:
    """As many deliveries as a principal may have, in the first turn."""
    return [_delivery(n) for n in range(settings.Settings().limits.webhook_deliveries)] if turn == 0 else []


def queueing(turn: int) -> list[commands.Command]:
    """The oldest one is too many then."""
    return [*_waiting(turn), _delivery(1_000_000 + turn)]


def taking(turn: int) -> list[commands.Command]:
    return [*_waiting(turn), webhook_functions.take_delivery(load.NAMES, "bench", now_ms=2 + turn, take_ms=1000)]


CASES: dict[str, Calls] = {
    "open, 900 KiB of JSON": opening,
    "update, 900 KiB of JSON and 1,000 properties": new_json,
    "close, 900 KiB of JSON": last_entry,
    "fold, 100 units of a session": folding_units,
    "fold, 50 sessions": folding_sessions,
    "refresh, 50 sessions": refreshing,
    "time ranges, 50 sessions": time_ranges,
    "shut a gate, 200 marks": shutting,
    "acknowledge, 1,000 requests": acknowledging,
    "dead letter, 256 KiB, the oldest go": dead_letter,
    "trim, bursts of 64 KiB": trimming,
    "trim, entries of 100 bytes": trimming_small,
    "add a cold batch, 2 MB": adding_batch,
    "remove what is cold, 8,192 entries": removing_what_is_cold,
    "queue a delivery behind 10,000": queueing,
    "take a delivery of 10,000": taking,
    "trim by the duty, 100 bursts of 64 KiB": trimming_by_duty,
    **control_calls.CASES,
}


def call_ms(calls: Calls, repeats: int) -> float:
    """The median of how long the last command kept Redis."""
    rig = load.rig()
    rig.only("calls", _load_functions)
    client = rig.client
    client.config_set("slowlog-log-slower-than", 0)
    taken_ms = []
    for turn in range(repeats):
        *before, measured = calls(turn)
        with client.pipeline(transaction=False) as pipe:
            for command in before:
                pipe.execute_command(*command)
            pipe.execute()
        client.slowlog_reset()
        client.execute_command(*measured)
        slow: Any = client.slowlog_get(10)
        name = str(measured[0]).encode()
        taken_ms.append(max(entry["duration"] for entry in slow if entry["command"].startswith(name)) / 1000)
    client.flushdb()
    return float(statistics.median(taken_ms))


def _load_functions() -> None:
    async def main() -> None:
        link = Link(settings.RedisSettings(url=load.rig().url))
        await function_loader.load(link)
        await link.close()

    anyio.run(main)


def bench_server_calls(quick: bool) -> Iterator[Case]:
    """How long others wait for one call of a supervisor."""
    for name, calls in CASES.items():
        yield Case(
            f"longest call: {name}; reference: {LONGEST_MS:.0f} ms",
            "ms",
            lambda calls=calls: call_ms(calls, 2 if quick else 15),  # type: ignore[misc]
            constant(LONGEST_MS),
            bar=1,
            at_most=True,
        )
