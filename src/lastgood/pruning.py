"""S9: remove what two generations and the milestones do not need; never before S7's fsync.

Two verified generations are on disk at every instant (I4): before anything is removed, the
previous generation is read again as a stranger would. If it is bad, nothing is removed, for
what is about to go may be the last good one. A failure here never fails a save, which is
durable already: it is a warning, and the next prune removes what this one left.
"""

from __future__ import annotations

from dataclasses import dataclass

from lastgood.errors import DamagedError, LastgoodError
from lastgood.formats import names
from lastgood.formats.manifest import Entry, Manifest
from lastgood.formats.names import Kind
from lastgood.formats.seal import Digest
from lastgood.reading import Reading, Scope, verify_checkpoint
from lastgood.rules.retention import Retention, prunable_revisions, prunable_sequences
from lastgood.storage.interface import OwnedStorage, Storage


@dataclass(frozen=True, slots=True)
class Pruned:
    """What a prune did.

    Attributes:
        removed: Names that are gone.
        archived: Names that moved to the archive.
        warnings: What went wrong; nothing that is needed was touched.
    """

    removed: tuple[str, ...] = ()
    archived: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def prune(scope: Scope, storage: OwnedStorage, newest: Manifest, *, retention: Retention) -> Pruned:
    """Remove older generations and revisions; never raises what a save could fail with.

    Args:
        scope: The session.
        storage: Its directory, owned.
        newest: The newest revision, durable.
        retention: What is kept beyond two generations.
    """
    removed: list[str] = []
    archived: list[str] = []
    try:
        if newest.previous is not None:
            _verify(scope, storage, newest.previous)
        listed = [found for found in map(names.parse, storage.list()) if found is not None]
        sequences = [p.number for p in listed if p.kind is Kind.CHECKPOINT]
        lineage = _Lineage(scope, storage, newest) if retention.archive == "all" else None
        for sequence in prunable_sequences(newest, sequences):
            name = names.checkpoint(sequence)
            if lineage is not None and lineage.holds(sequence):
                storage.archive(name)
                archived.append(name)
            else:
                storage.delete(name)
                removed.append(name)
        revisions = [p.number for p in listed if p.kind is Kind.MANIFEST]
        for revision in prunable_revisions(newest, revisions):
            storage.delete(names.manifest(revision))
            removed.append(names.manifest(revision))
    except LastgoodError as error:
        return Pruned(tuple(removed), tuple(archived), (f"Pruning stopped: {error}",))
    return Pruned(tuple(removed), tuple(archived))


def _verify(scope: Scope, storage: Storage, entry: Entry) -> None:
    if verify_checkpoint(scope, storage, entry.sequence).digest != entry.digest:
        raise DamagedError("it is not the one that the newest manifest names", name=entry.name)


class _Lineage:
    """Walks ``previous`` backwards from the previous generation, newest first.

    What is not on that way is a fenced writer's leftover: it never was a generation, and
    does not enter the archive of generations.
    """

    def __init__(self, scope: Scope, storage: OwnedStorage, newest: Manifest) -> None:
        self._reading = Reading(scope, storage)
        self._expected: Digest | None = None
        if newest.previous is not None:
            self._step(newest.previous.sequence)

    def holds(self, sequence: int) -> bool:
        """Whether the checkpoint at ``sequence`` is the next on the way back."""
        found = self._reading.checkpoint_header(sequence)
        if isinstance(found, LastgoodError):
            raise found
        if found is None or found.digest != self._expected:
            return False
        self._expected = found.previous
        return True

    def _step(self, sequence: int) -> None:
        found = self._reading.checkpoint_header(sequence)
        if isinstance(found, LastgoodError):
            raise found
        self._expected = None if found is None else found.previous
