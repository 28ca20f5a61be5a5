"""Generated code loads on every supported protobuf; `make compat` runs all tests of the codec on each of them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]
GENERATED = sorted((ROOT / "proto" / "rta_wire" / "pb").glob("*_pb2.py"))
LOCKS = sorted((ROOT / "requirements" / "compat").glob("protobuf-*.lock"))

READ_ALL = """
from google.protobuf.internal import api_implementation
from rta_wire.codec import decode
from rta_wire.pb import chunks_pb2, config_service_pb2, control_pb2, data_pb2, scan_pb2, session_service_pb2, stream_pb2
from tests.golden import make
for name, vector in make.vectors().items():
    assert make.described(vector)["says"] == vector.says, name
print(api_implementation.Type(), len(make.vectors()))
"""


@pytest.mark.parametrize("implementation", ["upb", "python"])
def test_generated_code_and_codec_run_on_both_implementations(implementation: str) -> None:
    """The fast and the pure Python runtime of protobuf load the code without a warning and read every vector."""
    env = os.environ | {
        "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": implementation,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "proto"), str(ROOT)]),
    }
    command = [sys.executable, "-W", "error", "-c", READ_ALL]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.split()[0] == implementation
    assert int(done.stdout.split()[1]) > 20


def test_all_generated_code_is_found() -> None:
    """A folder that moved would leave the next test without anything to look at."""
    names = ("chunks", "config_service", "control", "data", "scan", "session_service", "stream")
    assert [path.name for path in GENERATED] == [f"{name}_pb2.py" for name in names]


@pytest.mark.parametrize("path", GENERATED, ids=lambda path: path.name)
def test_generated_code_asks_for_no_newer_runtime(path: Path) -> None:
    """Code from a newer protoc checks the version of the runtime when it loads and refuses older ones."""
    text = path.read_text()
    assert "DESCRIPTOR" in text
    assert "runtime_version" not in text


def test_there_is_a_lock_for_each_supported_version() -> None:
    """Each lock pins the version that its name says, with hashes and without addresses."""
    assert [path.name for path in LOCKS] == [f"protobuf-{version}.lock" for version in ("4.25", "5.29", "6.33", "7.36")]
    for path in LOCKS:
        text = path.read_text()
        version = path.stem.removeprefix("protobuf-")
        assert re.search(rf"^protobuf=={re.escape(version)}\.\d+ ", text, re.MULTILINE)
        assert "--hash=sha256:" in text
        assert "://" not in text
