"""Pages of documentation as programs: their fenced blocks, found and run, and what they show compared with what is.

A block that can't run has a comment right before it that says why, and what is run in its place where there is
something: `<!-- not run: it needs root; instead: test -f systemd/rta-supervisor.service -->`. Links, paths and the
length of lines are left to `doc_checks`.
"""

import contextlib
import io
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from rta_supervisor.cli import entry as cli_entry
from rta_supervisor.embedded import server
from tests.support import doc_checks, supervisors

ROOT = doc_checks.ROOT
NAMES = [str(page.relative_to(ROOT)) for page in doc_checks.PAGES]
DEFAULT_URL = "redis://127.0.0.1:6379/0"
DEFAULT_GATEWAY = "127.0.0.1:8640"
NO_GATEWAY = "127.0.0.1:1"
RUNNABLE = ("console", "bash", "python")
SHELL_WORDS = set("|&;<>$`*(){}'\"\\#~")

_EXCUSE = re.compile(r"<!-- not run: (.+?)(?:; instead: (.+?))? -->")


class Block(NamedTuple):
    """One fenced block."""

    page: str
    line: int
    language: str
    text: str
    excuse: str
    """Why it is not run; empty where it is."""
    instead: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


class Step(NamedTuple):
    """A command in a block, and what the page says that it prints."""

    command: str
    shown: str


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for match in doc_checks.FENCE.finditer(text):
        excuse = _EXCUSE.fullmatch(text[: match.start()].rstrip("\n").rpartition("\n")[2])
        line = text.count("\n", 0, match.start()) + 1
        words = (excuse[1], excuse[2] or "") if excuse else ("", "")
        yield Block(str(page.relative_to(ROOT)), line, match[1], match[2], *words)


def runnable(page: str) -> list[Block]:
    return [block for block in blocks(ROOT / page) if block.language in RUNNABLE]


def wants_spark(page: str) -> bool:
    return any("spark" in block.text for block in runnable(page) if block.language == "python")


def wants_deployment(page: str) -> bool:
    return any("rta-supervisor" in block.instead or not block.excuse for block in runnable(page))


@contextlib.contextmanager
def deployment() -> Iterator[str]:
    """A server as the operating guide wants it, and a supervisor."""
    options = {"appendonly": "yes", "maxmemory": "1gb"}
    with (
        server.running(options=options) as own,
        supervisors.running(own.url) as supervisor,
        pytest.MonkeyPatch.context() as patch,
    ):
        # Commands look for the catalogue where the supervisor has it.
        patch.setenv("XDG_STATE_HOME", str(supervisor.directory))
        yield own.url


def wants_gateway(page: str) -> bool:
    """Whether a block of the page asks a gateway."""
    return any(DEFAULT_GATEWAY in block.text for block in runnable(page) if not block.excuse)


def run_all(page: str, url: str, directory: Path, names: Mapping[str, Any], gateway: str = DEFAULT_GATEWAY) -> None:
    """`names`: what the text of the page takes for granted; `gateway`: host and port of one that runs."""
    runner = Runner(url, directory, names, gateway)
    for block in runnable(page):
        runner.run(block)


def steps(block: Block) -> list[Step]:
    """`$ command` lines with what follows each, or a whole script."""
    if block.language == "bash":
        return [Step(block.text, "")]
    parts = re.split(r"^\$ ", block.text, flags=re.MULTILINE)
    assert not parts[0].strip(), f"{block.place}: a console block begins with '$ '"
    found = []
    for part in parts[1:]:
        command, _, shown = part.partition("\n")
        while command.endswith("\\"):
            more, _, shown = shown.partition("\n")
            command += "\n" + more
        found.append(Step(re.sub(r"\s{2,}# .*", "", command), shown))
    return found


class Runner:
    """Runs the blocks of one page, one after another, against one deployment."""

    def __init__(self, url: str, directory: Path, names: Mapping[str, Any], gateway: str = DEFAULT_GATEWAY) -> None:
        self._url = url
        self._gateway = gateway
        self._directory = directory
        self.names = dict(names)
        for entry in ROOT.iterdir():
            if not entry.name.startswith("."):
                (directory / entry.name).symlink_to(entry)
        self._environment = {
            **os.environ,
            "RTA_REDIS__URL": url,
            # A gateway of somebody else on this host is none of the page's.
            "RTA_GATEWAY__ADDRESSES": f'["http://{NO_GATEWAY if gateway == DEFAULT_GATEWAY else gateway}"]',
            "HOME": str(directory),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        }

    def run(self, block: Block) -> None:
        """Fails where a block does not do what the page says."""
        if block.excuse:
            if block.instead:
                code, out = self._execute(block.instead)
                assert code == 0, f"{block.place}: {block.instead} ended with {code}: {out}"
        elif block.language == "python":
            code_ = compile(self._local(block.text), block.place, "exec")
            with contextlib.chdir(self._directory):
                exec(code_, self.names)  # noqa: S102 - our own pages
        else:
            for step in steps(block):
                self._step(block, step)

    def _step(self, block: Block, step: Step) -> None:
        code, out = self._execute(step.command)
        what = f"{block.place}: $ {step.command}\n{out}"
        # A sentence of ours is what a command ends with that could not do its work.
        is_refused = step.shown.rstrip().rpartition("\n")[2].startswith("rta-supervisor: ")
        assert (code != 0) == is_refused, f"ended with {code}: {what}"
        if step.shown.strip():
            assert matches(step.shown, self._shown(out)), f"{what}\nThe page shows:\n{step.shown}"

    def _execute(self, command: str) -> tuple[int, str]:
        words = self._local(command).split()
        if words[0] == "rta-supervisor" and not SHELL_WORDS & set(command):
            return self._within(words[1:])
        return self._shell(command)

    def _within(self, words: list[str]) -> tuple[int, str]:
        """One of our commands, without the time that a new process takes."""
        out = io.StringIO()
        with pytest.MonkeyPatch.context() as patch:
            for name in ("RTA_REDIS__URL", "RTA_GATEWAY__ADDRESSES"):
                patch.setenv(name, self._environment[name])
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), contextlib.chdir(self._directory):
                code = cli_entry.main(words)
        return code, out.getvalue()

    def _shell(self, command: str) -> tuple[int, str]:
        done = subprocess.run(
            ["/bin/bash", "-euo", "pipefail", "-c", self._local(command)],
            cwd=self._directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=90,
            check=False,
        )
        return done.returncode, done.stdout

    def _local(self, text: str) -> str:
        return text.replace(DEFAULT_URL, self._url).replace(DEFAULT_GATEWAY, self._gateway)

    def _shown(self, out: str) -> str:
        return out.replace(self._url, DEFAULT_URL).replace(socket.gethostname(), "ingest-1")


def matches(shown: str, out: str) -> bool:
    """Whether a page shows what came out: figures, times and ids may differ, `…` stands for anything."""
    pattern = ".*".join(re.escape(part.strip()) for part in _plain(shown).split("…"))
    return re.fullmatch(pattern, _plain(out).strip(), re.DOTALL) is not None


def _plain(text: str) -> str:
    text = re.sub(r"ingest-1-[0-9a-f]{8}", "NODE", text)
    text = re.sub(r"\d[\d,.:TZ-]*", "#", text)
    text = re.sub(r"# (ms|s|min|h|d)\b", "# s", text)
    text = re.sub(r"# (B|KiB|MiB|GiB)\b", "# B", text)
    return re.sub(r"\s+", " ", re.sub(r"─+", "─", text)).strip()
