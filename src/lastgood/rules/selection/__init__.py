"""Which checkpoint is the last good one (R3).

The one rule: every state that a crash can leave is recovered without a human, every
other state stops with a typed error. Nothing falls back silently to an older checkpoint,
and cannot-read is never not-there.

What must hold, in this order; each part of ``select`` carries its number:

 1. ``session.json`` verifies, or nothing else is there.
 2. Without any manifest there is no checkpoint and no log: a new session.
 3. Every official manifest that was read verifies and holds the revision of its name.
 4. The pointer is the newest revision or older, or exactly one above the highest number,
    which a crash left out. Else its own number is there, and it never differs from that.
    Numbers decide.
 5. The revision before the newest is there, and the newest names it by digest.
 6. The current checkpoint is what the newest revision says, whole; of the previous
    generation, seal and header.
 7. Newer checkpoints: of an older epoch, a fenced writer's leftover; of a newer one, a
    rollback; of the same one, exactly one that continues the current, rolled forward to
    (crash between S4 and S6).
 8. The log has no epoch above the newest revision's.
 9. The witness, where there is one, does not remember anything newer or different.
10. The schema of what was chosen is known.

An operator's decision can let 5, damage in 6, and newer epochs in 7 and 8 pass:
``Evidence.waived``. A damaged current checkpoint passes, too, where the newest revision holds a
sealed approval to rebuild it, and the caller has what it takes to.

Order is numeric. Never the clock, mtime, order of a listing or of text.
"""

from __future__ import annotations

from typing import Final, TypeVar

from lastgood.errors import (
    DamagedError,
    ForkDetectedError,
    LastgoodError,
    PolicyError,
    RollbackDetectedError,
    SplicedError,
    UnknownFormatError,
    UnknownSchemaError,
)
from lastgood.formats import names
from lastgood.formats.checkpoint import CheckpointHeader
from lastgood.formats.manifest import Entry, Manifest, Note
from lastgood.formats.seal import Digest
from lastgood.rules.selection.evidence import (
    REBUILD_APPROVED,
    Evidence,
    Mark,
    Selection,
    Waiver,
    Witness,
)

__all__ = [
    "FROM_NUMBERS",
    "MISSING",
    "NOTHING",
    "REBUILD_APPROVED",
    "Evidence",
    "Mark",
    "Selection",
    "Waiver",
    "Witness",
    "approval_in",
    "select",
]

_Record = TypeVar("_Record")

FROM_NUMBERS: Final = (
    "Go on from the newest that verifies with: lastgood repair SESSION --pointer --reason TEXT"
)
"""What to do where a revision, or what it names beside the current checkpoint, is bad."""
MISSING: Final = "it is missing, and the newest manifest names it"


NOTHING: Final = Selection(manifest=None, current=None)
"""The verdict on a session of which there is not even a directory."""


def select(evidence: Evidence) -> Selection:
    """Choose the last good checkpoint, or find that the session is new.

    Raises:
        DamagedError, SplicedError, UnknownFormatError: A state that no crash leaves.
        RollbackDetectedError, ForkDetectedError: Something remembers more than is here.
        UnknownSchemaError: The chosen state has a schema that the caller does not know.
        StorageError: Something could not be read.
        PolicyError: A witness is required and has no mark.
    """
    # 1, 2
    if not _has_session(evidence):
        return Selection(manifest=None, current=None, notices=_compare_mark(evidence, None, None))
    try:
        # 3, 4
        newest, number_missing, pointer_behind = _newest_revision(evidence)
        # 5
        if "revision-before" not in evidence.waived:
            _check_revision_before(evidence, newest)
    except (DamagedError, UnknownFormatError, ForkDetectedError) as error:
        if any(isinstance(m, Manifest) for m in (evidence.pointer, *evidence.manifests.values())):
            error.do = FROM_NUMBERS
        raise
    # 6
    damage = _check_current(evidence, newest)
    before = newest.previous if damage is not None else _previous(evidence, newest)
    # 7
    rolled, fenced = _continued(evidence, newest)
    # 8
    if evidence.log_epoch > newest.epoch and "newer-epoch" not in evidence.waived:
        raise RollbackDetectedError(
            f"The log was written in epoch {evidence.log_epoch}, the newest manifest in "
            f"{newest.epoch}: the manifests are older than the log"
        )
    current = rolled[-1] if rolled else newest.current
    previous = before
    if rolled:
        skipped = rolled[:-1] or (_generation_before(evidence, newest, damage),)
        previous = skipped[-1]
    # 9
    notices = _compare_mark(evidence, newest, current)
    # 10
    if rolled or damage is None:
        _check_schema(evidence, current)
    if pointer_behind > 1:
        notices += (f"The pointer is {pointer_behind} revisions behind; the numbers decide",)
    return Selection(
        manifest=newest,
        current=current,
        previous=previous,
        rolled_forward=bool(rolled),
        number_missing=number_missing,
        pointer_behind=pointer_behind,
        leftovers=(*fenced, *_leftovers(evidence, newest)),
        notices=notices,
        damage=None if rolled else damage,
    )


def _sound(found: _Record | LastgoodError) -> _Record:
    """The record, or the error that stands in its place."""
    if isinstance(found, LastgoodError):
        raise found
    return found


def _has_session(evidence: Evidence) -> bool:
    """Rules 1 and 2; True if there is a manifest to start from."""
    recorded = evidence.pointer is not None or bool(evidence.numbers)
    believed = bool(evidence.sequences) or evidence.log_epoch > 0
    if evidence.session is None:
        if recorded or believed:
            raise DamagedError("it is missing beside records", name=names.SESSION)
        return False
    _sound(evidence.session)
    if not recorded and believed:
        raise DamagedError("checkpoints or events are there without any manifest")
    return recorded


def _newest_revision(evidence: Evidence) -> tuple[Manifest, bool, int]:
    """Rules 3 and 4: the newest revision, whether its number is missing, the pointer's lag."""
    for revision, found in sorted(evidence.manifests.items(), reverse=True):
        if _sound(found).revision != revision:
            raise SplicedError("it holds another revision", name=names.manifest(revision))
    highest = evidence.numbers[-1] if evidence.numbers else 0
    if evidence.pointer is None:
        return _manifest(evidence, highest), False, 1
    pointer = _sound(evidence.pointer)
    if pointer.revision == highest + 1:
        return pointer, True, 0
    if pointer.revision > highest:
        raise DamagedError(
            f"it is revision {pointer.revision}, the highest number is {highest}",
            name=names.POINTER,
        )
    # No crash leaves an older pointer without its number: prune, which removes numbers, comes
    # after the fsync of a newer pointer (S7, S9).
    if _manifest(evidence, pointer.revision).digest != pointer.digest:
        raise DamagedError(
            f"it differs from {names.manifest(pointer.revision)}", name=names.POINTER
        )
    return _manifest(evidence, highest), False, highest - pointer.revision


def _manifest(evidence: Evidence, revision: int) -> Manifest:
    found = evidence.manifests.get(revision)
    if found is None:
        raise DamagedError("it is missing", name=names.manifest(revision))
    return _sound(found)


def _check_revision_before(evidence: Evidence, newest: Manifest) -> None:
    """Rule 5."""
    if newest.revision == 1:
        return
    before = _manifest(evidence, newest.revision - 1)
    if newest.previous_manifest != before.digest or newest.epoch < before.epoch:
        raise ForkDetectedError(
            f"Revision {newest.revision} does not continue revision {before.revision}"
        )


def _check_current(evidence: Evidence, newest: Manifest) -> LastgoodError | None:
    """Rule 6 for the current checkpoint; its damage, where that is waived."""
    current = newest.current
    if current is None:
        return None
    try:
        _check_exists(evidence, current)
        if _sound(evidence.verified[current.sequence]) != current:
            raise ForkDetectedError(
                f"{current.name} is intact, but not the one that revision {newest.revision} names"
            )
    except (DamagedError, UnknownFormatError, ForkDetectedError) as error:
        if "damage" in evidence.waived:
            return error
        if "approved-damage" in evidence.waived and approval_in(newest) is not None:
            return error
        if error.do == DamagedError.default_do or isinstance(error, UnknownFormatError):
            error.do = _mending(evidence, newest)  # else it names what mends it already: a mode
        raise
    return None


def approval_in(newest: Manifest | None) -> Note | None:
    """The approval in ``newest`` to rebuild the very checkpoint that it names (T13)."""
    if newest is None or newest.current is None:
        return None
    approvals = (note for note in newest.notes if note.type == REBUILD_APPROVED)
    return next((note for note in approvals if note.data == newest.current.digest), None)


def _mending(evidence: Evidence, newest: Manifest) -> str:
    """The one command that goes on when the current checkpoint cannot be believed."""
    how = "--rebuild-from-log --program MODULE:OBJECT"
    if approval_in(newest) is None and _is_succeeded(evidence, newest):
        return FROM_NUMBERS
    if not evidence.has_log:
        if newest.previous is None:
            return "Look at every finding with: lastgood verify SESSION"
        how = f"--accept-older --sequence {newest.previous.sequence}"
    return f"Go on from what verifies with: lastgood repair SESSION {how} --reason TEXT"


def _is_succeeded(evidence: Evidence, newest: Manifest) -> bool:
    """Whether a crash left a sound checkpoint that continues the current one."""
    try:
        rolled, _ = _newer(evidence, newest)
    except LastgoodError:
        return False
    return bool(rolled)


def _previous(evidence: Evidence, newest: Manifest) -> Entry | None:
    """Rule 6 for the previous generation; None, where it is bad and that is waived."""
    try:
        _check_previous(evidence, newest)
    except (DamagedError, UnknownFormatError, ForkDetectedError) as error:
        if "generation-before" in evidence.waived:
            return None
        error.do = FROM_NUMBERS
        raise
    return newest.previous


def _generation_before(
    evidence: Evidence, newest: Manifest, damage: LastgoodError | None
) -> Entry | None:
    """The generation before one that is rolled forward to: the current, unless that is damaged."""
    if damage is None:
        return newest.current
    try:
        _check_previous(evidence, newest)
    except LastgoodError:
        return None
    return newest.previous


def _check_previous(evidence: Evidence, newest: Manifest) -> None:
    """Return only if the previous generation, where there is one, is what ``newest`` says."""
    previous = newest.previous
    if previous is not None:
        _check_exists(evidence, previous)
        if _sound(evidence.headers[previous.sequence]).digest != previous.digest:
            raise ForkDetectedError(
                f"{previous.name} is intact, but not the one that revision {newest.revision} names"
            )


def _check_exists(evidence: Evidence, entry: Entry) -> None:
    if entry.sequence not in evidence.sequences:
        raise DamagedError(MISSING, name=entry.name)


def _continued(evidence: Evidence, newest: Manifest) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """Rule 7; damage there can be gone round where the log knows what it held."""
    try:
        return _newer(evidence, newest)
    except (DamagedError, UnknownFormatError) as error:
        if evidence.has_log:
            error.do = FROM_NUMBERS
        raise


def _newer(evidence: Evidence, newest: Manifest) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
    """The checkpoints that continue the current one, and the leftovers of fenced writers."""
    above = newest.current.sequence if newest.current else 0
    fenced: list[str] = []
    same: list[CheckpointHeader] = []
    for sequence in evidence.sequences:
        if sequence <= above:
            continue
        header = _sound(evidence.headers[sequence])
        if header.epoch > newest.epoch and "newer-epoch" not in evidence.waived:
            raise RollbackDetectedError(
                f"{names.checkpoint(sequence)} was written in epoch {header.epoch}, the newest "
                f"manifest in {newest.epoch}: the manifests are older than the checkpoints"
            )
        if header.epoch < newest.epoch:
            fenced.append(names.checkpoint(sequence))
        else:
            same.append(header)
    # Of a lost revision's save and of the one that a crash broke off behind it, there are two.
    if len(same) > 1 and "newer-epoch" not in evidence.waived:
        raise RollbackDetectedError(
            f"{len(same)} checkpoints are newer than the newest manifest; a crash leaves one"
        )
    before = newest.current.digest if newest.current else None
    for header in same:
        if header.previous != before:
            raise ForkDetectedError(
                f"{names.checkpoint(header.sequence)} does not continue the current checkpoint"
            )
        before = header.digest
    return tuple(_sound(evidence.verified[h.sequence]) for h in same), tuple(fenced)


def _compare_mark(
    evidence: Evidence, newest: Manifest | None, current: Entry | None
) -> tuple[str, ...]:
    """Rule 9; gives the notice of a first use."""
    if evidence.witness is None:
        return ()
    mark = evidence.witness.mark
    if mark is None:
        if current is None:
            return ()
        if evidence.witness.without_mark == "stop":
            raise PolicyError("The witness has no mark of this session, and one is required")
        return ("The witness has no mark of this session: coverage is limited to what comes now",)
    revision = newest.revision if newest else 0
    sequence = current.sequence if current else 0
    if revision < mark.revision or sequence < mark.sequence:
        raise RollbackDetectedError(
            f"The witness remembers revision {mark.revision} and sequence {mark.sequence}; "
            f"here are {revision} and {sequence}"
        )
    known_revision = _revision_digest(evidence, newest, mark.revision)
    if known_revision not in (None, mark.manifest_digest) or not _descends(newest, current, mark):
        raise ForkDetectedError(
            f"The witness remembers another revision {mark.revision} or sequence {mark.sequence}"
        )
    return ()


def _revision_digest(evidence: Evidence, newest: Manifest | None, revision: int) -> Digest | None:
    """The digest of ``revision`` as far as it can be known here."""
    if newest is not None and newest.revision == revision:
        return newest.digest
    if newest is not None and newest.revision == revision + 1:
        return newest.previous_manifest
    found = evidence.manifests.get(revision)
    return found.digest if isinstance(found, Manifest) else None


def _descends(newest: Manifest | None, current: Entry | None, mark: Mark) -> bool:
    """Whether lineage, as far as it is named here, comes from the checkpoint of ``mark``."""
    if newest is None or mark.sequence == 0:
        return True
    milestones = (milestone.entry for milestone in newest.milestones)
    named = (current, newest.current, newest.previous, *milestones)
    digests = {entry.sequence: entry.digest for entry in named if entry is not None}
    if mark.sequence in digests:
        return digests[mark.sequence] == mark.checkpoint_digest
    # Each generation continues the one before it directly, the first one nothing: what the
    # witness saw between them never was in this history.
    return newest.previous is not None and mark.sequence < newest.previous.sequence


def _check_schema(evidence: Evidence, current: Entry | None) -> None:
    """Rule 10."""
    if current is None or evidence.schemas is None or current.schema_version in evidence.schemas:
        return
    known = max(evidence.schemas)
    do = None
    if current.schema_version < known:
        do = f"Give it migrations that lead from {current.schema_version} to {known}"
    raise UnknownSchemaError(
        f"{current.name} has schema version {current.schema_version}, the newest that this "
        f"program knows is {known}",
        do=do,
    )


def _leftovers(evidence: Evidence, newest: Manifest) -> tuple[str, ...]:
    """What lineage does not name, below what it names."""
    kept = newest.kept_sequences()
    below = newest.current.sequence if newest.current else 0
    return (
        *(names.checkpoint(s) for s in evidence.sequences if s < below and s not in kept),
        *(names.manifest(r) for r in evidence.numbers if r < newest.revision - 1),
        *evidence.temporaries,
    )
