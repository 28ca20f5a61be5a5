"""Cars in real time with all that a person needs to look at them, until Ctrl-C; then their sessions are archived.

Catalogue and archive stay in the state directory: the next run shows the sessions of this one beside its own.
"""

import contextlib
import datetime as dt
import fcntl
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec
from rich.console import Console

from rta_supervisor.demo.play import DemoFailed, SupervisorFailed, tail
from rta_supervisor.embedded import java, processes, server
from rta_supervisor.settings.sections.servers import gateway, http
from rta_wire import errors

CLOSE_TIMEOUT_S: Final = 30
ARCHIVE_TIMEOUT_S: Final = 600
LOOPBACK: Final = "127.0.0.1"


def watch(state: Path) -> int:
    """Runs until it is interrupted, and gives the exit code."""
    console = Console()
    state.mkdir(parents=True, exist_ok=True)
    with _locked(state):
        environment = _environment(state.absolute())
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            return _watch(state.absolute(), environment, console)
        except KeyboardInterrupt:
            console.print("interrupted: everything that was started is stopped; nothing new is in the archive")
            return 128 + signal.SIGINT


@contextlib.contextmanager
def _locked(state: Path) -> Iterator[None]:
    """One run at a time has a catalogue: the supervisor of another one would take its open sessions for abandoned."""
    with (state / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            reason = f"another one plays in {state}. End it first, or name another directory after --watch"
            raise DemoFailed(reason=reason) from None
        yield


def _watch(state: Path, environment: Mapping[str, str], console: Console) -> int:
    with contextlib.ExitStack() as stack:
        redis_server = stack.enter_context(server.running(port=None))
        viewer = f"http://{LOOPBACK}:{environment['RTA_GATEWAY__PORT']}/"
        page = f"http://{LOOPBACK}:{environment['RTA_HTTP__PORT']}/ui"
        console.print(f"[bold]viewer[/]      {viewer}", highlight=False)
        console.print(f"[bold]operators[/]   {page}", highlight=False)
        sockets = [
            stack.enter_context(_service(command, redis_server.url, state, environment))
            for command in ("run", "gateway")
        ]
        run = dt.datetime.now(dt.UTC).strftime("%Y%m%d-%H%M%S")
        with _recorder(redis_server.url, run, state, environment) as recorder:
            console.print("[bold]cars[/]        three of them drive; Ctrl-C ends it and archives their sessions")
            wait_for_cars(recorder, sockets, state)
            console.print("[bold]closing[/]     the sessions")
            _stop(recorder)
        return _archive(redis_server.url, state, environment, console)


def _environment(state: Path) -> dict[str, str]:
    """Settings of all processes. The usual ports, else any that are free."""
    return {
        "RTA_HTTP__PORT": str(_port(http.HttpSettings().port)),
        "RTA_GATEWAY__PORT": str(_port(gateway.GatewaySettings().port)),
        "RTA_CATALOGUE__PATH": str(state / "catalogue.sqlite"),
        "RTA_ARCHIVE__PATH": str(state / "archive"),
        "RTA_LOG__FORMAT": "json",
    }


def _port(preferred: int) -> int:
    try:
        server.check_port_is_free(preferred)
    except errors.AddressInUse:
        return server.free_port()
    return preferred


@contextlib.contextmanager
def _service(command: str, url: str, state: Path, environment: Mapping[str, str]) -> Iterator[processes.ReadySocket]:
    """A supervisor or a gateway that is ready, until the block ends: the socket on which it says how it is."""
    log_path = state / f"{command}.log"
    arguments = [sys.executable, "-m", "rta_supervisor", command, "--redis-url", url]
    # The path of a unix socket is short, and that of the state directory may be long.
    with contextlib.ExitStack() as stack:
        ready_path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rtas-watch-")), "ready")
        ready = stack.enter_context(processes.ReadySocket(ready_path))
        variables = {**environment, "NOTIFY_SOCKET": str(ready_path)}
        process = stack.enter_context(processes.running(arguments, log_path, variables))
        if not ready.wait(process):
            raise SupervisorFailed.with_log(tail(log_path), process.returncode)
        yield ready


@contextlib.contextmanager
def _recorder(url: str, run: str, state: Path, environment: Mapping[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    """The cars, once their sessions are open."""
    arguments = [sys.executable, "-m", "rta_supervisor.demo.recorder", url, run]
    with processes.running(arguments, state / "cars.log", environment, pipe=True) as process:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise DemoFailed(reason=f"the cars did not start. The end of their log:\n{tail(state / 'cars.log')}")
        yield process


def wait_for_cars(recorder: "subprocess.Popen[bytes]", sockets: Sequence[processes.ReadySocket], state: Path) -> None:
    """Waits for Ctrl-C, and takes what the services say meanwhile. Raises where the cars end by themselves."""
    with contextlib.suppress(KeyboardInterrupt):
        assert recorder.stdout is not None
        cars = recorder.stdout.fileno()
        services = {service.fileno(): service for service in sockets}
        readable: list[int] = []
        while cars not in readable:
            readable, _, _ = select.select([cars, *services], [], [])
            for number in services.keys() & readable:
                services[number].take()
        line = recorder.stdout.readline()
        event = f" ({msgspec.json.decode(line)['event']})" if line else ""
        raise DemoFailed(reason=f"the cars stopped by themselves{event}.\n{tail(state / 'cars.log')}")


def _stop(recorder: "subprocess.Popen[bytes]") -> None:
    """Lets the cars close their sessions."""
    os.kill(recorder.pid, signal.SIGTERM)
    recorder.wait(CLOSE_TIMEOUT_S)


def _archive(url: str, state: Path, environment: Mapping[str, str], console: Console) -> int:
    console.print("[bold]archive[/]     sessions to Parquet files (Spark starts for it)")
    arguments = [sys.executable, "-m", "rta_supervisor", "archive", "--redis-url", url]
    variables = {**environment, **java.spark_environment()}
    with processes.running(arguments, state / "archive.log", variables) as process:
        code = process.wait(ARCHIVE_TIMEOUT_S)
    if code:
        raise DemoFailed(reason=f"the archive ended with {code}. The end of its log:\n{tail(state / 'archive.log')}")
    console.print(f"[bold green]done[/]        in {state / 'archive'}; the next run shows these sessions too")
    return 0
