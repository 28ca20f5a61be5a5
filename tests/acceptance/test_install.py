"""`make install` and `make uninstall`: everything in its place below DESTDIR, and gone again."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def make(target: str, destination: Path, **variables: str) -> None:
    words = [f"{name}={value}" for name, value in {"DESTDIR": str(destination), **variables}.items()]
    done = subprocess.run(["make", target, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout


def files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def test_install_and_uninstall(tmp_path: Path) -> None:
    """Units name the program where it is; what somebody edited stays."""
    make("install", tmp_path, PREFIX="/opt/rta", PACKAGES="no")
    found = {name for name in files(tmp_path) if "share/doc" not in name}
    assert found == {
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
    edited = tmp_path / "etc/rta-supervisor/supervisor.toml"
    edited.write_text("# mine\n")
    make("install", tmp_path, PREFIX="/opt/rta", PACKAGES="no")
    make("uninstall", tmp_path, PREFIX="/opt/rta")
    assert files(tmp_path) == {"etc/rta-supervisor/supervisor.toml"}
    assert edited.read_text() == "# mine\n"
    assert not (tmp_path / "opt/rta").exists()


def test_packages_that_there_are_not(tmp_path: Path) -> None:
    """A word that means nothing is refused before anything is touched."""
    words = ["make", "install", f"DESTDIR={tmp_path}", "PACKAGES=mysql"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "PACKAGES is daemon, postgres or no, not 'mysql'." in done.stderr
    assert files(tmp_path) == set()


def test_hosts_that_share_a_catalogue_have_the_packages_of_others_and_a_driver() -> None:
    """Both locks name the same versions."""
    daemon, postgres = (
        {line.split(" ")[0] for line in (ROOT / "requirements" / name).read_text().splitlines() if "==" in line}
        for name in ("daemon.lock", "postgres.lock")
    )
    assert daemon <= postgres
    assert {line.partition("==")[0] for line in postgres - daemon} >= {"psycopg", "psycopg-binary"}


@pytest.mark.skipif(not os.environ.get("RTA_SOAK"), reason="installs 280 MB of packages: part of make soak")
@pytest.mark.timeout(600)
def test_the_installed_program_runs(tmp_path: Path) -> None:
    """With its packages and no other."""
    make("install", tmp_path, PREFIX="/usr")
    program = (tmp_path / "usr/bin/rta-supervisor").read_text()
    moved = tmp_path / "moved"
    moved.write_text(program.replace('"/usr/lib/rta-supervisor"', repr(str(tmp_path / "usr/lib/rta-supervisor"))))
    moved.chmod(0o755)
    done = subprocess.run(
        [moved, "check-config"], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin"}, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "redis.url" in done.stdout
