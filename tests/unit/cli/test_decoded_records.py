"""What `tail` prints of an entry that a writer chose."""

import json

from rta_supervisor.cli import decoded_records


def test_the_json_of_a_session_controls_no_terminal() -> None:
    """Identity and identifier are escaped and cut: who may append to a stream chooses both."""
    hostile = "\x1b[2J" + "x" * 5000
    document = {"identity": hostile, "identifier": hostile, "state": "open", "timestamp": "2026-01-01T00:00:00Z"}
    line = decoded_records.format_record({"kind": "session", "document": json.dumps(document).encode()})
    assert line.isprintable()
    assert len(line) < 2100
