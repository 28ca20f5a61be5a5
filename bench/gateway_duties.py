"""The duties of a supervisor beside a gateway with viewers: how long an open takes, and how soon a report is shown.

All of them share the processors, as on one host. The gateway gives way as its unit has it, and the viewers, which stand
for other machines, to everything.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import redis

import rta_writers
from bench import gateway_peers as peers
from bench import load, measure
from rta_supervisor.embedded import server
from rta_wire import keys
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2, stream_pb2

VIEWERS: Final = 200
RATE_PER_S: Final = 50
"""Bursts of 2 KB that each viewer gets."""

WATCHED: Final = "watched"


@contextlib.contextmanager
def watched(viewers: int) -> Iterator[tuple[str, redis.Redis]]:
    """A supervisor with a session that is written to, and that so many viewers of a gateway watch."""
    with contextlib.ExitStack() as stack:
        own = stack.enter_context(server.running())
        stack.enter_context(peers.supervisor(own.url))
        client = stack.enter_context(redis.Redis(unix_socket_path=str(own.socket_path)))
        while not client.keys(f"{load.NAMES.prefix}node:*"):
            time.sleep(0.05)
        rta_writers.SessionClient(own.url, timeout_s=30).open(WATCHED, stream=WATCHED)
        if viewers:
            gateway = stack.enter_context(peers.gateway(own.url))
            stack.enter_context(peers.crowd(gateway.port, WATCHED, viewers))
        ended = threading.Event()
        writer = threading.Thread(target=_write, args=(own.socket_path, _number(client), ended))
        writer.start()
        try:
            yield own.url, client
        finally:
            ended.set()
            writer.join()


def _number(client: redis.Redis) -> int:
    number: Any = client.hget(load.NAMES.session(WATCHED), keys.STREAM_SESSION_ID)
    return int(number)


def _write(path: object, number: int, ended: threading.Event) -> None:
    burst = stream_pb2.StreamDataBurst()
    burst.data.add().timestamped_data.buffer = os.urandom(2000)
    block = peers.block(burst.SerializeToString())
    with redis.Redis(unix_socket_path=str(path)) as client:
        while not ended.wait(1 / RATE_PER_S):
            client.xadd(keys.stream(WATCHED), {"id": str(number), "data": block})


def open_p99_ms(viewers: int, count: int) -> float:
    """Of opens one after the other."""
    with watched(viewers) as (url, _):
        sessions = rta_writers.SessionClient(url, timeout_s=30)
        times = []
        for number in range(count):
            began_s = time.perf_counter()
            sessions.open(f"session-{number}", stream="other")
            times.append((time.perf_counter() - began_s) * 1000)
    return _shown("open", viewers, times, 0.99)


def refresh_p95_ms(viewers: int, count: int) -> float:
    """From a report to the time range of it in the stream: up to a tenth of a second by design."""
    with watched(viewers) as (_, client):
        number = _number(client)
        times = []
        for step in range(1, count + 1):
            end_ns = load.START_NS + step
            totals = Totals(step, step, step, step, load.START_NS, end_ns).to_message()
            raw = messages.pack(
                control_pb2.Progress(identity=WATCHED, stream_session_id=number, unit="u", totals=totals)
            )
            began_s = time.perf_counter()
            client.execute_command(*load.report_call(raw))
            while int(client.hget(load.NAMES.session(WATCHED), keys.T_END) or 0) < end_ns:
                time.sleep(0.001)
            times.append((time.perf_counter() - began_s) * 1000)
            time.sleep(0.013 * (step % 7))
    return _shown("refresh", viewers, times, 0.95)


def _shown(what: str, viewers: int, times: list[float], share: float) -> float:
    ordered = sorted(times)
    figures = {f"p{percent}": ordered[min(len(ordered) * percent // 100, len(ordered) - 1)] for percent in (50, 95, 99)}
    text = ", ".join(f"{name} {value:.2f} ms" for name, value in figures.items())
    print(f"gateway: {what} with {viewers} viewers: {text} ({len(times)} times)", file=sys.stderr)
    return figures[f"p{share * 100:.0f}"]


def bench_duties(quick: bool) -> Iterator[measure.Case]:
    """With a gateway of 200 viewers against none."""
    viewers = 10 if quick else VIEWERS
    cases: tuple[tuple[str, Callable[[int], float], float], ...] = (
        ("an open of the supervisor at p99", lambda count: open_p99_ms(count, 20 if quick else 600), 1.5),
        ("a refresh of the supervisor at p95", lambda count: refresh_p95_ms(count, 10 if quick else 150), 1.25),
    )
    for name, figure, bar in cases:
        yield measure.Case(
            f"gateway: {name} beside {viewers} viewers of a gateway, against none",
            "ms",
            lambda figure=figure: figure(viewers),  # type: ignore[misc]
            lambda figure=figure: figure(0),  # type: ignore[misc]
            bar,
            at_most=True,
        )
