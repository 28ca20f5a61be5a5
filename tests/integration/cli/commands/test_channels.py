"""`channels`, and what other commands make of a configuration: names, units and texts in place of numbers."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import redis

import rta_writers
from rta_supervisor.channels.store import ConfigStore
from rta_supervisor.cli.entry_printer import EntryPrinter, TailOptions
from rta_supervisor.cli.tail_channels import TailChannels
from rta_supervisor.settings import settings
from rta_supervisor.transport.link import Link
from rta_wire import keys
from rta_wire.channels import config_json, files, model
from rta_wire.channels.conversions import RationalConversion
from rta_wire.codec import burst
from rta_wire.codec.layout import SampleType
from tests.support import described_sessions, supervisors
from tests.support.channel_lists import ENGINE, numbered
from tests.support.commands import NO_REDIS_URL, refused, run

ENGINE_ID = config_json.identifier(config_json.encode(ENGINE))
SAMPLES = [(1, 0, 8123.5), (2, 0, 301.25), (3, 0, 1.0), (3, 5, 4.0), (1, 5, 8200.0)]


@pytest.fixture
def catalogue_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the supervisor and the commands have their catalogue."""
    path = tmp_path / "catalogue.sqlite"
    monkeypatch.setenv("RTA_CATALOGUE__PATH", str(path))
    return path


@pytest.fixture
def daemon(url: str, catalogue_path: Path) -> Iterator[supervisors.Supervisor]:
    with supervisors.running(url, {"RTA_CATALOGUE__PATH": str(catalogue_path)}) as running:
        yield running


@pytest.fixture
def described(client: redis.Redis, url: str, daemon: supervisors.Supervisor) -> rta_writers.SessionClient:  # noqa: ARG001 - it has to run
    """A closed session `run-1` with the configuration of an engine, and one without any."""
    target = described_sessions.open_described(client, url, "run-1", ENGINE)
    described_sessions.append(client, target, ENGINE, SAMPLES)
    sessions = rta_writers.SessionClient(url, timeout_s=20)
    sessions.close("run-1")
    sessions.open("run-2", stream="rig").close()
    return sessions


@pytest.mark.usefixtures("described")
def test_tail_prints_names_units_and_texts(client: redis.Redis, url: str) -> None:
    """Types come from the configuration; JSON has the raw value too. So it is where Redis has no copy any more."""
    for _ in range(2):
        result = run(url, "tail", "run-1", "--from-start")
        assert result.code == 0, result
        for line in ("rpm          8123.5 1/min", "speed        301.25 km/h", "gear         first (1)", "higher (4)"):
            assert line in result.out
        assert "channel" not in result.out
        lines = run(url, "tail", "run-1", "--from-start", "--json").out.splitlines()
        records = [record for line in lines if (record := msgspec.json.decode(line))["kind"] == "sample"]
        assert len(records) == len(SAMPLES)
        gear = [(record["value"], record["text"]) for record in records if record["name"] == "gear"]
        assert gear == [(1, "first"), (4, "higher")]
        client.unlink(f"rtas:config:{ENGINE_ID}")
    some = run(url, "tail", "run-1", "--from-start", "--channel", "rpm", "--channel", "2").out
    assert (some.count("rpm "), some.count("speed "), some.count("gear ")) == (2, 1, 0)


@pytest.mark.usefixtures("described")
def test_tail_of_a_stream_has_the_names_of_each_session(client: redis.Redis, url: str) -> None:
    """A session that is opened while it is followed too; one without a configuration by numbers."""
    command = [sys.executable, "-m", "rta_supervisor", "tail", "--stream", "rig", "--from-start", "--json"]
    with subprocess.Popen([*command, "--redis-url", url], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        records = (record for line in process.stdout if (record := json.loads(line))["kind"] == "sample")
        first = [next(records) for _ in SAMPLES]
        other = model.build([model.Channel(id=1, name="torque", unit="Nm", type=SampleType.INT16)])
        target = described_sessions.open_described(client, url, "run-3", other)
        described_sessions.append(client, target, other, [(1, 0, 7)])
        later = next(records)
        process.terminate()
        process.wait(timeout=20)
    names = sorted((record["session"], record["name"]) for record in first)
    assert names == [("run-1", name) for name in ("gear", "gear", "rpm", "rpm", "speed")]
    assert (later["session"], later["name"], later["unit"], later["value"]) == ("run-3", "torque", "Nm", 7)


@pytest.mark.usefixtures("described")
def test_a_name_that_no_channel_has(url: str) -> None:
    """The nearest one is named; a session without a configuration has numbers only, which are taken as before."""
    sentence = "There is no channel 'rmp' in session 'run-1'; the nearest is 'rpm'."
    refused(run(url, "tail", "run-1", "--from-start", "--channel", "rmp"), 66, sentence)
    refused(run(url, "tail", "run-2", "--from-start", "--channel", "rpm"), 64, "has no configuration")
    for number in (str(2**32), "9" * 5000):
        too_high = run(url, "tail", "run-1", "--channel", number)
        assert (too_high.code, "not in the range" in too_high.err) == (64, True)
    refused(run(url, "tail", "run-1", "--from-start", "--channel", "²"), 66, "'²'")
    assert run(url, "tail", "run-2", "--from-start", "--channel", "7").code == 0


@pytest.mark.usefixtures("daemon")
def test_one_of_several_configurations_is_not_here(client: redis.Redis, url: str) -> None:
    """Channels of the others have names, and a name that none of them has is refused."""
    foreign = [{"identifier": "elsewhere", "channelOffset": 50}]
    target = described_sessions.open_described(client, url, "run-1", ENGINE, configBindings=foreign)
    described_sessions.append(client, target, ENGINE, SAMPLES)
    rta_writers.SessionClient(url, timeout_s=20).close("run-1")
    result = run(url, "tail", "run-1", "--from-start", "--channel", "rpm")
    assert "rpm          8123.5 1/min" in result.out
    assert "some channels are shown by their numbers: configuration elsewhere was not published here" in result.err
    wrong = run(url, "tail", "run-1", "--from-start", "--channel", "rmp")
    assert (wrong.code, "'rpm'" in wrong.err) == (66, True)


async def test_a_configuration_that_comes_later_is_used(client: redis.Redis, url: str) -> None:
    """Redis may have lost it, and gets it back while a session is followed."""
    link = Link(settings.RedisSettings(url=url))
    printer = DescribedPrinter()
    channels = TailChannels(link, settings.Settings(), ConfigStore(link, keys.Keys(), None), printer)
    document = json.dumps({"identity": "run-1", "configBindings": [{"identifier": ENGINE_ID}]})
    await channels.describe_documents(1, [document])
    client.set(f"rtas:config:{ENGINE_ID}", config_json.encode(ENGINE), ex=60)
    await channels.describe_documents(1, [document, document])
    assert printer.described == [model.EMPTY, ENGINE]
    await link.close()


class DescribedPrinter(EntryPrinter):
    """Keeps what it was told of channels."""

    def __init__(self) -> None:
        super().__init__(TailOptions(frozenset(), (), burst.Framing.RAW, as_json=False))
        self.described: list[model.ChannelList] = []

    def describe(self, stream_session_id: int, channels: model.ChannelList) -> None:  # noqa: ARG002 - there is one
        self.described.append(channels)


@pytest.mark.usefixtures("daemon")
def test_values_are_converted(client: redis.Redis, url: str) -> None:
    """The value in the unit of the channel is printed; a type on the command line wins over the configuration's."""
    channels = model.build(
        [
            model.Channel(
                id=1, name="t", unit="°C", type=SampleType.INT16, conversion=RationalConversion((0, 0.1, -40, 0, 0, 1))
            )
        ]
    )
    target = described_sessions.open_described(client, url, "run-1", channels)
    described_sessions.append(client, target, channels, [(1, 0, 500.0)])
    rta_writers.SessionClient(url, timeout_s=20).close("run-1")
    assert "t            10.0 °C" in run(url, "tail", "run-1", "--from-start").out
    [record] = [
        record
        for line in run(url, "tail", "run-1", "--from-start", "--json").out.splitlines()
        if (record := msgspec.json.decode(line))["kind"] == "sample"
    ]
    assert (record["value"], record["converted"], record["unit"]) == (500, 10.0, "°C")
    assert "t            10.0 °C" in run(url, "tail", "run-1", "--from-start", "--sample-type", "double").out
    assert "can't be decoded" in run(url, "tail", "run-1", "--from-start", "--sample-type", "1=int8").err


@pytest.mark.usefixtures("described")
def test_channels_are_listed_and_shown(url: str, tmp_path: Path) -> None:
    """By the beginning of an identifier too; what `show --as` prints is what `check` takes for the same list."""
    [listed] = run(url, "channels", "--json").json()["configs"]
    assert (listed["info"]["identifier"], listed["info"]["channels"]) == (ENGINE_ID, 3)
    assert [ENGINE_ID, "engine"] in [line.split()[:2] for line in run(url, "channels", "list").out.splitlines()]
    shown = run(url, "channels", "show", ENGINE_ID[:6])
    assert shown.code == 0
    rows = [line.split() for line in shown.out.splitlines()]
    assert ["1", "rpm", "1/min", "float", "timestamped", "0", "12000", "engine"] in rows
    assert ["7", "medium", "Gear", "change"] in rows
    assert run(url, "channels", "show", ENGINE_ID, "--json").json()["channels"][1]["unit"] == "km/h"
    for form in ("toml", "json"):
        path = tmp_path / f"engine.{form}"
        path.write_text(run(url, "channels", "show", ENGINE_ID, "--as", form).out)
        assert run("", "channels", "check", str(path), "--json").json()["identifier"] == ENGINE_ID
    refused(run(url, "channels", "show", "0123"), 66, "'0123'")
    refused(run(url, "channels", "show", "0" * 40), 66, "was published here")


@pytest.mark.usefixtures("described")
def test_a_session_shows_what_it_is_bound_to(url: str) -> None:
    """With the counts of its configuration; one that nobody published says so."""
    shown = run(url, "sessions", "show", "run-1").out
    assert [ENGINE_ID, "engine", "0", "3", "1"] in [line.split() for line in shown.splitlines()]
    assert run(url, "sessions", "show", "run-2", "--json").json()["configs"] == []
    sessions = rta_writers.SessionClient(url, timeout_s=20)
    bindings = [{"identifier": "by hand", "channelOffset": 7}]
    sessions.open("run-3", stream="rig", configBindings=bindings)
    [bound] = run(url, "sessions", "show", "run-3", "--json").json()["configs"]
    assert (bound["identifier"], bound["channel_offset"]) == ("by hand", 7)
    assert bound["problem"] == "nobody published it here"
    findings = {each["check"]: each for each in run(url, "doctor", "--json").json()["findings"]}
    assert findings["configurations"]["level"] == "warn"
    assert "by hand" in findings["configurations"]["found"]


def test_a_file_is_checked_without_redis(tmp_path: Path) -> None:
    """Every mistake is named with its line, and it ends with 65; what viewers can't show is a warning."""
    good = tmp_path / "engine.toml"
    good.write_text(files.dump(ENGINE, files.FileForm.TOML))
    result = run("", "channels", "check", str(good))
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith(f"{good}: 3 channels, 1 events")
    warned = tmp_path / "c.csv"
    warned.write_text(files.dump(numbered(2, type=SampleType.INT64), files.FileForm.CSV))
    result = run("", "channels", "check", str(warned))
    assert result.code == 0
    assert result.out.count("warning: Channel 'c") == 2
    broken = tmp_path / "broken.csv"
    broken.write_text("id,name,type\n1,rpm,float\n2,speed,flaot\n")
    refused(run("", "channels", "check", str(broken)), 65, "it has 1 mistake")
    broken.write_text(
        "id,name,type,unit,min,max\n1,rpm,float,V,0,1\n2,speed,flaot,km/h,9,1\n1,gear,int8,,,\n5,oil,,,,\n"
    )
    result = run("", "channels", "check", str(broken))
    refused(result, 65, "it has 3 mistakes")
    rows = [line.split()[:3] for line in result.out.splitlines()]
    assert [row for row in rows if row[:1] != ["line"] and row[1:2] == ["channel"]] == [
        ["3", "channel", "'speed'"],
        ["3", "channel", "'speed'"],
        ["4", "channel", "'gear'"],
    ]
    assert "warning: Channel 'oil' has no range" in result.out
    result = run("", "channels", "check", str(broken), "--json")
    report = json.loads(result.out)
    assert (result.code, result.err, report["valid"]) == (65, "", False)
    assert [each["line"] for each in report["mistakes"]] == [3, 3, 4]
    assert report["mistakes"][2]["reason"] == "its id 1 is that of 'rpm'"
    assert len(report["warnings"]) == 1
    broken.write_bytes(b"\xff\xfe")
    refused(run("", "channels", "check", str(broken)), 65, "UTF-8")
    other = tmp_path / "engine.txt"
    other.touch()
    refused(run("", "channels", "check", str(other)), 65, ".toml")
    assert run("", "channels", "check", str(tmp_path / "gone.toml")).code == 64


def test_without_redis(catalogue_path: Path) -> None:
    """The sentence says so."""
    assert not catalogue_path.exists()
    assert run(NO_REDIS_URL, "channels").code == 69
