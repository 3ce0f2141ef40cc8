"""Changes by hand are what they say they are, the same in every process, and complete."""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
from typing import Final

import pytest

from fault_injection.damage.belief import Subject, read
from fault_injection.damage.byte_changes import INSERTED, Sample, changes, is_all
from fault_injection.damage.files import gathered, leaf, spread
from fault_injection.damage.history import History, history_of
from fault_injection.damage.segments import believed, events, is_intact, is_torn
from fault_injection.damage.subsets import subsets
from fault_injection.damage.tampering import (
    ALL,
    BYTE_KINDS,
    FILE_KINDS,
    KINDS,
    WITH_COPIES,
    Tamperer,
    Tampering,
    TamperKind,
    Thinning,
)
from fault_injection.memory.disk import Node
from fault_injection.workloads import find
from lastgood.errors import LastgoodError
from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY

FEW: Final = Thinning(2, 2, 20, "0")
LINES: Final = b"abc\ndefgh\n" + bytes(600)


@functools.cache
def history(name: str) -> History:
    workload = find(name)
    if workload is None:
        raise AssertionError(f"there is no workload {name}")
    return history_of(workload)


def made(name: str, kind: TamperKind, thinning: Thinning = FEW) -> list[Tampering]:
    return list(Tamperer(history(name)).tamperings(kind, thinning))


def fingerprint(name: str) -> str:
    """Of all trees of a sample, in their order."""
    told = hashlib.sha256()
    for kind in KINDS:
        for one in made(name, kind):
            told.update(f"{one.kind} {one.point} {one.what}".encode())
            told.update(one.tree.digest(unread=("lock",)).encode())
    return told.hexdigest()


# --- bytes --------------------------------------------------------------------------------


def test_every_place_of_a_file_is_changed_in_each_way() -> None:
    """Exhaustive means every place: each byte, each length, each gap.

    Method: counts and contents of each kind on a file of two lines with reserved zeros.
    """
    found = {kind: list(changes(kind, LINES, Sample(None, ""))) for kind in BYTE_KINDS}
    size = len(LINES.rstrip(b"\0"))
    for kind, count in (("flip", size), ("nul", size), ("insert", size + 1), ("cut", size + 1)):
        check_equal(len({data for _, data in found[kind]}), count, kind)  # type: ignore[index]
    check_equal(len(found["blank"]), size, "zeros from each byte on")
    check_equal(len(found["drop"]), size, "bytes dropped, one after the other")
    check(all(len(data) == len(LINES) for _, data in found["blank"]), "blanking keeps the length")
    check({data[:1] for _, data in found["insert"]} >= {INSERTED[0], b"a"}, "insertions")
    check_equal(found["double"][0][1], b"abc\nabc\ndefgh\n" + bytes(600), "the first line twice")
    for kind, every in found.items():
        check(every, f"nothing of kind {kind}")
        check(all(data != LINES for _, data in every), f"{kind} left the bytes as they were")


def test_a_sample_is_part_of_all_and_reaches_every_edge_sometime() -> None:
    """What CI tries is what the exhaustive run tries, so that a name of one is found by the other.

    Method: samples of forty seeds of each kind; their union holds the places beside each line feed.
    """
    for kind in BYTE_KINDS:
        every = set(changes(kind, LINES, Sample(None, "")))
        some = [set(changes(kind, LINES, Sample(2, str(seed)))) for seed in range(40)]
        if kind != "reserve":
            check(all(one <= every for one in some), f"{kind}: a sample of something else")
    places = {place for seed in range(40) for place in Sample(2, str(seed)).of(LINES)}
    check({0, 2, 3, 4, 8, 9} <= places, f"places near an edge: {sorted(places)}")


def test_it_is_said_where_not_every_place_was_tried() -> None:
    """No sample is called exhaustive: not of a large file, not of reserved zeros."""
    check(is_all("flip", LINES, Sample(None, "")), "all bytes of a small file")
    check(not is_all("flip", LINES, Sample(2, "")), "a sample")
    check(not is_all("flip", b"x" * 10_000, Sample(None, "")), "a large file")
    check(not is_all("reserve", LINES, Sample(None, "")), "reserved zeros")
    check(is_all("reserve", b"abc\n", Sample(None, "")), "no reserved zeros")


# --- files --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["reopens", "resumes"])
def test_every_kind_makes_trees_that_differ_from_what_they_are_made_of(name: str) -> None:
    """A change that changes nothing proves nothing.

    Method: a sample of each kind; the digest of each tree is not that of its base.
    """
    for kind in KINDS:
        found = made(name, kind)
        check(found or kind == "reserve", f"{name}: nothing of kind {kind}")
        for one in found:
            before = one.base.tree().digest()
            check(one.tree.digest() != before, f"{kind} {one.point}, {one.what}: no change")
            check(one.what and one.edits, f"{kind} {one.point} says nothing of what it is")


def test_trees_are_the_same_in_every_process() -> None:
    """The same seed makes the same trees with the same names, whatever strings hash to.

    Method: all trees of a sample, digested here and in two processes with other hash seeds.
    """
    program = "import sys; from tests.injection.test_tampering import fingerprint as f; " + (
        "print(f(sys.argv[1]))"
    )
    mine = fingerprint("reopens")
    for seed in ("1", "2"):
        other = subprocess.run(
            [sys.executable, "-c", program, "reopens"],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{REPOSITORY}"},
            capture_output=True,
            check=True,
            text=True,
        )
        check_equal(other.stdout.strip(), mine, f"hash seed {seed}")


def test_a_tree_is_spread_and_gathered_again() -> None:
    """Edits of paths are edits of a tree: nothing else of it changes.

    Method: every instant of a job; the pointer and its number come back as one file.
    """
    for instant in history("reopens").instants:
        tree = instant.tree()
        check_equal(spread(tree), dict(instant.files), "spread")
        check_equal(gathered(spread(tree)).digest(), tree.digest(), "gathered")
        inodes = dict(tree.paths())
        twins = {inodes[path] for path in inodes if leaf(path).startswith("manifest")}
        check(len(twins) < sum("manifest" in path for path in inodes), "the twins are one file")
    recorded = history("reopens").recording
    raw = recorded.seen_after(len(recorded.calls))
    check_equal(gathered(spread(raw)).digest(), raw.digest(), "what the job left")


def test_the_base_is_never_changed() -> None:
    """Making a changed tree is pure: whoever comes next finds the base as it was."""
    before = [instant.tree().digest() for instant in history("reopens").instants]
    for kind in FILE_KINDS:
        for one in made("reopens", kind):
            one.tree.digest()
    after = [instant.tree().digest() for instant in history("reopens").instants]
    check_equal(after, before, "the instants")


def test_of_a_small_directory_every_subset_is_taken() -> None:
    """Up to eight files: all 2^n - 1; of more: one, two, all but those, all."""
    for size in range(1, 9):
        found = list(subsets([str(number) for number in range(size)]))
        check_equal(len(set(found)), 2**size - 1, f"subsets of {size}")
    many = [str(number) for number in range(10)]
    chosen = set(subsets(many))
    check_equal(len(chosen), 2 * (10 + 45) + 1, "subsets of 10")
    check(tuple(many) in chosen and tuple(many[1:]) in chosen, "all, and all but one")


def test_a_kind_is_called_exhaustive_only_if_every_subset_was_taken() -> None:
    """What is left out is said: subsets of more than eight files are, and places of copies.

    Method: a job with a few files and one with many, at all and at less than all.
    """
    for name, kind, thinning, is_whole in (
        ("first", "delete", ALL, True),
        ("first", "delete", Thinning(choices=5), False),
        ("appends", "delete", ALL, False),
        ("appends", "rolled-back", ALL, False),
        ("appends", "foreign-key", ALL, True),
        ("appends", "swapped", ALL, True),
        ("first", "flip", ALL, True),
        ("first", "flip", Thinning(again=30), False),
    ):
        got = Tamperer(history(name)).is_all(kind, thinning)  # type: ignore[arg-type]
        check_equal(got, is_whole, f"{name}, {kind}, {thinning}")


def test_every_single_file_is_deleted_at_every_instant() -> None:
    """No file of no instant is left out, and none that nobody believes is counted as deleted."""
    past = history("reopens")
    gone = [one for one in made("reopens", "delete", ALL) if one.only_deletes]
    found = {(one.base.number, path) for one in gone if len(one.edits) == 1 for path in one.edits}
    wanted = {(one.number, path) for one in past.instants for path in past.believed(one)}
    check(wanted <= found, f"not deleted: {sorted(wanted - found)[:3]}")
    check(not any(path.endswith("/lock") for _, path in found), "locks")


def test_each_ordered_pair_of_records_is_tried() -> None:
    """Every record takes the place of every other one, of whatever time."""
    past = history("saves")
    pairs = {
        (path, node) for one in made("saves", "other", ALL) for path, node in one.edits.items()
    }
    older = {
        (path, node) for one in made("saves", "older", ALL) for path, node in one.edits.items()
    }
    for path in past.believed(past.final):
        for node, source in past.records():
            same = node == past.final.files[path]
            known = (path, node) in pairs | older
            check(known or same, f"{leaf(path)} never holds {source}")


def test_a_whole_earlier_instant_is_among_what_is_rolled_back() -> None:
    """A consistent older copy of everything is tried, of each instant, and said to need copies."""
    past = history("reopens")
    trees = {one.tree.digest(unread=("lock",)) for one in made("reopens", "rolled-back", ALL)}
    for instant in past.instants[:-1]:
        check(instant.tree().digest(unread=("lock",)) in trees, f"call {instant.calls}")
    check("rolled-back" in WITH_COPIES and "delete" not in WITH_COPIES, "kinds with copies")


@pytest.mark.parametrize("name", ["reopens", "resumes"])
@pytest.mark.parametrize("kind", ["foreign-session", "foreign-store", "foreign-key"])
def test_strangers_records_are_whole_and_alike(name: str, kind: str) -> None:
    """A splice is only worth trying with records that are authentic where they come from.

    Method: the stranger's files hold each kind of record, with other bytes than ours.
    """
    past = history(name)
    theirs = past.foreign(kind)
    kinds = {leaf(path).split("-")[0].split(".")[0] for path in theirs}
    wanted = {"checkpoint", "manifest", "session"} | ({"events"} if name == "resumes" else set())
    check(kinds >= wanted, f"their files: {sorted(map(leaf, theirs))}")
    ours = {past.final.files[path].data for path in past.believed(past.final)}
    records = [node.data for path, node in theirs.items() if leaf(path) != "lock"]
    check(not ours & set(records), "one of their records is ours")
    if name == "reopens":
        same = set(map(leaf, theirs)) >= set(map(leaf, past.believed(past.final))) - {"store.json"}
        check(same, f"names that are theirs as well: {sorted(map(leaf, theirs))}")


@pytest.mark.parametrize("name", ["reopens", "resumes"])
def test_a_newer_programs_session_is_sound_to_that_program(name: str) -> None:
    """What the schema alone makes unreadable is right in everything else.

    Method: the tree is read by a program of the newer schema, which gets its state.
    """
    (one,) = made(name, "newer-schema")
    (subject,) = history(name).subjects
    newer = Subject(
        subject.session,
        subject.store,
        subject.directory,
        subject.has_log,
        subject.schema + 1,
        subject.program,
    )
    check(not isinstance(read(one.tree, newer).belief, LastgoodError), "the newer program stops")
    check(isinstance(read(one.tree, subject).belief, LastgoodError), "the older one does not")


# --- segments -----------------------------------------------------------------------------


def _segment() -> tuple[str, dict[str, Node], list[bytes]]:
    """The newest segment of an open log, all files, and its lines."""
    past = history("resumes")
    instant = past.instants[-2]
    path = max(path for path in instant.files if "/events-" in path)
    return path, dict(instant.files), (instant.files[path].data or b"").split(b"\n")[:-1]


def test_a_cut_end_is_torn_and_a_changed_byte_is_damage() -> None:
    """What a crash leaves of a log's end is told by its lines alone, without lastgood's judge.

    Method: ends that a crash leaves, and ends that none does.
    """
    path, files, lines = _segment()
    zeros, kept = bytes(4096), b"".join(line + b"\n" for line in lines[:-1])
    for what, rest in (
        ("cut at a line", b""),
        ("cut in a line", lines[-1][:40]),
        ("a sector that never arrived", lines[-1][:40] + bytes(9) + lines[-1][49:] + b"\n"),
    ):
        check(is_torn(path, kept + rest + zeros, files), what)
    flipped = lines[-1][:40] + bytes([lines[-1][40] ^ 1]) + lines[-1][41:] + b"\n"
    first = bytes(9) + lines[0][9:] + b"\n" + kept[len(lines[0]) + 1 :] + lines[-1] + b"\n"
    for what, data in (
        ("a flipped byte", kept + flipped + zeros),
        ("a NUL before lines that say it was durable", first + zeros),
        ("text behind the end", kept + b"text" + zeros),
    ):
        check(not is_torn(path, data, files), what)


def test_reserved_zeros_and_the_last_line_feed_are_nobodys() -> None:
    """What no event is made of may change without a loss."""
    path, files, lines = _segment()
    whole = b"".join(line + b"\n" for line in lines)
    check_equal(believed(path, files), whole[:-1], "what is believed")
    check(is_intact(path, whole[:-1] + b"\0 text", files), "behind the last line")
    check(not is_intact(path, whole[:-2] + b"\0", files), "the last line's last byte")
    said = [kind for _, kind, _ in events(whole)]
    check(said and not any(kind.startswith("lastgood.") for kind in said), f"events: {said}")
