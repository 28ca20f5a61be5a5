"""The manifest of an archived session: reading it finds damage."""

from pathlib import Path

import pytest

from rta_supervisor.archive import manifest
from rta_wire import errors
from tests.support.archived_sessions import bursts, write
from tests.unit.archive.candidates import candidate, finalize


def test_damage_is_an_error_with_its_reason(tmp_path: Path) -> None:
    """A file that is shorter or gone, and a manifest that can't be read, was changed or is gone."""
    finalize(candidate(), write(tmp_path, 7, bursts([1], [1], [1.0])), tmp_path, tmp_path)
    folder = tmp_path / candidate().folder
    path, text = folder / "manifest.json", (folder / "manifest.json").read_text()
    [file] = folder.glob("part-*.parquet")
    for damage, reason in (
        (lambda: path.write_text(text.replace('"samples": 1', '"samples": 2')), "contradicts itself"),
        (lambda: path.write_text("{"), "can't be read"),
        (lambda: (path.write_text(text), file.write_bytes(b"half")), "has 4 bytes"),
        (file.unlink, "is gone"),
        (lambda: (path.rename(folder / "a"), (folder / "part-00001.json").rename(folder / "b")), "no manifest"),
    ):
        damage()
        with pytest.raises(errors.ArchiveDamaged, match=reason):
            manifest.read(folder, "run-7")
