"""`make install` and `make uninstall`: every file in its place below DESTDIR, and removed again."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


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


def test_an_unknown_value_of_packages_is_refused(tmp_path: Path) -> None:
    """The sentence names the values that there are, and nothing is installed."""
    command = ["make", "install", f"DESTDIR={tmp_path}", "PACKAGES=mysql"]
    completed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert completed.returncode != 0
    assert "PACKAGES is daemon, postgres or no, not 'mysql'." in completed.stderr
    assert files(tmp_path) == set()


def test_the_lock_for_postgres_is_that_of_the_daemon_and_a_driver() -> None:
    """Hosts that share a catalogue in PostgreSQL get the same versions of the same packages, and psycopg."""
    daemon, postgres = (
        {line.split(" ")[0] for line in (ROOT / "requirements" / name).read_text().splitlines() if "==" in line}
        for name in ("daemon.lock", "postgres.lock")
    )
    assert daemon <= postgres
    assert {line.partition("==")[0] for line in postgres - daemon} >= {"psycopg", "psycopg-binary"}


@pytest.mark.skipif(not os.environ.get("RTA_SOAK"), reason="installs 280 MB of packages: part of make soak")
@pytest.mark.timeout(600)
def test_the_installed_program_runs(tmp_path: Path) -> None:
    """The program works with the packages that were installed with it, and no others."""
    make("install", tmp_path, PREFIX="/usr")
    program = (tmp_path / "usr/bin/rta-supervisor").read_text()
    moved = tmp_path / "moved"
    moved.write_text(program.replace('"/usr/lib/rta-supervisor"', repr(str(tmp_path / "usr/lib/rta-supervisor"))))
    moved.chmod(0o755)
    completed = subprocess.run(
        [moved, "check-config"], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, check=False
    )
    assert completed.returncode == 0, completed.stderr
    assert "redis.url" in completed.stdout
