"""Where a crash and a change by hand leave the same, so that one answer must do for both.

The one rule: every state that a crash can leave is recovered, every other state stops. The states
here are in both sets. Of each it is known what decides, and ``fault_injection/README.md`` lists
them by name; a state in both sets that is none of these is a defect of the design.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from fault_injection.damage import segments
from fault_injection.damage.belief import Belief, Subject, said
from fault_injection.damage.files import Files, kind_of, leaf
from fault_injection.damage.history import History
from fault_injection.damage.honest import is_whole, path_of
from fault_injection.damage.past import Known
from fault_injection.damage.tampering import WITH_COPIES, Tampering
from lastgood.formats import names
from lastgood.formats.names import Kind

_RECORDS: Final = (Kind.POINTER, Kind.MANIFEST, Kind.CHECKPOINT, Kind.SEGMENT)


@dataclass(frozen=True)
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

    def known(self, *, epoch: int) -> list[Known]:
        """What was believed in an epoch, at each moment before the change."""
        until = self.tampering.base.calls
        found = self.history.past.known(self.subject, until=until)
        return [known for known in found if known.belief.epoch == epoch]

    @cached_property
    def files(self) -> Files:
        """What is there now."""
        return self.tampering.files

    @cached_property
    def is_founded(self) -> bool:
        """Whether all records are there, as they were, that the checkpoint was once believed by.

        The claim was the same then, and the events behind the checkpoint were, if fewer.
        """
        return any(
            known.belief.sequence == self.belief.sequence
            and self.belief.agrees_with(known.belief, until=known.belief.end)
            and is_whole(self.files, known.files, self.subject, known.honest)
            for known in self.known(epoch=self.belief.epoch)
        )

    @property
    def late(self) -> frozenset[tuple[int, str]]:
        """Events that are believed now, and were at no moment of the job before the change."""
        return frozenset(self.belief.events) - self._live

    @property
    def skips_nothing(self) -> bool:
        """Whether each number that had an event in the job has one now, up to the end, in order."""
        numbers = [number for number, _ in self.belief.events]
        between = range(self.belief.sequence + 1, self.belief.end + 1)
        were = {number for number, _ in self._live if number in between}
        return numbers == sorted(numbers) and were <= set(numbers)

    @cached_property
    def _live(self) -> frozenset[tuple[int, str]]:
        known = self.history.past.known(self.subject, until=self.tampering.base.calls)
        return frozenset(event for one in known for event in one.belief.events)

    @cached_property
    def held(self) -> dict[str, bytes]:
        """Records that are there now: by path, what somebody believes of them.

        What nobody needed before the change and nobody believes now is not among them.
        """
        return {
            path: segments.believed(path, self.files)
            if kind_of(path) is Kind.SEGMENT
            else node.data
            for path, node in self.files.items()
            if path.startswith(f"{self.folder}/")
            and kind_of(path) in _RECORDS
            and node.data is not None
            and (leaf(path) not in self.leftovers or path == self.checkpoint)
        }

    @property
    def checkpoint(self) -> str:
        """Path of the one that is believed now."""
        return path_of(names.checkpoint(max(self.belief.sequence, 1)), self.subject)

    def was_believed(self, belief: Belief, *, without: Collection[str] = ()) -> bool:
        """Whether a program went on with the same once, and no record that is left is newer.

        Args:
            belief: What is believed now, or would be but for ``without``.
            without: Paths of records that do not count.
        """
        born = self.born(without)
        return any(
            known.calls >= born and known.belief.is_same_state(belief)
            for known in self.known(epoch=belief.epoch)
        )

    def born(self, without: Collection[str]) -> int:
        """After how many calls the newest record that is left was first there."""
        births = (
            self.history.past.born(path, data)
            for path, data in self.held.items()
            if path not in without
        )
        return max(births, default=self.history.past.first)


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
    """No checkpoint and no event is left; a claim from before the first of them may be."""
    here = (path for path in found.files if path.startswith(f"{found.folder}/"))
    kinds = set(map(kind_of, here))  # a directory under a record's name is no record that is gone
    if kinds & {Kind.CHECKPOINT, Kind.SEGMENT} or not found.belief.is_nothing:
        return False
    if kinds & {Kind.POINTER, Kind.MANIFEST}:
        return found.is_founded and found.was_believed(found.belief)
    return found.belief == Belief()


def _claim(found: Found) -> bool:
    """The store before it was opened: all of that is there, and no trace of the newest epoch."""
    before = found.known(epoch=found.belief.epoch)[-1:]
    is_last = [found.belief] == [known.belief for known in before]
    return (
        not _everything(found)
        and found.tampering.only_deletes
        and found.belief.epoch < found.newest.epoch
        and (
            (is_last and found.belief.sequence >= found.newest.sequence) or _loses_no_promise(found)
        )
        and found.is_founded
        and found.was_believed(found.belief)
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
    base, was = found.tampering.base, found.tampering.base.honest[found.subject]
    claimed = [known.belief.end for known in found.known(epoch=found.newest.epoch - 1)[-1:]]
    if found.belief.sequence == was.named != found.newest.sequence:
        adopted = names.checkpoint(found.newest.sequence)  # no manifest names it: a leftover
        was = replace(was, needed=was.needed - {adopted})
    return (
        not _everything(found)
        and found.belief.epoch == found.newest.epoch
        and found.belief.sequence in (found.newest.sequence, was.named)
        and all(_is_lost(found, path) for path in found.tampering.edits)
        and max([found.belief.sequence, *claimed]) <= found.belief.end < found.newest.end
        and found.belief.agrees_with(found.newest, until=found.belief.end)
        and is_whole(found.files, base.files, found.subject, was)
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
        and found.newest.end > 0
        and not found.late
        and found.belief.is_same_state(found.newest)
        and found.is_founded
    )


def _older_copy(found: Found) -> bool:
    """What was believed at an earlier moment, and no record that is newer than that."""
    return (
        _needs_copies(found)
        and not found.late
        and not _everything(found)
        and not _log_end(found)
        and not _older_records(found)
        and found.is_founded
        and found.was_believed(found.belief)
    )


def _unfinished(found: Found) -> bool:
    """As it was before an act of which nobody was told that it is done, within one epoch."""
    return (
        found.tampering.only_deletes
        and found.belief.epoch == found.newest.epoch
        and not found.late
        and not any(holds(found) for holds in (_everything, _log_end, _older_records))
        and found.is_founded
        and _loses_no_promise(found)
        and found.was_believed(found.belief)
    )


def _loses_no_promise(found: Found) -> bool:
    """Whether it was the same once when all had been acknowledged that is so now."""
    promised = set(found.tampering.base.told.names("acknowledged"))
    return any(
        known.belief == found.belief and promised <= set(known.told.names("acknowledged"))
        for known in found.known(epoch=found.belief.epoch)
    )


def _needs_copies(found: Found) -> bool:
    """Whether something was put there that was once the truth; what only deletes needs no copy."""
    return found.tampering.kind in WITH_COPIES and not found.tampering.only_deletes


def _fenced_write(found: Found) -> bool:
    """An earlier moment, and behind it what its owner wrote when it was fenced already."""
    if not _needs_copies(found):
        return False
    return _fenced_append(found) if found.late else _fenced_save(found)


def _fenced_append(found: Found) -> bool:
    """The end of the log holds events that no moment of the job believed, and nothing else does.

    There are such events.
    """
    late = tuple(event for event in found.belief.events if event in found.late)
    events, end = found.belief.events[: -len(late)], late[0][0] - 1
    written = [path for path, data in found.held.items() if _wrote(found, path, data, late)]
    return (
        bool(written)
        and (*events, *late) == found.belief.events
        and found.belief.end == late[-1][0]
        and found.is_founded
        and found.was_believed(replace(found.belief, events=events, end=end), without=written)
    )


def _fenced_save(found: Found) -> bool:
    """The checkpoint is one that nobody needed before, on top of what was believed once."""
    born = found.born([found.checkpoint])
    base = found.tampering.base.files
    above = found.belief.sequence if found.subject.has_log else 0
    return (
        leaf(found.checkpoint) in found.leftovers
        and found.files.get(found.checkpoint) == base.get(found.checkpoint)
        and not _older_copy(found)
        and any(
            known.calls >= born
            and known.belief.sequence < found.belief.sequence
            and found.belief.end == max(known.belief.end, above)
            and found.belief.agrees_with(known.belief, until=known.belief.end)
            and is_whole(found.files, known.files, found.subject, known.honest)
            for known in found.known(epoch=found.belief.epoch)
        )
    )


def _wrote(found: Found, path: str, data: bytes, late: Collection[tuple[int, str]]) -> bool:
    """Whether a segment of an owner who claimed no later holds all those events."""
    parsed = names.parse(leaf(path))
    if parsed is None or parsed.kind is not Kind.SEGMENT or parsed.epoch > found.belief.epoch:
        return False
    return {said(*event) for event in segments.events(data)}.issuperset(late)


OVERLAPS: Final = (
    Overlap(
        "everything-deleted",
        "Every checkpoint and all of the log is gone, or the whole session, or the whole store; a "
        "claim that names none may be left",
        "Nothing that is left: a session that was never begun looks the same",
        _everything,
    ),
    Overlap(
        "newest-claim-deleted",
        "The newest claim, or several of them, is gone under all its names, with all that was "
        "appended under it, or all of an act that nobody was told of",
        "Memory outside the store; no checkpoint that was acknowledged is lost, the epoch is given "
        "out again",
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
        "older-records",
        "Manifests and checkpoints of the newest epoch are gone, or as they were in it earlier; "
        "the log is as it was",
        "Memory outside the store; nothing is lost, as the log is the truth: only replay is longer",
        _older_records,
    ),
    Overlap(
        "older-copy",
        "Files were put back as they were at an earlier instant, and nothing newer is left",
        "Memory outside the store: it is a crash state of that time",
        _older_copy,
    ),
    Overlap(
        "unfinished-act",
        "The files of an act are gone of which nobody was told that it is done, and that a later "
        "opening would finish; no claim is",
        "Nobody needs to: without a promise both are right",
        _unfinished,
    ),
    Overlap(
        "fenced-write",
        "Records were put back as they were before what a newer owner wrote, or before its "
        "takeover, beside an event or a checkpoint that the fenced owner wrote after it",
        "Memory outside the store: it is a crash state of a run in which the newer owner wrote "
        "nothing, or never came",
        _fenced_write,
    ),
)


def claiming(found: Found) -> list[Overlap]:
    """The overlaps that a tree with an older belief falls into; there must be exactly one.

    None claims a tree with a file that neither a crash nor an old copy leaves as it is: whoever
    passes that over for something older has fallen back, silently.
    """
    is_known = found.history.is_known(found.subject, found.belief) and found.skips_nothing
    if not is_known or not all(_is_the_truth(found, path) for path in found.tampering.edits):
        return []
    return [overlap for overlap in OVERLAPS if overlap.holds(found)]
