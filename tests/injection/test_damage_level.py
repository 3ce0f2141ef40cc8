"""L5 finds what passes for the truth after a change by hand, and nothing in what is right."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, Literal
from unittest import mock

import pytest

from fault_injection.damage import belief as asked
from fault_injection.damage.belief import Belief, Looked, own, read
from fault_injection.damage.history import History, history_of
from fault_injection.damage.judgement import judge
from fault_injection.damage.reach import may_stop_nobody
from fault_injection.damage.tampering import KINDS, Tamperer, Tampering, TamperKind, Thinning
from fault_injection.level import NotRunError, Plan
from fault_injection.levels.damage import LEVEL
from fault_injection.machine import Machine
from fault_injection.memory.disk import Node
from fault_injection.planted_bugs import belief as planted
from fault_injection.planted_bugs import log as planted_log
from fault_injection.planted_bugs.mutant import Plant
from fault_injection.state_id import BadStateIdError, StateId
from fault_injection.workload import Oracle, Violation, Workload
from fault_injection.workloads import WORKLOADS, find
from fault_injection.workloads.checkpoints import Checkpoints
from fault_injection.world import World
from lastgood import Checkpoint
from lastgood.checkpoints import CheckpointStore
from lastgood.errors import DamagedError, StorageError
from lastgood.formats import names
from lastgood.rules import selection
from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY

Patch = AbstractContextManager[object]

_CI: Final = Plan()
_DAMAGE: Final[frozenset[Oracle]] = frozenset({"O3", "O4", "O6", "O12"})


def workload(name: str) -> Workload:
    found = find(name)
    if found is None:
        raise AssertionError(f"there is no workload {name}")
    return found


@functools.cache
def history(name: str) -> History:
    return history_of(workload(name))


def tried(name: str, kind: TamperKind) -> list[Tampering]:
    return list(Tamperer(history(name)).tamperings(kind, Thinning(2, 2, 20, "0")))


def violations(name: str, kinds: tuple[TamperKind, ...]) -> list[Violation]:
    """What a sample of some kinds finds, each change judged whole."""
    found = []
    for kind in kinds:
        for one in tried(name, kind):
            try:
                judge(one, history(name))
            except Violation as violation:
                found.append(violation)
    return found


# --- what is right ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["first", "reopens"])
def test_nothing_passes_in_a_store_of_checkpoints(name: str) -> None:
    """G3, G6, G8, F14: no change by hand is believed, and none is passed over in silence."""
    _run(name)


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.parametrize("name", [w.name for w in WORKLOADS if w.name not in ("first", "reopens")])
def test_nothing_passes_in_any_workload(name: str) -> None:
    """As above, with every workload."""
    _run(name)


def _run(name: str) -> None:
    rules, distinct = Counter[str](), 0
    for tally in LEVEL.run(workload(name), _CI):
        shown = [f"{one.id}: {one.expected}; {one.got}" for one in tally.violations]
        check(not shown, f"{tally.variant}: {shown[:3]}")
        check_equal(tally.recovered, tally.distinct, f"{tally.variant}: judged")
        check(max(tally.points, tally.distinct) <= tally.raw, f"{tally.variant}: counts")
        rules += tally.rules
        distinct += tally.distinct
    check_equal(rules.total(), distinct, "each has its rule")
    check(rules["stops: DamagedError"] > distinct // 3, f"few stop: {rules}")
    check(rules["newest, told"] and rules["newest, untouched"], f"nothing is harmless: {rules}")
    print(f"{name}: {distinct} changed trees, {dict(rules)}")


@pytest.mark.slow
@pytest.mark.normal_only
def test_no_change_of_whole_files_passes_at_all() -> None:
    """Exhaustive: every subset, pair and version of every file of one job with a log.

    Method: the exhaustive plan for the kinds of whole files, with the job that begins a session.
    """
    past, count = history("new-session"), 0
    for kind in KINDS[KINDS.index("mode") :]:
        for one in Tamperer(past).tamperings(kind):
            judge(one, past)
            count += 1
    check(count > 700, f"only {count} changes")


# --- its names ----------------------------------------------------------------------------


def test_a_state_is_built_again_from_its_name() -> None:
    """A name says which file was changed how, and the same tree comes back.

    Method: the first change of each kind; its title, its tree, what must become of it.
    """
    for kind in KINDS:
        one = next(iter(tried("reopens", kind)), None)
        if one is None:
            continue
        digest = one.tree.digest(unread=("lock",))
        name = StateId("L5", "reopens", kind, one.point, digest[:12])
        case = LEVEL.case(workload("reopens"), name)
        check_equal(case.tree.digest(unread=("lock",)), digest, f"{name}: tree")
        check(one.what in case.title, f"{name}: {case.title}")
        recovered = LEVEL.replay(case)
        check_equal(case.must_stop, recovered.rule.startswith("stops"), f"{name}: {recovered}")
        check_equal(len(case.calls), one.base.calls, f"{name}: calls")


def test_the_call_that_wrote_a_changed_file_is_named() -> None:
    """An explanation shows where in the job a file that was changed came from."""
    past = history("reopens")
    (path,) = (
        path for path in past.believed(past.final) if path.endswith("checkpoint-000040.json")
    )
    (one,) = (o for o in Tamperer(past).tamperings("delete") if dict(o.edits) == {path: None}
              and o.base is past.final)  # fmt: skip
    digest = one.tree.digest(unread=("lock",))[:12]
    case = LEVEL.case(workload("reopens"), StateId("L5", "reopens", "delete", one.point, digest))
    ((number, fate),) = case.fates.items()
    check_equal((case.calls[number].path, fate), (path, "GONE by hand"), "the fate")
    check(case.must_stop, "the newest checkpoint is gone, and it need not stop")


@pytest.mark.parametrize("text", [
    "v1.L5.reopens.flip.0.000000000000",
    "v1.L5.reopens.nothing.0.000000000000",
    "v1.L5.reopens.delete.99999.000000000000",
])  # fmt: skip
def test_a_name_of_no_state_is_refused(text: str) -> None:
    """Nobody is shown another state than the one that was named."""
    with pytest.raises(BadStateIdError):
        LEVEL.case(workload("reopens"), StateId.parse(text))


def test_the_same_seed_finds_the_same_in_every_process() -> None:
    """Names of counterexamples are the same wherever they are found.

    Method: a planted bug; the names that a run in this process and in two others give.
    """
    mine = found_by_a_planted_bug()
    for seed in ("1", "2"):
        other = subprocess.run(
            [
                sys.executable,
                "-c",
                "from tests.injection.test_damage_level import found_by_a_planted_bug as f; "
                "print(f())",
            ],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{REPOSITORY}"},
            capture_output=True,
            check=True,
            text=True,
        )
        check_equal(other.stdout.strip(), mine, f"hash seed {seed}")


def found_by_a_planted_bug() -> str:
    """Names of what passes where payloads are not verified."""
    with planted.checksum_skipped(Plant()):
        tallies = LEVEL.run(workload("first"), _CI)
        return " ".join(str(one.id) for tally in tallies for one in tally.violations)


def test_another_seed_samples_other_bytes() -> None:
    """Runs with other seeds reach what one run left out."""
    trees = []
    for seed in (0, 1):
        tally = next(iter(LEVEL.run(workload("first"), Plan(seed=seed))))
        check_equal((tally.variant, tally.exhaustive), ("flip", False), "a sample")
        some = Tamperer(history("first")).tamperings("flip", Thinning(3, 3, 40, f"{seed} first"))
        trees.append({one.what for one in some})
    check(trees[0] != trees[1], "the same bytes")


def test_a_job_without_a_session_is_not_run() -> None:
    """What leaves nothing that this level could change is said, not passed."""

    class Nothing(Checkpoints):
        def run(self, machine: Machine, world: World) -> None:
            world.begin("1")
            machine.process().stat("/disk")
            world.end("1", "acknowledged")

    job = Nothing("nothing", before=(), work=lambda machine, world: None)
    with pytest.raises(NotRunError):
        next(iter(LEVEL.run(job, _CI)))


# --- it is alive --------------------------------------------------------------------------

_SOME: Final[tuple[TamperKind, ...]] = ("flip", "insert", "delete", "older", "other", "renamed")


@pytest.mark.parametrize(("mistake", "name", "kinds"), [
    ("mac_skipped", "reopens", ("flip", "insert", "foreign-session", "foreign-store")),
    ("checksum_skipped", "reopens", ("flip", "nul")),
    ("name_not_compared", "saves", ("renamed", "other")),
    ("any_schema", "reopens", ("newer-schema",)),
    ("falls_back", "reopens", ("flip", "delete")),
])  # fmt: skip
def test_a_planted_bug_of_what_is_believed_is_found(
    mistake: str, name: str, kinds: tuple[TamperKind, ...]
) -> None:
    """Each mistake of reading is found by a judgement that is about it.

    Method: the history is made without the mistake, the changed trees are opened with it.
    """
    history(name)
    plant = Plant()
    with getattr(planted, mistake)(plant):
        found = violations(name, kinds)
    check(plant.calls > 0, "the wrong code was never entered")
    check({one.oracle for one in found} & _DAMAGE, f"{mistake}: {[str(one) for one in found[:3]]}")


@pytest.mark.parametrize(("mistake", "kinds"), [
    ("damage_taken_for_a_torn_tail", ("flip",)),
    ("resynchronising_at_newlines", ("nul",)),
])  # fmt: skip
def test_a_planted_bug_of_the_logs_end_is_found(
    mistake: str, kinds: tuple[TamperKind, ...]
) -> None:
    """What was acknowledged is not taken for a torn tail, in any workload with a log."""
    history("insists-log")
    plant = Plant()
    with getattr(planted_log, mistake)(plant):
        found = violations("insists-log", kinds)
    check(plant.calls > 0, "the wrong code was never entered")
    check("O12" in {one.oracle for one in found}, f"{[str(one) for one in found[:3]]}")


def _session_unread() -> Patch:
    """Takes ``session.json`` for information."""
    return mock.patch.object(
        selection, "_has_session", lambda e: e.pointer is not None or bool(e.numbers)
    )


def _revision_before_unread() -> Patch:
    return mock.patch.object(selection, "_check_revision_before", return_value=None)


def _previous_unread() -> Patch:
    return mock.patch.object(selection, "_check_previous", return_value=None)


def _rollback_unseen() -> Patch:
    right = selection._newer

    def wrong(evidence: Any, newest: Any) -> Any:
        try:
            return right(evidence, newest)
        except Exception:  # noqa: BLE001 - the mistake
            return (), ()

    return mock.patch.object(selection, "_newer", wrong)


@pytest.mark.parametrize(("mistake", "kinds"), [
    (_session_unread, ("delete", "flip")),
    (_revision_before_unread, ("delete", "rolled-back")),
    (_previous_unread, ("delete",)),
    (_rollback_unseen, ("rolled-back",)),
], ids=lambda one: getattr(one, "__name__", ""))  # fmt: skip
def test_a_rule_of_the_verdict_that_is_left_out_is_found(
    mistake: Any, kinds: tuple[TamperKind, ...]
) -> None:
    """Each rule of design section 6 is needed against some change by hand.

    Method: one rule left out; all changes of whole files of the kinds that it is there for.
    """
    past, found = history("saves"), []
    with mistake():
        for kind in kinds:
            thinning = Thinning(2, 2, None if kind != "flip" else 20, "0")
            for one in Tamperer(past).tamperings(kind, thinning):
                try:
                    judge(one, past)
                except Violation as violation:
                    found.append(violation)
    check(found, f"{mistake.__name__}: nothing is found")


# --- its judge ----------------------------------------------------------------------------


@contextlib.contextmanager
def _answering(**wrong: Any) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for name, function in wrong.items():
            stack.enter_context(mock.patch.object(asked, name, function))
        yield


def _judged(name: str, kind: TamperKind, **wrong: Any) -> Oracle | Literal["nothing"]:
    """What a change of a kind is judged to be where a process answers wrongly."""
    past = history(name)
    one = next(one for one in tried(name, kind) if judge(one, past).rule != "newest, told"
               and "reported" not in judge(one, past).rule)  # fmt: skip
    with _answering(**wrong):
        try:
            judge(one, past)
        except Violation as violation:
            return violation.oracle
    return "nothing"


def test_each_wrong_answer_is_a_violation_of_its_own_judgement() -> None:
    """The judge is no rubber stamp: each way to be wrong is found, by the judgement it breaks.

    Method: a change that stops and one that nobody believes, with answers that are made up.
    """
    past = history("reopens")
    (subject,) = past.subjects
    newest = past.final.honest[subject].belief

    def reads(answer: object, *, left: bool = True) -> Any:
        def looked(tree: Any, subject: Any, depth: str = "whole") -> Looked:
            honest = read(tree, subject)
            kept = honest.left if left else past.instants[0].tree()
            return Looked(answer if answer else honest.belief, kept, honest.report)  # type: ignore[arg-type]

        return looked

    def owns(answer: object, *, left: bool = True) -> Any:
        def looked(tree: Any, subject: Any) -> Looked:
            honest = own(tree, subject)
            kept = honest.left if left else past.instants[0].tree()
            return Looked(answer if answer else honest.belief, kept)  # type: ignore[arg-type]

        return looked

    def crashes(*args: Any, **others: Any) -> Looked:
        raise ZeroDivisionError

    older = past.instants[0].honest[subject].belief
    forged = Belief(40, "another", epoch=newest.epoch)
    mine = Belief(newest.sequence, newest.base, epoch=newest.epoch + 1)
    refused = StorageError("reading it", errno=5)
    kept = Belief(older.sequence, older.base, epoch=older.epoch + 1)
    lied = Belief(forged.sequence, forged.base, epoch=forged.epoch + 1)
    for kind, wanted, wrong in (
        ("flip", "nothing", {}),
        ("flip", "error", {"read": crashes}),
        ("flip", "error", {"own": crashes}),
        ("flip", "O6", {"read": reads(None, left=False)}),
        ("flip", "O6", {"own": owns(None, left=False)}),
        ("flip", "error", {"read": reads(refused)}),
        ("flip", "error", {"own": owns(refused)}),
        ("flip", "O4", {"own": owns(mine)}),
        ("flip", "O4", {"read": reads(newest)}),
        ("unbelieved", "nothing", {}),
        ("unbelieved", "O4", {"own": owns(older)}),
        ("unbelieved", "O12", {"read": reads(older), "own": owns(kept)}),
        ("unbelieved", "O3", {"read": reads(forged), "own": owns(lied)}),
        ("unbelieved", "O6", {"own": owns(mine, left=False)}),
    ):
        got = _judged("reopens", kind, **wrong)  # type: ignore[arg-type]
        check_equal(got, wanted, f"{kind} with {sorted(wrong)}")


def test_what_nobody_believes_may_stop_nobody() -> None:
    """A stop over the lock's text or a foreign name is a violation (O1)."""
    right = CheckpointStore.load_latest

    def wrong(self: CheckpointStore) -> Checkpoint | None:
        if any("notes" in name for name in self.check().foreign):
            raise DamagedError("a foreign name")
        return right(self)

    with mock.patch.object(CheckpointStore, "load_latest", wrong):
        found = violations("reopens", ("unbelieved",))
    check_equal({one.oracle for one in found}, {"O1"}, "what is found")


def test_a_stop_over_what_nobody_needs_is_found_whatever_the_kind_of_change() -> None:
    """O1: over-strictness is a violation, of a leftover's bytes as of a foreign name.

    Method: changes of a job that leaves unneeded records behind; those that touch only what nobody
    believes are judged with a reader that stops, by an error that is typed.
    """
    past, found = history("trims"), set()
    (subject,) = past.subjects
    for kind in KINDS:
        for one in Tamperer(past).tamperings(kind, Thinning(2, 2, None, "0")):
            if may_stop_nobody(one, subject):
                stops = Looked(DamagedError("a leftover"), one.tree)
                with (
                    _answering(read=lambda *_, stops=stops, **__: stops),
                    pytest.raises(Violation, match="O1"),
                ):
                    judge(one, past, depth="short")
                found.add(kind)
    check(found >= {"unbelieved", "flip", "cut", "delete", "mode"}, f"kinds: {sorted(found)}")


def test_a_changed_payload_of_the_generation_before_is_reported_though_nothing_stops() -> None:
    """O6: damage that a load does not read is found by a check, and a check that is blind, too."""
    past = history("reopens")
    (path,) = (p for p in past.believed(past.final) if p.endswith(names.checkpoint(30)))
    node = past.final.files[path]
    data = (node.data or b"")[:-40] + b"!" + (node.data or b"")[-39:]
    one = Tampering(
        kind="flip", point=0, base=past.final, edits={path: Node(node.mode, data)}, what="a byte"
    )
    check_equal(judge(one, past).rule, "newest, damage reported", "the rule")
    with (
        mock.patch("lastgood.report.Report.exit_code", 0),
        pytest.raises(Violation, match="O6"),
    ):
        judge(one, past)
