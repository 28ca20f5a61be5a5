"""What `print` shows of public objects: the facts that a user wants, and no password."""

import re
from typing import Any

import pytest

import rta_writers
from rta_wire.control.totals import Totals
from rta_wire.session import State
from rta_writers.control.session import ClosedSession
from rta_writers.options.read import ReadOptions
from rta_writers.options.target import Target
from rta_writers.options.write import WriteOptions
from tests.support.channel_lists import ENGINE, numbered

URL = "redis://me:secret@host:1/0"
START_NS = 1_700_000_000_000_000_000


class Requests:
    """The methods of a client that a session calls."""

    url = URL

    def update(self, identity: str, *, state: str = "", **properties: Any) -> State:
        del identity, properties
        return State(state or "open")

    def close(self, identity: str, *, state: str = State.CLOSED, expected: Totals | None = None) -> ClosedSession:
        totals = Totals(2, 1000, 9000, 4000, START_NS, START_NS + 1)
        return ClosedSession(identity, State(state), totals, expected)

    def report_all(self, reports: Any) -> None:
        del reports


def test_a_session_says_where_it_stands() -> None:
    """Its name, its stream and its state, and at the end what was written, and from when to when."""
    session = rta_writers.Session(Requests(), Target(URL, "run-17", "rig", 7))
    assert str(session) == "Session('run-17', stream='rig', state='open')"
    session.pause()
    assert str(session) == "Session('run-17', stream='rig', state='waiting')"
    assert str(session.close(expected=Totals(samples=5))) == (
        "ClosedSession('run-17', state='closed', 1000 samples in 2 bursts from 2023-11-14T22:13:20.000000000Z "
        "to 2023-11-14T22:13:20.000000001Z, missing=5 samples in 0 bursts)"
    )
    assert str(session) == "Session('run-17', stream='rig', state='closed')"


def test_a_client_says_whom_it_talks_to() -> None:
    """The address without its password, and the principal."""
    assert str(rta_writers.SessionClient(URL)) == "SessionClient('redis://me:***@host:1/0', principal='default')"
    assert str(rta_writers.SessionClient(URL).configs) == (
        "ConfigPublisher(principal='default', 0 lists of channels published)"
    )


def test_a_writer_says_how_far_it_is(target: Target) -> None:
    """Session, stream, unit, epoch, rows, and whether it takes more."""
    writer = rta_writers.BurstWriter(target.options(), unit="u", epoch=3)
    writer.samples([1, 1], [1, 2], [0.5, 0.5])
    assert str(writer) == "BurstWriter('run', stream='rig', unit='u/0', epoch=3, 2 rows, open)"
    result = writer.close()
    assert str(writer) == "BurstWriter('run', stream='rig', unit='u/0', epoch=3, 2 rows, closed)"
    assert str(result).startswith("TaskResult(unit='u/0', epoch=3, shares=(SessionPart(target=Target(redis_url=")


@pytest.mark.parametrize(
    "shown",
    [
        Target(URL, "run", "rig", 7),
        WriteOptions.parse({"redisUrl": URL, "stream": "rig"}),
        ReadOptions.parse({"redisUrl": URL, "stream": "rig"}),
    ],
)
def test_options_show_what_was_set_and_no_password(shown: object) -> None:
    """These stand in results, logs and tracebacks of a job."""
    assert "redis_url='redis://me:***@host:1/0'" in repr(shown)
    assert "secret" not in repr(shown)
    assert len(repr(shown)) < 250


def test_every_public_class_has_a_text_of_its_own() -> None:
    """Not an address in memory. Classes whose names nobody imports from here have theirs above and in tests/spark."""
    public = [getattr(rta_writers, name) for name in rta_writers.__all__]
    classes = [cls for cls in public if isinstance(cls, type)]
    assert [cls.__name__ for cls in classes] == [
        "BurstWriter",
        "Channels",
        "Session",
        "SessionClient",
        "SessionGroup",
        "SessionInfo",
    ]
    for cls in (*classes, ClosedSession):
        assert "__repr__" in vars(cls), cls
    assert not re.search("object at 0x", str(Totals()))


def test_a_list_of_channels_shows_how_many_and_some_names() -> None:
    """And not all of them: there may be thousands."""
    assert str(rta_writers.Channels(ENGINE)) == "Channels(3 channels of 'engine': rpm, speed, gear)"
    assert str(rta_writers.Channels(numbered(9))) == "Channels(9 channels of 'rta': c1, c2, c3, c4, c5, ...)"
