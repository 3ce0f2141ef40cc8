"""Where a crash and a change by hand leave the same, so that one answer must do for both.

The one rule: every state that a crash can leave is recovered, every other state stops. The states
here are in both sets. Of each it is known what decides, and ``fault_injection/README.md`` lists
them by name; a state in both sets that is none of these is a defect of the design.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from fault_injection.belief import NOBODY, Belief, Subject
from fault_injection.files import kind_of
from fault_injection.history import History
from fault_injection.tampering import WITH_COPIES, Tampering
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
    def leftovers(self) -> tuple[str, ...]:
        """Names that nobody needed before the change."""
        return self.tampering.base.honest[self.subject].leftovers

    @property
    def earlier(self) -> list[tuple[int, Belief]]:
        """What was believed at each instant before, by its number."""
        known = self.history.instants[: self.tampering.base.number]
        return [(instant.number, instant.honest[self.subject].belief) for instant in known]

    def held(self) -> dict[str, bytes | None]:
        """Records of this session that are there now, by path."""
        folder = f"{self.subject.store}/{self.subject.directory}/"
        return {
            path: node.data
            for path, node in self.tampering.files().items()
            if path.startswith(folder) and kind_of(path) in _RECORDS
        }

    def born(self) -> int:
        """The instant at which the newest record that is left was first there."""
        return max(map(self.history.born, self.held().values()), default=0)


@dataclass(frozen=True, slots=True)
class Overlap:
    """States that a crash and a change by hand have in common.

    Attributes:
        name: One word.
        what: What they are.
        decides: What would tell one from the other.
        holds: Whether a changed tree, of which something older is believed, is one of them.
    """

    name: str
    what: str
    decides: str
    holds: Callable[[Found], bool]


def _everything(found: Found) -> bool:
    return not found.held() and (found.belief.content, found.belief.epoch) == (NOBODY, 0)


def _claim(found: Found) -> bool:
    """The store before it was opened: same checkpoint, and no trace of the newest epoch."""
    return (
        bool(found.held())
        and found.tampering.only_deletes
        and found.tampering.kind not in WITH_COPIES
        and found.belief.epoch == found.newest.epoch - 1
        and found.belief.sequence == found.newest.sequence
    )


def _log_end(found: Found) -> bool:
    """Every checkpoint and claim is there and agrees; only what none of them names is gone."""
    before = [known.end for _, known in found.earlier if known.epoch < found.newest.epoch]
    return (
        all(kind_of(path) is Kind.SEGMENT for path in found.tampering.edits)
        and found.belief.epoch == found.newest.epoch
        and found.belief.sequence == found.newest.sequence
        and max([found.newest.sequence, *before]) <= found.belief.end < found.newest.end
    )


def _older_copy(found: Found) -> bool:
    """An earlier instant's belief, and no record that is newer than that."""
    return (
        bool(found.held())
        and found.tampering.kind in WITH_COPIES
        and not _log_end(found)
        and any(
            known.state == found.belief.state and found.born() <= number
            for number, known in found.earlier
        )
    )


OVERLAPS: Final = (
    Overlap(
        "everything-deleted",
        "All records of the session are gone, or the whole store",
        "Nothing that is left: a session that was never begun looks the same",
        _everything,
    ),
    Overlap(
        "newest-claim-deleted",
        "The newest claim is gone under both its names, with all that was appended under it",
        "Memory outside the store; the checkpoint is the same, the epoch is given out again",
        _claim,
    ),
    Overlap(
        "log-end",
        "Events above the newest checkpoint's and claim's are cut, zeroed, or hold a NUL, or their "
        "segments are gone",
        "Memory outside the store; a save puts all events before it out of reach",
        _log_end,
    ),
    Overlap(
        "older-copy",
        "Files were put back as they were at an earlier instant, and nothing newer is left",
        "Memory outside the store: it is a crash state of that time",
        _older_copy,
    ),
)


def claiming(found: Found) -> list[Overlap]:
    """The overlaps that a tree with an older belief falls into; there must be exactly one."""
    return [overlap for overlap in OVERLAPS if overlap.holds(found)]
