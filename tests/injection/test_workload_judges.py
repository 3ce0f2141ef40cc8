"""The judges are alive: each oracle finds the lie that was planted for it, and names itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any, Final

import pytest

from fault_injection import workloads
from fault_injection.machine import MemoryMachine
from fault_injection.memory.disk import Node, Tree
from fault_injection.memory.operations import ROOT
from fault_injection.recording import Recording, prepared, record
from fault_injection.workload import Violation, Workload
from fault_injection.workloads import checkpoints, shelf
from fault_injection.workloads.repairs import MARK
from fault_injection.world import Act, Outcome, Told
from lastgood.formats.event import Event
from lastgood.storage import revisions
from tests.support.check import check_equal

SESSION: Final = "disk/state/" + shelf.DIRECTORY
_LOCK_NOW: Final = 6


@cache
def job(name: str) -> Workload:
    return next(workload for workload in workloads.WORKLOADS if workload.name == name)


@cache
def recorded(name: str) -> Recording:
    return record(job(name))


def end_of(name: str) -> tuple[Tree, Told]:
    recording = recorded(name)
    return recording.seen_after(len(recording.calls)), recording.world.told


def before(name: str, act: str) -> Tree:
    """The disk when an act began."""
    recording = recorded(name)
    calls = next(mark.calls for mark in recording.world.marks if act in mark.told.names())
    return recording.seen_after(calls)


def found(
    name: str, tree: Tree, told: Told, *, depth: Any = "whole", machine: MemoryMachine | None = None
) -> str:
    """Which oracle says that a state is wrong; empty: none does."""
    try:
        job(name).judge(machine or MemoryMachine(tree, seed="judge"), told, depth=depth)
    except Violation as error:
        return error.oracle
    return ""


# --- lies ---------------------------------------------------------------------------------


def inode_of(tree: Tree, path: str) -> int:
    return dict(tree.paths())[path]


def with_entries(tree: Tree, folder: str, entries: dict[str, int], new: dict[int, Node]) -> Tree:
    inode = inode_of(tree, folder) if folder else ROOT
    changed = replace(tree.nodes[inode], entries=tuple(sorted(entries.items())))
    return Tree({**tree.nodes, **new, inode: changed})


def without(tree: Tree, folder: str, beginning: str, *, place: int = 0) -> Tree:
    """A file whose name begins so is gone; with several, the one at ``place`` of the sorted."""
    entries = dict(tree.nodes[inode_of(tree, folder)].entries)
    del entries[sorted(name for name in entries if name.startswith(beginning))[place]]
    return with_entries(tree, folder, entries, {})


def put_back(now: Tree, then: Tree, folder: str, *beginnings: str) -> Tree:
    """The records of those names are what they were."""
    old = then.nodes[inode_of(then, folder)].entries
    held = now.nodes[inode_of(now, folder)].entries
    entries = {name: inode for name, inode in held if not name.startswith(beginnings)}
    shift = 1 + max(now.nodes)
    returned = {name: inode for name, inode in old if name.startswith(beginnings)}
    new = {shift + inode: then.nodes[inode] for inode in returned.values()}
    entries |= {name: shift + inode for name, inode in returned.items()}
    return with_entries(now, folder, entries, new)


def rewritten(tree: Tree, path: str, change: Callable[[bytes], bytes]) -> Tree:
    inode = inode_of(tree, path)
    node = tree.nodes[inode]
    return Tree({**tree.nodes, inode: replace(node, data=change(node.data or b""))})


def beside(tree: Tree, folder: str, name: str, data: bytes) -> Tree:
    """A file more."""
    inode = 1 + max(tree.nodes)
    entries = dict(tree.nodes[inode_of(tree, folder)].entries) | {name: inode}
    return with_entries(tree, folder, entries, {inode: Node(0o600, data)})


def in_archive(tree: Tree, name: str, data: bytes) -> Tree:
    """A file more in the session's archive, which is made if it is not there."""
    if f"{SESSION}/archive" not in dict(tree.paths()):
        inode = 1 + max(tree.nodes)
        entries = dict(tree.nodes[inode_of(tree, SESSION)].entries) | {"archive": inode}
        tree = with_entries(tree, SESSION, entries, {inode: Node(0o700)})
    return beside(tree, f"{SESSION}/archive", name, data)


def named(tree: Tree, beginning: str) -> str:
    """The path of the newest file of the session whose name begins so."""
    return max(path for path, _ in tree.paths() if path.startswith(f"{SESSION}/{beginning}"))


def told_otherwise(told: Told, act: str, outcome: Outcome) -> Told:
    return Told(tuple(replace(a, outcome=outcome) if a.name == act else a for a in told.acts))


def flipped(data: bytes) -> bytes:
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]


# --- sessions -----------------------------------------------------------------------------


def test_truth_is_no_violation() -> None:
    """A judge that always complains says nothing. Method: what a job leaves, untouched."""
    for workload in workloads.WORKLOADS:
        tree, told = end_of(workload.name)
        check_equal(found(workload.name, tree, told), "", workload.name)


def test_older_checkpoint_that_was_put_back_is_older_than_what_was_acknowledged() -> None:
    """O1. Method: manifests and checkpoints of before the last save; the log is whole."""
    tree, told = end_of("appends")
    older = put_back(tree, before("appends", "save-e"), SESSION, "manifest", "checkpoint")
    check_equal(found("appends", older, told), "O1", "oracle")


@pytest.mark.parametrize("kind", ["checkpoint", "manifest"])
def test_session_that_stops_where_recovery_is_owed_is_found(kind: str) -> None:
    """O1. Method: a byte of the current checkpoint, or of the newest revision, changed."""
    tree, told = end_of("appends")
    flip = rewritten(tree, named(tree, kind), flipped)
    check_equal(found("appends", flip, told), "O1", "oracle")


def test_event_that_is_cut_off_below_an_anchor_is_missed() -> None:
    """O8. Method: most of the newest segment reads as zeros, with what the current anchor names."""
    tree, told = end_of("appends")
    path = named(tree, "events")
    cut = rewritten(tree, path, lambda data: data[: len(data) // 4] + bytes(len(data)))
    check_equal(found("appends", cut, told), "O8", "oracle")


def test_acknowledged_event_that_is_missing_behind_the_last_anchor_is_found() -> None:
    """O8. Method: the disk before the last append, and the world after it."""
    _, told = end_of("resumes")
    check_equal(found("resumes", before("resumes", "f"), told), "O8", "oracle")


def test_event_that_was_not_asked_for_is_found() -> None:
    """O2. Method: the disk after the last append, and a world that never asked for it."""
    tree, told = end_of("resumes")
    less = Told(tuple(act for act in told.acts if act.name != "f"))
    check_equal(found("resumes", tree, less), "O2", "oracle")


@pytest.mark.parametrize("act", ["f", "save-e"])
def test_act_that_was_refused_and_is_there_is_found(act: str) -> None:
    """O2: a definite error promises that nothing happened. Method: an act told as refused."""
    tree, told = end_of("resumes")
    check_equal(found("resumes", tree, told_otherwise(told, act, "refused")), "O2", "oracle")


def test_later_part_of_a_call_without_its_earlier_part_is_found() -> None:
    """O8: of a call that nobody was told of, a beginning may be there. Method: its end alone."""
    tree, told = end_of("resumes")
    acts = [a for a in told.acts if a.name != "f"]
    calls = [Act("f.1", shelf.APPEND), Act("f.2", shelf.APPEND)]
    machine = MemoryMachine(tree, seed="more")
    with shelf.opened(machine) as session:
        session.append(*shelf.given("g.2"))
    halved = Told((*told.acts, Act("g.1", shelf.APPEND), Act("g.2", shelf.APPEND)))
    check_equal(found("resumes", machine.disk.tree(), halved), "O8", "oracle")
    check_equal(found("resumes", before("resumes", "f"), Told((*acts, *calls))), "", "neither")


def test_checkpoint_with_another_state_than_a_replay_gives_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """O3. Method: a reducer that puts an item of its own when the checkpoint is made."""
    tree, told = end_of("resumes")
    machine = MemoryMachine(tree, seed="more")
    with monkeypatch.context() as patch:
        patch.setattr(shelf, "put", _lying)
        with shelf.opened(machine) as session:
            session.append(*shelf.given("g"))
            session.save(fingerprints=[shelf.fingerprint("save-g")])
    acts = (Act("g", shelf.APPEND, "acknowledged"), Act("save-g", shelf.SAVE, "acknowledged"))
    check_equal(found("resumes", machine.disk.tree(), Told((*told.acts, *acts))), "O3", "oracle")


def _lying(state: shelf.State, event: Event) -> shelf.State:
    right = _PUT(state, event)
    return {**right, "items": ["lie", *right["items"][1:]]}


_PUT: Final = shelf.put


def test_side_effect_that_is_no_longer_known_is_found() -> None:
    """O1. Method: the world knows of a save more, of the very items, and so of its side effect."""
    tree, told = end_of("new-session")
    acts = tuple(
        replace(act, name="keep-b.2", kind=shelf.REBUILD) if act.kind == shelf.SAVE else act
        for act in told.acts
    )
    check_equal(found("new-session", tree, Told(acts)), "O2", "one that nobody gave")
    more = Act("save-a", shelf.SAVE, "acknowledged")
    both = end_of("appends")[1].acts
    tree = end_of("appends")[0]
    check_equal(found("appends", tree, Told((more, *both))), "O1", "one that nobody knows")


def test_single_generation_where_two_saves_were_acknowledged_is_found() -> None:
    """O6. Method: a session with one checkpoint, and a world that was told of two saves."""
    tree, told = end_of("new-session")
    more = Act("save-a", shelf.SAVE, "acknowledged")
    check_equal(found("new-session", tree, Told((more, *told.acts))), "O6", "oracle")


@pytest.mark.parametrize("lie", ["gone", "flipped"])
def test_loss_of_the_older_generation_is_found(lie: str) -> None:
    """O6, I4. Method: the previous checkpoint's file gone, or a byte of its payload changed."""
    tree, told = end_of("appends")
    if lie == "gone":
        tree = without(tree, SESSION, "checkpoint")
    else:
        name = min(p for p, _ in tree.paths() if p.startswith(f"{SESSION}/checkpoint"))
        tree = rewritten(tree, name, lambda data: data[:-20] + flipped(data[-20:]))
    check_equal(found("appends", tree, told), "O6", "oracle")


def test_official_name_with_part_of_a_record_is_found() -> None:
    """O7, I1. Method: a checkpoint's name below the kept ones, with half of a record."""
    tree, told = end_of("appends")
    half = rewritten(tree, named(tree, "checkpoint"), lambda data: data[: len(data) // 2])
    data = half.nodes[inode_of(half, named(half, "checkpoint"))].data or b""
    lied = beside(tree, SESSION, "checkpoint-000002.json", data)
    check_equal(found("appends", lied, told), "O7", "oracle")


def test_temporary_that_no_owner_sweeps_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """O9. Method: a temporary, and owners that do not sweep; those that do are no lie."""
    tree, told = end_of("appends")
    left = beside(tree, SESSION, ".manifest.json.0123456789abcdef.tmp", b"{}")
    check_equal(found("appends", left, told), "", "owners that sweep")
    monkeypatch.setattr(revisions, "_sweep", lambda directory, name: name)
    check_equal(found("appends", left, told), "O9", "owners that do not")


@pytest.mark.parametrize("name", ["appends", "saves"])
def test_lock_that_is_stuck_is_found(name: str) -> None:
    """O9. Method: a process that is still there holds the lock."""
    tree, told = end_of(name)
    machine = MemoryMachine(tree, seed="judge")
    system = machine.process()
    system.flock(system.open(f"/{SESSION}/lock", os.O_RDWR), _LOCK_NOW)
    check_equal(found(name, tree, told, machine=machine), "O9", "oracle")


def test_owner_that_is_given_another_state_than_a_reader_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """O4. Method: an event that may be there or not; a replay leaves it out, the log has it."""
    tree, told = end_of("resumes")
    monkeypatch.setattr(shelf, "put", lambda s, e: s if e.data["item"] == "f" else _PUT(s, e))
    check_equal(found("resumes", tree, told_otherwise(told, "f", "open")), "O4", "oracle")


def test_second_recovery_that_loses_something_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """O4. Method: a program that leaves the last event out from its second opening on."""
    tree, told = end_of("resumes")
    with _second_time(monkeypatch):
        check_equal(found("resumes", tree, told_otherwise(told, "f", "open")), "O4", "oracle")


@contextmanager
def _second_time(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    right, openings = shelf.opened, []

    @contextmanager
    def opened(*args: Any, **options: Any) -> Iterator[Any]:
        openings.append(args)
        if len(openings) > 1:
            put = lambda s, e: s if e.data["item"] == "f" else _PUT(s, e)  # noqa: E731
            monkeypatch.setattr(shelf, "put", put)
        with right(*args, **options) as session:
            yield session

    with monkeypatch.context() as patch:
        patch.setattr(shelf, "opened", opened)
        yield


@pytest.mark.parametrize(
    ("name", "act", "oracle"),
    [
        ("writers", "30", "O2"), ("writers", "60", "O2"), ("writers-log", "e", "O2"),
        ("writers-log", "c", "O8"),
    ],
)  # fmt: skip
def test_fenced_owner_that_is_acknowledged_is_found(name: str, act: str, oracle: str) -> None:
    """O2, O8, F13. Method: told as acknowledged: what came behind others, and what they met."""
    tree, told = end_of(name)
    check_equal(found(name, tree, told_otherwise(told, act, "acknowledged")), oracle, "oracle")


# --- repairs, trimmings -------------------------------------------------------------------


def test_damaged_session_stops_until_it_is_repaired_and_not_any_more_after_that() -> None:
    """O1: what was acknowledged as repaired opens. Method: the damaged disk, told and not."""
    for name in ("repairs-rebuild", "repairs-pointer"):
        tree, told = prepared(job(name))
        rule = job(name).judge(MemoryMachine(tree, seed="judge"), told, depth="whole").rule
        check_equal(rule.split(",")[0], "stopped", name)
        _, after = end_of(name)
        done = Told((*told.acts, *after.of(shelf.REPAIR).acts))
        check_equal(found(name, tree, done), "O1", name)


def test_damaged_session_that_stops_at_something_else_is_found() -> None:
    """O1: a repair is owed for what was damaged, and for nothing else that stops.

    Method: other damage in the same record, and what was damaged kept beside it; or a record of
    the same kind set aside.
    """
    for name, kind in (("repairs-rebuild", "checkpoint"), ("repairs-pointer", "manifest")):
        tree, told = prepared(job(name))
        path = next(path for path, node in tree.paths() if MARK in (tree.nodes[node].data or b""))
        other = rewritten(tree, path, lambda data: data.replace(MARK, b"damaged"))
        check_equal(found(name, beside(other, SESSION, "note", MARK), told), "O1", name)
        aside = in_archive(other, f"damaged-0123456789abcdef-{kind}-000001.json", MARK)
        check_equal(found(name, aside, told), "O1", f"{name}, another one set aside")


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("appends", "fenced"), ("appends", "damaged"), ("saves", "fenced"),
        ("writers-log", "fenced"), ("writers", "damaged"), ("repairs-rebuild", "fenced"),
    ],
)  # fmt: skip
def test_record_set_aside_by_a_job_that_has_no_such_is_found(name: str, left: str) -> None:
    """O9: leftovers are bounded. Method: a record under a name of the archive."""
    tree, told = end_of(name)
    path = named(tree, "checkpoint")
    aside = f"{left}-0123456789abcdef-{path.rpartition('/')[2]}"
    data = tree.nodes[inode_of(tree, path)].data or b""
    check_equal(found(name, in_archive(tree, aside, data), told), "O9", name)


def test_damaged_bytes_that_a_repair_loses_are_missed() -> None:
    """O6: nothing damaged is deleted. Method: the archive's damaged file with other bytes."""
    for name in ("repairs-rebuild", "repairs-pointer"):
        tree, told = end_of(name)
        for path, inode in list(tree.paths()):
            if MARK in (tree.nodes[inode].data or b""):
                tree = rewritten(tree, path, lambda data: data.replace(MARK, bytes(len(MARK))))
        check_equal(found(name, tree, told, depth="short"), "O6", name)


def test_damaged_checkpoint_that_comes_back_under_its_name_stops_nobody() -> None:
    """S9: a prune's removal may be lost with power; the next one repeats it. Method: that file."""
    tree, told = end_of("repairs-rebuild")
    path = next(path for path, inode in tree.paths() if MARK in (tree.nodes[inode].data or b""))
    data = tree.nodes[inode_of(tree, path)].data or b""
    back = beside(tree, SESSION, path[path.index("checkpoint") :], data)
    rule = job("repairs-rebuild").judge(MemoryMachine(back, seed="judge"), told, depth="whole").rule
    check_equal(rule.split(",")[0], "damaged one set aside later", "the rule")
    other = beside(tree, SESSION, "manifest-000001.json", data)
    check_equal(found("repairs-rebuild", other, told), "O7", "another damaged record")
    more = Told((*told.acts, Act("rebuild-e", shelf.REBUILD, "acknowledged")))
    check_equal(found("repairs-rebuild", back, more), "O1", "older than what was acknowledged")


def test_event_that_left_the_log_and_is_not_in_the_archive_is_missed() -> None:
    """O8. Method: a segment deleted from the archive, as if it had left without being kept."""
    tree, told = end_of("trims")
    lost = without(tree, f"disk/state/archive/{shelf.DIRECTORY}", "events")
    check_equal(found("trims", lost, told), "O8", "oracle")


# --- checkpoints alone --------------------------------------------------------------------


def test_checkpoints_that_are_older_newer_or_other_than_told_are_found() -> None:
    """O1, O2, O3. Method: an older disk; a world that did not ask; a state of another job."""
    tree, told = end_of("saves")
    check_equal(found("saves", before("saves", "60"), told), "O1", "an older one")
    less = Told(tuple(act for act in told.acts if act.name != "60"))
    check_equal(found("saves", tree, less), "O2", "one that nobody asked for")
    check_equal(found("saves", tree, told_otherwise(told, "60", "refused")), "O2", "refused")
    machine = MemoryMachine(tree, seed="more")
    other = replace(checkpoints.checkpoint(70), state={"act": "70"})
    with checkpoints.opened(machine) as store:
        store.save(other)
    more = Told((*told.acts, Act("70", "save", "acknowledged")))
    check_equal(found("saves", machine.disk.tree(), more), "O3", "other bytes")


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("left", ["half", "zeros"])
def test_checkpoint_with_part_of_a_record_is_found_before_it_is_loaded(
    left: str, place: int
) -> None:
    """O7, I1. Method: half of the previous or the current checkpoint, or zeros in its place."""
    tree, told = end_of("saves")
    there = sorted(path for path, _ in tree.paths() if path.startswith(f"{SESSION}/checkpoint"))

    def torn(data: bytes) -> bytes:
        return data[: len(data) // 2] if left == "half" else bytes(len(data))

    check_equal(found("saves", rewritten(tree, there[place], torn), told), "O7", "oracle")


def test_checkpoints_without_a_second_generation_or_with_a_leftover_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """O6, O9. Method: a world that was told of a save more; owners that do not sweep."""
    tree, told = end_of("first")
    more = Act("5", "save", "acknowledged")
    check_equal(found("first", tree, Told((more, *told.acts))), "O6", "one generation")
    tree, told = end_of("saves")
    left = beside(tree, SESSION, ".manifest.json.0123456789abcdef.tmp", b"{}")
    check_equal(found("saves", left, told), "", "owners that sweep")
    monkeypatch.setattr(revisions, "_sweep", lambda directory, name: name)
    check_equal(found("saves", left, told), "O9", "owners that do not")
