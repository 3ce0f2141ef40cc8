"""The planted bugs: each mistake of the list is found by the levels, or it is said why not."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fault_injection.level import Plan
from fault_injection.levels.registry import built
from fault_injection.planted_bugs import catalogue, matrix
from fault_injection.planted_bugs.catalogue import FURTHER, ITEMS, MUTANTS, UNPLANTED, names_of
from fault_injection.planted_bugs.matrix import Matrix
from fault_injection.planted_bugs.mutant import Kill, Mutant, Patch, Plant, nothing
from lastgood import pruning, saving
from lastgood.storage import publish, revisions
from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY, require_mistakes

pytestmark = [pytest.mark.normal_only]
TIMEOUT_S = 900


def _mutant(name: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.name == name)


def _one(planted: Callable[[Plant], Patch], *, oracle: Any = "O1") -> Matrix:
    return _matrix(Mutant("one", "for this test", planted, (Kill("L3", (oracle,), ("first",)),)))


def _matrix(mutant: Mutant) -> Matrix:
    """The matrix of one mutant that only one workload is looked at for."""
    registry = built()
    few = replace(registry, workloads=registry.workloads[:1])
    return matrix.run(Plan(), workers=1, registry=few, mutants=[mutant], unplanted=[])


# --- the list -----------------------------------------------------------------------------


def test_every_item_of_the_list_is_planted_or_says_why_not() -> None:
    """Crash testing 5: nothing of the list is left out, and what is not on it is told apart.

    Method: the names that the items stand for, against those of the catalogue.
    """
    wanted = [*FURTHER, *(name for item in ITEMS for name in names_of(item))]
    there = [mutant.name for mutant in MUTANTS] + [other.name for other in UNPLANTED]
    check_equal(sorted(there), sorted(wanted), "names")
    check_equal(len(set(there)), len(there), "names, each once")


def test_the_list_is_the_one_that_was_set() -> None:
    """Crash testing 5: the items are word for word those of the page that sets them.

    Method: the page, split at its dots, against the catalogue.
    """
    page = require_mistakes().read_text("utf-8")
    section = page.split("## 5.", 1)[1].split("\n", 1)[1].split(". Each is a small wrapper", 1)[0]
    items = [" ".join(item.split()) for item in " ".join(section.split("\n")).split(" · ")]
    check_equal(list(ITEMS), items, "items")


def test_what_is_not_planted_has_a_reason() -> None:
    """A mistake that changes nothing here, or has no subject yet, is told in a sentence.

    Method: the sentences.
    """
    for other in UNPLANTED:
        check(len(other.reason) > 40, f"{other.name}: {other.reason}")
        check(other.standing in ("equivalent", "later"), other.name)
    for mutant in MUTANTS:
        check(len(mutant.mistake) > 15 and bool(mutant.killed_by), mutant.name)


def test_levels_that_the_list_names_are_among_those_that_must_find_it() -> None:
    """Crash testing 5: where the list says which levels must kill a mutant, each is asked to.

    Method: the levels in the brackets of each item; L4 is not built.
    """
    declared = {mutant.name: {kill.where for kill in mutant.killed_by} for mutant in MUTANTS}
    for item in ITEMS:
        levels = set(re.findall(r"\bL[1235]\b", item.rpartition("(")[2]))
        for name in names_of(item):
            if name in declared:
                check(levels <= declared[name], f"{name}: {declared[name]}, not {levels}")


def test_tests_that_must_fail_are_there() -> None:
    """A mutant that a test of the suite must find names a test that exists.

    Method: the file, and the function in it.
    """
    for mutant in MUTANTS:
        for test in [test for kill in mutant.killed_by if kill.where == "T" for test in kill.first]:
            path, _, name = test.partition("::")
            text = (REPOSITORY / Path(path)).read_text("utf-8")
            check(f"def {name.partition('[')[0]}(" in text, test)


# --- the matrix itself --------------------------------------------------------------------


def test_a_patch_that_nothing_enters_is_a_failure() -> None:
    """A patch of code that no workload comes through proves nothing about who fails to see it.

    Method: a mistake of pruning, looked for in a job that prunes nothing.
    """
    found = _one(lambda plant: plant.over(pruning, "prune_revisions", nothing))
    check_equal([v.outcome for v in found.verdicts], ["not planted"], found.as_text())
    check_equal(found.exit_code, 2, "exit code")


def test_a_patch_whose_target_is_gone_is_a_failure() -> None:
    """A patch of a function that was renamed does not pass for a mutant that survived nothing.

    Method: a name that no module has.
    """
    found = _one(lambda plant: plant.over(pruning, "no_such_function", nothing))
    check_equal((found.exit_code, found.score), (2, 0.0), found.as_text())
    check("no_such_function" in found.verdicts[0].why, found.as_text())


def test_a_patch_that_is_wrong_itself_kills_nothing() -> None:
    """A mutant whose patch cannot be called is a broken patch, not a mutant that was found.

    Method: a function without its arguments in place of one of lastgood's.
    """

    def broken(plant: Plant) -> Patch:
        return plant.over(revisions, "settle", lambda: None)

    found = _one(broken, oracle="O1")
    check_equal(found.exit_code, 2, found.as_text())
    check("TypeError" in found.verdicts[0].why, found.verdicts[0].why)


def test_a_mutant_that_changes_nothing_survives() -> None:
    """The matrix can fail: a survivor makes exit code 2, and its line says where it was missed.

    Method: a patch that does what the right code does.
    """
    right = publish.prepare

    def same(plant: Plant) -> Patch:
        return plant.over(publish, "prepare", right)

    found = _one(same)
    check_equal([v.outcome for v in found.verdicts], ["survived"], found.as_text())
    check_equal((found.exit_code, found.score), (2, 0.0), "exit code and score")
    check_equal(found.verdicts[0].missed, ("L3",), "missed")
    check("SURVIVED" in found.as_text(), found.as_text())


def test_declared_level_that_finds_nothing_is_told_though_another_one_finds_it() -> None:
    """Each level that a mutant is declared for must find it where it is asked, and none is hidden.

    Method: a missing fsync, declared for kills, which cannot see it, and for a loss of power.
    """
    kills = tuple(Kill(level, ("O1",), ("first",)) for level in ("L2", "L3"))
    mutant = replace(_mutant("no sync at all"), killed_by=kills)
    found = _matrix(mutant)
    check_equal([v.missed for v in found.verdicts], [("L2",)], found.as_text())
    check_equal([set(v.deaths) for v in found.verdicts], [{"L3"}], "levels that found it")
    check_equal(found.exit_code, 2, "exit code")
    check("   .   !   x" in found.as_text(), found.as_text())
    check_equal(found.as_document()["mutants"][0]["missed"], ["L2"], "the document")


def test_another_judgement_than_the_declared_one_is_no_proof() -> None:
    """A mutant counts as found only by a judgement that it is declared for.

    Method: a missing fsync, which breaks O1, declared for O13.
    """
    found = _one(_mutant("no sync at all").planted, oracle="O13")
    check_equal([v.outcome for v in found.verdicts], ["survived"], found.as_text())


def test_what_is_found_without_the_patch_as_well_proves_nothing() -> None:
    """A run that is not clean without a patch is no proof that the patch was found.

    Method: no directory of a new store is ever fsynced, planted or not.
    """
    plant = Plant()
    with _mutant("new directory not fsynced in its parent").planted(plant):
        found = _one(_mutant("no sync at all").planted)
    check_equal([v.outcome for v in found.verdicts], ["not proven"], found.as_text())
    check_equal(found.exit_code, 2, "exit code")


def test_a_patch_is_gone_when_its_trial_is_over() -> None:
    """Planting leaves the product as it was, in this process and after every trial.

    Method: the patched functions before and after, of all mutants together.
    """
    places = [(saving, "save"), (publish, "prepare"), (revisions, "swap"), (pruning, "prune")]
    before = [getattr(place, name) for place, name in places]
    for mutant in MUTANTS:
        with mutant.planted(Plant()), nullcontext():
            pass
    check_equal([getattr(place, name) for place, name in places], before, "functions")


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
def test_every_planted_bug_is_found_where_it_must_be() -> None:
    """Crash testing 5: the mutation score is 1, each by a level and a judgement declared for it.

    Method: the matrix, in the budget of every change, with two processes.
    """
    found = matrix.run(workers=2)
    print(found.as_text())
    wrong = [f"{v.name}: {v.outcome}, {v.why}" for v in found.verdicts if v.outcome != "killed"]
    listed = {f"{other.name}: {other.standing}, " for other in catalogue.UNPLANTED}
    check_equal(set(wrong) - listed, set(), "mutants that were not found")
    check_equal((found.score, found.exit_code), (1.0, 0), "score and exit code")
    check(found.as_document()["score"] == 1.0, "the document says the same")
