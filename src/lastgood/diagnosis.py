"""What each repair would meet, by reading only: whether it is needed, and whether it can be.

A repair decides one thing and passes over what other repairs decide about, so that a session
with several kinds of damage is mended step by step: first the pointer, then the log's end, then
the checkpoint. Nothing is decided by passing over it: the session goes on being stopped by it.

==========  ================================  ==========================================
repair      needed where                      passes over
==========  ================================  ==========================================
pointer     a revision, or the generation     a damaged current checkpoint, a damaged end
            before the current one, is bad    of the log
tail        the log's end is damaged          a damaged current checkpoint
rebuild     the current checkpoint is         nothing else
            damaged, and there is a log
older       the same, and there is none       nothing else
==========  ================================  ==========================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from lastgood.clock import Clock
from lastgood.errors import (
    DamagedError,
    LastgoodError,
    PolicyError,
    UnknownFormatError,
    UnknownSessionError,
    UsageError,
    printable,
)
from lastgood.formats import names
from lastgood.formats.checkpoint import CheckpointHeader
from lastgood.formats.manifest import Entry, Manifest
from lastgood.formats.session import SessionRecord
from lastgood.log_found import LogFound
from lastgood.reading import Reading, Scope, newest_of
from lastgood.rules import selection, tail
from lastgood.rules.selection import Evidence, Selection, Waiver
from lastgood.storage.interface import Storage
from lastgood.survey import Attempt, base_of, read_log, until_settled

Repair = Literal["pointer", "tail", "rebuild", "older"]

WAIVED: Final[Mapping[Repair, tuple[Waiver, ...]]] = {
    "pointer": ("revision-before", "generation-before", "newer-epoch", "damage", "log-end"),
    "tail": ("damage", "log-end"),
    "rebuild": ("damage",),
    "older": ("damage",),
}
"""What each repair decides about, or passes over."""

_WITHOUT_LOG: Final = "The session has no event log"
_WITH_LOG_DO: Final = (
    "Rebuild it with: lastgood repair SESSION --rebuild-from-log --program MODULE:OBJECT "
    "--reason TEXT"
)
_UNNEEDED: Final[Mapping[Repair, str]] = {
    "pointer": "The newest revision, and what it names beside the current checkpoint, is sound",
    "tail": "The end of the event log is not damaged",
    "rebuild": "The current checkpoint is not damaged",
    "older": "The current checkpoint is not damaged",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """What a repair would meet.

    Attributes:
        repair: Which one.
        problem: What it would mend; None: it is not needed.
        chosen: What the session would stand on.
        base: The checkpoint to go on from; None: from the beginning.
        bad: Names that hold what cannot be believed and that it would set aside.
        log: The event log, up to an end that would be accepted.
        end_damage: Why the log's end cannot be believed, or None.
        is_approved: Whether a rebuild is approved already.
    """

    repair: Repair
    problem: LastgoodError | None = None
    chosen: Selection = selection.NOTHING
    base: Entry | None = None
    bad: tuple[str, ...] = ()
    log: LogFound | None = None
    end_damage: LastgoodError | None = None
    is_approved: bool = False

    def refuse_unneeded(self) -> None:
        """Return only if the repair is needed.

        Raises:
            UsageError: It is not.
        """
        if self.problem is not None:
            return
        do = "See what is stored with: lastgood verify SESSION"
        if self.chosen.rolled_forward and self.repair in ("rebuild", "older"):
            do = f"A newer one continues it. {selection.FROM_NUMBERS}"
        raise UsageError(f"There is nothing to repair. {_UNNEEDED[self.repair]}", do=do)


def diagnose(scope: Scope, storage: Storage, *, repair: Repair, clock: Clock) -> Diagnosis:
    """Find out what ``repair`` would meet; nothing is changed.

    Args:
        scope: The session, with what this repair passes over waived.
        storage: Its directory.
        repair: Which one.
        clock: Measures the patience with a writer at work.

    Raises:
        UnknownSessionError: Nothing is there.
        PolicyError: The session is used with a log and the repair is for one without, or the
            other way round.
        BusyError: A writer kept moving it.
        LastgoodError: What the repair does not pass over.
    """
    return until_settled(
        lambda: _attempt(Reading(scope, storage), repair),
        what=f"session {printable(scope.session)}",
        clock=clock,
    )


def _attempt(reading: Reading, repair: Repair) -> Attempt[Diagnosis]:
    try:
        found = _read(reading, repair)
    except LastgoodError as error:
        return Attempt(error, is_plain=False, trace=reading.trace)
    return Attempt(found, is_plain=False, trace=reading.trace)


def _read(reading: Reading, repair: Repair) -> Diagnosis:
    seen = reading.evidence()
    record = _record(reading.scope, seen)
    _check_policy(seen, repair)
    bad: tuple[str, ...] = ()
    problem: LastgoodError | None = None
    evidence = seen
    if repair == "pointer":
        problem = _stopping(seen)
        if problem is None:
            return Diagnosis(repair=repair)
        bad = tuple(_bad(seen))
        evidence = _without(seen, bad)
    chosen = selection.select(evidence)
    if repair in ("rebuild", "older"):
        problem = chosen.damage
        if problem is None:
            return Diagnosis(repair=repair, chosen=chosen)
    if repair == "pointer":
        bad += tuple(_passed_over(seen, chosen))
    base = base_of(reading, chosen)
    log, end_damage = _log(reading, record, chosen, base)
    return Diagnosis(
        repair=repair,
        problem=end_damage if repair == "tail" else problem,
        chosen=chosen,
        base=base,
        bad=bad,
        log=log,
        end_damage=end_damage,
        is_approved=selection.approval_in(chosen.manifest) is not None,
    )


def _record(scope: Scope, seen: Evidence) -> SessionRecord:
    """``session.json``, without which nothing can be repaired.

    Raises:
        UnknownSessionError: It was never begun.
    """
    if seen.session is None and not (seen.numbers or seen.pointer or seen.sequences):
        raise UnknownSessionError(f"There is no session {printable(scope.session)}")
    if seen.session is None:
        raise DamagedError("it is missing beside records", name=names.SESSION)
    if isinstance(seen.session, LastgoodError):
        raise seen.session
    return seen.session


def _check_policy(seen: Evidence, repair: Repair) -> None:
    if repair == "older" and seen.has_log:
        raise PolicyError(
            "The session has an event log, which knows more than an older checkpoint",
            do=_WITH_LOG_DO,
        )
    if repair in ("tail", "rebuild") and not seen.has_log:
        raise PolicyError(_WITHOUT_LOG, do="See what is stored with: lastgood verify SESSION")


def _bad(seen: Evidence) -> Iterator[str]:
    """The names that hold what cannot be believed and what a new revision must not stand on.

    Raises:
        LastgoodError: A record cannot be read, which is not the same.
    """
    sound: dict[int, Manifest] = {}
    for revision, found in seen.manifests.items():
        if not _is_bad(found) and isinstance(found, Manifest) and found.revision == revision:
            sound[revision] = found
        else:
            yield names.manifest(revision)
    newest = newest_of(seen)
    if newest is None:
        raise DamagedError(
            "neither it nor one of the newest two revisions verifies", name=names.POINTER
        )
    pointer = seen.pointer
    if _is_bad(pointer):
        yield names.POINTER
    elif isinstance(pointer, Manifest):
        numbered = sound.get(pointer.revision)
        is_newest = numbered is None and pointer.revision == newest.revision
        if not is_newest and (numbered is None or numbered.digest != pointer.digest):
            yield names.POINTER
    yield from _bad_checkpoints(seen, newest)


def _bad_checkpoints(seen: Evidence, newest: Manifest) -> Iterator[str]:
    """The generation before, and, where the log knows what they held, what is newer."""
    previous = newest.previous
    if previous is not None:
        header = seen.headers.get(previous.sequence)
        other = isinstance(header, CheckpointHeader) and header.digest != previous.digest
        if other or _is_bad(header):
            yield previous.name
    if not seen.has_log:
        return
    above = newest.current.sequence if newest.current else 0
    for sequence in seen.sequences:
        found = seen.verified.get(sequence) or seen.headers.get(sequence)
        if sequence > above and _is_bad(found):
            yield names.checkpoint(sequence)


def _passed_over(seen: Evidence, chosen: Selection) -> Iterator[str]:
    """The damaged current checkpoint, where a crash left one that continues it."""
    named = chosen.manifest.current if chosen.manifest is not None else None
    if chosen.rolled_forward and named is not None and _is_bad(seen.verified.get(named.sequence)):
        yield named.name


def _is_bad(found: object) -> bool:
    """Whether this is damage; what cannot be read for another reason is raised.

    Raises:
        LastgoodError: It cannot be read.
    """
    if isinstance(found, LastgoodError) and not isinstance(
        found, DamagedError | UnknownFormatError
    ):
        raise found
    return isinstance(found, LastgoodError)


def _without(seen: Evidence, bad: tuple[str, ...]) -> Evidence:
    """What would be there once ``bad`` is set aside and the newest revision has its number."""
    manifests = {
        number: found
        for number, found in seen.manifests.items()
        if names.manifest(number) not in bad
    }
    pointer = None if names.POINTER in bad else seen.pointer
    best = newest_of(replace(seen, manifests=manifests, pointer=pointer))
    numbers = {n for n in seen.numbers if names.manifest(n) not in bad}
    if best is not None:
        numbers.add(best.revision)
        manifests[best.revision] = best
    kept = tuple(s for s in seen.sequences if names.checkpoint(s) not in bad)
    above = best.current.sequence if best is not None and best.current else 0
    unread = [s for s in kept if s > above and s not in seen.headers]
    if unread:
        raise DamagedError(
            "it lies behind a damaged one and above the newest manifest",
            name=names.checkpoint(unread[0]),
        )
    return replace(
        seen,
        pointer=pointer,
        numbers=tuple(sorted(numbers)),
        manifests=manifests,
        sequences=kept,
    )


def _stopping(seen: Evidence) -> LastgoodError | None:
    """What of the revisions stops the session, apart from a damaged current checkpoint."""
    tried: tuple[tuple[Waiver, ...], ...] = ((), ("damage",))
    for waived in tried:
        try:
            selection.select(replace(seen, waived=waived))
        except LastgoodError as error:
            if waived or error.do == selection.FROM_NUMBERS:
                return error
    return None


def _log(
    reading: Reading, record: SessionRecord, chosen: Selection, base: Entry | None
) -> tuple[LogFound | None, LastgoodError | None]:
    """The log, and why its end is damaged, where that is waived."""
    waived = tuple(w for w in reading.scope.waived if w != "log-end")
    strict = replace(reading, scope=replace(reading.scope, waived=waived))
    try:
        return read_log(strict, record, chosen, base=base), None
    except DamagedError as error:
        if error.do != tail.ACCEPT or len(waived) == len(reading.scope.waived):
            raise
        return read_log(reading, record, chosen, base=base), error
