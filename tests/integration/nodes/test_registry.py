"""What a supervisor registers of itself: others read it."""

import os
from pathlib import Path

import msgspec
import pytest

from rta_supervisor.nodes.registry import Node
from rta_supervisor.settings import settings
from rta_supervisor.settings.sections.archive import ArchiveSettings
from rta_supervisor.transport.link import Link
from rta_wire import keys
from tests.support.supervisor_parts import config


def with_archive(path: str) -> settings.Settings:
    return msgspec.structs.replace(config(), archive=ArchiveSettings(path=path))


async def registered_archive(link: Link) -> bytes | None:
    path: bytes | None = await link.do("HGET", keys.Keys().last_registration(), keys.NODE_ARCHIVE)
    return path


async def test_the_archive_is_registered_as_readers_can_find_it(
    link: Link, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative folder is that of the supervisor's working directory, and a reload of the setting is registered."""
    monkeypatch.chdir(tmp_path)
    used = with_archive("archive")
    node = Node(link, used)
    await node.register()
    assert await registered_archive(link) == os.fsencode(tmp_path / "archive")
    used.archive = ArchiveSettings(path="/elsewhere")
    await node.register()
    assert await registered_archive(link) == b"/elsewhere"


async def test_a_supervisor_without_an_archive_leaves_what_others_registered(link: Link) -> None:
    """Readers find the archive, whichever of several supervisors registered last."""
    for path in ("/archive", ""):
        await Node(link, with_archive(path)).register()
    assert await registered_archive(link) == b"/archive"
