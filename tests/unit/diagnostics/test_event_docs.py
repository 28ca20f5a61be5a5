"""Every event that the supervisor logs stands in docs/events.md with its level, and the other way round."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[3]
CODE = ROOT / "supervisor" / "rta_supervisor"
LEVELS = {"debug": "debug", "info": "info", "warning": "warning", "error": "error", "exception": "error"}


def logged() -> Iterator[tuple[str, str, str]]:
    """Each call of a logger in the code: event, level and where."""
    for path in sorted(CODE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS):
                continue
            if not re.search(r"\blog\b|\b_log\b|\bget\(", ast.unparse(node.func.value)):
                continue
            where = f"{path.relative_to(ROOT)}:{node.lineno}"
            assert node.args, where
            event = node.args[0]
            assert isinstance(event, ast.Constant), f"{where}: the name of an event is fixed"
            yield str(event.value), LEVELS[node.func.attr], where


def documented() -> set[tuple[str, str]]:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", (ROOT / "docs" / "events.md").read_text(), re.MULTILINE)
    assert len(rows) == len(set(rows)), "each event once"
    return set(rows)


def test_the_list_of_events_is_complete() -> None:
    """Every event that the code logs is in the list, and every event in the list is logged."""
    calls = {(event, level): where for event, level, where in logged()}
    assert {event: where for event, where in calls.items() if event not in documented()} == {}
    assert documented() - calls.keys() == set()


def test_names_are_words_with_underscores() -> None:
    """Names of events are lower-case words with underscores, so that they can be searched for."""
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)+", event) for event, _, _ in logged())
