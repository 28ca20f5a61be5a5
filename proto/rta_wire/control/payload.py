"""Bytes that are too large for one control message: cut into pieces with checksums, and put together again.

Where pieces are stored is left to others. Whatever was lost, changed or exchanged among them is an error.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

from rta_wire import errors, limits, name_checks
from rta_wire.pb import control_pb2

MAX_BYTES: Final = limits.PAYLOAD_PIECE_BYTES * limits.PAYLOAD_MAX_PIECES
"""Of the JSON of a session."""

CHECKSUM_BYTES: Final = hashlib.sha256().digest_size


def split(
    payload_id: str, data: bytes, max_pieces: int = limits.PAYLOAD_MAX_PIECES
) -> tuple[control_pb2.Payload, list[control_pb2.StorePiece]]:
    """What names a payload, and its pieces, without ids of requests."""
    step = limits.PAYLOAD_PIECE_BYTES
    if len(data) > max_pieces * step:
        raise errors.BadMessage(reason=f"it has {len(data)} bytes, more than {max_pieces * step}")
    parts = [data[start : start + step] for start in range(0, len(data), step)]
    pieces = [
        control_pb2.StorePiece(payload_id=payload_id, number=number, data=part, checksum=_checksum(part))
        for number, part in enumerate(parts)
    ]
    payload = control_pb2.Payload(id=payload_id, pieces=len(parts), size_bytes=len(data), checksum=_checksum(data))
    return payload, pieces


def check(payload: control_pb2.Payload, max_pieces: int = limits.PAYLOAD_MAX_PIECES) -> None:
    """Raise where no payload can be like that."""
    name_checks.check_request_id(payload.id, "Payload id")
    max_bytes = max_pieces * limits.PAYLOAD_PIECE_BYTES
    if not 1 <= payload.pieces <= max_pieces or payload.size_bytes > max_bytes:
        raise errors.BadMessage(
            reason=f"its payload has {payload.size_bytes} bytes in {payload.pieces} pieces, "
            f"and at most {max_bytes} in {max_pieces} are taken"
        )


def check_piece(piece: control_pb2.StorePiece) -> None:
    """Raise where a piece can't be one, or was changed on its way."""
    name_checks.check_request_id(piece.payload_id, "Payload id")
    if piece.number >= limits.CONFIG_MAX_PIECES:
        raise errors.BadMessage(
            reason=f"it is piece {piece.number} of a payload, counted from 0, and the last can be "
            f"{limits.CONFIG_MAX_PIECES - 1}"
        )
    if not 1 <= len(piece.data) <= limits.PAYLOAD_PIECE_BYTES:
        raise errors.BadMessage(reason=f"a piece has {len(piece.data)} bytes, not 1 to {limits.PAYLOAD_PIECE_BYTES}")
    if _checksum(piece.data) != piece.checksum:
        raise errors.PayloadDamaged(reason=f"the checksum of piece {piece.number} is another one")


def seal(piece: control_pb2.StorePiece) -> bytes:
    """A piece as it is stored: its checksum, then its data."""
    return piece.checksum + piece.data


def join(payload: control_pb2.Payload, sealed: Sequence[bytes | None]) -> bytes:
    """The bytes of a payload from its pieces as they are stored, None for one that is not there."""
    missing = [number for number, piece in enumerate(sealed) if piece is None]
    if missing or len(sealed) != payload.pieces:
        raise errors.PayloadMissing(payload=payload.id, found=len(sealed) - len(missing), pieces=payload.pieces)
    data = b"".join(_open(number, piece or b"") for number, piece in enumerate(sealed))
    if len(data) != payload.size_bytes or _checksum(data) != payload.checksum:
        raise errors.PayloadDamaged(reason="the checksum of all pieces together is another one")
    return data


def _open(number: int, sealed: bytes) -> bytes:
    data = sealed[CHECKSUM_BYTES:]
    if _checksum(data) != sealed[:CHECKSUM_BYTES]:
        raise errors.PayloadDamaged(reason=f"the checksum of piece {number} is another one")
    return data


def _checksum(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()
