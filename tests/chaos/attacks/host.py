"""A host that many principals share: a server with the users of conf/acl, one supervisor, a receiver of webhooks."""

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import redis

import rta_writers
from rta_supervisor.embedded import server
from rta_writers.connection import redis_client
from tests.integration.webhooks import receiver
from tests.support import acl, http_client, supervisors
from tests.support.commands import CommandResult, run

VICTIM: Final = "victim"
STAFF: Final = "staff"
"""Opens the sessions that the operator ends."""

CALLER: Final = "caller"
"""Has sessions fail, so that webhooks have something to tell."""

ATTACKERS: Final = tuple(f"attacker-{number}" for number in range(1, 13))
HONEST: Final = tuple(f"honest-{number}" for number in range(20))
PRINCIPALS: Final = (*ATTACKERS, *HONEST, STAFF, CALLER, VICTIM)
"""The victim comes last wherever principals are looked at in order."""

OWN_SETTINGS: Final = {"RTA_HTTP__PORT": "0", "RTA_TRIM__ENABLED": "false"}
"""Nothing is trimmed: samples that are gone were lost."""


class Host:
    """What attackers and their victims share."""

    def __init__(
        self,
        embedded: server.EmbeddedServer,
        webhook: receiver.Receiver,
        directory: Path,
        settings: Mapping[str, str],
        *,
        is_fresh: bool,
    ) -> None:
        self.server = embedded
        self.webhook = webhook
        self.directory = directory
        self._is_fresh = is_fresh
        self._environment = {
            **OWN_SETTINGS,
            "RTA_REDIS__URL": self.url("supervisor"),
            "RTA_CATALOGUE__PATH": str(directory / "catalogue.sqlite"),
            "RTA_CONTROL__PRINCIPALS": json.dumps(PRINCIPALS),
            "RTA_WEBHOOKS__TO__PAGER__URL": webhook.url,
            "RTA_WEBHOOKS__TO__PAGER__SECRET": receiver.SECRET,
            **{f"RTA_CONTROL__STREAM_PREFIXES__{name.upper()}": f"{name}." for name in PRINCIPALS},
            **settings,
        }
        self._logs: list[Path] = []
        self.supervisor = self._start()

    def _start(self) -> supervisors.Supervisor:
        supervisor = supervisors.Supervisor("", self._environment, is_fresh=self._is_fresh)
        self._logs.append(supervisor.log_path)
        return supervisor

    def restart_supervisor(self) -> None:
        """Kill -9, and another one on what it left."""
        self.supervisor.kill()
        self.supervisor = self._start()

    @property
    def port(self) -> int:
        assert self.server.port is not None
        return self.server.port

    def url(self, user: str) -> str:
        return f"unix://{user}:{acl.PASSWORD}@{self.server.socket_path}"

    def writer_url(self, principal: str) -> str:
        return self.url(f"writer-{principal}")

    def sessions(self, principal: str, timeout_s: float = 30) -> rta_writers.SessionClient:
        return rta_writers.SessionClient(self.writer_url(principal), principal=principal, timeout_s=timeout_s)

    def writer(self, principal: str) -> redis.Redis:
        """A connection with the rights of a principal's programs."""
        return redis_client.connect(self.writer_url(principal))

    def admin(self) -> redis.Redis:
        return redis_client.connect(f"unix://{self.server.socket_path}")

    @property
    def http_address(self) -> str:
        return http_client.address(self.supervisor)

    def command(self, *words: str) -> CommandResult:
        """A command of `rta-supervisor`, with the rights of an operator."""
        before = dict(os.environ)
        os.environ["RTA_REDIS__URL"] = self.url("operator")
        os.environ["RTA_CONTROL__PRINCIPALS"] = json.dumps(PRINCIPALS)
        try:
            return run("", *words)
        finally:
            os.environ.clear()
            os.environ.update(before)

    def events(self, name: str = "") -> list[dict[str, object]]:
        """Of all supervisors that ran here. Without a name: all events."""
        lines = [line for path in self._logs for line in path.read_bytes().splitlines() if line.endswith(b"}")]
        events: list[dict[str, object]] = [json.loads(line) for line in lines if name.encode() in line]
        return [event for event in events if not name or event["event"] == name]

    def events_naming(self, who: str) -> dict[str, int]:
        """Warnings and errors that name somebody, by event."""
        found: dict[str, int] = {}
        for event in self.events():
            if event.get("level") in {"warning", "error"} and any(_names(value, who) for value in event.values()):
                found[str(event["event"])] = found.get(str(event["event"]), 0) + 1
        return found

    def doctor_naming(self, who: str) -> list[str]:
        """Findings of the doctor that name somebody."""
        findings = json.loads(self.command("doctor", "--json").out)["findings"]
        return [
            f"{finding['check']}: {finding['found']}"
            for finding in findings
            if finding["level"] != "ok" and _names(finding["found"], who)
        ]

    def stop(self) -> None:
        self.supervisor.stop()


def _names(value: object, who: str) -> bool:
    """Whether a principal or one of its sessions stands there: `attacker-1` is not in `attacker-12`."""
    return re.search(rf"(?<![\w.-]){re.escape(who)}(?!\d)", str(value)) is not None


@contextlib.contextmanager
def running(settings: Mapping[str, str] | None = None, *, is_fresh: bool = False) -> Iterator[Host]:
    """A host for the length of a block. `is_fresh`: its supervisor is an interpreter of its own."""
    with contextlib.ExitStack() as stack:
        embedded = stack.enter_context(acl.running(PRINCIPALS, port=server.free_port()))
        webhook = stack.enter_context(receiver.receiving())
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rtas-attack-")))
        host = Host(embedded, webhook, directory, settings or {}, is_fresh=is_fresh)
        stack.callback(host.stop)
        yield host
