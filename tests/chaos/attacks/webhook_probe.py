"""Has sessions fail beside an attack, one after the other, and notes when the webhook was told of each."""

import contextlib
import threading
import time
from typing import Final

import redis

from rta_wire import errors
from tests.chaos.attacks.host import CALLER, Host
from tests.chaos.attacks.recording import Step

PAUSE_S: Final = 0.5
POLL_S: Final = 0.01
LONGEST_S: Final = 30.0
REPLY_TIMEOUT_S: Final = 20.0


class WebhookProbe:
    """A thread of the process that has the receiver."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._sessions = host.sessions(CALLER, timeout_s=REPLY_TIMEOUT_S)
        self._stopping = threading.Event()
        self.steps: list[Step] = []
        self._thread = threading.Thread(target=self._run, name="webhook-probe", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(PAUSE_S):
            identity = f"{CALLER}-{number}"
            number += 1
            # What is refused or has no reply is the fate of an open, which the victim measures.
            with contextlib.suppress(errors.RtaError, redis.exceptions.RedisError):
                session = self._sessions.open(identity, stream=f"{CALLER}.a")
                position = len(self._host.webhook.posts)
                session.close(state="failed")
                self._wait_for_post(identity, position)

    def _wait_for_post(self, identity: str, position: int) -> None:
        began_s = time.monotonic()
        needle = f'"{identity}"'.encode()
        is_told = False
        while not is_told and time.monotonic() - began_s < LONGEST_S:
            if self._stopping.wait(POLL_S):
                return
            posts = self._host.webhook.posts[position:]
            position += len(posts)
            is_told = any(needle in post.body and b'"failed"' in post.body for post in posts)
        self.steps.append(Step("webhook", began_s, (time.monotonic() - began_s) * 1000))
