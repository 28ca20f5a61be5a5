"""Asks a supervisor over HTTP, with nothing but the standard library."""

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import msgspec

from tests.support.supervisors import Supervisor


class Answer(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: str

    def json(self) -> Any:
        return json.loads(self.body)


def address(supervisor: Supervisor) -> str:
    return str(supervisor.wait_for_event("http_listening")["address"])


def get(base: str, path: str, headers: dict[str, str] | None = None) -> Answer:
    parts = urlsplit(base)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    try:
        connection.request("GET", path, headers=headers or {})
        answer = connection.getresponse()
        names = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, names, answer.read().decode())
    finally:
        connection.close()
