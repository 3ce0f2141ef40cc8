"""T3, T5: valid files in the wrong place, or of the wrong time: every piece valid, not here.

Method of all: ``trees.blame`` knows when each content was first written. A reader gives the
last save's state or a typed error; an older state only where nothing newer is left, which is
one consistent older copy, and then the report says that rollback was not checked.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from tests.security import oracles
from tests.security.rules import contents
from tests.support import trees
from tests.support.check import check, check_equal
from tests.support.trees import Tree


@pytest.mark.parametrize("name", [*trees.FILES, "store.json"])
def test_file_replaced_by_any_other_of_any_session_and_time_is_not_believed(name: str) -> None:
    """T3, T5: no valid record is believed under another name, session or time.

    Method: each file holds each content that any file of both sessions ever had. Only the
    pointer may be one revision behind, as a crash leaves it: the numbers decide. An older one,
    whose number was pruned after the pointer had moved on for good, stops.
    """
    path = name if name == trees.STORE else f"nightly/{name}"
    final, count = trees.final(), Counter[str]()
    for data, source in contents().items():
        if data == final[path]:
            continue
        outcome = oracles.stands(final | {path: data}, f"{path} replaced by {source}")
        own_pointer = name == "manifest.json" and source.startswith("nightly/manifest-000003")
        check_equal(outcome, "same" if own_pointer else "stopped", f"{path} <- {source}")
        count[outcome] += 1
    print(f"{path} replaced by another: {dict(count)}")
    check(count.total() >= 15, f"only {count.total()} replacements")


@pytest.mark.slow
@pytest.mark.parametrize("time", [0, 1, 2])
def test_every_subset_of_files_rolled_back_is_told_from_the_present(time: int) -> None:
    """T3: one file or any subset put back to an earlier time is detected, or changes nothing.

    Method: all subsets of the names whose content differs between then and now, also those that
    did not exist at one of the times. Only where nothing newer is left an older state loads.
    """
    then, now = trees.history()[time], trees.final()
    names = sorted({p for p in then.keys() | now.keys()
                    if p.startswith("nightly/") and not p.endswith(("/", "/lock"))
                    and then.get(p) != now.get(p)})  # fmt: skip
    count = Counter[str]()
    for size in range(len(names) + 1):
        for chosen in combinations(names, size):
            tree = _rolled_back(now, then, chosen)
            count[oracles.stands(tree, f"{chosen} as at time {time}")] += 1
    print(f"subsets put back to time {time}: {dict(count)}")
    check_equal(count.total(), 2 ** len(names), "subsets")
    check(count["older"] >= 1, "the whole older copy is one of them")


def _rolled_back(now: Tree, then: Tree, chosen: tuple[str, ...]) -> Tree:
    kept = {path: data for path, data in now.items() if path not in chosen}
    return kept | {path: then[path] for path in chosen if path in then}


@pytest.mark.parametrize("time", [0, 1, 2])
def test_whole_older_copy_loads_and_the_report_says_that_rollback_was_not_checked(
    time: int,
) -> None:
    """T3, L0: a consistent older copy is a crash state of its time; nobody claims otherwise.

    Method: the whole tree of an earlier time; the report is good, and names what was skipped.
    """
    outcome = trees.read(trees.in_memory(trees.history()[time]))
    check_equal(outcome.loaded.sequence if outcome.loaded else 0, 10 * time, outcome.says())
    report = outcome.report
    check(report is not None and report.exit_code == 0, outcome.says())
    if report is not None:
        check_equal(report.assurance, "L0", "the assurance level")
        check(any("Rollback" in text for text in report.skipped), f"skipped: {report.skipped}")


@pytest.mark.slow
@pytest.mark.parametrize("session", trees.SESSIONS)
def test_all_pairs_of_files_swapped_across_sessions_and_times_are_not_believed(
    session: str,
) -> None:
    """T5: every piece valid, but not about this artifact (security 6).

    Method: two files of either session at times 1, 2, 3 change places in the final store, all
    pairs; each session is read.
    """
    history = trees.history()
    places = [(time, path) for time in (1, 2, 3) for path in trees.files(history[time])]
    count = Counter[str]()
    for (time_a, path_a), (time_b, path_b) in combinations(places, 2):
        one, other = history[time_a][path_a], history[time_b][path_b]
        tree = trees.final() | {path_a: other, path_b: one}
        what = f"{path_a}@{time_a} and {path_b}@{time_b} swapped"
        count[oracles.stands(tree, what, session)] += 1
    print(f"pairs swapped, {session} read: {dict(count)}")
    check(count.total() >= 600, f"only {count.total()} pairs")
    check_equal(count["older"], 0, "swaps that give an older state")


@pytest.mark.parametrize("label", ["other key", "other store"])
def test_file_of_another_store_is_not_believed(label: str) -> None:
    """T5, T6: neither a record under another key nor one of another store under the same key.

    Method: each file of either session replaced by the other store's file of the same name and
    time, alone; also the pointer with its number, and all of the session's files.
    """
    other, final = trees.history(label)[-1], trees.final()
    paths = [path for path in trees.files(final) if path.startswith(("nightly", "store"))]
    twins = tuple(f"nightly/{name}" for name in ("manifest.json", "manifest-000004.json"))
    session = tuple(path for path in paths if path != trees.STORE)
    for chosen in [*((path,) for path in paths), twins, session]:
        tree = final | {path: other[path] for path in chosen}
        check_equal(oracles.stands(tree, f"{chosen} of the {label}"), "stopped", str(chosen))


@pytest.mark.parametrize(("label", "exit_code"), [("other key", 5), ("other store", 2)])
def test_whole_other_store_is_told_by_its_key_or_by_its_id(label: str, exit_code: int) -> None:
    """T6: a store of another key is a wrong key (exit 5), never called tampering; one of the same
    key and another id is not the pinned one (exit 2).

    Method: all files of the other store.
    """
    outcome = trees.read(trees.in_memory(trees.history(label)[-1]))
    check(outcome.error is not None, outcome.says())
    check_equal(outcome.reported, exit_code, outcome.says())


def test_intact_record_of_another_session_is_called_so() -> None:
    """T5: the text says that the record is intact, and of another session; never "tampered".

    Method: each of the other session's records in the place of ours.
    """
    final = trees.final()
    for name in trees.FILES:
        outcome = trees.read(trees.in_memory(final | {f"nightly/{name}": final[f"weekly/{name}"]}))
        said = str(outcome.error) + " ".join(outcome.report.findings if outcome.report else ())
        check("intact" in said and "weekly" in said, f"{name}: {said}")
