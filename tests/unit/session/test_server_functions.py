"""Commands of sessions: what goes to Redis, argument by argument, where a mistake would not be seen at once."""

from rta_supervisor.session import server_functions as session_server_functions
from rta_wire import keys
from rta_wire.session import State
from tests.support.session_values import session_record

NAMES = keys.Keys()
HASHES = ("sessions:run", "rtas:st:{sessions:run}")


def test_a_new_session_needs_no_further_fields() -> None:
    """Its version and the time of its opening are those that the server function writes itself."""
    call = session_server_functions.open_session(NAMES, session_record(opened_ms=5), position="3-0", now_ms=5, ttl_s=60)
    readers = (1, "rig", "3-0", b"{}", "open", "p")
    assert call == ("FCALL", "rtas_open_2", 2, *HASHES, *readers, 5, 60, "rtas:state:run")


def test_a_session_that_is_restored_keeps_its_version_and_its_age() -> None:
    """And the note for webhooks is written in the same step."""
    record = session_record(opened_ms=5, version=8, unqueued_changes={"8": "open - 9"})
    call = session_server_functions.open_session(NAMES, record, position="3-0", now_ms=9, ttl_s=60)
    assert call[-9:] == (9, 60, "rtas:state:run", "openedMs", 5, "version", 8, "t:8", "open - 9")


def test_json_is_written_for_the_version_that_was_read() -> None:
    """The state is the new one, and further fields follow."""
    call = session_server_functions.put_json(
        NAMES, session_record(version=3), b"new", State.CLOSED, now_ms=9, ttl_s=60, extra_fields={"p:group": "4-0"}
    )
    changed = (3, b"new", "closed", 9, 60, "rtas:state:run")
    assert call == ("FCALL", "rtas_put_json_2", 2, *HASHES, *changed, "p:group", "4-0")
