"""Posts many webhooks and prints what the memory of the supervisor does: `python -m tests.chaos.webhook_memory`.

One session pauses and resumes, a receiver on loopback answers 204 at once. No part of `make test`: it takes minutes.
"""

import argparse
import asyncio
import multiprocessing
import time
from pathlib import Path
from typing import Any

import redis

import rta_writers
from rta_supervisor.embedded import server
from rta_wire import keys
from rta_wire.control import messages
from rta_wire.pb import control_pb2
from tests.support import supervisors
from tests.support.waiting import wait_until

BACKLOG = 40
"""Updates that are sent at once. Twice as many are less than the changes of one session that may wait."""
SECRET = "a secret of this program"  # noqa: S105 - of nothing else


def receive(port: "multiprocessing.Queue[int]", posts: Any) -> None:
    """A receiver that answers every post and counts it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n")
        posts.value += 1
        writer.close()

    async def serve() -> None:
        listener = await asyncio.start_server(answer, "127.0.0.1", 0)
        port.put(listener.sockets[0].getsockname()[1])
        await listener.serve_forever()

    asyncio.run(serve())


def rss_kb(pid: int) -> int:
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(line.split()[1])


def run(deliveries: int, samples: int) -> None:
    ports: multiprocessing.Queue[int] = multiprocessing.Queue()
    posts = multiprocessing.Value("q", 0, lock=False)
    receiver = multiprocessing.Process(target=receive, args=(ports, posts), daemon=True)
    receiver.start()
    hooks = {"URL": f"http://127.0.0.1:{ports.get()}/", "SECRET": SECRET}
    environment = {f"RTA_WEBHOOKS__TO__R0__{name}": value for name, value in hooks.items()}
    with (
        server.running(port=server.free_port()) as redis_server,
        supervisors.running(redis_server.url, environment, is_fresh=True) as supervisor,
        redis.Redis.from_url(redis_server.url) as client,
    ):
        session = rta_writers.SessionClient(redis_server.url).session("run-1", stream="rig")
        pid, sent, started_s = supervisor.process.pid, 0, time.monotonic()
        print(f"{'deliveries':>10}  {'RSS kB':>8}  {'s':>6}")
        for step in range(1, samples + 1):
            while posts.value < deliveries * step // samples:
                if sent - posts.value < BACKLOG:
                    pipeline = client.pipeline(transaction=False)
                    for number in range(sent, sent + BACKLOG):
                        state = ("waiting", "open")[number % 2]
                        update = control_pb2.UpdateSession(request_id=f"u{number}", identity="run-1", state=state)
                        pipeline.xadd(keys.Keys().requests("default"), {keys.CONTROL_FIELD: messages.pack(update)})
                    pipeline.execute()
                    sent += BACKLOG
                time.sleep(0.01)
            print(f"{posts.value:10}  {rss_kb(pid):8}  {time.monotonic() - started_s:6.1f}", flush=True)
        wait_until(lambda: client.zcard("rtas:hook:{r0}:due") == 0, what="an empty queue")
        session.close()
        supervisor.kill()
    receiver.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--deliveries", type=int, default=100_000)
    parser.add_argument("--samples", type=int, default=20)
    options = parser.parse_args()
    run(options.deliveries, options.samples)
