"""`rta-supervisor gateway`: the process that serves viewers."""

import contextlib
import functools
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import anyio
import click

from rta_supervisor.cli import options
from rta_supervisor.diagnostics import log
from rta_supervisor.embedded import process_guard
from rta_supervisor.settings import redaction, settings
from rta_wire import errors


@click.command("gateway")
@options.config
@options.redis_url
@click.option("--port", type=click.IntRange(0, 65535), help="Instead of gateway.port; 0: any that is free.")
def command(config_path: Path | None, redis_url: str | None, port: int | None) -> None:
    """Serve sessions to viewers, over WebSocket and REST, until SIGTERM.

    \b
    Reads only, and may run on any host, several times. Section [gateway] of the settings says where
    it listens and who may look.
    \b
    Examples:  rta-supervisor gateway --config /etc/rta-supervisor/supervisor.toml
               curl -s http://127.0.0.1:8640/rta/v2/sessions
    """
    from rta_supervisor.runtime import gateway  # noqa: PLC0415 - the web server; `--help` does not need it

    overrides = {"redis.url": redis_url, "gateway.port": port}
    load = functools.partial(settings.load, config_path, overrides=overrides)
    config = load()
    log.configure(config.log, redaction.secrets(config))
    gateway.give_way()
    try:
        anyio.run(gateway.Gateway(config, load).run)
    except Exception as error:
        if not isinstance(error, errors.RtaError):
            log.get().exception("gateway_crashed")
            raise click.exceptions.Exit(errors.RtaError.exit_code) from error
        raise


@contextlib.contextmanager
def beside(config_path: Path | None, redis_url: str | None) -> Iterator[None]:
    """A gateway with the same settings, until the block ends or this process does."""
    command = [sys.executable, "-m", "rta_supervisor", "gateway"]
    command += [] if config_path is None else ["--config", str(config_path)]
    command += [] if redis_url is None else ["--redis-url", redis_url]
    # systemd and its watchdog are about this process alone.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NOTIFY_", "WATCHDOG_"))}
    guard = process_guard.die_with_parent(os.getpid(), signal.SIGTERM)
    gateway = subprocess.Popen(command, env=environment, preexec_fn=guard)  # noqa: PLW1509 - before any other thread
    is_stopping = threading.Event()

    def report_end() -> None:
        code = gateway.wait()
        if not is_stopping.is_set():
            log.get().error("gateway_ended", code=code)

    threading.Thread(target=report_end, name="gateway", daemon=True).start()
    try:
        yield
    finally:
        is_stopping.set()
        gateway.terminate()
        gateway.wait()
