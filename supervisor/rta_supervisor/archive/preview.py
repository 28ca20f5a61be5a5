"""What a run would archive, found without a run: of each session what its parts do not have yet."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from rta_supervisor.archive import candidates as archive_candidates
from rta_supervisor.archive import folders, manifest, plan
from rta_supervisor.archive.plan import ArchiveCandidate
from rta_supervisor.settings import settings
from rta_supervisor.transport import one_shot
from rta_wire import errors
from rta_wire.archive.folder import SessionArchive


def unarchived(config: settings.Settings, path: Path, candidates: Sequence[ArchiveCandidate]) -> list[ArchiveCandidate]:
    """Sessions with the samples and bytes that the archive in a folder lacks, without open ones that have nothing new.

    What reports say is newer or older than what stands in the stream: a run may take a few samples more or less.
    """
    streams = {candidate.stream for candidate in candidates}
    counters = one_shot.run(config, lambda link: archive_candidates.read_counters(link, config, streams))

    def rest() -> Iterator[ArchiveCandidate]:
        for candidate in candidates:
            archive = _read(path, candidate)
            part = plan.next_part(candidate, archive, counters[candidate.stream])
            if candidate.state.is_closed or not part.is_empty or archive.damaged:
                archived = sum(earlier.rows["samples"] for earlier in part.earlier_parts)
                yield msgspec.structs.replace(
                    candidate, samples=max(0, candidate.samples - archived), stored_bytes=part.stored_bytes
                )

    return list(rest())


def _read(path: Path, candidate: ArchiveCandidate) -> SessionArchive:
    """What the archive has of a session. One that is damaged as a whole counts as nothing: the run says more."""
    try:
        return manifest.read_session(path / candidate.folder, candidate.identity)
    except errors.ArchiveDamaged:
        return SessionArchive(candidate.identity)
    except OSError as error:
        raise folders.unwritable(path, error) from error
