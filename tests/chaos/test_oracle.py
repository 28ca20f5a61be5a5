"""The oracle sees every way in which a sample can go wrong."""

from pathlib import Path

import numpy as np
import pytest

from rta_wire.codec import encode
from tests.chaos import oracle, stamps

OPEN = encode.session_json(b'{"state": "open"}')
CLOSED = encode.session_json(b'{"state": "closed"}')


def burst(codes: stamps.Codes, shift_ns: int = 0) -> bytes:
    columns = (stamps.channels(codes).astype(np.uint32), stamps.times_ns(codes) + shift_ns, stamps.values(codes))
    [only] = encode.encode_doubles(*columns)
    return only.data


def judged(bursts: list[bytes], expected: stamps.Codes) -> oracle.Verdict:
    entries = [(f"{at}-0".encode(), b"7", data) for at, data in enumerate(bursts)]
    return oracle.judge(oracle.follow(entries).get(7), expected)


FIRST, SECOND = stamps.codes(3, 4, 5, 100), stamps.codes(3, 4, 6, 50)
BOTH = np.concatenate([FIRST, SECOND])


@pytest.mark.parametrize(
    ("bursts", "expected"),
    [
        ([OPEN, burst(FIRST), burst(SECOND), CLOSED], {}),
        ([OPEN, burst(FIRST), burst(SECOND)], {}),
        ([OPEN, burst(FIRST), CLOSED], {"samples": 100, "lost": 50}),
        ([OPEN, burst(FIRST), burst(SECOND), burst(FIRST)], {"samples": 250, "duplicated": 100, "disordered": 100}),
        ([OPEN, burst(SECOND), burst(FIRST), CLOSED], {"disordered": 100}),
        ([OPEN, burst(FIRST), CLOSED, burst(SECOND)], {"samples": 100, "lost": 50, "malformed": 1}),
        ([OPEN, burst(FIRST), burst(SECOND, shift_ns=1), CLOSED], {"samples": 100, "lost": 50, "mangled": 50}),
        ([burst(FIRST), OPEN, burst(SECOND), CLOSED], {"samples": 50, "lost": 100, "malformed": 1}),
        ([], {"samples": 0, "lost": 150}),
    ],
)
def test_every_fault_is_seen(bursts: list[bytes], expected: dict[str, int]) -> None:
    """Lost, doubled, out of order, after the end, changed, before the beginning."""
    verdict = judged(bursts, BOTH)
    clean = oracle.Verdict(samples=150, acknowledged=150)
    assert verdict == oracle.Verdict(**{**vars(clean), **expected})
    assert verdict.is_clean == (not set(expected) - {"samples"})


def test_notes_count_once_however_often_they_were_written(tmp_path: Path) -> None:
    """Attempts repeat notes; a line that was cut short by a kill is none."""
    path = tmp_path / "notes"
    path.write_text("A 3 4 5 100\nX 3 4 AppendGap\nA 3 4 5 100\nE 3 4\nA 3 4 6 50\nA 3 4 7")
    assert oracle.acknowledged([path, tmp_path / "absent"]).tolist() == BOTH.tolist()


def test_stamps_fit_a_double() -> None:
    """The highest stamp survives the way into a value and back, and one that is too high is refused."""
    highest = stamps.codes(255, 4095, 65535, 65536)
    assert (stamps.from_values(stamps.values(highest)) == highest).all()
    with pytest.raises(ValueError, match="does not fit"):
        stamps.codes(256, 0, 0, 1)
