"""The text of the documentation is true: links, paths, the map of packages, and the owners of keys.

Its commands are run in `tests/acceptance/test_docs.py` and `tests/spark/test_docs.py`.
"""

import re
import tomllib
from pathlib import Path

import pytest

from rta_wire import keys
from tests.support import doc_checks

ARCHITECTURE = "docs/architecture.md"
KEY_FUNCTIONS = ("stream", "cold_stream")
KEY_CONSTANTS = ("STREAMS", "LAST_STREAM_SESSION_ID")
"""Keys whose names depend on no setting."""


@pytest.mark.parametrize("page", doc_checks.DOCUMENTS)
def test_links_lead_somewhere(page: str) -> None:
    """Every file and every heading that a document points to is there."""
    assert doc_checks.dead_links(page) == []


@pytest.mark.parametrize("page", doc_checks.DOCUMENTS)
def test_prose_is_wrapped(page: str) -> None:
    """Lines of text have at most 120 characters."""
    assert doc_checks.long_lines(page) == []


@pytest.mark.parametrize("page", doc_checks.DOCUMENTS)
def test_paths_exist(page: str) -> None:
    """Every file and folder in backticks is there; the changelog alone names what is gone."""
    if page != doc_checks.CHANGELOG.name:
        assert doc_checks.dead_paths(page) == []


def test_bad_links_paths_and_long_lines_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file or a heading that is not there and a line of 121 characters are found; blocks and tables are left out."""
    monkeypatch.setattr(doc_checks, "ROOT", tmp_path)
    (tmp_path / "proto" / "wire" / "codec").mkdir(parents=True)
    (tmp_path / "proto" / "wire" / "__init__.py").touch()
    (tmp_path / "proto" / "wire" / "codec" / "burst.py").touch()
    long = "x" * (doc_checks.LINE_CHARS + 1)
    good = (
        f"# A heading\n[here](#a-heading) [there](page.md#a-heading) [far](https://x/#y)\n| {long}\n```\n{long}\n```\n"
        "`proto/wire/` `wire/codec/burst.py` `codec/burst.py` `burst.py` `/health` `redis://x/0` `.py` `cold:<name>`\n"
    )
    bad = f"[gone](gone.md) [none](page.md#none) [no](#no)\n{long}\n`codec/gone.py` `ARGS=gone/` `gone.lua`\n"
    (tmp_path / "page.md").write_text(good + bad)
    assert doc_checks.dead_links("page.md") == ["](gone.md)", "](page.md#none)", "](#no)"]
    assert doc_checks.long_lines("page.md") == [long]
    assert doc_checks.dead_paths("page.md") == ["codec/gone.py", "gone/", "gone.lua"]


def test_the_index_of_decisions_is_complete() -> None:
    """One row for each decision, with its number, title, date and status, and each decision has the same sections."""
    expected = []
    for decision in doc_checks.DECISIONS:
        text = decision.read_text()
        head = re.match(r"# (\d{3}): (.+)\n\nDate: (\d{4}-\d\d-\d\d) · Status: (\w+)\n", text)
        assert head, decision.name
        assert decision.name.startswith(f"{head[1]}-"), decision.name
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["Context", "Decision", "Reasons", "Rejected"]
        expected.append((head[1], head[2], decision.name, head[3], head[4]))
    index = (doc_checks.ROOT / "docs" / "decisions" / "README.md").read_text()
    row = r"^\| (\d{3}) \| \[(.+)\]\((.+)\) \| (\S+) \| (\w+) \| .+ \|$"
    assert re.findall(row, index, re.MULTILINE) == expected


def test_the_map_and_the_tree_agree() -> None:
    """Every package has a line in the map of CONTRIBUTING, and every line of the map has a package."""
    lines = doc_checks.packages_in_map("CONTRIBUTING.md")
    packages = set(doc_checks.packages_in_tree())
    assert packages - set(lines) == set()
    assert set(lines) - packages == set()
    assert len(lines) == len(packages)


def test_the_map_is_in_the_order_of_the_layers() -> None:
    """Lower layers stand first, as the contracts of import-linter have them."""
    packages = doc_checks.packages_in_map("CONTRIBUTING.md")
    settings = tomllib.loads((doc_checks.ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    compared = 0
    for contract in contracts:
        for container in contract.get("containers", ()):
            levels = {
                name.strip("() "): -depth
                for depth, layer in enumerate(contract["layers"])
                for name in re.split(r"[|:]", layer)
            }
            paths = [f"/{container.replace('.', '/')}/{name}" for name in levels]
            order = [
                levels[package.rpartition("/")[2]]
                for package in packages
                if any(f"/{package}".endswith(path) for path in paths)
            ]
            assert order == sorted(order), container
            compared += len(order) > 1
    assert compared > 1


def test_every_key_and_every_library_has_an_owner() -> None:
    """The tables of the architecture name each key once, and each library of server functions."""
    functions = [name for name, value in vars(keys.Keys).items() if callable(value) and not name.startswith("_")]
    expected = {*functions, *KEY_FUNCTIONS, *KEY_CONSTANTS}
    names = doc_checks.key_names_in_table(ARCHITECTURE)
    assert expected - set(names) == set()
    assert set(names) - expected == set()
    assert len(names) == len(expected)
    assert all(hasattr(keys, name) for name in (*KEY_FUNCTIONS, *KEY_CONSTANTS))
    text = (doc_checks.ROOT / ARCHITECTURE).read_text()
    package = doc_checks.ROOT / "supervisor" / "rta_supervisor"
    libraries = [str(path.relative_to(package)) for path in sorted(package.rglob("*.lua"))]
    assert libraries
    assert [path for path in libraries if f"`{path}`" not in text] == []
