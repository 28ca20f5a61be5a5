"""The fingerprint of rows."""

import pyarrow as pa

from rta_writers.write import fingerprint


def test_a_fingerprint_is_of_the_rows_and_not_of_their_order() -> None:
    """Parts add up, another order is the same, another value is not."""
    table = pa.record_batch({"time": [3, 1, 2], "value": [0.5, 1.5, None]})
    whole = fingerprint.fingerprint(table)
    parts = [fingerprint.fingerprint(table.slice(0, 1)), fingerprint.fingerprint(table.slice(1))]
    assert sum(parts) % 2**64 == whole
    assert fingerprint.fingerprint(table.take([2, 0, 1])) == whole
    assert fingerprint.fingerprint(pa.record_batch({"time": [3, 1, 2], "value": [0.5, 1.25, None]})) != whole


def test_a_fingerprint_does_not_find_swapped_values_and_other_texts() -> None:
    """What `docs/writers.md` says that it does not find: a sum over columns can't."""
    table = pa.record_batch({"time": [1, 2], "value": [0.5, 1.5], "session": ["a", "b"]})
    swapped = pa.record_batch({"time": [1, 2], "value": [1.5, 0.5], "session": ["a", "b"]})
    other_texts = pa.record_batch({"time": [1, 2], "value": [0.5, 1.5], "session": ["c", "d"]})
    fewer_texts = pa.record_batch({"time": [1, 2], "value": [0.5, 1.5], "session": ["a", None]})
    fingerprints = [fingerprint.fingerprint(batch) for batch in (table, swapped, other_texts)]
    assert len(set(fingerprints)) == 1
    assert fingerprint.fingerprint(fewer_texts) not in fingerprints
