"""The wire reads no file and no environment, but in `credentials`; its protobuf part knows no message of ours."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rta_wire

FOLDER = Path(rta_wire.__file__).parent
MODULES = sorted(FOLDER.rglob("*.py"))
READS_FILES = "credentials.py"

ALLOWED_MODULES = {
    *(
        "binascii",
        "bisect",
        "csv",
        "errno",
        "io",
        "tomllib",
        "collections",
        "collections.abc",
        "contextlib",
        "datetime",
        "difflib",
        "enum",
        "functools",
        "hashlib",
        "importlib",
        "inspect",
    ),
    *("itertools", "json", "math", "operator", "re", "struct", "typing", "urllib.parse", "uuid", "zlib"),
    *("msgspec", "pyarrow"),
}
ALLOWED_NAMES = {"pathlib": {"PurePosixPath"}}
"""Names of modules that can do more."""

ALLOWED_PACKAGES = {"google", "lz4", "numpy", "rta_wire"}
"""With all modules in them."""

REFUSED_BUILTINS = {"open", "input", "print", "exec", "eval", "compile", "breakpoint", "__import__"}
REFUSED_FUNCTIONS = {
    *("open", "open_code", "FileIO"),
    *("fromfile", "tofile", "load", "loadtxt", "save", "savetxt", "savez", "memmap", "DataSource"),
    *("OSFile", "memory_map", "create_memory_map", "input_stream", "output_stream", "PythonFile"),
    *("getsource", "getsourcefile", "getfile", "findsource"),
}
"""Functions of numpy, pyarrow and inspect that reach a file."""


def findings(source: str) -> Iterator[str]:
    """Imports and names in a module by which it could read or write something outside the process."""
    for node in ast.walk(ast.parse(source)):
        imported: list[str] = []
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or "."
            is_allowed = {alias.name for alias in node.names} <= ALLOWED_NAMES.get(module, set())
            imported = [] if is_allowed else [module]
        for name in imported:
            if name not in ALLOWED_MODULES and name.partition(".")[0] not in ALLOWED_PACKAGES:
                yield f"imports {name}"
        if isinstance(node, ast.Name) and node.id in REFUSED_BUILTINS:
            yield f"uses {node.id}"
        if isinstance(node, ast.Attribute) and node.attr in REFUSED_FUNCTIONS:
            yield f"uses .{node.attr}"


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(FOLDER)))
def test_a_module_touches_nothing_outside(module: Path) -> None:
    """No module but the one that says so can reach a file, the environment or a socket."""
    assert bool(list(findings(module.read_text()))) == (module == FOLDER / READS_FILES)


@pytest.mark.parametrize(
    "source",
    [
        "import os",
        "import os.path as p",
        "from os import environ",
        "from pathlib import Path",
        "import socket",
        "import subprocess",
        "from urllib import request",
        "import urllib.request",
        "import pyarrow.parquet as pq",
        "from . import other",
        "def f():\n    import tempfile",
        "open('x')",
        "import io\nio.open('x')",
        "from pathlib import Path, PurePosixPath",
        "read = open",
        "import numpy as np\nnp.fromfile('x')",
        "import pyarrow as pa\npa.memory_map('x')",
    ],
)
def test_what_is_outside_is_found(source: str) -> None:
    """Each of these would let a module read something."""
    assert list(findings(source))


@pytest.mark.parametrize("module", sorted((FOLDER / "codec" / "protobuf").glob("*.py")), ids=lambda path: path.name)
def test_protobuf_knows_no_message_of_ours(module: Path) -> None:
    """It imports its own modules and names of array types, and neither generated code nor tags."""
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("rta_wire"):
            assert node.module in ("rta_wire.arrays", "rta_wire.codec.protobuf")
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith(("rta_wire", "google")) for alias in node.names)
