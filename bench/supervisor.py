"""The supervisor: reports, refreshes, opens, restarts and memory, against plain redis-py or against a fixed bound."""

import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import anyio
import redis.asyncio

from bench import load
from bench.measure import Case, constant
from rta_supervisor.catalogue.model import CatalogueRow
from rta_supervisor.catalogue.sqlite import SqliteCatalogue
from rta_supervisor.session.model import SessionRef
from rta_supervisor.session.store import SessionStore
from rta_supervisor.settings import settings
from rta_supervisor.transport import function_loader
from rta_supervisor.transport.link import Link
from rta_wire import keys, session
from rta_wire.codec import encode
from rta_wire.control import messages
from rta_wire.control.totals import Totals
from rta_wire.pb import control_pb2
from rta_wire.session import State

REPORTS = load.NAMES.reports(keys.DEFAULT_PRINCIPAL)
REQUESTS = load.NAMES.requests(keys.DEFAULT_PRINCIPAL)
BATCH = 1000
BARE = "bench:bare"
TICKS_PER_S = 10


def in_loop(work: Callable[[Link], Coroutine[Any, Any, float]]) -> float:
    """Work with a link that is connected already."""

    async def main() -> float:
        link = Link(settings.RedisSettings(url=load.rig().url, timeout_s=60))
        await function_loader.load(link)
        try:
            return await work(link)
        finally:
            await link.close()

    return anyio.run(main)


class Flood:
    """Many reports of some sessions and units, more of them with every round."""

    def __init__(self, *, count: int, sessions: int, units: int) -> None:
        self.count, self.sessions, self.units = count, sessions, units
        self._step = 0

    def raws(self) -> Iterator[bytes]:
        for at in range(self.count):
            number, unit = at % self.sessions + 1, at // self.sessions % self.units
            self._step += at % (self.sessions * self.units) == 0
            yield load.report(number, f"query-1/{unit}", self._step)


def folded_per_s(flood: Flood) -> float:
    """The daemon as it runs: reports wait in the stream, and it works them off."""
    rig = load.rig()

    def set_up() -> None:
        rig.sender.send(load.packed(load.sessions(flood.sessions)))
        rig.start()

    rig.only(("flood", flood), set_up)
    rig.pause()
    rig.sender.send(load.packed(load.report_call(raw) for raw in flood.raws()))
    started_s = time.perf_counter()
    rig.go_on()
    rig.wait_until_empty(REPORTS)
    return flood.count / (time.perf_counter() - started_s)


def read_per_s(flood: Flood) -> float:
    """The least that a reader of a group has to do."""
    rig = load.rig()
    rig.client.delete(BARE)
    rig.client.xgroup_create(BARE, "bare", "0", mkstream=True)
    rig.sender.send(load.packed(load.report_call(raw, BARE) for raw in flood.raws()))

    async def main() -> float:
        async with redis.asyncio.Redis.from_url(rig.url) as client:
            await client.ping()
            started_s = time.perf_counter()
            seen = 0
            while seen < flood.count:
                answer: Any = await client.xreadgroup("bare", "one", {BARE: ">"}, count=BATCH)
                [[_, entries]] = answer
                await client.xack(BARE, "bare", *(entry_id for entry_id, _ in entries))
                seen += len(entries)
            return flood.count / (time.perf_counter() - started_s)

    figure = anyio.run(main)
    rig.client.delete(BARE)
    return figure


def bench_reports(quick: bool) -> Iterator[Case]:
    """How fast reports are folded."""
    flood = Flood(count=2000 if quick else 50_000, sessions=100, units=4)
    yield Case(
        "reports folded by the daemon; reference: a bare redis-py asyncio XREADGROUP and XACK loop",
        "reports/s",
        lambda: folded_per_s(flood),
        lambda: read_per_s(flood),
        bar=0.6,
    )


class Refreshes:
    """Sessions whose time range grew, shown to readers."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._step = 0

    def set_up(self) -> None:
        rig = load.rig()
        rig.only(("sessions", self.count), lambda: rig.sender.send(load.packed(load.sessions(self.count))))

    def ours(self) -> float:
        self.set_up()
        self._step += 1
        totals = Totals(self._step, 1, 1, 1, load.START_NS, load.START_NS + self._step)
        refs = [SessionRef(load.identity(n), load.STREAM, n) for n in range(1, self.count + 1)]

        async def work(link: Link) -> float:
            sessions = SessionStore(link, settings.Settings())
            await sessions.fold({(ref.identity, ref.stream_session_id): {"u": totals} for ref in refs})
            started_s = time.perf_counter()
            await sessions.refresh(refs)
            return self.count / (time.perf_counter() - started_s)

        return in_loop(work)

    def reference(self) -> float:
        self.set_up()
        names = [load.NAMES.session(load.identity(n)) for n in range(1, self.count + 1)]
        now_ms = time.time_ns() // 1_000_000

        async def main() -> float:
            async with redis.asyncio.Redis.from_url(load.rig().url) as client:
                await client.ping()
                started_s = time.perf_counter()
                pipe = client.pipeline(transaction=False)
                for number, name in enumerate(names, 1):
                    span = (load.START_NS, load.START_NS + number)
                    pipe.hset(name, mapping={"tStart": span[0], "tEnd": span[1], "lastUpdated": now_ms})
                    pipe.expire(name, load.TTL_S)
                    pipe.xadd(keys.stream(load.STREAM), {"id": number, "data": encode.time_range(*span)})
                await pipe.execute()
                return self.count / (time.perf_counter() - started_s)

        return anyio.run(main)


def bench_refresh(quick: bool) -> Iterator[Case]:
    """How fast time ranges go out."""
    refreshes = Refreshes(200 if quick else 10_000)
    yield Case(
        "refresh of 10,000 sessions; reference: HSET, EXPIRE and XADD in one redis-py asyncio pipeline",
        "sessions/s",
        refreshes.ours,
        refreshes.reference,
        bar=2.5,
    )


class Steady:
    """Every session sends a report a second."""

    def __init__(self, *, sessions: int, seconds: int) -> None:
        self.sessions, self.seconds = sessions, seconds
        self._step = 0

    def cpu_share(self) -> float:
        """Of one core, while nothing piles up."""
        rig = load.rig()

        def set_up() -> None:
            rig.sender.send(load.packed(load.sessions(self.sessions)))
            rig.start()

        rig.only(("steady", self.sessions), set_up)
        first = self._step
        self._step += self.seconds
        per_tick = self.sessions // TICKS_PER_S
        ticks = [
            load.packed(
                load.report_call(load.report(n, "u", first + second + 1))
                for n in range(tick * per_tick + 1, (tick + 1) * per_tick + 1)
            )
            for second in range(self.seconds)
            for tick in range(TICKS_PER_S)
        ]
        cpu_s, started_s = rig.cpu_s(), time.perf_counter()
        for at, parts in enumerate(ticks):
            rig.sender.send(parts)
            time.sleep(max(0.0, started_s + (at + 1) / TICKS_PER_S - time.perf_counter()))
        rig.wait_until_empty(REPORTS)
        passed_s = time.perf_counter() - started_s
        # What came late took time that a real second does not have.
        return (rig.cpu_s() - cpu_s) / passed_s * max(1.0, passed_s / self.seconds)


def bench_steady_load(quick: bool) -> Iterator[Case]:
    """A day like any other."""
    steady = Steady(sessions=100 if quick else 10_000, seconds=1 if quick else 5)
    yield Case(
        "10,000 open sessions with a report and a refresh a second; reference: one core",
        "cores",
        steady.cpu_share,
        constant(1),
        bar=0.7,
        at_most=True,
    )


class Opens:
    """Opens while reports flow."""

    def __init__(self, *, opens: int, flood: Flood) -> None:
        self.opens, self.flood = opens, flood
        self._round = 0
        self._pace: float | None = None

    def p99_ms(self) -> float:
        rig = load.rig()
        if self._pace is None:
            self._pace = folded_per_s(self.flood) / 2
        rate_per_s = self._pace

        def set_up() -> None:
            rig.sender.send(load.packed(load.sessions(self.flood.sessions)))
            rig.start()

        rig.only(("opens", self), set_up)
        self._round += 1
        parts = load.packed(load.report_call(raw) for raw in self.flood.raws())
        stopping = threading.Event()
        feeder = threading.Thread(target=self._feed, args=(parts, rate_per_s, stopping))
        feeder.start()
        try:
            p99_ms = load.open_p99_ms(f"open-{self._round}-{number}" for number in range(self.opens))
        finally:
            stopping.set()
            feeder.join()
        rig.wait_until_empty(REPORTS)
        return p99_ms

    @staticmethod
    def _feed(parts: list[tuple[bytes, int]], rate_per_s: float, stopping: threading.Event) -> None:
        sender = load.Sender(load.rig().server.socket_path)
        started_s = time.perf_counter()
        sent = 0
        while True:
            for part in parts:
                sender.send([part])
                sent += part[1]
                if stopping.wait(max(0.0, started_s + sent / rate_per_s - time.perf_counter())):
                    return


def bench_open(quick: bool) -> Iterator[Case]:
    """How long who opens a session waits on a busy day."""
    flood = Flood(count=2000 if quick else 50_000, sessions=100, units=4)
    opens = Opens(opens=10 if quick else 200, flood=flood)
    yield Case(
        "p99 of an open while reports flow at half of what can be folded; reference: 1 ms",
        "ms",
        opens.p99_ms,
        constant(1),
        bar=50,
        at_most=True,
    )


def ready_s(count: int) -> float:
    """From start to ready, with that many sessions open in Redis and in the catalogue."""
    rig = load.rig()

    def set_up() -> None:
        rig.sender.send(load.packed(load.sessions(count)))
        rows = [
            CatalogueRow(name, load.STREAM, n, "default", State.OPEN, load.document(name), Totals(), 1, 1, 1)
            for n in range(1, count + 1)
            for name in (load.identity(n),)
        ]

        async def fill() -> None:
            catalogue = SqliteCatalogue(rig.directory / "catalogue.sqlite")
            await catalogue.save(rows)
            await catalogue.close()

        anyio.run(fill)

    rig.only(("restart", count), set_up)
    took_s = rig.start()
    assert rig.daemon is not None
    rig.daemon.kill()
    rig.daemon.wait()
    rig.daemon = None
    return took_s


def bench_restart(quick: bool) -> Iterator[Case]:
    """How long a host with many sessions is without a supervisor."""
    count = 100 if quick else 100_000
    yield Case(
        "restart with 100,000 sessions to ready; reference: 1 s",
        "s",
        lambda: ready_s(count),
        constant(1),
        bar=10,
        at_most=True,
    )


class Memory:
    """What a session costs while it is open and has reported."""

    def __init__(self, count: int) -> None:
        self.count = count

    def _set_up(self) -> None:
        rig = load.rig()
        rig.start(RTA_SESSION__IDLE_REFRESH_S="0.5")
        self._open("warm", 100)
        before = rig.resident_bytes()
        self._open("session", self.count)
        rig.sender.send(load.packed(load.report_call(raw) for raw in self._reports()))
        rig.wait_until_empty(REPORTS)
        time.sleep(2)  # a few idle refreshes, which touch every session
        self.daemon_bytes = (rig.resident_bytes() - before) / self.count
        self.redis_bytes = self._own_bytes() / self.count

    def _own_bytes(self) -> int:
        rig = load.rig()
        rig.client.delete(*rig.client.scan_iter(match=f"{load.NAMES.prefix}reply:*", count=1000))
        return rig.own_bytes()

    def _open(self, kind: str, count: int) -> None:
        rig = load.rig()
        requests = (
            control_pb2.OpenSession(
                request_id=messages.new_request_id(),
                identity=f"{kind}-{number:06d}",
                stream=load.STREAM,
                session_json=session.dump(session.build(f"{kind}-{number:06d}")).decode(),
            )
            for number in range(1, count + 1)
        )
        rig.sender.send(load.packed(load.report_call(messages.pack(request), REQUESTS) for request in requests))
        rig.wait_until_empty(REQUESTS)

    def _reports(self) -> Iterator[bytes]:
        rig = load.rig()
        for number in range(1, self.count + 1):
            place = rig.client.hget(load.NAMES.session(load.identity(number)), keys.STREAM_SESSION_ID)
            totals = Totals(1, 100, 900, 500, load.START_NS, load.START_NS + 1)
            yield messages.pack(
                control_pb2.Progress(
                    identity=load.identity(number),
                    stream_session_id=int(str(place, "ascii")),  # type: ignore[arg-type]
                    unit="query-1/0",
                    totals=totals.to_message(),
                )
            )

    def in_daemon(self) -> float:
        load.rig().only(("memory", self), self._set_up)
        return self.daemon_bytes / 1024

    def in_redis(self) -> float:
        load.rig().only(("memory", self), self._set_up)
        return self.redis_bytes / 1024


def bench_memory(quick: bool) -> Iterator[Case]:
    """What a session costs."""
    memory = Memory(50 if quick else 3000)
    for what, figure, bar in (
        ("memory of the daemon", memory.in_daemon, 5),
        ("memory of our own keys in Redis", memory.in_redis, 1.5),
    ):
        yield Case(f"{what} for a session; reference: 1 KiB", "KiB", figure, constant(1), bar=bar, at_most=True)


class Growth:
    """The same work among few and among many sessions."""

    def __init__(self, *, few: int, many: int, turns: int) -> None:
        self.few, self.many, self.turns = few, many, turns
        self._step = 0

    def cost_us(self, spread: int) -> float:
        """Of one report and one refresh, in batches as large as `few`, over so many sessions."""
        rig = load.rig()
        rig.only(("growth", self.many), lambda: rig.sender.send(load.packed(load.sessions(self.many))))
        stride = spread // self.few

        async def work(link: Link) -> float:
            sessions = SessionStore(link, settings.Settings())
            started_s = time.perf_counter()
            for turn in range(self.turns):
                self._step += 1
                totals = Totals(self._step, 1, 1, 1, load.START_NS, load.START_NS + self._step)
                numbers = range(turn % stride + 1, spread + 1, stride)
                refs = [SessionRef(load.identity(n), load.STREAM, n) for n in numbers]
                await sessions.fold({(ref.identity, ref.stream_session_id): {"u": totals} for ref in refs})
                await sessions.refresh(refs)
            return (time.perf_counter() - started_s) / self.turns / self.few * 1e6

        return in_loop(work)


def bench_growth(quick: bool) -> Iterator[Case]:
    """Whether a session costs more among many."""
    growth = Growth(few=100, many=1000 if quick else 100_000, turns=2 if quick else 100)
    yield Case(
        "a report and a refresh among 100,000 sessions; reference: among 100",
        "us",
        lambda: growth.cost_us(growth.many),
        lambda: growth.cost_us(growth.few),
        bar=1.2,
        at_most=True,
    )
