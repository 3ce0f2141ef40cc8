"""Where a crash and a change by hand leave the same, so that one answer must do for both.

The one rule: every state that a crash can leave is recovered, every other state stops. The states
here are in both sets. Of each it is known what decides, and ``fault_injection/README.md`` lists
them by name; a state in both sets that is none of these is a defect of the design.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fault_injection.damage import segments
from fault_injection.damage.belief import Belief, Subject
from fault_injection.damage.files import kind_of
from fault_injection.damage.history import History, is_same_state
from fault_injection.damage.tampering import WITH_COPIES, Tampering
from lastgood.formats.names import Kind

_RECORDS: Final = (Kind.POINTER, Kind.MANIFEST, Kind.CHECKPOINT, Kind.SEGMENT)


@dataclass(frozen=True, slots=True)
class Found:
    """A changed tree, and what is believed of it.

    Attributes:
        tampering: The change.
        history: What was there before.
        subject: The session.
        belief: What is believed now.
    """

    tampering: Tampering
    history: History
    subject: Subject
    belief: Belief

    @property
    def newest(self) -> Belief:
        """What would be believed if nobody had changed anything."""
        return self.tampering.base.honest[self.subject].belief

    @property
    def folder(self) -> str:
        """The session's directory."""
        return f"{self.subject.store}/{self.subject.directory}"

    @property
    def leftovers(self) -> tuple[str, ...]:
        """Names that nobody needed before the change."""
        return self.tampering.base.honest[self.subject].leftovers

    @property
    def earlier(self) -> list[tuple[int, Belief]]:
        """What was believed at each instant before, by its number."""
        known = self.history.instants[: self.tampering.base.number]
        return [(instant.number, instant.honest[self.subject].belief) for instant in known]

    def held(self) -> dict[str, bytes]:
        """Records of this session that are there now: by path, what somebody believes of them."""
        files = self.tampering.files()
        return {
            path: segments.believed(path, files) if kind_of(path) is Kind.SEGMENT else node.data
            for path, node in files.items()
            if path.startswith(f"{self.folder}/")
            and kind_of(path) in _RECORDS
            and node.data is not None
        }

    def born(self) -> int:
        """After how many calls the newest record that is left was first there."""
        return max((self.history.past.born(*held) for held in self.held().items()), default=0)


@dataclass(frozen=True, slots=True)
class Overlap:
    """States that a crash and a change by hand have in common.

    Attributes:
        name: One word.
        what: What they are.
        decides: What would tell one from the other.
        is_of_this_run: Whether a crash of the very job leaves such states; else one of another run
            of the same program does, which the store alone cannot tell from it.
        holds: Whether a changed tree, of which something older is believed, is one of them.
    """

    name: str
    what: str
    decides: str
    is_of_this_run: bool
    holds: Callable[[Found], bool]


def _everything(found: Found) -> bool:
    """No checkpoint and no event is left; a claim that names none may be."""
    here = (path for path in found.tampering.files() if path.startswith(f"{found.folder}/"))
    kinds = set(map(kind_of, here))  # a directory under a record's name is no record that is gone
    return found.belief.is_nothing and not kinds & {Kind.CHECKPOINT, Kind.SEGMENT}


def _claim(found: Found) -> bool:
    """The store before it was opened: same checkpoint, and no trace of the newest epoch."""
    return (
        not _everything(found)
        and found.tampering.only_deletes
        and found.tampering.kind not in WITH_COPIES
        and found.belief.epoch == found.newest.epoch - 1
        and found.belief.sequence == found.newest.sequence
    )


def _is_the_truth(found: Found, path: str) -> bool:
    """Whether what a change has left of a file is nothing, what it once was, or a torn segment.

    What stands under a name that nobody believes is no part of it.
    """
    node, base = found.tampering.edits[path], found.tampering.base.files
    if node is None:
        return True
    if kind_of(path) in (None, Kind.LOCK, Kind.TEMPORARY):
        return path not in base or base[path].is_directory == node.is_directory
    if node in {known for known, _ in found.history.versions(path)}:
        return True
    data = node.data
    if data is None or path not in base or kind_of(path) is not Kind.SEGMENT:
        return False
    return segments.is_intact(path, data, base) or segments.is_torn(path, data, base)


def _log_end(found: Found) -> bool:
    """Every checkpoint and claim is there and agrees; only what none of them names is gone."""
    before = [known.end for _, known in found.earlier if known.epoch < found.newest.epoch]
    named = found.tampering.base.honest[found.subject].named
    return (
        not _everything(found)
        and found.belief.epoch == found.newest.epoch
        and found.belief.sequence in (found.newest.sequence, named)
        and all(_is_lost(found, path) for path in found.tampering.edits)
        and max([found.belief.sequence, *before]) <= found.belief.end < found.newest.end
    )


def _is_lost(found: Found, path: str) -> bool:
    """Whether a segment's change is one that a crash makes of writes that were not durable yet."""
    node, base = found.tampering.edits[path], found.tampering.base.files
    if kind_of(path) is not Kind.SEGMENT or path not in base or node is None:
        return True
    data = node.data or b""
    return segments.is_intact(path, data, base) or segments.is_torn(path, data, base)


def _older_records(found: Found) -> bool:
    """The log is all there, so that replay gives the newest state from an older checkpoint."""
    return (
        found.belief.epoch == found.newest.epoch
        and found.belief.sequence < found.newest.sequence
        and 0 < found.belief.end == found.newest.end
    )


def _older_copy(found: Found) -> bool:
    """What was believed at an earlier moment, and no record that is newer than that."""
    if (
        found.tampering.kind not in WITH_COPIES
        or _everything(found)
        or _log_end(found)
        or _older_records(found)
    ):
        return False
    born = found.born()
    known = found.history.past.beliefs(found.subject, until=found.tampering.base.calls)
    return any(
        was.epoch == found.belief.epoch and is_same_state(was, found.belief)
        for calls, was in known
        if calls >= born
    )


def _fenced_append(found: Found) -> bool:
    """The end of the log holds an event that no moment of the job believed."""
    if found.tampering.kind not in WITH_COPIES or _log_end(found) or _older_records(found):
        return False
    known = found.history.past.beliefs(found.subject, until=found.tampering.base.calls)
    live = {event for _, was in known for event in was.events}
    return not live.issuperset(found.belief.events)


OVERLAPS: Final = (
    Overlap(
        "everything-deleted",
        "Every checkpoint and all of the log is gone, or the whole session, or the whole store; a "
        "claim that names none may be left",
        "Nothing that is left: a session that was never begun looks the same",
        True,
        _everything,
    ),
    Overlap(
        "newest-claim-deleted",
        "The newest claim is gone under both its names, with all that was appended under it",
        "Memory outside the store; the checkpoint is the same, the epoch is given out again",
        True,
        _claim,
    ),
    Overlap(
        "log-end",
        "Events above the newest checkpoint's and claim's are cut, zeroed, or hold a NUL, or their "
        "segments are gone",
        "Memory outside the store; a save puts all events before it out of reach",
        True,
        _log_end,
    ),
    Overlap(
        "older-records",
        "Manifests and checkpoints of the newest epoch are gone, or as they were in it earlier; "
        "the log is as it was",
        "Memory outside the store; nothing is lost, as the log is the truth: only replay is longer",
        True,
        _older_records,
    ),
    Overlap(
        "older-copy",
        "Files were put back as they were at an earlier instant, and nothing newer is left",
        "Memory outside the store: it is a crash state of that time",
        True,
        _older_copy,
    ),
    Overlap(
        "fenced-append",
        "Records were put back as they were before a takeover, beside a segment in which the "
        "fenced owner wrote after it",
        "Memory outside the store: it is a crash state of a run in which nobody took over",
        False,
        _fenced_append,
    ),
)


def claiming(found: Found) -> list[Overlap]:
    """The overlaps that a tree with an older belief falls into; there must be exactly one.

    None claims a tree with a file that neither a crash nor an old copy leaves as it is: whoever
    passes that over for something older has fallen back, silently.
    """
    if not all(_is_the_truth(found, path) for path in found.tampering.edits):
        return []
    return [overlap for overlap in OVERLAPS if overlap.holds(found)]
