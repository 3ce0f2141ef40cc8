"""G3: files taken away, alone and in every subset; the overlaps with crash states, by name.

A crash can leave a store without its pointer (between S6 and S7), or without the newest
number where the pointer survived a loss of power, so these load. Everything else that lacks
a file stops, but for two documented overlaps, which without a memory outside the store
nobody can tell from an earlier time:

* everything deleted is a new session;
* the newest open claim deleted is the store before it was opened, which holds the same state.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import pytest

from lastgood import CheckpointStore
from tests.security import oracles
from tests.support import trees
from tests.support.check import check, check_equal
from tests.support.trees import Tree

POINTER, NEWEST, BEFORE = "manifest.json", "manifest-000004.json", "manifest-000003.json"
FILES = (*trees.FILES, "lock")


def _subsets(paths: list[str]) -> Iterator[tuple[str, ...]]:
    for size in range(len(paths) + 1):
        yield from combinations(paths, size)


def _without(tree: Tree, gone: tuple[str, ...]) -> Tree:
    return {path: data for path, data in tree.items() if path not in gone}


def _expected(present: set[str]) -> str:
    """What design section 6 says of a session with these files, and store.json beside it."""
    believed = {*trees.FILES, POINTER, NEWEST} - {"session.json"}
    if not present & believed:
        return "new"
    needed = {"session.json", BEFORE, trees.PREVIOUS, trees.CURRENT}
    names_it = {POINTER, NEWEST} & present
    return "it" if needed <= present and names_it else "stopped"


def _found(tree: Tree) -> str:
    outcome = trees.read(trees.in_memory(tree))
    if outcome.error is not None:
        check(outcome.error.exit_code in {2, 3, 4, 5}, outcome.says())
        check_equal(outcome.reported, outcome.error.exit_code, f"the check: {outcome.says()}")
        return "stopped"
    if outcome.loaded is None:
        return "new"
    check(trees.same(outcome.loaded, trees.checkpoint("nightly", 3)), outcome.says())
    return "it"


def test_every_subset_of_files_deleted_has_the_outcome_of_the_table() -> None:
    """G3: what is missing stops; only what a crash leaves out is done without.

    Method: all 2^7 subsets of a session's files, and the session's directory itself, with
    store.json; expected by a formula that says which files the table of section 6 needs.
    """
    final = trees.final()
    count = {"it": 0, "new": 0, "stopped": 0}
    for gone in _subsets([f"nightly/{name}" for name in FILES]):
        tree = _without(final, gone)
        present = {path.removeprefix("nightly/") for path in tree if path.startswith("nightly/")}
        expected = _expected(present)
        check_equal(_found(tree), expected, f"without {gone}")
        count[expected] += 1
    print(f"128 subsets of a session's files: {count}")
    # it: all, or without lock, pointer or newest number; new: session.json and lock or not.
    check_equal(count, {"it": 6, "new": 4, "stopped": 118}, "the overlaps")


def test_session_directory_deleted_is_a_new_session() -> None:
    """Overlap 1: everything deleted is not told from never written; the other session stands.

    Method: the directory removed; nightly is new, weekly loads.
    """
    tree = {p: d for p, d in trees.final().items() if not p.startswith("nightly/")}
    check_equal(_found(tree), "new", "the deleted session")
    check_equal(oracles.stands(tree, "the other session", "weekly"), "same", "the other session")


@pytest.mark.parametrize("gone", list(_subsets([f"nightly/{name}" for name in FILES])), ids=str)
def test_store_record_deleted_beside_sessions_stops_whatever_else_is_gone(
    gone: tuple[str, ...],
) -> None:
    """Design 6: session directories but no store.json stop (exit 2), even empty ones.

    Method: store.json and every subset of one session's files removed.
    """
    tree = _without(trees.final(), (trees.STORE, *gone))
    check_equal(_found(tree), "stopped", f"without store.json and {gone}")


def test_everything_deleted_is_a_new_store() -> None:
    """Overlap 1, of the whole store: an empty root is not told from one never written."""
    check_equal(_found({}), "new", "an empty root")


def _just_opened() -> Tree:
    """The final tree, opened once more: revision 5 is a claim, and nothing was pruned."""
    root = trees.in_memory(trees.final())
    CheckpointStore(root, "nightly", keys=trees.KEYS, clock=trees.SteadyClock()).close()
    return trees.remembered(root, trees.final())


def test_newest_open_claim_deleted_is_the_store_before_it_and_nothing_else_is() -> None:
    """Overlap 2: an open claim with its pointer can vanish unseen; it holds the same state.

    Method: all subsets of the files of a session that was just opened; each loads the last
    save's state or stops, and none of those that load lacks a file but these.
    """
    opened = _just_opened()
    claim = "nightly/manifest-000005.json"
    check(claim in opened, f"no claim in {sorted(opened)}")
    paths = trees.files(opened, "nightly/")
    loads = set()
    for gone in _subsets(paths):
        if _found(_without(opened, gone)) == "it":
            loads.add(frozenset(path.removeprefix("nightly/") for path in gone))
    claimed, older = "manifest-000005.json", "manifest-000003.json"
    harmless = [(), (POINTER,), (claimed,), (older,), (POINTER, older), (claimed, older)]
    overlap = [(POINTER, claimed)]
    check_equal(loads, {frozenset(gone) for gone in [*harmless, *overlap]}, "what still loads")


@pytest.mark.parametrize("time", [0, 1, 2])
def test_files_deleted_at_earlier_times_never_give_an_older_state_beside_a_newer(
    time: int,
) -> None:
    """G3: also in a young session, nothing falls back beside something newer.

    Method: all subsets of the trees at times 0, 1 and 2; an older state, or none, is legal only
    where every trace of the newer one is gone.
    """
    tree = trees.history()[time]
    for gone in _subsets(trees.files(tree, "nightly/")):
        left = _without(tree, gone)
        outcome = trees.read(trees.in_memory(left))
        if outcome.error is not None:
            check(outcome.error.exit_code in {2, 3, 4, 5}, f"{gone}: {outcome.says()}")
            continue
        loaded = outcome.loaded.sequence // 10 if outcome.loaded else 0
        newest = max((trees.born()[left[p]] for p in trees.files(left, "nightly/")), default=0)
        check(loaded >= newest, f"without {gone}: {outcome.says()}, beside time {newest}")
