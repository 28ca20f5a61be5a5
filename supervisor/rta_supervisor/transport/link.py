"""The connection to Redis: made so that nothing is repeated behind our back, and checked before it is trusted."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import anyio
import redis.asyncio
import redis.backoff
import redis.exceptions
import redis.maint_notifications
import redis.retry

from rta_supervisor.settings import settings
from rta_supervisor.transport import (
    cluster,
    commands,
    failures,
    functions,
    outage_log,
    pipeline,
    replies,
    server_check,
    topology,
)
from rta_wire import credentials, errors, keys, redis_errors, redis_url

RETRY_PAUSE_S: Final = 0.2


class Link:
    """One Redis, with as many connections as there are users of it at a time."""

    def __init__(self, config: settings.RedisSettings) -> None:
        self.config = config
        self.outage_log = outage_log.OutageLog()
        resolved = credentials.resolve_url(config.url, {name: getattr(config, name) for name in credentials.FILES})
        self.address = redis_url.parse(resolved.url, where="redis.url")
        options = resolved.client_options(config.timeout_s) | {
            "retry": redis.asyncio.retry.Retry(redis.backoff.NoBackoff(), 0),
            "maint_notifications_config": redis.maint_notifications.MaintNotificationsConfig(enabled=False),
            # Answers as Redis gave them: redis-py's own shapes change with its version and cost time on the hot path.
            "protocol": 2,
            "parser_class": pipeline.BatchParser,
        }
        try:
            self.topology = _route(self.address, options)
        except ValueError as error:
            raise redis_url.bad_url(resolved.url, error) from error

    async def do(self, *call: commands.Argument) -> Any:
        """One command, given as its words."""
        [answer] = await self.do_all([call])
        return answer

    async def do_all(self, batch: Sequence[commands.Command]) -> list[Any]:
        """All of them in one round trip. Not a transaction; the first error is raised after all have run.

        In order, but where each slot has its own server only those of a slot are.
        """
        answers = await self.try_all(batch)
        if error := pipeline.first_error(answers):
            raise failures.classify(error)
        return answers

    async def try_all(self, batch: Sequence[commands.Command]) -> list[Any]:
        """The same, with errors among the answers."""
        if not batch:
            return []
        try:
            return await self.topology.exchange(batch)
        except failures.OUTAGE_ERRORS as error:
            found = redis_errors.classify(error)
            if found is not None and found.kind is redis_errors.FailureKind.PERMANENT:
                raise self.to_rta_error(error) from error
            raise

    async def do_in_order(self, batch: Sequence[commands.Command]) -> list[Any]:
        """All of them, each after the one before it, whichever server has its keys."""
        if self.is_one_server:
            return await self.do_all(batch)
        return [await self.do(*call) for call in batch]

    @property
    def is_one_server(self) -> bool:
        """Whether one call can be about keys of any slot."""
        return self.address.mode is not redis_url.RedisMode.CLUSTER

    def spans_slots(self, keys_: Iterable[str]) -> bool:
        """Whether no command can be about all of these keys at once."""
        return not self.is_one_server and len({keys.key_slot(key) for key in keys_}) > 1

    async def do_on_primaries(self, *call: commands.Argument) -> list[Any]:
        """One command to every server that takes writes."""
        answers = [answer for send in await self.topology.senders() for answer in await send([call])]
        if error := pipeline.first_error(answers):
            raise failures.classify(error)
        return answers

    async def close(self) -> None:
        await self.topology.close()

    async def connect(self) -> None:
        """Wait for the server as long as we are told to, then check that it will do."""
        deadline_s = anyio.current_time() + self.config.startup_patience_s
        while True:
            try:
                return await self.check()
            except redis.exceptions.ResponseError as error:
                raise self.to_rta_error(error) from error
            except (*failures.OUTAGE_ERRORS, *failures.REFUSAL_ERRORS) as error:
                found = redis_errors.classify(error)
                is_hopeless = found is not None and found.kind is redis_errors.FailureKind.PERMANENT
                if is_hopeless or anyio.current_time() >= deadline_s:
                    raise self.to_rta_error(error) from error
                await anyio.sleep(RETRY_PAUSE_S)

    async def check(self) -> None:
        """Refuse a server on which sessions would be lost or functions are not there, and say what to do."""
        infos = [replies.parse_info(raw) for raw in await self.do_on_primaries("INFO", "everything")]
        problem = next((found for info in infos if (found := server_check.find_problem(info, self.config))), None)
        if problem is None or (isinstance(problem, errors.RedisFull) and await self.has_functions()):
            # One that is full and knows us is taken: only we make room there.
            return
        raise problem

    async def load_functions(self) -> None:
        """Put our Lua libraries on the server. Their names carry a version: an older supervisor keeps its own."""
        for library in functions.libraries():
            await self.do_on_primaries("FUNCTION", "LOAD", "REPLACE", library)

    async def has_functions(self) -> bool:
        """Whether all of our libraries are there already."""
        wanted = {library.partition("\n")[0].partition("name=")[2].encode() for library in functions.libraries()}
        lists = await self.do_on_primaries("FUNCTION", "LIST", "LIBRARYNAME", "rtas_*")
        return all(wanted <= {replies.pairs_to_dict(library)[b"library_name"] for library in found} for found in lists)

    def to_rta_error(self, error: BaseException) -> errors.RtaError:
        """What to tell a person about trouble with Redis."""
        url = redis_url.redact(self.config.url)
        found = redis_errors.classify(
            error.__cause__ or error if isinstance(error, failures.TemporaryRefusal | failures.DataLost) else error
        )
        if found is None:
            return errors.RedisUnreachable(url=url, reason=redis_errors.first_line(error))
        if found.code == redis_errors.OUT_OF_MEMORY:
            return errors.RedisFull(url=url, reason=found.text)
        if found.code in redis_errors.READ_ONLY:
            return errors.RedisUnsuitable(url=url, reason=f"{found.meaning}. Name the primary")
        if found.kind is redis_errors.FailureKind.PERMANENT:
            return errors.RedisRefused(url=url, reason=str(found))
        return errors.RedisUnreachable(url=url, reason=found.text)


def _route(where: redis_url.RedisUrl, options: dict[str, Any]) -> topology.Topology:
    """The route that an address asks for. `options` are those of each connection."""
    if where.mode is redis_url.RedisMode.SENTINEL:
        return topology.SentinelTopology(where, options)
    if where.mode is redis_url.RedisMode.CLUSTER:
        return cluster.ClusterTopology(where, options)
    return topology.SingleServer(redis.asyncio.ConnectionPool.from_url(where.url, **options))


safe_url = redis_url.redact
