"""Calls of supervisors on control streams, payloads, configurations and the index of sessions, each with the largest
input that it may have. `server_calls` measures them.
"""

from collections.abc import Callable, Sequence

from bench import load
from rta_supervisor.catalogue.model import CatalogueRow
from rta_supervisor.channels import parts
from rta_supervisor.channels import server_functions as channel_functions
from rta_supervisor.control import read_size
from rta_supervisor.control import server_functions as control_functions
from rta_supervisor.control.payloads import payload_store
from rta_supervisor.recovery import resurrection
from rta_supervisor.retention import server_functions as retention_functions
from rta_supervisor.settings import settings
from rta_supervisor.transport import commands, paging, scanning
from rta_wire import keys, limits
from rta_wire.control.totals import Mark, Totals
from rta_wire.pb import control_pb2
from rta_wire.session import State

PAYLOADS = settings.Settings().limits.payload_bytes // payload_store.PIECE_MIN_BYTES
INDEXED = 100_000
TOTALS = Totals(1, 1, 100, 50, load.START_NS, load.START_NS + 1)

Calls = Callable[[int], list[commands.Command]]
"""Commands of one repetition; the last one is measured."""


def storing_piece(turn: int) -> list[commands.Command]:
    """Of a principal with as many payloads as it may have."""
    names = (f"payload-{n}" for n in range(PAYLOADS if turn == 0 else 1))
    data = b"x" * limits.PAYLOAD_PIECE_BYTES
    return [
        *(_piece(name, b"x") for name in names),
        _piece("payload-0", data, number=turn + 1),
    ]


def _piece(payload_id: str, data: bytes, number: int = 0) -> commands.Command:
    piece = control_pb2.StorePiece(payload_id=payload_id, number=number, data=data)
    most = PAYLOADS * payload_store.PIECE_MIN_BYTES
    counts_bytes = payload_store.PIECE_MIN_BYTES if number == 0 else 0
    return control_functions.store_piece(
        load.NAMES, "bench", piece, ttl_s=load.TTL_S, counts_bytes=counts_bytes, max_bytes=most
    )


def counting_config(turn: int) -> list[commands.Command]:
    """Of a principal that has published as many as it may."""
    most = settings.Settings().limits.configs
    return [_config(f"{n:040x}") for n in range(most if turn == 0 else 1)] + [_config(f"{turn:040x}")]


def _config(identifier: str) -> commands.Command:
    kept = settings.Settings().limits
    return channel_functions.count_published(
        *(load.NAMES, "bench", identifier, 1),
        span_s=load.TTL_S,
        max_configs=kept.configs,
        max_bytes=kept.config_bytes,
    )


def large_reply(turn: int) -> list[commands.Command]:
    return [control_functions.reply(load.NAMES, f"request-{turn}", b"x" * parts.PART_BYTES, ttl_s=load.TTL_S)]


def resurrecting(turn: int) -> list[commands.Command]:
    name = f"resurrected-{turn}"
    document = "{" + " " * (limits.SESSION_JSON_MAX_BYTES - 2) + "}"
    key = (name, load.STREAM, turn + 1)
    row = CatalogueRow(*key, "bench", State.CLOSED, document, TOTALS, version=1, opened_ms=1, updated_ms=1)
    return [resurrection.resurrect_closed(load.NAMES, row, position="0-0", now_ms=1, ttl_s=load.TTL_S)]


def _indexed(names: Sequence[str]) -> commands.Command:
    return ("ZADD", load.NAMES.session_index(), *(part for name in names for part in (1, name)))


def unlisting_expired(turn: int) -> list[commands.Command]:
    """Of an index of many."""
    names = [f"expired-{turn}-{n}" for n in range(retention_functions.CALL_MAX_MEMBERS)]
    scores = [(name, 1.0) for name in names]
    return [
        _indexed([f"other-{n}" for n in range(INDEXED if turn == 0 else 1)]),
        _indexed(names),
        retention_functions.remove_if_unchanged(load.NAMES.session_index(), scores),
    ]


def noting_heartbeats(turn: int) -> list[commands.Command]:
    """In an index of many."""
    names = [f"other-{n}" for n in range(paging.PAGE_SIZE)]
    scores = (part for name in names for part in (turn + 2, name))
    return [
        _indexed([f"other-{n}" for n in range(INDEXED if turn == 0 else 1)]),
        ("ZADD", load.NAMES.session_index(), "XX", "GT", *scores),
    ]


def scanning_marks(turn: int) -> list[commands.Command]:
    key, mark = load.NAMES.marks(load.STREAM, 1), Mark(0, 1, TOTALS).text()
    marks = {f"unit-{n}": mark for n in range(INDEXED if turn == 0 else 1)}
    return [
        ("HSET", key, *(part for pair in marks.items() for part in pair)),
        ("HSCAN", key, 0, "COUNT", scanning.SCAN_COUNT),
    ]


def reading_large(turn: int) -> list[commands.Command]:
    """As many bytes as one read should have."""
    key = load.NAMES.requests(f"read-{turn}")
    count = read_size.READ_TARGET_BYTES // limits.CONTROL_MAX_BYTES
    return [
        control_functions.create_group(load.NAMES, key),
        *(("XADD", key, "*", keys.CONTROL_FIELD, b"x" * limits.CONTROL_MAX_BYTES) for _ in range(count)),
        ("XREADGROUP", "GROUP", keys.CONTROL_GROUP, "bench", "COUNT", count, "STREAMS", key, ">"),
    ]


CASES: dict[str, Calls] = {
    "store a piece, 1,024 payloads": storing_piece,
    "count a configuration of 1,000": counting_config,
    "reply of 512 KiB": large_reply,
    "resurrect, 900 KiB of JSON": resurrecting,
    "take 100 of 100,000 sessions out of the index": unlisting_expired,
    "heartbeats of 500 of 100,000 sessions": noting_heartbeats,
    "500 of 100,000 marks, HSCAN": scanning_marks,
    "read 2 MiB of requests": reading_large,
}
