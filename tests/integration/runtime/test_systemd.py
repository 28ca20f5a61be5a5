"""As systemd sees us: the units, the whole conversation, and a real manager where one can be had."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rta_supervisor.embedded import server
from tests.integration.runtime import systemd_peer
from tests.integration.runtime.systemd_peer import Listener
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[3]
UNITS = [ROOT / "systemd" / name for name in ("rta-supervisor.service", "rta-supervisor@.service")]
GATEWAY = ROOT / "systemd" / "rta-gateway.service"
ARCHIVE = [ROOT / "systemd" / name for name in ("rta-archive.service", "rta-archive.timer")]
EXPOSURE_MAX = 1.5

needs_analyze = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")


@pytest.fixture
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="rtas-") as directory:
        yield Path(directory)


def analyze(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(["systemd-analyze", *arguments], capture_output=True, text=True, check=False)


def placed(unit: Path, directory: Path) -> Path:
    """The unit with a program that is there; a template as one of its instances."""
    program = shutil.which("true")
    copy = directory / unit.name
    copy.write_text(unit.read_text().replace("/usr/bin/rta-supervisor", str(program)))
    return directory / unit.name.replace("@.", "@one.") if "@" in unit.name else copy


@needs_analyze
@pytest.mark.parametrize("unit", [*UNITS, GATEWAY], ids=lambda unit: unit.name)
def test_systemd_has_nothing_to_say_about_the_units(unit: Path, tmp_path: Path) -> None:
    """`verify` ends well on keys that it does not know: it must be silent."""
    process = analyze("verify", placed(unit, tmp_path))
    assert (process.returncode, process.stderr) == (0, "")
    spoilt = tmp_path / unit.name
    spoilt.write_text(spoilt.read_text().replace("Restart=", "Restarts="))
    assert "Restarts" in analyze("verify", placed_name(spoilt)).stderr, "the check can fail"


@needs_analyze
def test_systemd_has_nothing_to_say_about_the_nightly_archive(tmp_path: Path) -> None:
    """Both units, each with the other beside it; the time is one that systemd understands."""
    for unit in ARCHIVE:
        placed(unit, tmp_path)
    process = analyze("verify", *(tmp_path / unit.name for unit in ARCHIVE))
    assert (process.returncode, process.stderr) == (0, "")
    spoilt = tmp_path / "rta-archive.timer"
    spoilt.write_text(spoilt.read_text().replace("OnCalendar=", "OnCalendars="))
    assert "OnCalendars" in analyze("verify", spoilt).stderr, "the check can fail"
    process = analyze("security", "--offline=true", "--no-pager", ARCHIVE[0])
    exposure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", process.stdout)
    assert exposure, process.stdout + process.stderr
    assert float(exposure[1]) <= EXPOSURE_MAX


def placed_name(unit: Path) -> Path:
    return unit.with_name(unit.name.replace("@.", "@one."))


@needs_analyze
@pytest.mark.parametrize("unit", [*UNITS, GATEWAY], ids=lambda unit: unit.name)
def test_the_units_leave_little_exposed(unit: Path) -> None:
    """By systemd's own measure, from 0 to 10."""
    process = analyze("security", "--offline=true", "--no-pager", unit)
    exposure = re.search(r"Overall exposure level for \S+: ([0-9.]+)", process.stdout)
    assert exposure, process.stdout + process.stderr
    assert float(exposure[1]) <= EXPOSURE_MAX


def test_instances_differ_from_the_one_service_in_their_names_only() -> None:
    """Whoever changes one unit changes the other."""
    single, template = (unit.read_text() for unit in UNITS)
    plain = (
        template.replace("Description=RTA session supervisor %i", "Description=RTA session supervisor")
        .replace("/%i.toml", "/supervisor.toml")
        .replace("Directory=rta-supervisor/%i", "Directory=rta-supervisor")
        .replace("rta-supervisor@%i", "rta-supervisor")
    )
    assert re.sub(r":rta-%i\.\S+", "", plain) == single


@needs_analyze
def test_the_user_can_be_made() -> None:
    """The line is one that systemd-sysusers understands."""
    process = subprocess.run(
        ["systemd-sysusers", "--dry-run", ROOT / "systemd" / "rta-supervisor.sysusers"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert "rta-supervisor" in process.stdout + process.stderr


def test_the_whole_conversation(url: str, scratch: Path) -> None:
    """READY, signs of life with live counts, RELOADING and READY again, STOPPING; each in its place."""
    config = scratch / "s.toml"
    config.write_text(f'[redis]\nurl = "{url}"\n[http]\nport = 0\n[metrics]\nsurvey_s = 0.1\n')
    environment = {"NOTIFY_SOCKET": str(scratch / "notify"), "WATCHDOG_USEC": "600000"}
    with (
        Listener(scratch / "notify") as listener,
        systemd_peer.process(environment, scratch / "log", "--config", str(config), "--log-format", "json") as daemon,
    ):
        listener.wait_for(lambda message: "READY" in message, "READY")
        wait_until(lambda: len(listener.values("WATCHDOG")) >= 3, timeout_s=30, what="signs of life")
        listener.wait_for(lambda message: "no sessions; 0 opened" in message.get("STATUS", ""), "the status")
        config.write_text(config.read_text() + '[log]\nlevel = "debug"\n[node]\nttl_s = 90\n')
        before_us = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        daemon.send_signal(signal.SIGHUP)
        reloading = listener.wait_for(lambda message: "RELOADING" in message, "RELOADING")
        assert before_us <= int(reloading["MONOTONIC_USEC"]) <= time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        wait_until(lambda: len(listener.values("READY")) == 2, timeout_s=30, what="READY again")
        assert "READY" in listener.messages[listener.messages.index(reloading) + 1]
        daemon.terminate()
        stopping = listener.wait_for(lambda message: "STOPPING" in message, "STOPPING")
        assert daemon.wait(30) == 0
    kinds = [name for message in listener.messages for name in message if name in ("READY", "RELOADING", "STOPPING")]
    assert kinds == ["READY", "RELOADING", "READY", "STOPPING"]
    assert all("READY" not in message for message in listener.messages[listener.messages.index(stopping) :])
    events = [json.loads(line) for line in (scratch / "log").read_text().splitlines()]
    [reloaded] = [event for event in events if event["event"] == "configuration_reloaded"]
    assert reloaded["changed"] == ["log.level"]
    [restart] = [event for event in events if event["event"] == "settings_need_restart"]
    assert restart["settings"] == ["node.ttl_s"]


def test_ready_without_redis(scratch: Path) -> None:
    """An outage is no failed start: the status says what is missing, and signs of life go on."""
    environment = {"NOTIFY_SOCKET": str(scratch / "notify"), "WATCHDOG_USEC": "600000", "RTA_HTTP__PORT": "0"}
    options = ("--redis-url", "unix:///nonexistent/socket", "--log-format", "json")
    with (
        Listener(scratch / "notify") as listener,
        systemd_peer.process(environment, scratch / "log", *options) as daemon,
    ):
        ready = listener.wait_for(lambda message: "READY" in message, "READY")
        assert "Waiting for Redis" in ready["STATUS"]
        wait_until(lambda: len(listener.values("WATCHDOG")) >= 3, timeout_s=30, what="signs of life")
        daemon.terminate()
        assert daemon.wait(30) == 0


def test_a_mistake_in_the_file_changes_nothing(url: str, scratch: Path) -> None:
    """A reload says what is wrong and goes on as before."""
    config = scratch / "s.toml"
    config.write_text(f'[redis]\nurl = "{url}"\n[http]\nport = 0\n')
    environment = {"NOTIFY_SOCKET": str(scratch / "notify")}
    options = ("--config", str(config), "--log-format", "json")
    with (
        Listener(scratch / "notify") as listener,
        systemd_peer.process(environment, scratch / "log", *options) as daemon,
    ):
        listener.wait_for(lambda message: "READY" in message, "READY")
        config.write_text("[nothing]\nx = 1\n")
        daemon.send_signal(signal.SIGHUP)
        wait_until(lambda: len(listener.values("READY")) == 2, timeout_s=30, what="READY again")
        assert "configuration_refused" in (scratch / "log").read_text()
        assert daemon.poll() is None


def test_a_stop_is_bounded(scratch: Path) -> None:
    """A Redis that hangs does not keep us longer than drain_s and the last words."""
    environment = {
        "NOTIFY_SOCKET": str(scratch / "notify"), "RTA_HTTP__PORT": "0", "RTA_NODE__DRAIN_S": "0.5",
        "RTA_REDIS__TIMEOUT_S": "20",
    }  # fmt: skip
    with server.running() as running, Listener(scratch / "notify") as listener:
        options = ("--redis-url", running.url, "--log-format", "json")
        with systemd_peer.process(environment, scratch / "log", *options) as daemon:
            listener.wait_for(lambda message: "READY" in message, "READY")
            os.kill(running.pid, signal.SIGSTOP)
            try:
                daemon.terminate()
                assert daemon.wait(15) == 0
            finally:
                os.kill(running.pid, signal.SIGCONT)
        assert "drain_incomplete" in (scratch / "log").read_text()


@pytest.mark.skipif(bool(systemd_peer.why_no_manager()), reason=systemd_peer.why_no_manager() or "-")
def test_a_real_manager(scratch: Path) -> None:
    """Starts it, reloads it, starts it anew when it hangs and when it is killed, and not when it is misconfigured."""
    with server.running(port=server.free_port()) as running:
        config, log = scratch / "s.toml", scratch / "log"
        config.write_text(
            f'[redis]\nurl = "{running.url}"\n[http]\nport = 0\n[catalogue]\npath = "{scratch}/catalogue.sqlite"\n'
        )
        log.touch()
        arguments = map(str, ("-m", "tests.integration.runtime.systemd_manager_run", UNITS[0], config, log))
        process = subprocess.run(
            ["unshare", *systemd_peer.NAMESPACES, sys.executable, *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert process.returncode == 0, process.stderr + log.read_text()
    observed = json.loads(process.stdout)
    assert observed["reload"] == ""
    assert observed["reloaded"]
    assert observed["killed"]["Result"] == "success"
    assert observed["stopped"]["Result"] == "success"
    assert (observed["refused"]["ExecMainStatus"], observed["refused"]["NRestarts"]) == ("78", "0")
