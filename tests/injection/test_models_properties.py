"""What holds of the models for any operations: who permits more than whom, and what is sure."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fault_injection.memory.disk import Disk
from fault_injection.memory.operations import (
    ROOT,
    Entry,
    Make,
    Mode,
    Operation,
    Removal,
    Rename,
    Sync,
    SyncFailed,
    Truncate,
    Write,
)
from fault_injection.power.cache import Cache
from fault_injection.power.choices import choices, few, is_permitted
from fault_injection.power.pending import EVERYTHING
from fault_injection.power.rules import ALICE, JOURNAL, MODELS, POSIX, WEAK, Model
from tests.injection.disks import Found, base, fed, found
from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY

FILES: Final = (2, 3, 5)
FOLDERS: Final = (ROOT, 4)
NAMES: Final = ("a", "b", "c")
START: Final[list[Operation]] = [
    Make(4, is_directory=True, mode=0o700),
    Entry(ROOT, "d", 4),
    Sync(ROOT),
    Make(5, is_directory=False, mode=0o600),
]

_file = st.sampled_from(FILES)
_folder = st.sampled_from(FOLDERS)
_name = st.sampled_from(NAMES)
_one = st.one_of(
    st.builds(Write, _file, st.integers(0, 5), st.sampled_from([b"x", b"yz", b"www"])),
    st.builds(Truncate, _file, st.integers(0, 6)),
    st.builds(Mode, _file, st.sampled_from([0o600, 0o640])),
    st.builds(Entry, _folder, _name, _file),
    st.builds(Removal, _folder, _name),
    st.builds(Rename, _folder, _name, _folder, _name, _file),
    st.builds(Sync, st.sampled_from(FILES + FOLDERS)),
    st.builds(SyncFailed, _file),
)


def _sensible(drawn: list[Operation]) -> list[Operation]:
    """Only what a kernel would have done: renames move the inode that is there, and so on."""
    disk, kept = Disk(base(a=b"old", b=b"two")), list(START)
    for operation in START:
        disk.apply(operation)
    for operation in drawn:
        one: Operation = operation
        if isinstance(one, Rename):
            inode = disk.folder(one.source_directory).entries.get(one.source)
            there = disk.folder(one.target_directory).entries.get(one.target)
            if inode is None or inode == there:
                continue
            one = Rename(one.source_directory, one.source, one.target_directory, one.target, inode)
        if isinstance(one, Entry) and one.name in disk.folder(one.directory).entries:
            continue
        if isinstance(one, Removal) and one.name not in disk.folder(one.directory).entries:
            continue
        disk.apply(one)
        kept.append(one)
    return kept


operations = st.lists(_one, max_size=9).map(_sensible)


def _cache(model: Model, done: Sequence[Operation]) -> Cache:
    return fed(model, done, on=base(a=b"old", b=b"two"))


def _all(model: Model, done: Sequence[Operation]) -> set[Found] | None:
    cache = _cache(model, done)
    tried = choices(cache, cap=3000)
    return {found(cache.tree(lost)) for lost in tried.lost} if tried.is_exhaustive else None


@settings(max_examples=150)
@given(done=operations)
def test_each_model_permits_all_that_the_stricter_one_does(done: Sequence[Operation]) -> None:
    """F2, F3: the disks of journal are among those of posix, weak, and alice, in this order.

    Method: drawn operations; compare all disks of neighbouring models.
    """
    for stricter, weaker in pairwise((JOURNAL, POSIX, WEAK, ALICE)):
        few_disks, more = _all(stricter, done), _all(weaker, done)
        if few_disks is None or more is None:
            return
        extra = few_disks - more
        check(not extra, f"{stricter.name} permits what {weaker.name} does not: {extra}")


@settings(max_examples=150)
@given(done=operations)
def test_nothing_lost_is_what_processes_saw_and_always_tried(done: Sequence[Operation]) -> None:
    """A crash need not lose anything, and may lose everything that is pending.

    Method: drawn operations; compare with a disk that no power was taken from.
    """
    disk = Disk(base(a=b"old", b=b"two"))
    for operation in done:
        disk.apply(operation)
    for model in MODELS:
        cache = _cache(model, done)
        check_equal(found(cache.tree(EVERYTHING)), found(disk.tree()), model.name)
        tried = choices(cache, cap=3000)
        none = found(cache.tree(tuple((one.number, 0) for one in cache.open)))
        check_equal(tried.lost[0], EVERYTHING, "the first that is tried")
        check(none in {found(cache.tree(lost)) for lost in tried.lost}, "all lost is tried")


@settings(max_examples=150)
@given(done=operations)
def test_what_was_synced_is_never_lost(done: Sequence[Operation]) -> None:
    """G1: once everything was synced, and no sync failed, one disk is left.

    Method: drawn operations without failures, then a sync of every inode.
    """
    whole = [one for one in done if not isinstance(one, SyncFailed)]
    whole += [Sync(inode) for inode in (*FILES, *FOLDERS)]
    for model in MODELS:
        cache = _cache(model, whole)
        check_equal(cache.open, [], f"what {model.name} may still lose")
        check_equal(choices(cache).lost, (EVERYTHING,), "disks")


@settings(max_examples=150)
@given(done=operations, cut=st.integers(0, 12))
def test_what_is_durable_stays_durable(done: Sequence[Operation], cut: int) -> None:
    """G1: no later operation makes a change uncertain that was sure.

    Method: drawn operations; what is open behind them and was made before a cut was open there.
    """
    for model in MODELS:
        before = {one.number for one in _cache(model, done[:cut]).open}
        made = _cache(model, done[:cut]).changes
        after = {one.number for one in _cache(model, done).open}
        unsure = {number for number in after if number < made} - before
        check(not unsure, f"{model.name} makes {unsure} unsure again")


@settings(max_examples=100)
@given(done=operations)
def test_every_disk_that_is_tried_is_permitted_and_none_twice(done: Sequence[Operation]) -> None:
    """The order of a journal is kept in whole sets, in few, and in samples.

    Method: drawn operations; check each choice, with a cap that forces a sample, too.
    """
    for model in MODELS:
        cache = _cache(model, done)
        for cap in (3000, 10):
            tried = choices(cache, seed="7", cap=cap)
            check_equal(len(set(tried.lost)), len(tried.lost), "choices that come twice")
            wrong = [lost for lost in tried.lost if not is_permitted(cache, lost)]
            check_equal(wrong, [], f"choices that {model.name} forbids")
            check(set(few(cache)) <= set(tried.lost) or tried.is_exhaustive, "few are always tried")
            check(tried.drawn.isdisjoint(few(cache)), "drawn ones are not among the few")


@settings(max_examples=60)
@given(done=operations)
def test_few_are_among_all(done: Sequence[Operation]) -> None:
    """None lost, all lost, one lost, one kept: each of those disks is one of the whole set.

    Method: drawn operations; compare disks, not choices, since a lost name hides its bytes.
    """
    for model in MODELS:
        everything = _all(model, done)
        if everything is None:
            return
        cache = _cache(model, done)
        few_disks = {found(cache.tree(lost)) for lost in few(cache)}
        check(few_disks <= everything, f"{model.name}: {few_disks - everything}")


SAMPLE: Final = """
from tests.injection.disks import created, fed
from fault_injection.power.choices import choices
from fault_injection.power.rules import MODELS
done = [one for inode in range(2, 12) for one in created(inode, f"n{inode}", b"x" * 9000)]
for model in MODELS:
    cache = fed(model, done, tearing="sector")
    tried = choices(cache, seed="3", cap=500)
    print(model.name, len(tried.lost), tried.is_exhaustive)
    for lost in tried.lost:
        print(lost, cache.tree(lost).digest())
"""


@pytest.mark.slow
def test_a_sample_is_the_same_in_every_process() -> None:
    """The same seed gives the same disks, whatever a process hashes by.

    Method: two processes with other hash seeds print a sample of ten unsynced files.
    """
    said = []
    for seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", SAMPLE], cwd=REPOSITORY, capture_output=True, text=True,
            check=True, timeout=100, env={"PYTHONHASHSEED": seed, "PYTHONPATH": "src"},
        )  # fmt: skip
        said.append(ran.stdout)
    check_equal(said[0] == said[1], True, "the same output")
    check("weak 500 False" in said[0], said[0][:200])
