"""The program `rta-supervisor`: its commands, `run` and `demo`, and how a command ends.

A mistake of the user ends in one sentence and an exit code after sysexits, never in a traceback.
"""

import contextlib
import functools
import importlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import anyio
import click

from rta_supervisor.cli import options, output
from rta_supervisor.diagnostics import log
from rta_supervisor.settings import redaction, settings
from rta_wire import __version__, errors, quoting

NAME: Final = "rta-supervisor"
INTERRUPTED: Final = 128 + signal.SIGINT
OUTPUT_CLOSED: Final = 128 + signal.SIGPIPE
IO_ERROR: Final = 74
QUOTED_MAX_CHARS: Final = 100
SENTENCE_MAX_CHARS: Final = 1000
"""Of an error that is printed: a few lines of a terminal."""

COMMAND_MODULES: Final = {
    "gateway": "commands.gateway",
    "check-config": "commands.check_config",
    "status": "commands.status",
    "sessions": "sessions.group",
    "channels": "commands.channels",
    "streams": "commands.streams",
    "compact": "commands.compact",
    "tail": "commands.tail",
    "top": "commands.top",
    "stats": "commands.stats",
    "dlq": "commands.dlq",
    "publish": "commands.publish",
    "nodes": "commands.nodes",
    "viewers": "commands.viewers",
    "archive": "commands.archive",
    "doctor": "commands.doctor",
    "completion": "commands.completion",
}
"""The module below `rta_supervisor.cli` that holds each command, in the order in which `--help` lists them."""


class LazyGroup(click.Group):
    """A group of commands that imports the module of a command when that command is used.

    The daemon, and a command in a script, don't wait for the imports of other commands.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *COMMAND_MODULES]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if (module := COMMAND_MODULES.get(cmd_name)) is None:
            return super().get_command(ctx, cmd_name)
        command: click.Command = importlib.import_module(f"rta_supervisor.cli.{module}").command
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name=NAME)
def cli() -> None:
    """Live telemetry sessions from Spark.

    \b
    Try it, nothing else needed:    rta-supervisor demo
    Serve sessions on a host:       rta-supervisor run --redis-url redis://127.0.0.1:6379/0
    See what is going on:           rta-supervisor status
    Find out what is wrong:         rta-supervisor doctor
    \b
    Exit codes: 0 done, 64 usage, 65 bad data, 66 no such session or message, 69 unavailable, 70 refused
    or a fault of ours, 73 folder and 74 output can't be written, 75 a limit, or busy: later it may
    work, 77 not permitted, 78 configuration, 130 interrupted or not confirmed, 141 pipe closed.
    """


@cli.command()
@options.config
@options.redis_url
@click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), help="The least severe events to log."
)
@click.option("--log-format", type=click.Choice(["auto", "json", "console"]), help="auto: console on a terminal.")
@click.option("--with-gateway", is_flag=True, help="Run a gateway for viewers too, as a process beside this one.")
def run(
    config_path: Path | None, redis_url: str | None, log_level: str | None, log_format: str | None, with_gateway: bool
) -> None:
    """Run the supervisor until SIGTERM.

    \b
    Settings come from the file, then from the environment (RTA_REDIS__URL and so on), then from
    the options here; the last one wins. A password for Redis comes from redis.password_file, from
    RTA_REDIS_PASSWORD or from the systemd credential redis-password.
    \b
    Example:  rta-supervisor run --config /etc/rta-supervisor/supervisor.toml
    """
    from rta_supervisor.cli.commands import gateway  # noqa: PLC0415 - for one option
    from rta_supervisor.runtime import daemon  # noqa: PLC0415 - other commands start faster without it

    overrides = {"redis.url": redis_url, "log.level": log_level, "log.format": log_format}
    load = functools.partial(settings.load, config_path, overrides=overrides)
    config = load()
    log.configure(config.log, redaction.secrets(config))
    for setting, reason in config.warnings():
        log.get().warning("setting_doubtful", setting=setting, reason=reason)
    beside = gateway.beside(config_path, redis_url) if with_gateway else contextlib.nullcontext()
    try:
        with beside:
            anyio.run(daemon.Daemon(config, load).run)
    except Exception as error:
        if not isinstance(error, errors.RtaError):
            log.get().exception("supervisor_crashed")
            raise click.exceptions.Exit(errors.RtaError.exit_code) from error
        raise


@cli.command()
@options.redis_url
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Loopback port for the embedded server; else a unix socket."
)
@click.option("--keep", is_flag=True, help="Leave the data in the server that --redis-url names.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@click.option(
    "--watch",
    "state",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIRECTORY",
    help="Instead: play cars in real time until Ctrl-C, with a viewer, and keep their sessions in this directory.",
)
def demo(redis_url: str | None, port: int | None, keep: bool, as_json: bool, state: Path | None) -> None:
    """Stream three cars through Spark and prove that every sample arrived once.

    \b
    Starts an embedded server, a supervisor and a local Spark job, reads everything back, prints a
    table and removes every trace.
    \b
    Examples:  rta-supervisor demo
               rta-supervisor demo --redis-url redis://127.0.0.1:6379/0 --keep
               rta-supervisor demo --watch ./watched
    """
    from rta_supervisor.demo import play, watch  # noqa: PLC0415 - needs the extra `demo`; `run` does not

    if state is not None:
        if redis_url is not None or port is not None or keep or as_json:
            raise errors.Usage(reason="--watch takes no other option: it has a server of its own until Ctrl-C.")
        sys.exit(watch.watch(state))
    if keep and redis_url is None:
        raise errors.Usage(
            reason="--keep needs --redis-url: the embedded server ends with the demo, and its data with it."
        )
    if port is not None and redis_url is not None:
        raise errors.Usage(reason="--port is for the embedded server; --redis-url names another one. Use one of them.")
    sys.exit(play.play(redis_url=redis_url, port=port, keep=keep, as_json=as_json))


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the console script; gives its exit code. `arguments`: else those of the process."""
    _prepare_streams()
    stdout = sys.stdout
    try:
        code = _run_command(list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        _discard_output()
        return OUTPUT_CLOSED
    except SystemExit:
        if sys.stdout is stdout:
            raise
        # click has noticed the closed pipe: it puts another object in place of the stream, and ends with 1.
        _discard_output()
        return OUTPUT_CLOSED
    except OSError as error:
        _discard_output()
        click.echo(f"{NAME}: {error}", err=True)
        return IO_ERROR
    except Exception:  # noqa: BLE001 - the outermost frame of the program
        traceback.print_exc()
        click.echo(f"{NAME}: That is a fault of ours. Please report it with the lines above.", err=True)
        return errors.RtaError.exit_code
    return code


def _prepare_streams() -> None:
    """Give the process standard streams where it was started without, and let text through that the encoding of a
    terminal does not have: escaped."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "r" if number == 0 else "w", encoding="utf-8"))  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Send what is left in the buffer of standard output nowhere: Python writes it at its end, and would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run_command(arguments: list[str]) -> int:
    """Run one command. Errors are printed as a sentence; gives the exit code."""
    try:
        for argument in arguments:
            _check_utf8(argument)
        code = cli.main(arguments, prog_name=NAME, standalone_mode=False)
    except click.exceptions.Exit as ended:
        return ended.exit_code
    except click.Abort:
        return INTERRUPTED
    except click.UsageError as error:
        click.UsageError(_shortened(error.format_message()), error.ctx).show()
        return errors.Usage.exit_code
    except output.OutputFailed as failed:
        raise failed.problem from failed
    except errors.RtaError as error:
        lines = map(quoting.printable, _shortened(str(error)).split("\n"))
        click.echo(f"{NAME}: " + "\n".join(lines), err=True)
        return error.exit_code
    return code if isinstance(code, int) else 0


def _shortened(sentence: str) -> str:
    """A sentence that may quote a whole argument, without its middle if it is long."""
    if len(sentence) <= SENTENCE_MAX_CHARS:
        return sentence
    return f"{sentence[: SENTENCE_MAX_CHARS // 2]} … {sentence[-SENTENCE_MAX_CHARS // 2 :]}"


def _check_utf8(argument: str) -> None:
    """Refuse an argument with bytes that are no UTF-8, which Python has as lone surrogates: no name has them."""
    try:
        argument.encode()
    except UnicodeEncodeError as error:
        quoted = ascii(argument[:QUOTED_MAX_CHARS])
        raise errors.Usage(reason=f"The argument {quoted} is not valid UTF-8. Write it in UTF-8.") from error
