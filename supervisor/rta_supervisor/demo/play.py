"""Runs the demo: starts server, supervisor and Spark job, shows progress, checks the result and removes every trace.

What the cars measure is in `cars`, the job in `job`, the check in `proof`, how to go on in `next_steps`.
"""

import contextlib
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

import anyio
import msgspec
import redis
from rich import progress
from rich.console import Console
from rich.table import Table

from rta_supervisor.demo import cars, next_steps, proof
from rta_supervisor.embedded import java, processes, server
from rta_supervisor.settings import settings
from rta_supervisor.transport import server_check
from rta_supervisor.transport.link import Link
from rta_wire import errors, keys
from rta_wire import redis_url as redis_urls
from rta_wire.channels import config_json
from rta_writers.connection import redis_client, retry

LOG_TAIL_LINES: Final = 15
LOG_TAIL_CHARS: Final = 1800
"""Less than an error quotes: it would cut the end, which says what went wrong."""
FAILED: Final = 1


class DemoFailed(errors.RtaError):
    """The demo went wrong: {reason}"""

    exit_code = FAILED


class SupervisorFailed(errors.RtaError):
    """The supervisor did not start and did not say why."""

    @classmethod
    def with_log(cls, log_text: str, exit_code: int | None) -> Self:
        """With what the supervisor said. Ends the demo with the supervisor's own exit code."""
        error = cls(log_text or None)
        error.exit_code = exit_code or FAILED  # type: ignore[misc]  # a class attribute of other errors
        return error


def play(*, redis_url: str | None, port: int | None, keep: bool, as_json: bool) -> int:
    """Runs the whole demo and gives the exit code: 0 if every sample is in its stream exactly once."""
    console = Console(stderr=as_json)
    names = cars.RunNames(uuid.uuid4().hex[:8])
    interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal interrupted
        interrupted = True
        raise KeyboardInterrupt

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt)
    try:
        with tempfile.TemporaryDirectory(prefix="rtas-demo-") as work, _redis_server(redis_url, port) as url:
            console.print(f"[bold]server[/]      {redis_urls.redact(url)}{'' if redis_url else ' (embedded)'}")
            code = _play_on(url, names, Path(work), console, keep=keep, as_json=as_json)
    except KeyboardInterrupt:
        interrupted = True
    if interrupted:  # a flag as well: Python drops an exception that is raised inside of a destructor
        console.print("interrupted: everything that was started is stopped")
        return 128 + signal.SIGINT
    return code


def _play_on(url: str, names: cars.RunNames, work: Path, console: Console, *, keep: bool, as_json: bool) -> int:
    anyio.run(_check_server, url)
    with redis_client.connect(url) as client:
        try:
            with _supervisor(url, names, work), _gateway(url, names, work) as address:
                console.print("[bold]supervisor[/]  running")
                console.print(f"[bold]gateway[/]     {address}/rta/v2")
                seconds = _run_job(url, names, work, console)
            checks = proof.check_all(client, names)
        except retry.REDIS_ERRORS as error:
            raise retry.to_rta_error(url, error) from error
        finally:
            with contextlib.suppress(*retry.OUTAGE_ERRORS):
                clean_up(client, names, keep=keep)
    result = _result(checks, seconds)
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(result), indent=2).decode() + "\n")
    else:
        console.print(_table(result))
    for check in checks:
        for problem in check.problems:
            console.print(f"[bold red]wrong[/] {check.identity}: {problem}")
    if not result["proven"]:
        return FAILED
    console.print(
        f"[bold green]proven[/] every one of {result['samples']:,} samples stands in its stream exactly once; "
        "hashes, time ranges and closing entries are right"
    )
    if not as_json:
        for line in ("", *next_steps.next_steps(url, names, is_kept=keep)):
            console.print(line, markup=False, highlight=False, soft_wrap=True)
    return 0


async def _check_server(url: str) -> None:
    """Raises where the server does not answer or is not suitable: a supervisor would wait for it without end."""
    link = Link(settings.RedisSettings(url=url))
    try:
        await server_check.connect(link)
    finally:
        await link.close()


@contextlib.contextmanager
def _redis_server(url: str | None, port: int | None) -> Iterator[str]:
    """The URL of the server that is named, or of an embedded one that runs until the block ends."""
    if url is not None:
        yield url
        return
    with server.running(port=port) as embedded:
        yield embedded.url


@contextlib.contextmanager
def _supervisor(url: str, names: cars.RunNames, work: Path) -> Iterator[None]:
    """Runs a supervisor as systemd would, with a key prefix of its own so that it disturbs no other."""
    log_path = work / "supervisor.log"
    ready_path = work / "ready.sock"
    command = [sys.executable, "-m", "rta_supervisor", "run", "--redis-url", url, "--log-format", "json"]
    environment = {
        "RTA_KEYS__PREFIX": names.key_prefix,
        "RTA_CATALOGUE__PATH": str(work / "catalogue.sqlite"),
        "RTA_HTTP__HOST": "",
        "NOTIFY_SOCKET": str(ready_path),
    }
    with processes.ReadySocket(ready_path) as ready, processes.running(command, log_path, environment) as process:
        if not ready.wait(process):
            log_text = log_path.read_text(errors="replace").strip().removeprefix("rta-supervisor: ")
            raise SupervisorFailed.with_log(log_text, process.returncode)
        yield


@contextlib.contextmanager
def _gateway(url: str, names: cars.RunNames, work: Path) -> Iterator[str]:
    """Runs a gateway on any free port while the cars drive. Gives its address."""
    log_path, ready_path = work / "gateway.log", work / "gateway.sock"
    command = [sys.executable, "-m", "rta_supervisor", "gateway", "--redis-url", url, "--port", "0"]
    environment = {
        "RTA_KEYS__PREFIX": names.key_prefix,
        "RTA_CATALOGUE__PATH": str(work / "catalogue.sqlite"),
        "RTA_LOG__FORMAT": "json",
        "NOTIFY_SOCKET": str(ready_path),
    }
    with processes.ReadySocket(ready_path) as ready, processes.running(command, log_path, environment) as process:
        if not ready.wait(process):
            raise DemoFailed(reason=f"the gateway ended with {process.returncode}:\n{tail(log_path)}")
        events = [msgspec.json.decode(line) for line in log_path.read_bytes().splitlines()]
        yield next(event["address"] for event in events if "address" in event)


def _run_job(url: str, names: cars.RunNames, work: Path, console: Console) -> float:
    """Runs the Spark job with a progress bar. Gives the seconds from its first session to the end of its last one."""
    log_path = work / "spark.log"
    command = [sys.executable, "-m", "rta_supervisor.demo.job", url, names.run, str(work)]
    seconds = 0.0
    total = cars.CARS * cars.CHANNELS * cars.TICKS
    columns = (
        progress.TextColumn("[bold]spark[/]       {task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.completed:,.0f}/{task.total:,.0f} samples"),
        progress.TimeElapsedColumn(),
    )
    with (
        progress.Progress(*columns, console=console) as bar,
        processes.running(command, log_path, {**java.spark_environment(), "TMPDIR": str(work)}, pipe=True) as process,
    ):
        task = bar.add_task("starting", total=total)
        assert process.stdout is not None
        for line in process.stdout:
            event: dict[str, Any] = msgspec.json.decode(line)
            if event["event"] == "started":
                bar.update(task, description=f"{event['spark']} streaming")
            elif event["event"] == "progress":
                bar.update(task, completed=event["samples"])
            elif event["event"] == "written":
                seconds = event["seconds"]
                bar.update(task, completed=total, description="done")
        if process.wait() != 0:
            raise DemoFailed(
                reason=f"the Spark job ended with {process.returncode}. The end of its log:\n{tail(log_path)}"
            )
    return seconds


def tail(log_path: Path) -> str:
    """The last lines of a log without the stack frames of the JVM, which don't help a person who only ran a demo."""
    lines = log_path.read_text(errors="replace").splitlines()
    without_frames = [line for line in lines if not line.startswith(("\tat ", "\t... "))]
    return "\n".join(without_frames[-LOG_TAIL_LINES:])[-LOG_TAIL_CHARS:]


def clean_up(client: redis.Redis, names: cars.RunNames, *, keep: bool) -> None:
    """Removes the supervisor's keys of this run, and without `keep` also what readers of the protocol see."""
    run_keys = list(client.scan_iter(match=f"{names.key_prefix}*", count=1000))
    if keep:
        _keep_config(client, names)
    else:
        run_keys += [
            keys.stream(names.stream),
            *(keys.Keys().session(identity) for identity in names.sessions.values()),
        ]
        client.srem(keys.STREAMS, names.stream)
    if run_keys:
        client.unlink(*run_keys)


def _keep_config(client: redis.Redis, names: cars.RunNames) -> None:
    """Leaves the configuration where readers of sessions look for it, for as long as the sessions are there."""
    data = config_json.encode(cars.CHANNEL_LIST)
    identifier = config_json.identifier(data)
    if (ttl_s := client.ttl(keys.Keys(prefix=names.key_prefix).config(identifier))) > 0:
        client.set(keys.Keys().config(identifier), data, ex=ttl_s, nx=True)


def _result(checks: list[proof.SessionCheck], seconds: float) -> dict[str, Any]:
    """What `demo --json` prints."""
    samples = sum(check.samples for check in checks)
    return {
        "sessions": [msgspec.to_builtins(check) for check in checks],
        "bursts": sum(check.bursts for check in checks),
        "samples": samples,
        "raw_bytes": sum(check.raw_bytes for check in checks),
        "stored_bytes": sum(check.stored_bytes for check in checks),
        "seconds": round(seconds, 3),
        "samples_per_s": round(samples / seconds) if seconds else 0,
        "proven": not any(check.problems for check in checks),
    }


def _table(result: dict[str, Any]) -> Table:
    table = Table(show_footer=True)
    table.add_column("session", footer=f"all, in {result['seconds']:.1f} s")
    headings = {"bursts": "bursts", "samples": "samples", "raw_bytes": "bytes", "stored_bytes": "compressed"}
    for name, heading in headings.items():
        table.add_column(heading, justify="right", footer=f"{result[name]:,}")
    table.add_column("samples/s", justify="right", footer=f"{result['samples_per_s']:,}")
    for session in result["sessions"]:
        per_s = session["samples"] / result["seconds"] if result["seconds"] else 0.0
        table.add_row(f"Car {session['car']}", *(f"{session[name]:,}" for name in headings), f"{per_s:,.0f}")
    return table
