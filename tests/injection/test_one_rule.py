"""The one rule: every state a crash can leave is recovered, every other stops; overlaps by name."""

from __future__ import annotations

import functools
import re
from collections import Counter
from dataclasses import replace
from typing import Any, Final
from unittest import mock

import pytest

from fault_injection.damage import one_rule, overlaps
from fault_injection.damage.belief import NOBODY, Belief, read
from fault_injection.damage.files import kind_of
from fault_injection.damage.history import History, history_of
from fault_injection.damage.judgement import judge
from fault_injection.damage.one_rule import Comparison, compare
from fault_injection.damage.overlaps import OVERLAPS, Found, Overlap
from fault_injection.damage.tampering import Tamperer, Tampering, TamperKind
from fault_injection.memory.disk import Node
from fault_injection.workload import Workload
from fault_injection.workloads import WORKLOADS, find
from lastgood.errors import DamagedError
from lastgood.formats import names
from lastgood.formats.names import Kind
from lastgood.rules import selection
from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY

NAMES: Final = [workload.name for workload in WORKLOADS]
WRITE_MUCH: Final = ("appends", "trims")
"""Jobs with a write of more sectors than are torn in every way."""
README: Final = REPOSITORY / "fault_injection" / "README.md"
FENCED: Final = "fenced-write"
"""Of all overlaps the one that no crash of the very job leaves."""
BY_L5_ALONE: Final = (FENCED, "unfinished-act")
"""The other one is left by crashes, but for a temporary beside it that nobody believes."""
SECTION: Final = "## Where a crash and a change by hand look the same"


def workload(name: str) -> Workload:
    found = find(name)
    if found is None:
        raise AssertionError(f"there is no workload {name}")
    return found


@functools.cache
def compared(name: str) -> Comparison:
    return compare(workload(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_disk_in_both_sets_needs_one_answer_or_is_listed(name: str) -> None:
    """G2, G3, O12: no disk must be both recovered and refused, but for the listed overlaps.

    Method: every disk that two persistence models permit at any point of the job and of what lay
    there before it (of a write of many sectors, some tears), against every change by hand of whole
    files and a sample of those of bytes.
    """
    found = compared(name)
    check(not found.violations, f"{name}: {found.violations[:3]}")
    check_equal(found.is_exhaustive, name not in WRITE_MUCH, f"{name}: the crashes are all")
    check(found.crashes > 100 and found.changes > 1000, f"{name}: few: {found}")
    check(found.common > 0, f"{name}: the sets have nothing in common, not even the unchanged")
    print(
        f"{name}: {found.crashes} disks of crashes, {found.changes} changes, {found.common} in "
        f"both, {found.agreed} of one answer, {dict(found.overlaps)}"
    )


@pytest.mark.slow
@pytest.mark.normal_only
def test_every_overlap_is_met() -> None:
    """A listed overlap that nothing falls into is a hole in the list, or in the generator.

    Method: the sum over all workloads; two are met by L5 alone, where ``_MET`` says.
    """
    common = sum((compared(name).overlaps for name in NAMES), Counter[str]())
    for overlap in OVERLAPS:
        is_common = overlap.name not in BY_L5_ALONE
        check_equal(bool(common[overlap.name]), is_common, f"{overlap.name}: {common}")
    for one in _MET:
        if one[0] in BY_L5_ALONE:
            met(*one)


@pytest.mark.slow
@pytest.mark.normal_only
def test_without_old_copies_only_what_the_design_lists_is_in_both() -> None:
    """Design 1: for changes without old copies the sets are disjoint but for three overlaps.

    With a log a fourth gives the same state: its checkpoint is gone, and replay is longer.
    """
    listed = {"everything-deleted", "newest-claim-deleted", "log-end", "older-records"}
    for name in ("reopens", "new-session", "resumes-published"):
        history = history_of(workload(name))
        rules = {judge(one, history).rule for one in Tamperer(history).tamperings("delete")}
        met = {rule.removeprefix("overlap: ") for rule in rules if rule.startswith("overlap")}
        check(met <= listed, f"{name}: {met - listed}")


def test_overlaps_are_listed_by_name_in_the_readme() -> None:
    """What people read of the overlaps is what the code knows of them, word for word."""
    text = README.read_text(encoding="utf-8")
    check(SECTION in text, f"no section {SECTION!r}")
    section = text.partition(SECTION)[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z-]+)` \| (.+) \| (.+) \|$", section, flags=re.MULTILINE)
    check_equal(rows, [(one.name, one.what, one.decides) for one in OVERLAPS], "the table")
    named = re.findall(r"`([a-z-]+)`[^|]*another run", section)
    check(FENCED in named, f"of another run: {FENCED}, the text names {named}")


# --- it is alive --------------------------------------------------------------------------


@pytest.mark.parametrize("gone", [one for one in OVERLAPS if one.name not in BY_L5_ALONE],
                         ids=lambda one: one.name)  # fmt: skip
def test_an_overlap_that_is_not_listed_is_a_violation(gone: Overlap) -> None:
    """A state in both sets that nothing claims is a defect of the design.

    Method: each overlap left out of the list, with a job that comes to it.
    """
    name = next(name for name in NAMES if compared(name).overlaps[gone.name])
    fewer = tuple(one for one in OVERLAPS if one is not gone)
    with mock.patch.object(overlaps, "OVERLAPS", fewer):
        found = compare(workload(name))
    check_equal(len(found.violations), compared(name).overlaps[gone.name], "violations")
    check(all("no overlap" in one for one in found.violations), f"{found.violations[:2]}")


def test_a_state_of_two_overlaps_is_a_violation() -> None:
    """Overlaps are disjoint: what decides must be one thing.

    Method: one overlap listed a second time.
    """
    with mock.patch.object(overlaps, "OVERLAPS", (*OVERLAPS, OVERLAPS[0])):
        found = compare(workload("first"))
    check_equal(len(found.violations), compared("first").overlaps[OVERLAPS[0].name], "violations")


def test_a_crash_that_stops_is_a_violation() -> None:
    """The other half of the rule: strictness that refuses what a crash leaves is found.

    Method: a missing pointer, which F3 leaves and anybody can delete, stops.
    """
    right = selection._newest_revision

    def wrong(evidence: Any) -> Any:
        if evidence.pointer is None:
            raise DamagedError("it is missing", name="manifest.json")
        return right(evidence)

    with mock.patch.object(selection, "_newest_revision", wrong):
        found = compare(workload("reopens"))
    check(found.violations, "nothing is found")
    check(all("stops" in one for one in found.violations), f"{found.violations[:2]}")


def test_the_crashes_hold_what_a_kill_leaves_at_every_call() -> None:
    """The first set is no less than F1: what is seen after each call is among it.

    Method: every moment of a run, by its digest.
    """
    job = workload("reopens")
    history = history_of(job)
    left, _ = one_rule.left_by_crashes(job)
    for moment in history.past.moments:
        digest = moment.tree.digest(unread=job.unread)
        check(digest in left, f"what a kill leaves after call {moment.calls}")


def deleted(history: History, at: int, *gone: str) -> Found:
    """A tree without some records, of which nothing is believed."""
    (subject,) = history.subjects
    edits = dict.fromkeys(f"{subject.store}/{subject.directory}/{name}" for name in gone)
    base = history.instants[at]
    change = Tampering(kind="delete", point=0, base=base, edits=edits, what=f"{gone}")
    return Found(change, history, subject, Belief())


def fallen_back(found: Found) -> Found:
    """With what is believed where the newest checkpoint is passed over: the one before, and replay.

    All of it was once the truth; it is of the same epoch, and up to the very same end.
    """
    older = [
        known.belief
        for known in found.known(epoch=found.newest.epoch)
        if known.belief.sequence < found.newest.sequence
    ][-1]
    events = tuple(dict([*older.events, *found.newest.events]).items())
    return replace(found, belief=replace(older, events=events, end=found.newest.end))


@pytest.mark.parametrize("kind", ["flip", "foreign-key", "kind"])
def test_no_overlap_excuses_a_silent_fall_back(kind: TamperKind) -> None:
    """O12: where a record is wrong, an older belief is a violation, also beside a whole log.

    Method: what a store that falls back would believe, of each changed manifest and checkpoint;
    the same belief where they are gone is `older-records`.
    """
    history = history_of(workload("new-session"))
    gone = deleted(history, -1, names.POINTER, names.manifest(2), names.checkpoint(6))
    check_equal(claimed(fallen_back(gone)), ["older-records"], "they are gone")
    tried = 0
    for tampering in Tamperer(history).tamperings(kind):
        if kind == "flip" and tried > 200:
            break
        if any(kind_of(path) in (Kind.CHECKPOINT, Kind.MANIFEST) for path in tampering.edits):
            tried += 1
            found = fallen_back(replace(gone, tampering=tampering))
            check_equal(claimed(found), [], tampering.what)
    check(tried > 3, f"{tried} changes")


def test_a_claim_that_names_a_checkpoint_is_no_session_without_one() -> None:
    """O1: that an acknowledged checkpoint is gone is excused only where no claim names it.

    Method: nothing is believed, in either epoch; ever more of what names the checkpoint is gone.
    """
    history = history_of(workload("first"))
    gone: list[str] = []
    for name, excused in (
        (names.checkpoint(10), None),
        (names.POINTER, None),
        (names.manifest(2), 1),
        (names.manifest(1), 0),
        (names.SESSION, 0),
    ):
        gone.append(name)
        for epoch in (0, 1):
            found = replace(deleted(history, -1, *gone), belief=Belief(epoch=epoch))
            listed = ["everything-deleted"] if epoch == excused else []
            check_equal(claimed(found), listed, f"{gone}, epoch {epoch}")


def test_an_epoch_that_is_given_out_again_is_no_unfinished_act() -> None:
    """F13: a lost claim is `newest-claim-deleted`, also with an act that its opening finished.

    Method: the files of a save that died are gone, before and after the opening that finishes it.
    """
    history = history_of(workload("writers-opening"))
    save = (names.POINTER, names.manifest(4), names.checkpoint(30))
    for at, gone, listed in (
        (0, save, "unfinished-act"),
        (1, (*save, names.manifest(5)), "newest-claim-deleted"),
    ):
        found = deleted(history, at, *gone)
        before = found.known(epoch=2)[0].belief
        check_equal(before, read(found.tampering.tree, found.subject).belief, "what is believed")
        check_equal(claimed(replace(found, belief=before)), [listed], f"{gone}")


def test_a_directory_in_a_records_place_is_not_nothing() -> None:
    """O12: a session of which only a directory with a checkpoint's name is left is not new.

    Method: every record but one is gone, and that one is a directory.
    """
    history = history_of(workload("first"))
    subject = history.subjects[0]
    base = history.instants[-1]
    here = [path for path in base.files if path.startswith(f"{subject.store}/{subject.directory}/")]
    edits: dict[str, Node | None] = dict.fromkeys(here)
    kept = next(path for path in here if kind_of(path) is Kind.CHECKPOINT)
    for node, listed in ((None, ["everything-deleted"]), (Node(0o700), [])):
        edits[kept] = node
        change = Tampering(kind="kind", point=0, base=base, edits=edits, what="all gone")
        found = Found(change, history, subject, Belief())
        check_equal(claimed(found), listed, f"{node}")


# --- no overlap is slack ------------------------------------------------------------------

_MET: Final[tuple[tuple[str, str, TamperKind], ...]] = (
    ("everything-deleted", "saves", "delete"),
    ("newest-claim-deleted", "saves", "delete"),
    ("log-end", "appends", "delete"),
    ("older-records", "appends", "rolled-back"),
    ("older-copy", "appends", "rolled-back"),
    ("unfinished-act", "writers-opening", "delete"),
    ("fenced-write", "writers-log", "rolled-back"),
    ("fenced-write", "writers", "rolled-back"),
)
"""Where each overlap is met; of what a fenced owner wrote, an event and a checkpoint."""


@functools.cache
def met(name: str, job: str, kind: TamperKind) -> tuple[Found, ...]:
    """Every tree of one job and kind that an overlap claims."""
    history = history_of(workload(job))
    (subject,) = history.subjects
    found = []
    for tampering in Tamperer(history).tamperings(kind):
        known = read(tampering.tree, subject, depth="short").belief
        if isinstance(known, Belief):
            one = Found(tampering, history, subject, known)
            if known != one.newest and claimed(one) == [name]:
                found.append(one)
    check(found, f"{name} is never met with {job}")
    return tuple(found)


def claimed(found: Found) -> list[str]:
    return [overlap.name for overlap in overlaps.claiming(found)]


def wrong(known: Belief) -> dict[str, Belief]:
    """What somebody believes who is wrong in one thing; each byte of it was once the truth."""
    others = {
        "an epoch that nobody had": replace(known, epoch=known.epoch + 7),
        "no checkpoint": replace(known, sequence=0, base=NOBODY),
        "an end beyond": replace(known, end=known.end + 100),
    }
    if known.end:
        others["an end below"] = replace(known, end=known.sequence - 1)
    for at, event in enumerate(known.events):
        kept = known.events[:at] + known.events[at + 1 :]
        others[f"without event {event[0]}"] = replace(known, events=kept)
    if len(known.events) > 1:
        others["in another order"] = replace(known, events=known.events[::-1])
    return {what: belief for what, belief in others.items() if belief != known}


@pytest.mark.parametrize("place", _MET, ids="-".join)
def test_no_overlap_claims_what_is_wrong_in_one_thing(place: tuple[str, str, TamperKind]) -> None:
    """O12: base, epoch, end and each event of what is believed must be those of that overlap.

    Method: every tree of one job that it claims, with a belief that is wrong in one thing.
    """
    for found in met(*place):
        for what, belief in wrong(found.belief).items():
            got = claimed(replace(found, belief=belief))
            check_equal(got, [], f"{found.tampering.what}: {what}, {belief}")


@pytest.mark.parametrize("place", _MET[1:], ids="-".join)
def test_no_overlap_claims_a_tree_without_what_its_belief_rests_on(
    place: tuple[str, str, TamperKind],
) -> None:
    """O12: a record that was needed is there, or lastgood must stop, whatever it believes.

    Method: every tree of one job that an overlap claims, without its session's record, and without
    the checkpoint that is believed.
    """
    for found in met(*place):
        gone = {f"{found.folder}/session.json", found.checkpoint} & set(found.files)
        for path in gone:
            edits = {**found.tampering.edits, path: None}
            less = replace(found, tampering=replace(found.tampering, edits=edits))
            check_equal(claimed(less), [], f"{found.tampering.what}, and {path} is gone")


@pytest.mark.parametrize("place", [one for one in _MET if one[2] == "delete"], ids="-".join)
def test_what_only_deletes_is_no_old_copy(place: tuple[str, str, TamperKind]) -> None:
    """O12: where files are merely gone nobody needs a copy, though an older tree had none of them.

    Method: deletions that an overlap claims, as what is left where a tree is rolled back.
    """
    for found in met(*place):
        back = replace(found, tampering=replace(found.tampering, kind="rolled-back"))
        check_equal(claimed(back), [place[0]], found.tampering.what)


def test_two_logs_of_one_length_with_other_events_are_two_states() -> None:
    """O12: the same end is not the same log; a checkpoint in front of the same events is no other.

    Method: two beliefs with one end, of other events, of another base, and of a later checkpoint.
    """
    one = Belief(2, "base", ((3, "a"), (4, "b")), 4, 1)
    for other, is_same in (
        (replace(one, epoch=2), True),
        (Belief(3, "later", ((4, "b"),), 4, 1), True),
        (replace(one, events=((3, "a"), (4, "c"))), False),
        (replace(one, events=((4, "b"),)), False),
        (replace(one, base="another"), False),
        (replace(one, events=one.events[:1], end=3), False),
    ):
        check_equal(one.is_same_state(other), is_same, f"{other.events}")
        check_equal(other.is_same_state(one), is_same, f"{other.events}, the other way")
