"""Payloads: any bytes come back from their pieces, and whatever happens to a piece is an error or changes nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rta_wire import errors, limits
from rta_wire.control import payload

PIECE = limits.PAYLOAD_PIECE_BYTES

contents = st.binary(min_size=1, max_size=300) | st.builds(
    lambda start, size: (start * size)[:size],
    st.binary(min_size=1, max_size=5),
    st.sampled_from([PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, payload.MAX_BYTES]),
)


@given(contents)
def test_any_bytes_come_back(data: bytes) -> None:
    """The pieces are valid messages, and together they are what was cut."""
    named, pieces = payload.split("p", data)
    payload.check(named)
    for number, piece in enumerate(pieces):
        payload.check_piece(piece)
        assert (piece.payload_id, piece.number) == ("p", number)
    assert payload.join(named, [payload.seal(piece) for piece in pieces]) == data


@given(contents, contents, st.data())
def test_a_spoilt_piece_is_an_error_or_changes_nothing(data: bytes, other: bytes, draw: st.DataObject) -> None:
    """Pieces that are lost, changed, repeated, exchanged, or taken from another payload."""
    named, pieces = payload.split("p", data)
    sealed: list[bytes | None] = [payload.seal(piece) for piece in pieces]
    strangers = [payload.seal(piece) for piece in payload.split("p", other)[1]]
    for _ in range(draw.draw(st.integers(1, 3))):
        place = draw.draw(st.integers(0, len(sealed) - 1)) if sealed else 0
        match draw.draw(st.sampled_from(["lose", "cut", "flip", "repeat", "swap", "stranger", "remove"])):
            case "lose" if sealed:
                sealed[place] = None
            case "cut" if sealed:
                sealed[place] = (sealed[place] or b"")[: draw.draw(st.integers(0, 40))]
            case "flip" if sealed and sealed[place]:
                changed = bytearray(sealed[place] or b"")
                changed[draw.draw(st.integers(0, len(changed) - 1))] ^= 1
                sealed[place] = bytes(changed)
            case "repeat" if sealed:
                sealed.insert(place, sealed[place])
            case "swap" if sealed:
                sealed[0], sealed[place] = sealed[place], sealed[0]
            case "stranger" if sealed:
                sealed[place] = draw.draw(st.sampled_from(strangers))
            case "remove" if sealed:
                del sealed[place]
    try:
        joined = payload.join(named, sealed)
    except (errors.PayloadMissing, errors.PayloadDamaged):
        return
    assert joined == data


def test_what_is_too_large_is_refused_before_it_is_cut() -> None:
    with pytest.raises(errors.BadMessage, match="more than 1048576"):
        payload.split("p", bytes(payload.MAX_BYTES + 1))


def test_session_json_of_any_size_fits_into_a_payload() -> None:
    assert limits.SESSION_JSON_MAX_BYTES <= payload.MAX_BYTES
