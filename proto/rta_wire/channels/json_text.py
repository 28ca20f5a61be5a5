"""JSON that people wrote by hand, as plain values."""

import json
from typing import Any

from rta_wire import quoting


def parse(text: str) -> tuple[Any, bool]:
    """The values, and whether a key stands twice in a table: of these the last one counts.

    A key that can't be encoded is there as its escape sequence: no name of ours has such characters, and what looks
    names up can't take them.
    """
    has_repeated = False

    def to_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal has_repeated
        table = {quoting.encodable(key): value for key, value in pairs}
        has_repeated = has_repeated or len(table) < len(pairs)
        return table

    return json.loads(text, object_pairs_hook=to_dict), has_repeated
