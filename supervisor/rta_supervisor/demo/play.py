"""Plays the demo: starts the parts, watches the job, proves the result, shows it, removes every trace."""

import contextlib
import signal
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec
import redis
from rich import progress
from rich.console import Console
from rich.table import Table

from rta_supervisor.demo import cars, proof
from rta_supervisor.embedded import java, processes, server
from rta_supervisor.settings import settings
from rta_supervisor.transport import server_check
from rta_supervisor.transport.link import Link
from rta_wire import errors, keys
from rta_wire import redis_url as rta_wire_redis_url
from rta_writers.connection import redis_client, retry

LOG_TAIL_LINES: Final = 15
FAILED: Final = 1


class DemoFailed(errors.RtaError):
    """The demo went wrong: {reason}"""

    exit_code = FAILED


def play(*, redis_url: str | None, port: int | None, keep: bool, as_json: bool) -> int:
    """The exit code: 0 if everything is as it should be."""
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
        with tempfile.TemporaryDirectory(prefix="rtas-demo-") as work, _redis(redis_url, port) as url:
            console.print(f"[bold]server[/]      {rta_wire_redis_url.redact(url)}{'' if redis_url else ' (embedded)'}")
            code = _play_on(url, names, Path(work), console, keep=keep, as_json=as_json)
    except KeyboardInterrupt:
        interrupted = True
    if interrupted:  # also where Python dropped the exception, as it does in a destructor
        console.print("interrupted: everything that was started is stopped")
        return 128 + signal.SIGINT
    return code


def _play_on(url: str, names: cars.RunNames, work: Path, console: Console, *, keep: bool, as_json: bool) -> int:
    anyio.run(_check, url)
    with redis_client.connect(url) as client:
        try:
            with _supervisor(url, names, work):
                console.print("[bold]supervisor[/]  running")
                seconds = _run_job(url, names, work, console)
            reads = proof.check_all(client, names)
        except retry.REDIS_ERRORS as error:
            raise retry.to_rta_error(url, error) from error
        finally:
            with contextlib.suppress(*retry.OUTAGE_ERRORS):
                clean_up(client, names, keep=keep)
    result = _result(reads, seconds)
    if as_json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(result), indent=2).decode() + "\n")
    else:
        console.print(_table(result))
    for read in reads:
        for problem in read.problems:
            console.print(f"[bold red]wrong[/] {read.identity}: {problem}")
    if not result["proven"]:
        return FAILED
    console.print(
        f"[bold green]proven[/] every one of {result['samples']:,} samples stands in its stream exactly once; "
        "hashes, time ranges and closing entries are right"
    )
    return 0


async def _check(url: str) -> None:
    """A supervisor waits for a server that is away; a demo says so."""
    link = Link(settings.RedisSettings(url=url))
    try:
        await server_check.connect(link)
    finally:
        await link.close()


@contextlib.contextmanager
def _redis(url: str | None, port: int | None) -> Iterator[str]:
    if url is not None:
        yield url
        return
    with server.running(port=port) as embedded:
        yield embedded.url


@contextlib.contextmanager
def _supervisor(url: str, names: cars.RunNames, work: Path) -> Iterator[None]:
    """A supervisor as systemd would run it, with a key prefix of its own so as to disturb no other."""
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
            words = log_path.read_text(errors="replace").strip().removeprefix("rta-supervisor: ")
            raise SupervisorFailed(words, process.returncode)
        yield


class SupervisorFailed(errors.RtaError):
    """The supervisor did not start."""

    def __init__(self, words: str, exit_code: int | None) -> None:
        super().__init__(words or "The supervisor did not start and did not say why.")
        self.exit_code = exit_code or FAILED  # type: ignore[misc]  # what it ended with is what we end with


def _run_job(url: str, names: cars.RunNames, work: Path, console: Console) -> float:
    """Seconds that the job took from the first session to the last."""
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
                reason=f"the Spark job ended with {process.returncode}. The end of its log:\n{_tail(log_path)}"
            )
    return seconds


def _tail(log_path: Path) -> str:
    """The end of a log without the frames of the JVM, which say nothing to a person who only ran a demo."""
    lines = log_path.read_text(errors="replace").splitlines()
    return "\n".join([line for line in lines if not line.startswith(("\tat ", "\t... "))][-LOG_TAIL_LINES:])


def clean_up(client: redis.Redis, names: cars.RunNames, *, keep: bool) -> None:
    """Remove our own keys; with `keep` leave what readers of the protocol see."""
    ours = list(client.scan_iter(match=f"{names.key_prefix}*", count=1000))
    if not keep:
        ours += [
            keys.stream(names.stream),
            *(keys.Keys().session(identity) for identity in names.sessions.values()),
        ]
        client.srem(keys.STREAMS, names.stream)
    if ours:
        client.unlink(*ours)


def _result(reads: list[proof.SessionCheck], seconds: float) -> dict[str, Any]:
    samples = sum(read.samples for read in reads)
    return {
        "sessions": [msgspec.to_builtins(read) for read in reads],
        "bursts": sum(read.bursts for read in reads),
        "samples": samples,
        "raw_bytes": sum(read.raw_bytes for read in reads),
        "stored_bytes": sum(read.stored_bytes for read in reads),
        "seconds": round(seconds, 3),
        "samples_per_s": round(samples / seconds) if seconds else 0,
        "proven": not any(read.problems for read in reads),
    }


def _table(result: dict[str, Any]) -> Table:
    table = Table(show_footer=True)
    table.add_column("session", footer=f"all, in {result['seconds']:.1f} s")
    headings = {"bursts": "bursts", "samples": "samples", "raw_bytes": "bytes", "stored_bytes": "compressed"}
    for name, heading in headings.items():
        table.add_column(heading, justify="right", footer=f"{result[name]:,}")
    table.add_column("samples/s", justify="right", footer=f"{result['samples_per_s']:,}")
    for read in result["sessions"]:
        per_s = read["samples"] / result["seconds"] if result["seconds"] else 0.0
        table.add_row(f"Car {read['car']}", *(f"{read[name]:,}" for name in headings), f"{per_s:,.0f}")
    return table
