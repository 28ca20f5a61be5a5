"""The program where only the writers are installed."""

import subprocess
import sys

import pytest

from rta_supervisor import __main__ as program

RUN = "import sys; sys.modules[{name!r}] = None; from rta_supervisor import __main__; sys.exit(__main__.main())"


def run_without(name: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", RUN.format(name=name)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["anyio", "click"])
def test_what_is_not_installed_is_named(name: str) -> None:
    """One sentence says what to install, as after `pip install rta-supervisor`, which is for executors."""
    completed = run_without(name)
    assert completed.returncode == program.UNAVAILABLE
    [line] = completed.stderr.splitlines()
    assert f"{name!r} is not installed" in line
    assert "pip install 'rta-supervisor[daemon]'" in line


def test_a_module_of_ours_that_is_missing_has_its_traceback() -> None:
    """That is a fault, which installing something does not mend."""
    completed = run_without("rta_wire")
    assert completed.returncode == 1
    assert "Traceback" in completed.stderr
