"""Every name in Redis has one owner: the table of owners against keys.py, the .lua files and the Python code."""

import ast
import functools
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from rta_wire import key_owners, keys
from tests.unit.test_tree import PACKAGES, ROOT

NO_NAMES_IN_REDIS = {"DEFAULT_PRINCIPAL", "DEFAULT_OPERATOR"}
"""Texts in keys.py that are values of settings."""

LUA_OF_ANOTHER_PACKAGE = {
    # Both work on the stream of a session, and the library is whole in one file.
    "rtas_trim_2": "rta_supervisor/session/stream.lua",
    "rtas_remove_2": "rta_supervisor/session/stream.lua",
    # It writes both hashes of a session; what is put back is decided by recovery.
    "rtas_resurrect_2": "rta_supervisor/session/resurrected_sessions.lua",
}
"""Functions that their owner calls and that stand in the file of the package that owns their keys."""

SAME_WORD = {
    # The page's JSON, which follows the names of structs.
    ("openedMs", "rta_supervisor.web.live.routes"),
    ("streamSessionId", "rta_supervisor.web.live.routes"),
    # Options of the Spark source.
    ("externalId", "rta_writers.options.read"),
    ("streamSessionId", "rta_writers.options.target"),
}
"""Texts that are those of fields and mean something else in a module."""

FUNCTION = re.compile(r"rtas_\w+_\d+")
OWNER_OF_FUNCTION = {name: owner for owner, owned in key_owners.OWNERS.items() for name in owned.functions}


@functools.cache
def literals_by_module() -> dict[str, frozenset[str]]:
    """Texts and bytes in the code of every module that is written by hand, by its dotted name."""
    paths = [(path, package.parent) for package in PACKAGES.values() for path in package.rglob("*.py")]
    return {
        ".".join(path.relative_to(folder).with_suffix("").parts): frozenset(literals(ast.parse(path.read_text())))
        for path, folder in paths
        if not path.stem.endswith("_pb2")
    }


def literals(module: ast.Module) -> Iterator[str]:
    """Texts and bytes in the code of a module, as text. Docstrings are among them."""
    for node in ast.walk(module):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
            yield node.value.decode(errors="replace")


def names_in_redis() -> set[str]:
    """Public names in keys.py that give a key, a field or a group."""
    constants = {
        name for name, value in vars(keys).items() if isinstance(value, str | bytes) and not name.startswith("_")
    }
    functions = {"stream", "cold_stream", "unit_field", "property_field", "change_field"}
    methods = {name for name, value in vars(keys.Keys).items() if callable(value) and not name.startswith("_")}
    return constants | functions | methods


def test_every_key_and_field_has_one_owner() -> None:
    """Each name in keys.py stands in the table once, and the table names nothing else."""
    owned = Counter(name for owner in key_owners.OWNERS.values() for name in (*owner.keys, *owner.fields))
    assert set(owned) == names_in_redis() - NO_NAMES_IN_REDIS
    assert {name for name, count in owned.items() if count > 1} == set()


def test_owners_are_packages() -> None:
    """Each owner in the table is a package of this repository."""
    for owner in key_owners.OWNERS:
        root, *path = owner.split(".")
        package = next(package for package in PACKAGES.values() if package.name == root)
        assert package.joinpath(*path, "__init__.py").exists(), owner


def test_every_server_function_stands_beside_its_owner() -> None:
    """Each function that a .lua file registers is owned by the package that the file stands in, or is explained."""
    registered: dict[str, str] = {}
    for path in sorted((ROOT / "supervisor").rglob("*.lua")):
        for name in re.findall(r"register_function.*?'(\w+)'", path.read_text()):
            assert name not in registered
            registered[name] = str(path.relative_to(ROOT / "supervisor"))
    assert set(registered) == set(OWNER_OF_FUNCTION)
    elsewhere = {
        name: path for name, path in registered.items() if OWNER_OF_FUNCTION[name] != ".".join(Path(path).parts[:2])
    }
    assert elsewhere == LUA_OF_ANOTHER_PACKAGE


def test_only_the_owner_calls_a_server_function() -> None:
    """The name of a function stands in Python code of its owner, and in no other."""
    called = {
        (name, ".".join(module.split(".")[:2]))
        for module, texts in literals_by_module().items()
        if module != "rta_wire.key_owners"
        for text in texts
        for name in FUNCTION.findall(text)
    }
    assert called == set(OWNER_OF_FUNCTION.items())


@pytest.mark.parametrize(
    "name",
    sorted(name for name in names_in_redis() if name.isupper() and re.search(r"[a-z][A-Z]", str(getattr(keys, name)))),
)
def test_a_field_is_spelt_in_one_module(name: str) -> None:
    """The text of a field that is no ordinary word stands in keys.py alone."""
    value = getattr(keys, name)
    text = value.decode() if isinstance(value, bytes) else value
    spelling = {module for module, texts in literals_by_module().items() if text in texts}
    assert spelling - {module for word, module in SAME_WORD if word == text} == {"rta_wire.keys"}
