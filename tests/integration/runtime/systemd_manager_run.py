"""Runs inside namespaces of its own: a real systemd manager with our unit, from start to stop. Prints what it saw.

Usage: python -m tests.integration.runtime.systemd_manager_run UNIT CONFIG LOG. It is a manager for a user, which
needs no host to boot; how it starts, watches, reloads and restarts services is the same.
"""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.integration.runtime.systemd_peer import MANAGER
from tests.support.waiting import wait_until

NAME = "rta-supervisor.service"
HOME = Path("/run/home")
# A manager for a user changes no user, and what the test needs is in a home or a temporary directory.
LEFT_OUT = ("User", "Group", "PrivateTmp", "ProtectHome", "PrivateUsers", "ProtectSystem", "LoadCredential")


def systemctl(*arguments: str) -> str:
    process = subprocess.run(["systemctl", "--user", *arguments], capture_output=True, text=True, check=False)
    return process.stdout + process.stderr


def properties() -> dict[str, str]:
    names = "ActiveState,SubState,Result,NRestarts,MainPID,StatusText,ExecMainStatus"
    return dict(
        line.split("=", 1) for line in systemctl("show", NAME, f"--property={names}").splitlines() if "=" in line
    )


def wait_for(**expected: str) -> dict[str, str]:
    def reached() -> dict[str, str] | None:
        current = properties()
        return current if expected.items() <= current.items() else None

    return wait_until(reached, timeout_s=60, what=f"{expected}, last {properties()}") or {}


def set_up(unit: Path, config: Path, log: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    Path("/run/systemd/system").mkdir(parents=True)
    units = HOME / "config/systemd/user"
    units.mkdir(parents=True)
    HOME.chmod(0o700)
    os.environ |= {"HOME": str(HOME), "XDG_RUNTIME_DIR": str(HOME), "XDG_CONFIG_HOME": str(HOME / "config")}
    command = f"{sys.executable} -m rta_supervisor run --config {config} --log-format json"
    text = re.sub(r"(?m)^ExecStart=.*$", f"ExecStart={command}", unit.read_text())
    text = re.sub(rf"(?m)^({'|'.join(LEFT_OUT)})=.*\n", "", text)
    text = re.sub(r"(?m)^WatchdogSec=.*$", "WatchdogSec=3", text)
    text = re.sub(r"(?m)^RestartSec=.*$", "RestartSec=100ms", text)
    text = text.replace("[Service]\n", f"[Service]\nStandardOutput=append:{log}\nStandardError=inherit\n")
    (units / NAME).write_text(text)


def play(config: Path, log: Path) -> dict[str, Any]:
    observed: dict[str, Any] = {}
    systemctl("start", NAME)
    observed["started"] = wait_for(ActiveState="active", SubState="running")
    first = observed["started"]["MainPID"]
    config.write_text(config.read_text() + "[trim]\nmax_entries = 77\n")
    observed["reload"] = systemctl("reload", NAME)
    observed["reloaded"] = wait_until(
        lambda: "configuration_reloaded" in log.read_text() and "trim.max_entries" in log.read_text(), timeout_s=60
    )
    os.kill(int(first), signal.SIGSTOP)
    observed["watched"] = wait_for(NRestarts="1", ActiveState="active", SubState="running")
    os.kill(int(observed["watched"]["MainPID"]), signal.SIGKILL)
    observed["killed"] = wait_for(NRestarts="2", ActiveState="active", SubState="running")
    systemctl("stop", NAME)
    observed["stopped"] = wait_for(ActiveState="inactive")
    config.write_text("[nothing]\nx = 1\n")
    systemctl("start", NAME)
    observed["refused"] = wait_for(ActiveState="failed")
    return observed


def main() -> None:
    unit, config, log = map(Path, sys.argv[1:])
    set_up(unit, config, log)
    with (HOME / "log").open("wb") as output:
        manager = subprocess.Popen([MANAGER, "--user", "--unit=basic.target"], stdout=output, stderr=output)
    try:
        wait_until(lambda: systemctl("is-system-running").strip() in ("running", "degraded"), timeout_s=60)
        print(json.dumps(play(config, log)))
    finally:
        manager.terminate()
        manager.wait()


if __name__ == "__main__":
    main()
