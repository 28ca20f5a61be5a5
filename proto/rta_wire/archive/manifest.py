"""Manifests of archived sessions: what files hold, what they were made of, and what is missing. Of each part, and of
the whole session once it is closed.
"""

import hashlib
from collections.abc import Iterable
from typing import Final, Self, TypeVar

import msgspec

from rta_wire import content_digest, entry_ids, errors

FORMAT: Final = 2
FORMAT_WITHOUT_PARTS: Final = 1
"""A closed session at once, without messages and places of events. Still read."""


class ManifestFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """One file beside the manifest."""

    name: str
    kind: str
    """`samples`, `events` or `messages`."""
    rows: int
    size_bytes: int
    sha256: str
    first_id: str = ""
    """The first entry that the file holds rows of."""
    last_id: str = ""
    start_ns: int | None = None
    """The lowest time of a row; None where it is not known."""
    end_ns: int | None = None

    def overlaps(self, start_ns: int | None, end_ns: int | None) -> bool:
        """Whether rows of the file may be in a range of time. None: without a limit."""
        if self.start_ns is None or self.end_ns is None:
            return True
        return (end_ns is None or self.start_ns <= end_ns) and (start_ns is None or self.end_ns >= start_ns)


class ArchiveGap(msgspec.Struct, frozen=True):
    """Entries that were gone from the stream before they could be archived."""

    after: str
    until: str
    """The first entry that was there again."""
    entries: int | None = None
    """How many entries of the stream, of this session or of others; None where that is not known."""


class PartManifest(msgspec.Struct, frozen=True, kw_only=True):
    """What `part-00001.json` says: the entries of a session after one id, up to and with another."""

    format: int = FORMAT
    identity: str
    stream_session_id: int
    stream: str
    number: int
    after: str
    until: str
    added: int
    """Entries that were ever added to the stream, of all sessions, up to `until`: with it gaps can be counted."""
    entries: int
    stored_bytes: int = 0
    """What the entries took in the stream."""
    first_id: str
    last_id: str
    rows: dict[str, int]
    """How many, by kind: samples, events and messages."""
    content: dict[str, str]
    """Digests of all rows, by kind. They do not depend on the order of the rows."""
    start_ns: int | None = None
    """The lowest time of a sample or an event; None where there is none."""
    end_ns: int | None = None
    gaps: tuple[ArchiveGap, ...] = ()
    missing: tuple[str, ...] = ()
    is_last: bool = False
    """Whether the session was closed when its entries were read."""
    files: tuple[ManifestFile, ...]
    checksum: str = ""
    """Over all other fields."""

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def files_of(self, kind: str, start_ns: int | None = None, end_ns: int | None = None) -> list[ManifestFile]:
        """Files of one kind that may have rows in a range of time, in the order of the stream."""
        return [file for file in self.files if file.kind == kind and file.overlaps(start_ns, end_ns)]

    def overlaps(self, start_ns: int | None, end_ns: int | None) -> bool:
        """Whether the part may have rows in a range of time."""
        return any(file.overlaps(start_ns, end_ns) for file in self.files if file.kind != "messages")

    def with_checksum(self) -> Self:
        blank = msgspec.structs.replace(self, checksum="")
        return msgspec.structs.replace(self, checksum=hashlib.sha256(msgspec.json.encode(blank)).hexdigest())

    def encode(self) -> bytes:
        return encode(self)


class IdleMark(msgspec.Struct, frozen=True, kw_only=True):
    """What `idle.json` says: between its last part and an entry of the stream there is nothing of an open session, so
    that readers miss nothing where others' entries in between are trimmed. Written anew as the stream goes on."""

    checksum: str
    """Of the last part."""
    until: str
    added: int
    """Entries that were ever added to the stream, of all sessions, up to `until`."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What `manifest.json` says about all files of a closed session."""

    format: int = FORMAT
    identity: str
    stream_session_id: int
    stream: str
    source: str
    date: str
    state: str
    version: int
    entries: int
    first_id: str
    last_id: str
    rows: dict[str, int]
    content: dict[str, str]
    complete: bool
    missing: tuple[str, ...] = ()
    session_sha256: str
    files: tuple[ManifestFile, ...]
    checksum: str = ""
    """Over the session and its content, not over how that is divided into parts and files."""
    gaps: tuple[ArchiveGap, ...] = ()
    parts: int = 0
    """How many parts there are; 0 in a manifest of format 1."""
    configs: tuple[str, ...] = ()
    """Identifiers of the configurations that say what its channels are. Each has a file beside the manifest."""

    @property
    def size_bytes(self) -> int:
        return sum(file.size_bytes for file in self.files)

    def with_checksum(self) -> Self:
        session = (self.format, self.identity, self.stream_session_id, self.stream)
        content = (sorted(self.rows.items()), sorted(self.content.items()), self.session_sha256)
        checksum = hashlib.sha256(msgspec.json.encode([*session, *content])).hexdigest()
        return msgspec.structs.replace(self, checksum=checksum)

    def with_document(self, document: bytes, version: int, state: str) -> Self:
        """The manifest of the same files beside other Session JSON."""
        sha256 = hashlib.sha256(document).hexdigest()
        return msgspec.structs.replace(self, session_sha256=sha256, version=version, state=state).with_checksum()

    def encode(self) -> bytes:
        return encode(self)

    def as_part(self) -> PartManifest:
        """A session that was archived at once, by format 1, as its only part."""
        return PartManifest(
            format=self.format,
            identity=self.identity,
            stream_session_id=self.stream_session_id,
            stream=self.stream,
            number=1,
            after=entry_ids.MIN,
            until=self.last_id or entry_ids.MIN,
            added=0,
            entries=self.entries,
            first_id=self.first_id,
            last_id=self.last_id,
            rows=self.rows,
            content=self.content,
            missing=self.missing,
            is_last=True,
            files=self.files,
        )


def encode(manifest: msgspec.Struct) -> bytes:
    """A manifest as it stands in its file."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def parse_part(data: bytes, identity: str, path: str) -> PartManifest:
    """The manifest of a part. Raises `ArchiveDamaged` where it can't be read or was changed."""
    manifest = _decode(data, PartManifest, identity, path)
    if manifest.with_checksum().checksum != manifest.checksum:
        raise damaged(identity, path, "its manifest contradicts itself")
    return manifest


def parse_whole(data: bytes, identity: str, path: str) -> Manifest:
    """The manifest of a closed session. Raises `ArchiveDamaged` where it can't be read or was changed."""
    manifest = _decode(data, Manifest, identity, path)
    if manifest.with_checksum().checksum != manifest.checksum:
        raise damaged(identity, path, "its manifest contradicts itself")
    return manifest


def parse_idle(data: bytes) -> IdleMark | None:
    """The mark of an idle session. One that can't be read says nothing."""
    try:
        return msgspec.json.decode(data, type=IdleMark)
    except msgspec.DecodeError:
        return None


_AnyManifest = TypeVar("_AnyManifest", PartManifest, Manifest)


def _decode(data: bytes, cls: type[_AnyManifest], identity: str, path: str) -> _AnyManifest:
    try:
        return msgspec.json.decode(data, type=cls)
    except msgspec.DecodeError as error:
        raise damaged(identity, path, f"its manifest can't be read ({error})") from error


def damaged(identity: str, path: str, reason: str) -> errors.ArchiveDamaged:
    """The error for files that are not what they should be."""
    return errors.ArchiveDamaged(identity=identity, path=path, reason=reason)


def content(digests: dict[str, content_digest.Digest]) -> tuple[dict[str, int], dict[str, str]]:
    """The fields `rows` and `content` of a manifest, from digests by kind."""
    rows = {kind: digest.rows for kind, digest in digests.items()}
    return rows, {kind: digest.text for kind, digest in digests.items()}


def total_content(parts: Iterable[PartManifest]) -> dict[str, content_digest.Digest]:
    """Digests of the rows of all parts, by kind: those of the session, however it is divided."""
    totals = {kind: content_digest.Digest() for kind in ("samples", "events", "messages")}
    for part in parts:
        for kind, rows in part.rows.items():
            digest = content_digest.Digest(rows, int(part.content[kind], 16))
            totals[kind] = totals[kind].sum_of(digest)
    return totals
