"""``confirm_newest`` on a disk: one look, at the very file that this handle's swap published."""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.errors import (
    DamagedError,
    DurabilityUnknownError,
    FencedError,
    LastgoodError,
    LimitError,
    StorageError,
    UsageError,
)
from lastgood.formats.limits import Limits
from lastgood.storage.posix import PosixRoot, PosixStorage
from tests.crash.seam import Seam, once, system
from tests.storage.places import SESSION, descriptors, none_leaked, open_session, temporaries
from tests.support.check import check, check_equal
from tests.support.faulty import Calls, Fault, Repeats, When, faulty, system_error

POINTER = "manifest.json"


def held_inodes(before: set[str]) -> set[int]:
    """The inodes of what this process has open beyond ``before``."""
    return {os.fstat(int(fd)).st_ino for fd in descriptors() - before}


def test_confirming_is_one_call_however_full_the_directory_is(tmp_path: Path) -> None:
    """Design 8: asked before and after each write of the log, so it must not list anything.

    Method: record the calls in a session with 3 and with 500 names.
    """
    calls = Calls()
    session = open_session(tmp_path, filesystem=faulty(calls))
    session.swap([b"1"], expected=0)
    for number in range(2):
        calls.begin()
        session.confirm_newest(1)
        check_equal(calls.subjects, [f"stat {POINTER}"], "calls")
        for name in range(500 * (1 - number)):
            (tmp_path / SESSION / f"foreign-{name}").touch()
    session.close()


def test_what_a_swap_published_is_held_until_the_next(tmp_path: Path) -> None:
    """T11: an inode that is held is given to nobody, so no other pointer can look like ours.

    Method: another owner moves on and prunes our revision; ours is held still. Then our next
    swap and close give it back. Descriptors are closed on exec.
    """
    before = descriptors()
    session = open_session(tmp_path)
    other = open_session(tmp_path)
    opened = descriptors()
    session.swap([b"1"], expected=0)
    inode = (tmp_path / SESSION / POINTER).stat().st_ino
    check_equal(held_inodes(opened), {inode}, "held after a swap")
    for fd in descriptors() - opened:
        check(not os.get_inheritable(int(fd)), f"a program inherits {fd}")
    for expected in range(1, 4):
        other.swap([b"%d" % (expected + 1)], expected=expected)
        other.delete(f"manifest-{expected:06d}.json")
    other.close()
    check(inode in held_inodes(before), "our revision is held no longer")
    for number in range(300):
        path = tmp_path / SESSION / f"foreign-{number}"
        path.touch()
        check(path.stat().st_ino != inode, "its number was given to another file")
        path.unlink()
    with pytest.raises(FencedError):
        session.confirm_newest(1)
    session.swap([b"5"], expected=4)
    session.confirm_newest(5)
    check(inode not in held_inodes(before), "our first revision is held for ever")
    session.close()
    check_equal(held_inodes(before), set(), "held after close")


def test_many_swaps_hold_one_file(tmp_path: Path) -> None:
    """C5-04: a long session does not run out of descriptors; nor does the store's root.

    Method: 50 swaps of a session, and of the root's records, which confirm nothing.
    """
    root = PosixRoot(tmp_path)
    session = root.session(SESSION, access="write")
    records = root.records()
    session.swap([b"1"], expected=0)
    records.swap([b"1"], expected=0)
    before = len(descriptors())
    for expected in range(1, 50):
        session.swap([b"x"], expected=expected)
        records.swap([b"x"], expected=expected)
        session.confirm_newest(expected + 1)
        check_equal(len(descriptors()), before, "descriptors")
    session.close()
    root.close()


Replace = Callable[[Path], None]


def _by_a_copy(pointer: Path) -> None:
    shutil.copy2(pointer, pointer.with_name("copy"))
    os.rename(pointer.with_name("copy"), pointer)


def _by_a_link_to_its_number(pointer: Path) -> None:
    pointer.unlink()
    pointer.symlink_to("manifest-000001.json")


def _by_nothing(pointer: Path) -> None:
    pointer.unlink()


def _by_a_directory(pointer: Path) -> None:
    pointer.unlink()
    pointer.mkdir(0o700)


def _by_a_fifo(pointer: Path) -> None:
    pointer.unlink()
    os.mkfifo(pointer)


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "replace", [_by_a_copy, _by_a_link_to_its_number, _by_nothing, _by_a_directory, _by_a_fifo]
)
def test_a_pointer_that_was_replaced_is_not_ours(tmp_path: Path, replace: Replace) -> None:
    """T7, T11: the same bytes are not enough; what stands there is neither opened nor followed."""
    session = open_session(tmp_path)
    session.swap([b"1"], expected=0)
    session.confirm_newest(1)
    replace(tmp_path / SESSION / POINTER)
    for _ in range(2):
        with pytest.raises(FencedError):
            session.confirm_newest(1)
    session.close()


def test_a_rename_back_to_our_own_file_is_ours(tmp_path: Path) -> None:
    """R4: whoever finishes our swap moves the pointer to our file; no false alarm (G8).

    Method: the pointer goes, and another handle settles it from the number.
    """
    session = open_session(tmp_path)
    session.swap([b"1"], expected=0)
    (tmp_path / SESSION / POINTER).unlink()
    other = open_session(tmp_path)
    other.settle(1, number_missing=False, pointer_behind=True)
    other.close()
    session.confirm_newest(1)
    session.close()


def test_a_claim_whose_pointer_did_not_move_yet_may_pass(tmp_path: Path) -> None:
    """T11: the border is the pointer's move, after which the newer owner reads the log again.

    Method: confirm right before, and right after, another owner's rename.
    """
    session = open_session(tmp_path)
    session.swap([b"1"], expected=0)
    seam = Seam()
    other = open_session(tmp_path, filesystem=system(seam))
    seam.begin(once("rename", lambda: session.confirm_newest(1)))
    other.swap([b"2"], expected=1)
    check("rename" in " ".join(seam.made), "the other owner never moved the pointer")
    with pytest.raises(FencedError):
        session.confirm_newest(1)
    other.close()
    session.close()


@pytest.mark.parametrize("number", [errno.EIO, errno.EACCES, errno.ESTALE, errno.EINTR])
def test_a_look_that_fails_is_no_verdict(tmp_path: Path, number: int) -> None:
    """Style 7: what cannot be known is neither confirmed nor called fenced; the next look tells.

    Method: the stat fails once.
    """
    calls = Calls()
    session = open_session(tmp_path, filesystem=faulty(calls))
    session.swap([b"1"], expected=0)
    calls.begin(Fault(0, system_error(number)))
    with pytest.raises(StorageError) as raised:
        session.confirm_newest(1)
    check_equal(type(raised.value), StorageError, str(raised.value))
    check_equal(raised.value.errno, number, "the errno")
    session.confirm_newest(1)
    calls.begin()
    session.close()


def swapped(place: Path, calls: Calls) -> PosixStorage:
    session = open_session(place, filesystem=faulty(calls))
    session.swap([b"1"], expected=0)
    return session


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC])
def test_a_swap_that_failed_confirms_only_what_is_still_true(tmp_path: Path, number: int) -> None:
    """T11, P4: nothing took effect: the revision before is ours still; unknown: none is.

    Method: each call of the second swap fails, once and for ever, not executed and executed.
    """
    calls = Calls()
    session = swapped(tmp_path / "clean", calls)
    calls.begin()
    session.swap([b"2"], expected=1)
    made = list(calls.made)
    session.close()
    whens: list[When] = ["instead", "after"]
    repeats: list[Repeats] = ["once", "for ever"]
    seen = set()
    for at, when, again in itertools.product(range(len(made) - 1), whens, repeats):
        context = f"call {at} ({made[at]}) fails {again}, {when} it is executed"
        calls = Calls()
        session = swapped(tmp_path / f"{at}{when}{again}", calls)
        calls.begin(Fault(at, system_error(number), when=when, repeats=again))
        with pytest.raises(StorageError) as raised:
            session.swap([b"2"], expected=1)
        calls.begin()
        seen.add(type(raised.value))
        if type(raised.value) is DurabilityUnknownError:
            for revision in (1, 2):
                with pytest.raises(FencedError, match="did not come to its end"):
                    session.confirm_newest(revision)
        else:
            session.confirm_newest(1)
            with pytest.raises(UsageError):
                session.confirm_newest(2)
        _check_goes_on(session, context)
    check_equal(seen, {StorageError, DurabilityUnknownError}, "errors")


def _check_goes_on(session: PosixStorage, context: str) -> None:
    """The handle settles what its swap left, as R1 to R4 do, and is confirmed again."""
    newest = len(session.list("manifest-"))
    behind = session.read(POINTER, max_bytes=9) != b"%d" % newest
    session.settle(newest, number_missing=False, pointer_behind=behind)
    check_equal(session.swap([b"next"], expected=newest), newest + 1, context)
    session.confirm_newest(newest + 1)
    session.close()


def test_an_interrupted_swap_confirms_nothing(tmp_path: Path) -> None:
    """C7-06: after Ctrl-C nobody knows, so the log is not written before the session is settled.

    Method: KeyboardInterrupt at each call up to the last fsync; nothing leaks.
    """
    calls = Calls()
    session = swapped(tmp_path / "clean", calls)
    calls.begin()
    session.swap([b"2"], expected=1)
    made = list(calls.made)
    session.close()
    for at in range(len(made) - 1):
        context = f"interrupted at call {at} ({made[at]})"
        calls = Calls()
        with none_leaked(context):
            session = swapped(tmp_path / str(at), calls)
            calls.begin(Fault(at, KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                session.swap([b"2"], expected=1)
            calls.begin()
            with pytest.raises(FencedError):
                session.confirm_newest(1)
            session.close()


def test_a_swap_for_which_there_is_no_room_fences_nobody(tmp_path: Path) -> None:
    """T8: a refusal before anything was written leaves the revision before confirmed.

    Method: a directory at its limit.
    """
    root = PosixRoot(tmp_path, limits=Limits(directory_entries=20))
    session = root.session(SESSION, access="write")
    session.swap([b"1"], expected=0)
    for number in range(9):
        (tmp_path / SESSION / f"foreign-{number}").touch()
    with pytest.raises(LimitError):
        session.swap([b"2"], expected=1)
    session.confirm_newest(1)
    session.close()
    root.close()


@pytest.mark.parametrize("what", ["swept", "linked", "replaced by a link"])
def test_a_manifest_that_changes_before_its_claim_claims_nothing(tmp_path: Path, what: str) -> None:
    """F13, T7: the file that is held is the file that gets the name, or there is no claim.

    Method: right before the second open of the temporary it goes, gets a name outside, or is
    replaced.
    """
    seam = Seam()
    session = open_session(tmp_path / "store", filesystem=system(seam))
    session.swap([b"1"], expected=0)
    opened = 0

    def hook(number: int, made: str) -> None:
        nonlocal opened
        opened += made.startswith("open .manifest")
        if opened == 2:
            seam.before = None
            (path,) = (tmp_path / "store" / SESSION).glob(".*.tmp")
            if what == "linked":
                os.link(path, tmp_path / "outside")
                return
            path.unlink()
            if what != "swept":
                path.symlink_to(tmp_path / "outside")

    seam.begin(hook)
    expected: type[LastgoodError] = FencedError if what == "swept" else DamagedError
    with none_leaked(what), pytest.raises(expected):
        session.swap([b"2"], expected=1)
    check_equal(session.list("manifest-"), ("manifest-000001.json",), "revisions")
    check_equal(session.read(POINTER, max_bytes=9), b"1", "the pointer")
    check_equal(temporaries(tmp_path / "store"), [], "temporaries")
    session.close()
