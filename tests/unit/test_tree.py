"""The shape of the tree: packages by noun, tests that mirror them, and a class name that means one thing."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "wire": ROOT / "proto" / "rta_wire",
    "writers": ROOT / "writers" / "rta_writers",
    "supervisor": ROOT / "supervisor" / "rta_supervisor",
}
BESIDE_PACKAGES = ("bench", "support")
"""Folders of tests for code that stands beside the packages."""

MODULES_MAX = 17
ENTRY_POINTS = {"__init__.py", "__main__.py", "py.typed"}

NOT_FOR_THE_WIRE = {"rta_supervisor", "rta_writers", "redis", "pyspark"}
"""What the environments lack in which tools/compat runs tests of the wire."""


def folders(root: Path) -> set[Path]:
    """Every folder below that holds a file of Python, as a path relative to the root."""
    found = {path.parent.relative_to(root) for path in root.rglob("*.py")}
    return {folder for path in found for folder in (path, *path.parents)} - {Path()}


def expected_folders() -> set[Path]:
    """Folders that tests may have: a sub-package of the supervisor by its own name, others below their package."""
    supervisor = folders(PACKAGES["supervisor"])
    below = {Path(name) / folder for name in ("wire", "writers") for folder in (Path(), *folders(PACKAGES[name]))}
    return supervisor | below | {Path(name) for name in BESIDE_PACKAGES}


@pytest.mark.parametrize("kind", ["unit", "integration"])
def test_tests_mirror_the_packages(kind: str) -> None:
    """Each folder of tests has the name of a package, so that its tests are found where the code is."""
    found = folders(ROOT / "tests" / kind)
    assert found
    assert {str(folder) for folder in found - expected_folders()} == set()


def test_no_public_class_name_is_defined_twice() -> None:
    """A name means one thing in the wire, the writers and the supervisor; generated code is left out."""
    places = defaultdict(list)
    for package in PACKAGES.values():
        for path in package.rglob("*.py"):
            if path.stem.endswith("_pb2"):
                continue
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path.relative_to(ROOT)))
    assert places
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_no_folder_has_too_many_modules() -> None:
    """Past this number there is a second noun in a folder."""
    counts = {
        str((package / folder).relative_to(ROOT)): len(list((package / folder).glob("*.py")))
        for package in PACKAGES.values()
        for folder in (Path(), *folders(package))
    }
    assert len(counts) > len(PACKAGES)
    assert {folder: count for folder, count in counts.items() if count > MODULES_MAX} == {}


@pytest.mark.parametrize("name", ["writers", "supervisor"])
def test_a_root_holds_only_entry_points(name: str) -> None:
    """Everything else has a package."""
    found = {path.name for path in PACKAGES[name].iterdir() if path.is_file()}
    assert "__init__.py" in found
    assert found <= ENTRY_POINTS


def test_tests_of_the_wire_need_nothing_else() -> None:
    """They run where neither the other packages nor their libraries are installed."""
    paths = [path for name in ("wire", "bench") for path in (ROOT / "tests" / "unit" / name).rglob("*.py")]
    imports = {str(path.relative_to(ROOT)): imported_roots(path) & NOT_FOR_THE_WIRE for path in paths}
    assert imports
    assert {path: names for path, names in imports.items() if names} == {}


def imported_roots(path: Path) -> set[str]:
    nodes = list(ast.walk(ast.parse(path.read_text())))
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    names += [node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module]
    return {name.partition(".")[0] for name in names}
