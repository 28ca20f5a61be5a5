"""What a service holds where several publishers, a lost reply, Redis or a catalogue say different things."""

import functools
from typing import Any

import grpc
import pytest

from rta_supervisor.catalogue.publications.model import Delivery
from rta_supervisor.nodes.server_clock import now_ms
from rta_supervisor.publish import content
from rta_supervisor.publish.publisher import Publisher
from rta_wire import keys
from rta_wire.session import State
from tests.integration.publish.publishing_scene import ONCE_S, Scene
from tests.support.toolkit_services import Fault


async def test_sequences_never_go_back(scene: Scene) -> None:
    """Not when Redis forgets them, not when the catalogue is new, and not when the clock goes back."""
    await scene.save()
    await scene.round()
    first = scene.services.sequences["run-1"]
    assert abs(first - now_ms()) < 60_000
    await scene.link.do("DEL", scene.config.keys.publishing())
    scene.publisher = scene.new_publisher()
    scene.clock = lambda: 1
    await scene.save(version=2, group="g")
    await scene.round()
    assert scene.services.sequences["run-1"] == first + 1
    assert scene.services.sessions["run-1"].group == "g"
    # Another catalogue has published since, by a clock that is ahead.
    await scene.link.do("HSET", scene.config.keys.publishing(), keys.PUBLISHING_SEQUENCE, first + 10)
    await scene.save(version=3, group="h")
    await scene.round()
    assert scene.services.sequences["run-1"] == first + 11


async def test_what_an_earlier_call_told_is_not_saved_over_a_later_one(scene: Scene) -> None:
    """Of two that publish at once the service keeps what came with the higher sequence, and so does the catalogue."""
    await scene.save(group="a")
    await scene.round()
    at_ms = now_ms() + 1
    read_due = functools.partial(scene.catalogue.publications.due, range_before_ms=0, future_ms=at_ms, limit=1)
    [before] = await read_due(heartbeat_before_ms=at_ms)
    await scene.save(group="b", version=2)
    [after] = await read_due(heartbeat_before_ms=0)
    sequence = scene.services.sequences["run-1"]
    # Whoever had read the old row was the last to get a sequence, and the first to save.
    for due, later in ((before, 2), (after, 1)):
        delivery = Delivery(due, sequence + later, content.digest(due.json), "", "", at_ms=now_ms())
        await scene.catalogue.publications.save_deliveries([delivery])
    status = await scene.catalogue.publications.get("run-1")
    assert status is not None
    assert (status.sequence, status.told_version) == (sequence + 2, 1)
    await scene.round()
    assert scene.services.sessions["run-1"].group == "b"


async def test_an_end_that_is_only_inferred_is_not_published(scene: Scene) -> None:
    """A host that finds a session ended does not know how; another one has published it."""
    await scene.save()
    await scene.round()
    await scene.catalogue.publications.skip([("run-1", 1, 1)])
    await scene.save(state=State.ABANDONED)
    await scene.round()
    assert scene.services.sessions["run-1"].state == State.OPEN.number
    await scene.save(state=State.CLOSED, version=2)
    await scene.round()
    assert scene.services.sessions["run-1"].state == State.CLOSED.number


async def test_another_catalogue_does_not_repeat_old_sessions(scene: Scene) -> None:
    """Where another host published since, its catalogue alone knows how older sessions ended."""
    hour_ms, key = 3600 * 1000, scene.config.keys.publishing()
    await scene.catalogue.publications.raise_mark("closed_seen_ms", now_ms() - 2 * hour_ms)
    await scene.save(state=State.CLOSED, at_ms=now_ms() - hour_ms)
    for catalogue_name, identities in (("another", []), (scene.catalogue.name, ["run-1"])):
        await scene.link.do("HSET", key, keys.PUBLISHING_CATALOGUE, catalogue_name)
        await scene.link.do("EXPIRE", key, 60)
        scene.publisher = scene.new_publisher()
        await scene.round()
        assert list(scene.services.sessions) == identities


async def test_a_lost_reply_leaves_no_detail_behind(scene: Scene) -> None:
    """A category that a call set whose reply was lost is cleared by the next call, which has it no more."""
    await scene.save(extDetails={"car": {"n": 1}})
    scene.services.fault = lambda _method, _request: Fault(grpc.StatusCode.UNAVAILABLE, is_applied=True)
    await scene.round()
    assert scene.services.sessions["run-1"].details["car"] == {"n": 1}
    await scene.save(version=2)
    scene.services.fault = lambda _method, _request: None
    scene.publisher = scene.new_publisher()
    await scene.round()
    assert scene.services.sessions["run-1"].shown()["details"] == {}


async def test_categories_that_were_cleared_are_forgotten(scene: Scene) -> None:
    """A session that invents new ones with each change does not add up all of them."""
    for version in range(1, 6):
        await scene.save(version=version, extDetails={f"group-{version}": {"n": 1}})
        await scene.round()
    await scene.save(version=6)
    await scene.round()
    [*_, request] = [request for method, request in scene.services.requests if method == "CreateOrUpdateSession"]
    told = [update.set_details_json.category for update in request.updates if update.HasField("set_details_json")]
    assert told == ["", "group-5"]
    assert scene.services.sessions["run-1"].shown()["details"] == {}


class Interruption:
    """Something that happens when a publisher has read what is due, and has told nothing of it."""

    def __init__(self, publisher: Publisher, monkeypatch: pytest.MonkeyPatch) -> None:
        self._prepare = publisher._prepared
        monkeypatch.setattr(publisher, "_prepared", self._run)
        self.happens: Any = None

    async def _run(self, *arguments: Any) -> Any:
        if self.happens is not None:
            await self.happens()
        return await self._prepare(*arguments)


async def test_one_that_read_before_another_one_told_tells_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two publishers the one that has read older rows does not get a higher sequence for them."""
    other = scene.new_publisher()

    async def tell_something_newer() -> None:
        await scene.save(group="b", version=2)
        await other.run_round(ONCE_S, await other.last_sequence())

    await scene.save(group="a")
    interruption = Interruption(scene.publisher, monkeypatch)
    interruption.happens = tell_something_newer
    await scene.round()
    interruption.happens = None
    await scene.round()
    assert [state["group"] for state in scene.services.history["run-1"]] == ["b"]


async def test_a_sequence_that_redis_lost_is_not_given_out_for_older_rows(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalogue knows that another publisher has told something since."""
    other = scene.new_publisher()
    key = scene.config.keys.publishing()

    async def tell_something_newer_and_forget() -> None:
        before = await scene.link.do("HGET", key, keys.PUBLISHING_SEQUENCE)
        await scene.save(group="c", version=3)
        await other.run_round(ONCE_S, await other.last_sequence())
        await scene.link.do("HSET", key, keys.PUBLISHING_SEQUENCE, before)

    await scene.save(group="a")
    await scene.round()
    await scene.save(group="b", version=2)
    interruption = Interruption(scene.publisher, monkeypatch)
    interruption.happens = tell_something_newer_and_forget
    await scene.round()
    interruption.happens = None
    await scene.round()
    assert [state["group"] for state in scene.services.history["run-1"]] == ["a", "c"]


async def test_categories_of_two_that_publish_at_once(scene: Scene) -> None:
    """What another publisher has told, and got no reply for, is still known when the first one saves its delivery."""
    other = scene.new_publisher()
    save = scene.publisher._save

    async def save_later(outcome: Any) -> None:
        await scene.save(version=2, extDetails={"track": {"n": 2}})
        scene.services.fault = lambda _method, _request: Fault(grpc.StatusCode.UNAVAILABLE, is_applied=True)
        await other.run_round(ONCE_S, await other.last_sequence())
        scene.services.fault = lambda _method, _request: None
        await save(outcome)

    scene.publisher._save = save_later  # type: ignore[method-assign]
    await scene.save(extDetails={"car": {"n": 1}})
    await scene.round()
    assert scene.services.sessions["run-1"].shown()["details"] == {"track": {"n": 2}}
    await scene.save(version=3)
    scene.publisher = scene.new_publisher()
    await scene.round()
    assert scene.services.sessions["run-1"].shown()["details"] == {}
