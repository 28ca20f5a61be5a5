"""Channels between a client and a running supervisor: published once, fetched once, under any ACL."""

import logging
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import lz4.block
import numpy as np
import pyarrow as pa
import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import rta_writers
from rta_wire import errors, keys
from rta_wire import session as session_json
from rta_wire.channels import config_json, mistakes, model
from rta_wire.codec import encode
from rta_wire.codec.layout import Kind, SampleType
from rta_wire.control import messages
from rta_wire.pb import control_pb2, stream_pb2
from rta_writers.control import configs
from rta_writers.options import channel_layouts
from rta_writers.options.read import ReadOptions
from rta_writers.options.target import Target
from rta_writers.options.write import WriteOptions
from rta_writers.read import batches, plan
from rta_writers.read import channels as read_channels
from tests.support import published_configs, stream_content, supervisors
from tests.support.channel_lists import ENGINE, numbered
from tests.support.waiting import wait_until

NAMES = keys.Keys()


@pytest.fixture(autouse=True)
def _no_lists_in_memory() -> None:
    configs.channel_list.cache_clear()


def test_a_list_is_published_once(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """And the session is bound to it; one that was lost since is published again."""
    channels = rta_writers.Channels(ENGINE)
    for identity in ("run-1", "run-2"):
        with sessions.session(identity, stream="rig", channels=channels) as session:
            assert session.options["config"] == channels.identifier
        assert configs.bindings_in(sessions.get(identity).json) == (configs.ChannelBinding(channels.identifier),)
    assert client.get(NAMES.config(channels.identifier)) == channels.data
    assert rta_writers.Channels(configs.channel_list(sessions.url, NAMES, channels.identifier)).data == channels.data


def _open_at_once(clients: list[rta_writers.SessionClient], lists: list[tuple[str, ...]], identity: str) -> list[Any]:
    """Open one session by several clients at the same time, each with its columns. Gives the channels of each."""
    barrier = threading.Barrier(len(lists))

    def open_session(number: int) -> Any:
        frame = pa.schema([("time", pa.int64()), *((name, pa.float64()) for name in lists[number])])
        channels = rta_writers.Channels.of(frame)
        barrier.wait(timeout=20)
        return clients[number].open(identity, stream=identity, channels=channels).channels

    with ThreadPoolExecutor(len(lists)) as pool:
        return list(pool.map(open_session, range(len(lists))))


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.lists(st.sampled_from("abcdef"), min_size=1, unique=True).map(tuple), min_size=2, max_size=3))
def test_clients_that_add_columns_at_once_give_each_its_own_id(
    url: str, sessions: rta_writers.SessionClient, lists: list[tuple[str, ...]]
) -> None:
    """Whatever the order: no id stands for two columns, and what a client writes by is what the session ends with."""
    clients = [rta_writers.SessionClient(url, timeout_s=20) for _ in lists]
    identity = f"run-{uuid.uuid4()}"
    opened = _open_at_once(clients, lists, identity)
    [binding] = configs.bindings_in(sessions.get(identity).json)
    bound = configs.channel_list(url, NAMES, binding.identifier)
    assert bound.by_name.keys() == {name for columns in lists for name in columns}
    assert [channel.id for channel in bound.channels] == list(range(1, len(bound.channels) + 1))
    for channels, columns in zip(opened, lists, strict=True):
        assert all(bound.by_name[channel.name] == channel for channel in channels)
        assert set(columns) <= channels.list.by_name.keys()
    sessions.close(identity)


def test_a_list_that_lacks_channels_of_the_session_is_not_bound(
    client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """A client that reads nothing before it opens: fewer channels change nothing, others are refused by name."""
    first = rta_writers.Channels.of(pa.schema([("a", pa.float64()), ("b", pa.float64())]))
    with sessions.session("run-1", stream="rig", channels=first):
        fewer = rta_writers.Channels.of(pa.schema([("a", pa.float64())]))
        other = rta_writers.Channels.of(pa.schema([("a", pa.float64()), ("c", pa.float64())]))
        for channels in (fewer, other):
            published_configs.publish(client, channels.data)
        request = control_pb2.OpenSession(
            request_id=messages.new_request_id(),
            identity="run-1",
            stream="rig",
            session_json=session_json.dump(session_json.build("run-1")).decode(),
            config_identifier=fewer.identifier,
        )
        sessions.ask(request)
        request.request_id, request.config_identifier = messages.new_request_id(), other.identifier
        with pytest.raises(errors.ChannelsChanged, match="'run-1' has got other channels: channel 'b' has id 2"):
            sessions.ask(request)
        request.request_id, request.config_identifier = messages.new_request_id(), "0" * 40
        with pytest.raises(errors.UnknownConfig, match="0000"):
            sessions.ask(request)
        assert configs.bindings_in(sessions.get("run-1").json) == (configs.ChannelBinding(first.identifier),)


def of_columns(*names: str) -> rta_writers.Channels:
    """A list of the columns of a frame."""
    return rta_writers.Channels.of(pa.schema([(name, pa.float64()) for name in names]))


def ids(session: rta_writers.Session) -> dict[str, int]:
    """Names and ids of the channels of a session, which is closed."""
    session.close()
    assert session.channels is not None
    return {channel.name: channel.id for channel in session.channels}


def test_names_keep_their_ids_in_a_stream(sessions: rta_writers.SessionClient) -> None:
    """Also where many sessions without channels, or with those of a file or of nobody here, stand in between."""
    assert ids(sessions.open("first", stream="rig", channels=of_columns("a", "b", "c"))) == {"a": 1, "b": 2, "c": 3}
    listed = model.build([model.Channel(id=1, name="x")])
    sessions.open("listed", stream="rig", channels=rta_writers.Channels(listed)).close()
    foreign = [{"identifier": "f" * 40, "channelOffset": 0}]
    sessions.open("foreign", stream="rig", configBindings=foreign).close()
    for number in range(12):
        sessions.open(f"plain-{number}", stream="rig").close()
    later = ids(sessions.open("later", stream="rig", channels=of_columns("c", "d", "b")))
    assert (later["b"], later["c"], later["d"]) == (2, 3, 4)


def test_channels_that_are_given_go_before_those_of_the_stream(sessions: rta_writers.SessionClient) -> None:
    """With their ids, units and all else; of a session that is open they keep what samples have, or are refused."""
    sessions.open("first", stream="rig", channels=of_columns("a", "b", "c")).close()
    given = rta_writers.Channels(model.build([model.Channel(id=2, name="a", unit="V")], application="engine"))
    frame = pa.schema([(name, pa.float64()) for name in ("c", "d", "a")])
    channels = rta_writers.Channels.of(frame, known=given)
    session = sessions.open("later", stream="rig", channels=channels)
    again = sessions.open("later", stream="rig", channels=rta_writers.Channels.of(frame, known=session.channels))
    assert again.channels is not None
    assert (again.channels["a"].unit, again.channels.list.application) == ("V", "engine")
    other = rta_writers.Channels(model.build([model.Channel(id=1, name="a", unit="V")]))
    with pytest.raises(errors.ChannelConflict, match="'a' is known with id 2, and can't get id 1"):
        sessions.open("later", stream="rig", channels=rta_writers.Channels.of(frame, known=other))
    assert ids(session) == ids(again) == {"a": 2, "c": 3, "d": 4}


def test_what_can_not_be_read_of_earlier_sessions_keeps_none_from_being_opened(
    client: redis.Redis, sessions: rta_writers.SessionClient, caplog: pytest.LogCaptureFixture
) -> None:
    """The supervisor has what somebody spoilt in Redis; what a later version published is left out."""
    first = sessions.open("first", stream="rig", channels=of_columns("a", "b"))
    assert first.channels is not None
    assert ids(first) == {"a": 1, "b": 2}
    later_version = b'{"app":{"what":"is new"}}'
    identifier = config_json.identifier(later_version)
    client.set(NAMES.config(identifier), later_version, ex=60)
    client.set(NAMES.config(first.channels.identifier), b"spoilt", ex=60)
    sessions.open("newer", stream="rig", configBindings=[{"identifier": identifier, "channelOffset": 0}]).close()
    configs.channel_list.cache_clear()
    assert ids(sessions.open("later", stream="rig", channels=of_columns("b", "c"))) == {"a": 1, "b": 2, "c": 3}
    assert "Not all channels of earlier sessions in stream rig keep their ids: " in caplog.text


def test_the_last_binding_of_an_earlier_session_counts(
    client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """As wherever its samples are read: of two with one name or id."""
    by_hand = rta_writers.Channels(model.build([model.Channel(id=7, name="a"), model.Channel(id=9, name="z")]))
    published_configs.publish(client, by_hand.data)
    bindings = [{"identifier": by_hand.identifier, "channelOffset": 0}]
    sessions.open("first", stream="rig", channels=of_columns("a"), configBindings=bindings).close()
    assert ids(sessions.open("later", stream="rig", channels=of_columns("b", "a"))) == {"a": 1, "z": 9, "b": 10}


def test_a_stream_has_more_channels_than_a_list(
    sessions: rta_writers.SessionClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Those of the newest sessions keep their ids, and a frame has its own columns where it has no room for all."""
    for first, name in ((1, "x"), (5, "y")):
        listed = model.build(model.Channel(id=first + place, name=f"{name}{place}") for place in range(4))
        sessions.open(name, stream="rig", channels=rta_writers.Channels(listed)).close()
    monkeypatch.setattr(mistakes, "CHANNELS_MAX", 5)
    assert ids(sessions.open("z", stream="rig", channels=of_columns("a", "y1", "b"))) == {
        "y1": 6,
        "y3": 8,
        "a": 9,
        "b": 10,
    }
    assert "it has 8 channels, and at most 5 are taken" in caplog.text


def test_a_catalogue_that_is_away_keeps_no_session_from_being_opened(
    url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With ids of its own or not; a session that is open keeps the ids that it has."""
    with supervisors.running(url, {"RTA_CATALOGUE__PATH": str(tmp_path)}):
        sessions = rta_writers.SessionClient(url, timeout_s=20)
        assert len(ids(sessions.open("run-1", stream="rig", channels=rta_writers.Channels(ENGINE)))) == 3
        first = sessions.open("run-2", stream="rig", channels=of_columns("a", "b"))
        assert "can't be looked at for the ids of channels" in caplog.text
        assert ids(sessions.open("run-2", stream="rig", channels=of_columns("c", "b"))) == {"a": 1, "b": 2, "c": 3}
        first.close()


def test_two_clients_publish_the_same_list_at_once(url: str, sessions: rta_writers.SessionClient) -> None:
    """Both sessions are bound to one configuration."""
    channels = rta_writers.Channels(numbered(2_000))
    clients = [sessions, rta_writers.SessionClient(url)]

    def open_session(number: int) -> None:
        clients[number].open(f"run-{number}", stream="rig", channels=channels).close()

    threads = [threading.Thread(target=open_session, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bound = [configs.bindings_in(sessions.get(f"run-{number}").json) for number in range(2)]
    assert bound == [(configs.ChannelBinding(channels.identifier),)] * 2


def test_a_writer_whose_acl_is_older_asks_the_supervisor(
    url: str, client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """10,000 channels come in parts, and are what was published."""
    channels = rta_writers.Channels(numbered(10_000))
    session = sessions.open("run-1", stream="rig", channels=channels)
    client.acl_setuser(
        "old", enabled=True, passwords=["+x"], keys=["*"], commands=["+@all", "-get"], reset=True, channels=["*"]
    )
    old = redis.Redis(
        unix_socket_path=url.removeprefix("unix://"),
        username="old",
        password="x",  # noqa: S106 - of a test
    )
    with pytest.raises(errors.RedisRefused, match=r"lacks \(%R~rtas:config:\* \+get\)"):
        configs.fetch(old, NAMES, channels.identifier)
    asked = configs.fetch(old, NAMES, channels.identifier, sessions._requests)
    assert asked == channels.data
    session.close()


def test_a_configuration_that_nobody_published_is_named(
    sessions: rta_writers.SessionClient, client: redis.Redis
) -> None:
    """To writers; readers go on without names, and say so."""
    with pytest.raises(errors.UnknownConfig, match="0000"):
        configs.fetch(client, NAMES, "0" * 40, sessions._requests)
    options = ReadOptions.parse({"redisUrl": sessions.url, "stream": "rig", "config": "0" * 40})
    assert not read_channels.resolve(client, options).has_names


def test_a_binding_that_was_set_by_hand_is_kept(sessions: rta_writers.SessionClient) -> None:
    """Beside that of the channels; a list that grew takes the place of the one before."""
    by_hand = {"identifier": "by-hand", "channelOffset": 100}
    first = rta_writers.Channels.of(pa.schema([("time", pa.int64()), ("a", pa.float32())]))
    more = rta_writers.Channels.of(pa.schema([("b", pa.float64()), ("a", pa.float32())]))
    session = sessions.open("run-1", stream="rig", channels=first, configBindings=[by_hand])
    again = sessions.open("run-1", stream="rig", channels=more)
    assert again.channels is not None
    assert {channel.name: channel.id for channel in again.channels} == {"a": 1, "b": 2}
    document = sessions.get("run-1").json
    assert document is not None
    assert document["configBindings"] == [by_hand, {"identifier": again.channels.identifier, "channelOffset": 0}]
    session.close()


def test_what_viewers_can_not_show_is_logged(
    sessions: rta_writers.SessionClient, caplog: pytest.LogCaptureFixture
) -> None:
    """When it is published, a line for each in one record; of a list without any there is none."""
    channels = rta_writers.Channels(numbered(15, type=SampleType.INT64))
    with caplog.at_level(logging.WARNING), sessions.session("run-1", stream="rig", channels=channels):
        pass
    [record] = caplog.records
    assert record.getMessage().splitlines()[1:] == channels.warnings()
    caplog.clear()
    with sessions.session("run-2", stream="rig", channels=rta_writers.Channels(ENGINE)):
        pass
    assert not caplog.records


def test_a_process_fetches_a_configuration_once(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """However many writers it has: the second one needs it in Redis no more."""
    channels = rta_writers.Channels(ENGINE)
    session = sessions.open("run-1", stream="rig", channels=channels)
    for number in range(2):
        with rta_writers.BurstWriter(session.options, unit=f"u{number}") as writer:
            writer.samples(["rpm"], [number], [1.0])
        client.unlink(NAMES.config(channels.identifier))
    assert configs.channel_list.cache_info().misses == 1
    session.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampleType": "double"}, "'rpm' has the type double, .* says float"),
        ({"kind": "rpm=periodic"}, "'rpm' has the kind periodic, .* says timestamped"),
        ({"channels": "rpm=2"}, "'rpm' has the id 2, .* says 1"),
        ({"sampleType": f"{'9' * 5000}=float"}, "channel '99.*which configuration"),
        ({"channels": "rmp=1"}, "channel 'rmp', which configuration .*Did you mean 'rpm'"),
        ({"intervalNs": "rpm=5"}, "'rpm' has the interval 5"),
        ({"intervalNs": "*=7,rpm=5"}, "'rpm' has the interval 5"),
    ],
)
def test_options_that_differ_from_the_list_are_refused(options: dict[str, str], message: str) -> None:
    """By the channel, what each of them says, and what to do."""
    parsed = WriteOptions.parse({**Target("redis://x", "run-1", "rig", 1).options(), "config": "0" * 40, **options})
    with pytest.raises(errors.Usage, match=message):
        channel_layouts.apply(parsed, ENGINE)


def test_options_that_say_the_same_as_the_list_change_nothing(
    client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """A column that only the list has is written too."""
    session = sessions.open("run-1", stream="rig", channels=rta_writers.Channels(ENGINE))
    same = {"channels": "rpm=1", "sampleType": "gear=int8", "kind": "timestamped"}
    with rta_writers.BurstWriter({**session.options, **same}) as writer:
        writer.write(pa.table({"time": [1], "gear": pa.array([3], pa.int8()), "rpm": [2.5]}))
    session.close()
    written = stream_content.samples(client, "rig", session.target.stream_session_id, ENGINE.layouts())
    assert written == [(1, 1, 2.5), (3, 1, 3)]


def test_whole_numbers_say_nothing_of_the_numbers_after_them(
    client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """A recorder whose first readings are 0: the configuration says that others may follow."""
    session = sessions.open("run-1", stream="rig", channels=rta_writers.Channels(ENGINE))
    with rta_writers.BurstWriter(session.options) as writer:
        writer.samples([1, 3], [1, 1], [0, 0])
        writer.samples([1, 3], [2, 2], [2.5, 3])
    session.close()
    written = stream_content.samples(client, "rig", session.target.stream_session_id, ENGINE.layouts())
    assert written == [(1, 1, 0.0), (1, 2, 2.5), (3, 1, 0), (3, 2, 3)]


def test_rows_with_a_channel_that_is_not_known_are_refused(sessions: rta_writers.SessionClient) -> None:
    """By an id with the row that it is in, by a name with the nearest one."""
    session = sessions.open("run-1", stream="rig", channels=rta_writers.Channels(ENGINE))
    with (
        rta_writers.BurstWriter(session.options) as writer,
        pytest.raises(errors.RtaError, match="row 1: channel 4 is not in the configuration, which has 3"),
    ):
        writer.samples([1, 4], [1, 2], [1.0, 2.0])
    with (
        rta_writers.BurstWriter(session.options) as writer,
        pytest.raises(errors.RtaError, match="Did you mean 'gear'"),
    ):
        writer.samples(["gears"], [1], [1.0])
    session.close()


def read_stream(client: redis.Redis, url: str, stream: str, **wanted: str) -> list[tuple[str | None, float]]:
    """Names and values of all samples of a stream, as a batch read of Spark has them."""
    options = ReadOptions.parse({"redisUrl": url, "stream": stream, "names": "true", **wanted})
    options = read_channels.resolve(client, options)
    row_filter = batches.RowFilter()
    found: list[tuple[str | None, float]] = []
    for one in plan.plan_read(client, options, row_filter.of_samples):
        assert isinstance(one, plan.EntryRange)
        bindings = read_channels.read_bindings(client, options, one.identities)
        for batch in batches.read_batches(options, one, row_filter, bindings):
            found += zip(batch["name"].to_pylist(), batch["value"].to_pylist(), strict=True)
    return sorted(found, key=repr)


def test_what_is_missing_for_a_read_is_said(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """What samples of a whole stream are, where nothing says it; and the session that is to be read in wide form."""
    with (
        sessions.session("run-1", stream="rig", channels=rta_writers.Channels(ENGINE)) as session,
        rta_writers.BurstWriter(session.options) as writer,
    ):
        writer.samples(["gear"], [1], [3])
    with pytest.raises(errors.BadBurst, match="option 'names' where sessions have a config"):
        read_stream(client, sessions.url, "rig", names="false")
    wide = {"redisUrl": sessions.url, "session": "nobody", "form": "wide"}
    with pytest.raises(errors.UnknownSession, match="There is no session 'nobody'"):
        read_channels.wide_channels(client, ReadOptions.parse(wide))


def test_a_stream_has_the_names_of_sessions_that_have_ended(
    client: redis.Redis, sessions: rta_writers.SessionClient
) -> None:
    """By the Session JSON in the stream, also where a list has grown; with `config` those of all that have none."""
    first = rta_writers.Channels.of(pa.schema([("gear", pa.int8())]))
    more = rta_writers.Channels.of(pa.schema([("gear", pa.int8()), ("count", pa.int64())]))
    for channels, row in ((first, {"gear": 3}), (more, {"gear": 4, "count": 5})):
        session = sessions.open("run-1", stream="rig", channels=channels)
        with rta_writers.BurstWriter(session.options) as writer:
            writer.write(pa.table({"time": [1], **{name: [value] for name, value in row.items()}}))
    assert session.channels is not None
    session.close()
    wait_until(lambda: client.zscore(NAMES.session_index(), "run-1") is None)
    assert read_stream(client, sessions.url, "rig") == [("count", 5.0), ("gear", 3.0), ("gear", 4.0)]
    for number, bindings in enumerate(["5", "[5]", '[{"identifier": 5}]', '[{"channelOffset": 1}]'], 70):
        document = f'{{"identity": "x{number}", "state": "open", "configBindings": {bindings}}}'
        [burst] = encode.encode_doubles(np.ones(1, np.uint32), np.ones(1, np.int64), np.full(1, float(number)))
        for data in (encode.session_json(document.encode()), burst.data):
            client.xadd("stream:foreign", {"id": number, "data": data})
    assert read_stream(client, sessions.url, "foreign") == [(None, float(number)) for number in range(70, 74)]
    with (
        sessions.session("run-2", stream="other") as other,
        rta_writers.BurstWriter({**other.options, "sampleType": '{"1": "int8", "2": "int64"}'}) as writer,
    ):
        writer.samples([1, 2], [1, 1], [6, 7])
    wait_until(lambda: client.zscore(NAMES.session_index(), "run-2") is None)
    config = session.channels.identifier
    assert read_stream(client, sessions.url, "other", config=config) == [("count", 7.0), ("gear", 6.0)]


def test_options_fill_in_what_the_list_leaves_open(client: redis.Redis, sessions: rta_writers.SessionClient) -> None:
    """The interval of a periodic channel: it stands in the message."""
    listed = model.build([model.Channel(id=1, name="a", kind=Kind.PERIODIC)])
    session = sessions.open("run-1", stream="rig", channels=rta_writers.Channels(listed))
    with rta_writers.BurstWriter({**session.options, "intervalNs": "1000"}) as writer:
        writer.samples(["a"] * 3, [0, 1000, 2000], [1.0, 2.0, 3.0])
    session.close()
    entries: Any = client.xrange("stream:rig")
    bursts = [lz4.block.decompress(fields[b"data"], uncompressed_size=1 << 20) for _, fields in entries]
    messages = [message for burst in bursts for message in stream_pb2.StreamDataBurst.FromString(burst).data]
    [written] = [message.periodic_data for message in messages if message.HasField("periodic_data")]
    assert (written.channel_id, written.interval, written.samples) == (1, 1000, 3)


@pytest.mark.parametrize("suffix", ["toml", "json", "csv"])
def test_a_list_is_saved_and_loaded(tmp_path: Path, suffix: str) -> None:
    """In each form, with a byte order mark too; what can't be read is named with its path."""
    path = tmp_path / f"list.{suffix}"
    rta_writers.Channels(numbered(3)).save(path)
    assert rta_writers.Channels.load(path).list == numbered(3)
    with pytest.raises(errors.BadChannels, match=f"gone.{suffix}: it can't be read"):
        rta_writers.Channels.load(tmp_path / f"gone.{suffix}")
    path.write_bytes("\ufeff".encode() + path.read_bytes())
    assert rta_writers.Channels.load(path).list == numbered(3)
    path.write_text("x = [")
    with pytest.raises(errors.BadChannels, match=f"list.{suffix}, line 1"):
        rta_writers.Channels.load(path)
    path.write_bytes(b"\n\xff")
    with pytest.raises(errors.BadChannels, match=f"list.{suffix}, line 2: it is not valid UTF-8"):
        rta_writers.Channels.load(path)


def test_a_channel_is_found_by_name_and_by_id() -> None:
    """Another one is an error with the nearest name."""
    channels = rta_writers.Channels(ENGINE)
    assert channels["rpm"] is channels[1]
    with pytest.raises(errors.UnknownChannel, match="Did you mean 'rpm'"):
        channels["rmp"]
