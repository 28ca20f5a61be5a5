"""A Cluster of real nodes on loopback: slots that move, nodes that die, replicas that take over."""

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import redis

from rta_supervisor.embedded import server
from rta_wire import keys
from tests.support.waiting import wait_until

NODE_TIMEOUT_MS = 1000


class Cluster:
    """Nodes that share all slots; more of them may follow one of those."""

    def __init__(self, nodes: list[server.EmbeddedServer]) -> None:
        self.nodes = nodes
        self.clients = [redis.Redis(port=int(node.port or 0)) for node in nodes]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def id_of(self, number: int) -> str:
        return self._text(number, "MYID")

    def owner(self, key: str) -> int:
        """Which node has a key, by its number."""
        slot = keys.key_slot(key)
        for first, last, place, *_ in self._ask(0, "SLOTS"):
            if first <= slot <= last:
                return [node.port for node in self.nodes].index(place[1])
        raise AssertionError(f"nobody has slot {slot}")

    def begin_move(self, key: str, to: int) -> None:
        """One key to another node, before the others of its slot: commands on both have to be tried again."""
        slot, source = keys.key_slot(key), self.owner(key)
        self._ask(to, "SETSLOT", slot, "IMPORTING", self.id_of(source))
        self._ask(source, "SETSLOT", slot, "MIGRATING", self.id_of(to))
        self._migrate(key, source, to)

    def move(self, key: str, to: int, *, pause_s: float = 0.0) -> None:
        """The whole slot of a key to another node, key by key, while others read and write it."""
        slot, source = keys.key_slot(key), self.owner(key)
        self._ask(to, "SETSLOT", slot, "IMPORTING", self.id_of(source))
        self._ask(source, "SETSLOT", slot, "MIGRATING", self.id_of(to))
        while names := self._ask(source, "GETKEYSINSLOT", slot, 1):
            time.sleep(pause_s)
            self._migrate(names[0], source, to)
        for number in (to, source, *(set(range(len(self.nodes))) - {to, source})):
            with contextlib.suppress(redis.exceptions.ResponseError):  # a replica has nothing to say in this
                self._ask(number, "SETSLOT", slot, "NODE", self.id_of(to))

    def _migrate(self, key: str | bytes, source: int, to: int) -> None:
        self.clients[source].execute_command("MIGRATE", "127.0.0.1", self.nodes[to].port, "", 0, 5000, "KEYS", key)

    def follow(self, number: int, primary: int) -> None:
        """Make a node the replica of another, and wait until it has all its data."""
        wait_until(lambda: self.id_of(primary) in self._text(number, "NODES"), what="the primary being known")
        self._ask(number, "REPLICATE", self.id_of(primary))

        def is_in_step() -> bool:
            info: Any = self.clients[number].info("replication")
            return bool(info["role"] == "slave" and info["master_link_status"] == "up")

        wait_until(is_in_step, what="the replica being in step")

    def is_whole(self) -> bool:
        return all("cluster_state:ok" in self._text(number, "INFO") for number in range(len(self.nodes)))

    def _text(self, number: int, *words: Any) -> str:
        raw = self._ask(number, *words)
        return raw.decode() if isinstance(raw, bytes) else str(raw)

    def _ask(self, number: int, *words: Any) -> Any:
        return _raw(self.clients[number], "CLUSTER", *words)


def _raw(client: redis.Redis, *words: Any) -> Any:
    """The answer as Redis gave it."""
    connection: Any = client.connection_pool.get_connection()
    try:
        connection.send_command(*words)
        return connection.read_response()
    finally:
        client.connection_pool.release(connection)


@contextlib.contextmanager
def running(primaries: int = 3, replicas: int = 0, **options: str) -> Iterator[Cluster]:
    """A Cluster for the length of a block. Replicas follow the first primary."""
    enabled = {"cluster-enabled": "yes", "cluster-node-timeout": str(NODE_TIMEOUT_MS), **options}
    with contextlib.ExitStack() as stack:
        nodes = [
            stack.enter_context(server.running(port=port, options={**enabled, "cluster-port": str(bus)}))
            for port, bus in ((server.free_port(), server.free_port()) for _ in range(primaries + replicas))
        ]
        cluster = Cluster(nodes)
        for client in cluster.clients:
            stack.callback(client.close)
        for number in range(primaries):
            first, end = (keys.SLOTS * at // primaries for at in (number, number + 1))
            _raw(cluster.clients[number], "CLUSTER", "ADDSLOTSRANGE", first, end - 1)
        for number, client in enumerate(cluster.clients):
            _raw(client, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        for node in nodes[1:]:
            _raw(cluster.clients[0], "CLUSTER", "MEET", "127.0.0.1", node.port, node.options["cluster-port"])
        wait_until(cluster.is_whole, timeout_s=60, what="the Cluster")
        for number in range(primaries, primaries + replicas):
            cluster.follow(number, 0)
        yield cluster
