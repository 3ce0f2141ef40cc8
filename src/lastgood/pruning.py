"""S9: remove what two generations and the milestones do not need; never before S7's fsync.

Two verified generations are on disk at every instant (I4): before anything is removed, the
previous generation is read again as a stranger would. If it is bad, nothing is removed, for
what is about to go may be the last good one.

Whatever is removed is verified first, too, for damaged bytes are never deleted: they are
evidence, and move to the archive under a name that nothing believes (G3). A few at a time, for
each costs an fsync while the session is held, and a directory can be filled with them (T8).

A failure here never fails a save, which is durable already: it is a warning, and the next
prune removes what this one left.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from lastgood.errors import (
    DamagedError,
    LastgoodError,
    LimitError,
    NotStoredError,
    UnknownFormatError,
)
from lastgood.formats import names
from lastgood.formats.checkpoint import CheckpointHeader
from lastgood.formats.manifest import Entry, Manifest
from lastgood.formats.names import Kind
from lastgood.formats.seal import Digest
from lastgood.reading import Reading, Scope, verify_checkpoint
from lastgood.rules.retention import Retention, prunable_revisions, prunable_sequences
from lastgood.storage.interface import OwnedStorage

MOST_SET_ASIDE: Final = 16
"""Damaged files that one prune moves to the archive."""


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
    pruning = _Pruning(scope, storage)
    lineage: _Lineage | None = None
    with pruning.warned():
        lineage = _Lineage(None if newest.previous is None else pruning.verified(newest.previous))
    if lineage is not None:
        with pruning.warned():
            for sequence in prunable_sequences(newest, pruning.listed(Kind.CHECKPOINT)):
                pruning.retire_checkpoint(sequence, lineage, retention)
        # Whatever stands in the way of a checkpoint, revisions do not pile up.
        with pruning.warned():
            pruning.retire_manifests(newest)
    return pruning.done()


def prune_revisions(scope: Scope, storage: OwnedStorage, newest: Manifest) -> Pruned:
    """Remove the revisions below the newest two, and no checkpoint; never raises either."""
    pruning = _Pruning(scope, storage)
    with pruning.warned():
        pruning.retire_manifests(newest)
    return pruning.done()


@dataclass(slots=True)
class _Pruning:
    """One prune, and what it did so far."""

    scope: Scope
    storage: OwnedStorage
    removed: list[str] = field(default_factory=list)
    archived: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    found: list[names.Parsed] | None = None

    @contextmanager
    def warned(self) -> Iterator[None]:
        """Turn an error of the block into a warning."""
        try:
            yield
        except LastgoodError as error:
            self.warnings.append(f"Pruning stopped: {error}")

    def done(self) -> Pruned:
        """What was done."""
        return Pruned(tuple(self.removed), tuple(self.archived), tuple(self.warnings))

    def listed(self, kind: Kind) -> list[int]:
        """The numbers of the names of one kind, as they were when first asked for."""
        if self.found is None:
            self.found = [p for p in map(names.parse, self.storage.list()) if p is not None]
        return [parsed.number for parsed in self.found if parsed.kind is kind]

    def verified(self, entry: Entry) -> CheckpointHeader:
        """The header of a generation that a stranger would accept (I4)."""
        header = verify_checkpoint(self.scope, self.storage, entry.sequence)
        if header.digest != entry.digest:
            raise DamagedError("it is not the one that the newest manifest names", name=entry.name)
        return header

    def retire_checkpoint(self, sequence: int, lineage: _Lineage, retention: Retention) -> None:
        """Delete a checkpoint, or move it to the archive."""
        name = names.checkpoint(sequence)
        try:
            header = verify_checkpoint(self.scope, self.storage, sequence)
        except (DamagedError, UnknownFormatError) as error:
            self._set_aside(name, error)
            return
        except NotStoredError:
            return  # another owner's prune was faster
        in_lineage = lineage.holds(header)
        if retention.archive == "none":
            self._delete(name)
        elif in_lineage:
            self.storage.archive(name)
            self.archived.append(name)
        else:
            self._set_aside(name, None)

    def retire_manifests(self, newest: Manifest) -> None:
        """Delete the revisions that nothing needs any more."""
        for revision in prunable_revisions(newest, self.listed(Kind.MANIFEST)):
            self._retire_manifest(names.manifest(revision))

    def _retire_manifest(self, name: str) -> None:
        found = Reading(self.scope, self.storage).manifest(name)
        if isinstance(found, DamagedError | UnknownFormatError):
            self._set_aside(name, found)
        elif isinstance(found, LastgoodError):
            raise found
        elif found is not None:
            self._delete(name)

    def _delete(self, name: str) -> None:
        self.storage.delete(name)
        self.removed.append(name)

    def _set_aside(self, name: str, damage: LastgoodError | None) -> None:
        """Keep bytes that may not stay and may not go, under a name made of them.

        Raises:
            LimitError: Enough damage was moved; the next prune goes on.
        """
        if damage is not None and len(self.warnings) >= MOST_SET_ASIDE:
            raise LimitError(
                f"{name} is damaged, too, and {MOST_SET_ASIDE} files were moved to the archive",
                safe="What is left stays where it is",
                do="Look at it with: lastgood verify SESSION; each further prune moves some",
            )
        limits = self.scope.limits
        data = self.storage.read(name, max_bytes=limits.record_bytes(limits.payload_bytes))
        token = hashlib.sha256(data).digest()[: names.TOKEN_BYTES]
        aside = names.fenced(name, token) if damage is None else names.damaged(name, token)
        self.storage.archive(name, as_name=aside)
        self.archived.append(name)
        if damage is not None:
            self.warnings.append(f"{name} is damaged and was moved to {names.archived(aside)}")


class _Lineage:
    """Walks ``previous`` backwards from the previous generation, newest first.

    What is not on that way is a fenced writer's leftover: it never was a generation, and
    does not enter the archive under a generation's name.
    """

    def __init__(self, newest: CheckpointHeader | None) -> None:
        self._expected: Digest | None = None if newest is None else newest.previous

    def holds(self, header: CheckpointHeader) -> bool:
        """Whether ``header`` is the next on the way back."""
        if header.digest != self._expected:
            return False
        self._expected = header.previous
        return True
