"""Folders of the archive: their names, and one run at a time."""

from pathlib import Path

import pytest

from rta_supervisor.archive import folders
from rta_wire import errors
from rta_wire.archive import names
from tests.unit.archive.candidates import NOON_MS


def test_one_run_has_the_staging_folder(tmp_path: Path) -> None:
    """What a killed run left is removed by the next; a second run beside the first is refused."""
    (tmp_path / ".tmp-dead" / "7").mkdir(parents=True)
    with folders.staging_folder(tmp_path) as staging:
        assert [path.name for path in tmp_path.glob(".tmp-*")] == [staging.name]
        with pytest.raises(errors.ArchiveBusy), folders.staging_folder(tmp_path):
            pass
    assert list(tmp_path.glob(".tmp-*")) == []
    with folders.staging_folder(tmp_path):
        pass


def test_names_of_folders_are_safe() -> None:
    """Whatever an identity holds. The session id makes them unique, and the date is that of the opening in UTC."""
    folder = names.session_folder("rig", NOON_MS, "../../etc/passwd é {}" + "x" * 300, 7)
    assert folder.parts[:2] == ("date=2026-05-16", "source=rig")
    assert len(folder.parts) == 3
    assert folder.parts[2].startswith("session=.._.._etc_passwd")
    assert folder.parts[2].endswith("x-7")
    assert len(folder.parts[2]) < 120
    assert names.day(NOON_MS + 12 * 3_600_000 - 1) == "2026-05-16"
    assert names.day(NOON_MS + 12 * 3_600_000) == "2026-05-17"
