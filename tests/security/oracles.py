"""What must hold of every changed store: one function a guarantee, shared with the mutants.

Each is called with nothing or with a choice of inputs, tries them all on stores in memory
or in a directory of its own, and raises ``AssertionError`` where the guarantee does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, islice

from tests.support import damage, trees
from tests.support.check import check
from tests.support.trees import Tree, blame

Change = Callable[[bytes], Iterator[tuple[str, bytes]]]

CHANGES: dict[str, Change] = {
    "flips": lambda data: damage.flips(data, bits=(0, 5)),
    "insertions": damage.insertions,
    "deletions": damage.deletions,
    "truncations": damage.truncations,
    "extensions": damage.extensions,
    "misreadings": damage.misreadings,
}

SAMPLES: dict[str, Change] = {
    "every fifth byte flipped": lambda data: islice(damage.flips(data, bits=(0,)), 0, None, 5),
}
"""Enough for a mutant that is killed by any of them."""


def every_change_of_bytes_is_refused(path: str, *, kinds: tuple[str, ...] = tuple(CHANGES)) -> int:
    """G3, G6, T2: each change of a file's bytes stops load and check, and nothing is touched.

    Only a changed payload of the previous generation, which ``load`` does not read, leaves
    the last save's state as it is; the check reports it.

    Returns:
        How many changes were tried.
    """
    final = trees.final()
    changed = _changes(final[path], kinds)
    count = 0
    for what, data in changed:
        if data != final[path]:
            count += 1
            _refused({path: data}, f"{path}: {what}")
    return count


def both_names_of_the_pointer_changed_alike_are_refused(
    *, kinds: tuple[str, ...] = tuple(CHANGES)
) -> int:
    """G6: the pointer and its number are one file on a disk, so damage changes both alike."""
    paths = [f"nightly/{name}" for name in ("manifest.json", "manifest-000004.json")]
    data = trees.final()[paths[0]]
    changed = _changes(data, kinds)
    count = 0
    for what, new in changed:
        if new != data:
            count += 1
            _refused(dict.fromkeys(paths, new), f"both names of the pointer: {what}")
    return count


def _changes(data: bytes, kinds: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    known = CHANGES | SAMPLES
    return chain.from_iterable(known[kind](data) for kind in kinds)


def _refused(changes: Tree, what: str) -> None:
    path = next(iter(changes))
    session = path.rpartition("/")[0] or "nightly"
    tree = trees.only(trees.final(), session) | changes
    root = trees.in_memory(tree)
    outcome = trees.read(root, session)
    wrong = blame(tree, outcome, session)
    check(not wrong, f"{what}: {wrong}")
    check(outcome.reported in {2, 3, 4, 5}, f"{what}: not reported: {outcome.says()}")
    if outcome.error is None:
        check(_is_payload_of_previous(path, tree), f"{what}: loads: {outcome.says()}")
        check(
            outcome.loaded is not None and outcome.loaded.sequence == 30,
            f"{what}: {outcome.says()}",
        )
    check(trees.remembered(root, tree) == tree, f"{what}: the reader changed the store")


def _is_payload_of_previous(path: str, tree: Tree) -> bool:
    """Whether a changed file is the previous generation with seal and header as they were."""
    honest = trees.final()[path].split(b"\n")[:2]
    return path.endswith(trees.PREVIOUS) and tree[path].split(b"\n")[:2] == honest


def stands(tree: Tree, what: str, session: str = "nightly") -> str:
    """G3: whatever a tree is made of, its outcome is legal (``trees.blame``); returns a class.

    Returns:
        ``stopped``, ``same`` (the last save's state) or ``older`` (nothing newer is left).
    """
    root = trees.in_memory(tree)
    outcome = trees.read(root, session)
    wrong = blame(tree, outcome, session)
    check(not wrong, f"{what}: {wrong}")
    if outcome.error is not None:
        return "stopped"
    last = outcome.loaded is not None and outcome.loaded.sequence == 10 * trees.SAVES
    if last and trees.only(tree, session) != trees.only(trees.final(), session):
        check(_is_told(outcome), f"{what}: nothing tells of it: {outcome.says()}")
    if not last and outcome.report is not None:
        told = any("Rollback" in skipped for skipped in outcome.report.skipped)
        check(told, f"{what}: the report does not say that rollback was not checked")
    return "same" if last else "older"


def _is_told(outcome: trees.Outcome) -> bool:
    """Whether the check tells that something is not as a save left it."""
    report = outcome.report
    return report is not None and bool(
        report.exit_code or report.leftovers or report.foreign or report.notices
    )
