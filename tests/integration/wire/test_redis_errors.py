"""Every row of the table of errors, against the error that a real server gives."""

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import redis.exceptions

from rta_supervisor.embedded import server
from rta_wire import redis_errors
from rta_wire.redis_errors import FailureKind
from rta_writers.connection import redis_client
from tests.support import proxy
from tests.support.waiting import wait_until

PASSWORD = "a word"  # noqa: S105 - of a server that lives for a minute

SEEN: set[str] = set()
"""Rows that a test has met: the last test wants all of them."""


@pytest.fixture(scope="module")
def own() -> Iterator[server.EmbeddedServer]:
    """A server that tests may break."""
    options = {"enable-debug-command": "yes", "enable-protected-configs": "yes", "busy-reply-threshold": "1"}
    with server.running(port=server.free_port(), options=options) as running:
        yield running


@pytest.fixture
def admin(own: server.EmbeddedServer) -> Iterator[redis.Redis]:
    with redis_client.connect(f"unix://{own.socket_path}") as client:
        client.flushall()
        yield client


def connect(own: server.EmbeddedServer, **options: Any) -> redis.Redis:
    """A client of its own on the same server."""
    retry = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
    return redis.Redis.from_url(own.url, socket_timeout=options.pop("socket_timeout", 5), retry=retry, **options)


def assert_classified(call: Callable[[], object], code: str, kind: FailureKind) -> redis_errors.ClassifiedError:
    """Checks that a call fails, and that its error is classified with this code and kind."""
    with pytest.raises((redis.exceptions.RedisError, OSError)) as caught:
        call()
    classified = redis_errors.classify(caught.value)
    assert classified is not None
    assert (classified.code, classified.kind) == (code, kind), repr(caught.value)
    assert classified.meaning in str(classified)
    SEEN.add(code)
    return classified


@contextlib.contextmanager
def configured(admin: redis.Redis, **options: str) -> Iterator[None]:
    names = {name.replace("_", "-"): value for name, value in options.items()}
    before: Any = {name: admin.config_get(name) for name in names}
    for name, value in names.items():
        admin.config_set(name, value)
    try:
        yield
    finally:
        for setting in before.values():
            for name, value in setting.items():
                admin.config_set(name, value)


def test_full(admin: redis.Redis) -> None:
    """A full server has done nothing, neither for a command nor for a transaction nor for a function."""
    admin.function_load(
        "#!lua name=t\nredis.register_function('t', function(k) return redis.call('INCR', k[1]) end)", True
    )
    with configured(admin, maxmemory="1"):
        assert_classified(lambda: admin.set("a", 1), "OOM", FailureKind.NOT_DONE)
        assert_classified(lambda: admin.fcall("t", 1, "a"), "OOM", FailureKind.NOT_DONE)
        pipe = admin.pipeline(transaction=True)
        pipe.set("a", 1)
        assert_classified(pipe.execute, "OOM", FailureKind.NOT_DONE)
    assert admin.get("a") is None


def test_a_transaction_that_was_discarded(admin: redis.Redis) -> None:
    """What was queued before the mistake is not done either."""
    connection: Any = admin.connection_pool.get_connection()
    for command in (("MULTI",), ("SET", "a", 1)):
        connection.send_command(*command)
        connection.read_response()
    connection.send_command("NOSUCH")
    assert_classified(connection.read_response, "ERR", FailureKind.PERMANENT)
    connection.send_command("EXEC")
    assert_classified(connection.read_response, "EXECABORT", FailureKind.NOT_DONE)
    admin.connection_pool.release(connection)
    assert admin.get("a") is None
    aborted = redis.exceptions.ExecAbortError("Transaction discarded because of: OOM command not allowed")
    assert redis_errors.classify(aborted).code == "OOM"  # type: ignore[union-attr]


def test_mistakes_of_ours(own: server.EmbeddedServer, admin: redis.Redis) -> None:
    """What will fail however often it is tried."""
    admin.set("text", "x")
    assert_classified(lambda: admin.lpush("text", 1), "WRONGTYPE", FailureKind.PERMANENT)
    assert_classified(lambda: admin.execute_command("XADD"), "ERR", FailureKind.PERMANENT)
    assert_classified(lambda: admin.evalsha("0" * 40, 0), "NOSCRIPT", FailureKind.PERMANENT)
    assert_classified(lambda: admin.execute_command("HELLO", 9), "NOPROTO", FailureKind.PERMANENT)
    assert_classified(lambda: admin.fcall("nobody", 0), "NOFUNCTION", FailureKind.NOT_DONE)
    assert_classified(lambda: admin.xreadgroup("g", "c", {"s": ">"}), "NOGROUP", FailureKind.NOT_DONE)
    admin.acl_setuser("small", enabled=True, passwords=[f"+{PASSWORD}"], commands=["+get"], keys=["a"])
    with connect(own, username="small", password=PASSWORD) as small:
        assert_classified(lambda: small.get("b"), "NOPERM", FailureKind.PERMANENT)
        assert_classified(lambda: small.set("a", 1), "NOPERM", FailureKind.PERMANENT)
    with connect(own, username="small", password=PASSWORD + "x") as stranger:
        assert_classified(stranger.ping, "WRONGPASS", FailureKind.PERMANENT)
    with configured(admin, requirepass="secret"):
        try:
            with connect(own) as stranger:
                assert_classified(stranger.ping, "NOAUTH", FailureKind.PERMANENT)
        finally:
            admin.acl_setuser("default", nopass=True, enabled=True)


def test_what_passes_by_itself(own: server.EmbeddedServer, admin: redis.Redis) -> None:
    """Replicas, disks and connections that are missing now."""
    with configured(admin, min_replicas_to_write="1"):
        assert_classified(lambda: admin.set("a", 1), "NOREPLICAS", FailureKind.NOT_DONE)
    with configured(admin, replica_serve_stale_data="no"):
        admin.replicaof("127.0.0.1", "1")
        try:
            assert_classified(lambda: admin.get("a"), "MASTERDOWN", FailureKind.NOT_DONE)
            admin.config_set("replica-serve-stale-data", "yes")
            assert_classified(lambda: admin.set("a", 1), "READONLY", FailureKind.NOT_DONE)
        finally:
            admin.replicaof("NO", "ONE")
    (own.directory / "folder" / "x").mkdir(parents=True)
    with configured(admin, save="1000 1000", dbfilename="folder"):
        assert_classified(admin.save, "ERR", FailureKind.PERMANENT)
        admin.bgsave()
        wait_until(lambda: admin.info("persistence")["rdb_last_bgsave_status"] == "err", what="a save that failed")
        assert_classified(lambda: admin.set("a", 1), "MISCONF", FailureKind.NOT_DONE)
        admin.config_set("dbfilename", "dump.rdb")
        admin.save()
    with configured(admin, maxclients=str(len(admin.client_list()))), connect(own) as one_too_many:
        assert_classified(one_too_many.ping, "MAXCLIENTS", FailureKind.NOT_DONE)
    assert admin.get("a") is None


def test_a_busy_server(own: server.EmbeddedServer, admin: redis.Redis) -> None:
    """A script that does not end, and a load that takes its time."""
    with connect(own) as other:
        script = threading.Thread(target=_fail, args=(lambda: other.eval("while true do end", 0),))
        script.start()
        with connect(own) as caller:
            wait_until(lambda: _code(caller.ping) == "BUSY", what="a busy server")
            assert_classified(lambda: caller.set("a", 1), "BUSY", FailureKind.NOT_DONE)
            caller.script_kill()
        script.join()
    for number in range(50):
        admin.set(f"key:{number}", os.urandom(500))
    with configured(admin, key_load_delay="20000", loading_process_events_interval_bytes="1024"), connect(own) as other:
        load = threading.Thread(target=_fail, args=(lambda: other.execute_command("DEBUG", "RELOAD"),))
        load.start()
        with connect(own) as caller:
            wait_until(lambda: _code(lambda: caller.set("a", 1)) == "LOADING", what="a server that loads")
            SEEN.add("LOADING")
        load.join()


def test_a_waiting_command_that_is_ended(own: server.EmbeddedServer, admin: redis.Redis) -> None:
    """As a failover does it."""
    with connect(own) as waiter:
        number = waiter.client_id()
        end = threading.Thread(
            target=lambda: wait_until(lambda: admin.client_unblock(number, error=True), what="a client that waits")
        )
        end.start()
        assert_classified(lambda: waiter.blpop(["nothing"], timeout=4), "UNBLOCKED", FailureKind.NOT_DONE)
        end.join()


def test_connections(own: server.EmbeddedServer, admin: redis.Redis) -> None:
    """Nobody there, cut before and after sending, and silence: only the first is certain."""
    gone = redis.Redis(port=server.free_port(), retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0))
    assert_classified(gone.ping, "CONNECT", FailureKind.NOT_DONE)
    nowhere = redis.Redis(unix_socket_path="/nonexistent/socket", retry=redis.retry.Retry(redis.backoff.NoBackoff(), 0))
    assert_classified(nowhere.ping, "CONNECT", FailureKind.NOT_DONE)
    assert_classified(
        lambda: socket.create_connection(("127.0.0.1", gone.connection_pool.connection_kwargs["port"])),
        "CONNECT",
        FailureKind.NOT_DONE,
    )
    with connect(own, max_connections=1) as narrow:
        connection = narrow.connection_pool.get_connection()
        assert_classified(narrow.ping, "POOL", FailureKind.NOT_DONE)
        narrow.connection_pool.release(connection)
    with connect(own) as cut:
        connection = cut.connection_pool.get_connection()
        connection.send_command("CLIENT", "ID")
        admin.client_kill_filter(_id=connection.read_response())
        connection.send_command("INCR", "before")
        assert_classified(connection.read_response, "RESET", FailureKind.UNKNOWN)
    assert admin.get("before") is None
    with proxy.between(str(own.socket_path)) as between:
        retry = redis.retry.Retry(redis.backoff.NoBackoff(), 0)
        with redis.Redis.from_url(between.url, retry=retry) as far:
            far.ping()
            between.swallow_reply_to(b"after")
            assert_classified(lambda: far.incr("after"), "RESET", FailureKind.UNKNOWN)
    assert admin.get("after") == b"1"
    with connect(own, socket_timeout=0.2) as hasty:
        hasty.ping()
        os.kill(own.pid, signal.SIGSTOP)
        try:
            assert_classified(lambda: hasty.incr("silent"), "TIMEOUT", FailureKind.UNKNOWN)
        finally:
            os.kill(own.pid, signal.SIGCONT)
    wait_until(lambda: admin.get("silent") == b"1", what="a command that was thought lost")


def test_a_cluster() -> None:
    """Slots that nobody has, that another has, and that are on their way."""
    with contextlib.ExitStack() as stack:
        nodes = []
        for _ in range(2):
            bus = server.free_port()
            options = {"cluster-enabled": "yes", "cluster-port": str(bus)}
            running = stack.enter_context(server.running(port=server.free_port(), options=options))
            nodes.append(
                stack.enter_context(redis.Redis.from_url(f"unix://{running.socket_path}", decode_responses=True))
            )
            port = running.port
        one, two = nodes
        assert_classified(lambda: one.set("a", 1), "CLUSTERDOWN", FailureKind.NOT_DONE)
        assert_classified(lambda: one.mset({"a": 1, "b": 1}), "CROSSSLOT", FailureKind.PERMANENT)
        one.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        one.execute_command("CLUSTER", "MEET", "127.0.0.1", port, bus)
        wait_until(lambda: "cluster_state:ok" in _info(one) and "cluster_state:ok" in _info(two), what="a cluster")
        wait_until(lambda: _code(lambda: one.set("{a}1", 1)) is None, what="a cluster that takes writes")
        assert_classified(lambda: two.set("a", 1), "MOVED", FailureKind.NOT_DONE)
        slot = one.execute_command("CLUSTER", "KEYSLOT", "a")
        one.execute_command("CLUSTER", "SETSLOT", slot, "MIGRATING", two.execute_command("CLUSTER", "MYID"))
        assert_classified(lambda: one.get("{a}2"), "ASK", FailureKind.NOT_DONE)
        assert_classified(lambda: one.mget("{a}1", "{a}2"), "TRYAGAIN", FailureKind.NOT_DONE)


def test_protected_mode_and_tls_by_their_words() -> None:
    """Not provoked here: protected mode needs another host, and TLS another server: see test_tls.py."""
    denied = redis.exceptions.ResponseError("DENIED Redis is running in protected mode")
    assert_classified(lambda: _raise(denied), "DENIED", FailureKind.PERMANENT)
    refused = redis.exceptions.ConnectionError(
        "Error 1 connecting to localhost:6379. [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed"
    )
    assert_classified(lambda: _raise(refused), "TLS", FailureKind.PERMANENT)


def test_every_row_was_met() -> None:
    """A row that no test provokes is a guess."""
    if not SEEN:
        pytest.skip("run together with the others of this file")
    assert set(redis_errors.TABLE) == SEEN


def _raise(error: Exception) -> None:
    raise error


def _info(client: Any) -> str:
    return str(client.execute_command("CLUSTER", "INFO"))


def _code(call: Callable[[], object]) -> str | None:
    try:
        call()
    except (redis.exceptions.RedisError, OSError) as error:
        found = redis_errors.classify(error)
        assert found is not None
        return found.code
    return None


def _fail(call: Callable[[], object]) -> None:
    with contextlib.suppress(redis.exceptions.RedisError):
        call()
