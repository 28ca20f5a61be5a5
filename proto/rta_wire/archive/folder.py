"""What the folder of one archived session holds: its parts in their order, and the ranges of entries that they cover.

The rule for reading a session as one: entries up to `SessionArchive.until` come from the archive, those above it from
the stream, whose cold and live parts `rta_wire.stream.live_then_cold` joins. A part that is missing or damaged leaves a
hole, which the stream may still have.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from rta_wire import entry_ids, errors
from rta_wire.archive import manifest as archive_manifest
from rta_wire.archive import names
from rta_wire.archive.manifest import IdleMark, Manifest, PartManifest


class Segment(NamedTuple):
    """Entries after one id, up to and with another: in a part, or in none where `part` is None."""

    after: str
    until: str
    part: PartManifest | None
    problem: str = ""
    """Why there is no part."""

    @property
    def is_whole_part(self) -> bool:
        """Whether all entries of the part are meant."""
        return (
            self.part is not None
            and not entry_ids.is_after(self.after, self.part.after)
            and not entry_ids.is_after(self.part.until, self.until)
        )


class SessionArchive(msgspec.Struct, frozen=True):
    """The archive of one session, from the manifests in its folder."""

    identity: str
    parts: tuple[PartManifest, ...] = ()
    """By number. Those that can't be read are not among them."""
    whole: Manifest | None = None
    """Only of a closed session, once all of it is archived."""
    damaged: dict[int, str] = {}
    """Why a part is not to be used, by its number."""
    idle: IdleMark | None = None
    """Of an open session: up to where its stream has nothing behind the last part."""

    @classmethod
    def parse(cls, identity: str, manifests: Mapping[str, bytes], path: str = "") -> "SessionArchive":
        """From the contents of all manifests in the folder, by name. Other files may be among them.

        Raises `ArchiveDamaged` where the manifest of the whole session can't be read; a part whose manifest can't be
        read counts as damaged.
        """
        whole = None
        if names.MANIFEST in manifests:
            whole = archive_manifest.parse_whole(manifests[names.MANIFEST], identity, path)
        parts: dict[int, PartManifest] = {}
        damaged: dict[int, str] = {}
        for name, data in manifests.items():
            if (number := names.part_number(name)) is None:
                continue
            try:
                parts[number] = archive_manifest.parse_part(data, identity, f"{path}/{name}")
            except errors.ArchiveDamaged as error:
                damaged[number] = str(error)
        if whole is not None and not parts and not whole.parts:
            parts[1] = whole.as_part()
        for number in range(1, max([*parts, *damaged, whole.parts if whole else 0], default=0) + 1):
            if number not in parts and number not in damaged:
                reason = f"the manifest of part {number} is gone"
                damaged[number] = str(archive_manifest.damaged(identity, path, reason))
        idle = archive_manifest.parse_idle(manifests[names.IDLE]) if names.IDLE in manifests else None
        return cls(identity, tuple(parts[number] for number in sorted(parts)), whole, damaged, idle)

    def with_damaged(self, number: int, problem: str) -> "SessionArchive":
        """The same archive without one of its parts, which leaves a hole."""
        return msgspec.structs.replace(self, damaged={**self.damaged, number: problem})

    @property
    def sound_parts(self) -> list[PartManifest]:
        """Parts that can be used."""
        return [part for part in self.parts if part.number not in self.damaged]

    @property
    def until(self) -> str:
        """The last entry that the archive knows about; `0-0` where it has nothing."""
        return self.parts[-1].until if self.parts else entry_ids.MIN

    @property
    def known_until(self) -> tuple[str, int]:
        """The entry up to which it is known what the session has, which is behind the last part where it was idle after
        that, and how many entries had ever been added to the stream up to there."""
        last, idle = self.parts[-1], self.idle
        is_valid = idle is not None and idle.checksum == last.checksum and not self.lost_end and not last.is_last
        if idle is not None and is_valid and entry_ids.is_after(idle.until, last.until):
            return idle.until, idle.added
        return last.until, last.added

    @property
    def lost_end(self) -> str:
        """Why parts behind `until` can't be read, empty where there are none: what they hold is not known."""
        last = self.parts[-1].number if self.parts else 0
        return next((problem for number, problem in sorted(self.damaged.items()) if number > last), "")

    @property
    def next_number(self) -> int:
        """The number of the next part."""
        return max([*(part.number for part in self.parts), *self.damaged], default=0) + 1

    def segments(self, after: str, until: str = entry_ids.MAX) -> Iterator[Segment]:
        """The ranges of entries after an id up to another that the archive covers, in their order, with its holes."""
        position = after
        for part in self.parts:
            if not entry_ids.is_after(part.until, position):
                continue
            end = min(part.until, until, key=entry_ids.parse)
            if not entry_ids.is_after(end, position):
                return
            # Before the first part there is nothing of the session.
            if entry_ids.is_after(part.after, position) and part.number > 1:
                hole_end = min(part.after, until, key=entry_ids.parse)
                yield Segment(position, hole_end, None, self._problem_before(part.number))
                position = hole_end
                if not entry_ids.is_after(end, position):
                    return
            problem = self.damaged.get(part.number, "")
            yield Segment(position, end, None if problem else part, problem)
            position = end

    def _problem_before(self, number: int) -> str:
        earlier = [problem for damaged, problem in sorted(self.damaged.items()) if damaged < number]
        return earlier[-1] if earlier else ""
