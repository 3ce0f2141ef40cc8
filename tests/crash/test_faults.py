"""Every call of opening and saving fails, in every way, and the outcome is told rightly.

Before S4's link takes effect nothing has changed on the disk and the error is definite. From
then on the outcome is unknown, either loads, and the same save again settles it, on the same
handle and on a new one. In S9 the save stands, with a warning. Opening is told by a typed error,
and the next opening finishes what it left.
"""

from __future__ import annotations

import errno
import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from lastgood.checkpoints import CheckpointStore
from lastgood.errors import (
    DurabilityUnknownError,
    LastgoodError,
    LockedError,
    NotStoredError,
    StorageError,
)
from lastgood.formats.limits import Limits
from lastgood.saving import SaveReceipt
from lastgood.storage.posix import PosixRoot
from tests.crash.scenes import (
    KEYS,
    SESSION,
    Believed,
    Outcome,
    Scenes,
    believed,
    check_settled,
    checkpoint,
    clone,
    latest,
    outcome,
    snapshot,
    told,
    writer,
)
from tests.support.check import check, check_equal
from tests.support.faulty import Calls, Fault, Repeats, When, faulty, system_error

ANY_CALL: Final = (
    errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EINTR, errno.EROFS, errno.EMFILE, errno.EACCES,
)  # fmt: skip
ONLY: Final = {
    errno.EPERM: ("link",), errno.EMLINK: ("link",), errno.ENOSYS: ("link",),
    errno.EXDEV: ("link", "rename"), errno.EBUSY: ("rename",),
}  # fmt: skip
NUMBERS: Final = (*ANY_CALL, *ONLY)
WAYS: Final[tuple[tuple[Repeats, When], ...]] = tuple(
    itertools.product(("once", "for ever"), ("instead", "after"))
)

_ROOTS: list[tuple[PosixRoot, Calls]] = []


def opened(place: Path, calls: Calls) -> CheckpointStore:
    """Open the session for writing on a file system that fails as ``calls`` says."""
    root = PosixRoot(place, filesystem=faulty(calls))
    _ROOTS.append((root, calls))
    return CheckpointStore(root, SESSION, keys=KEYS, limits=Limits(lock_wait_s=0.01))


@pytest.fixture(autouse=True)
def _roots_are_given_back() -> Iterator[None]:
    """A root belongs to who made it; a thousand cases would use up the descriptors."""
    yield
    while _ROOTS:
        root, calls = _ROOTS.pop()
        calls.begin()
        root.close()


def faults(made: list[str], number: int) -> Iterator[tuple[Fault, str]]:
    """Every way in which one of the calls in ``made`` can fail with ``number``."""
    for at, name in enumerate(made):
        if number in ONLY and name not in ONLY[number]:
            continue
        for repeats, when in WAYS:
            fault = Fault(at, system_error(number), when=when, repeats=repeats)
            yield fault, f"{errno.errorcode[number]} {repeats}, {when} call {at} ({name})"


def calls_of_save(scenes: Scenes, scene: str) -> list[str]:
    """The calls of the next save when nothing fails."""
    calls = Calls()
    with scenes.copy(scene) as place, opened(place, calls) as store:
        sequence = believed(store.load_latest())[0] + 10
        calls.begin()
        store.save(checkpoint(sequence))
        return list(calls.made)


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("scene", "number"),
    [*(("three", number) for number in NUMBERS), ("new", errno.EIO), ("new", errno.EXDEV)],
    ids=str,
)
def test_a_save_in_which_any_call_fails_is_told_rightly(
    scenes: Scenes, scene: str, number: int
) -> None:
    """F5 to F9: definite before S4's link, unknown from it on, a warning in S9.

    Method: fail each call of a save, once and for ever, not executed and executed.
    """
    made = calls_of_save(scenes, scene)
    count = 0
    for fault, way in faults(made, number):
        with scenes.copy(scene) as place:
            _check_faulty_save(place, fault, made, f"{scene}: {way}")
        count += 1
    check(count >= 4, f"{count} faults")


def _check_faulty_save(place: Path, fault: Fault, made: list[str], context: str) -> None:
    calls = Calls()
    store = opened(place, calls)
    before = believed(store.load_latest())
    new = checkpoint(before[0] + 10)
    untouched = snapshot(place)
    calls.begin(fault)
    came = outcome(lambda: store.save(new))
    calls.fault = None
    check(bool(calls.failed), f"{context}: the fault never came")
    check(not calls.synced_again, f"{context}: fsynced again after an error (C6-04)")
    link, committed = made.index("link"), len(made) - made[::-1].index("fsync") - 1
    if fault.at < link or (fault.at == link and fault.when == "instead"):
        _check_nothing_happened(place, came, untouched, context)
        check_equal(latest(place), before, f"{context}: what is believed")
    elif fault.at <= committed and not isinstance(came, SaveReceipt):
        check_equal(type(came), DurabilityUnknownError, f"{context}: {came}")
        check(latest(place) in (before, (new.sequence, "owner")), f"{context}: neither is believed")
        _check_repeated_by_another(place, new.sequence, context)
    else:
        _check_saved(came, fault, made, committed, context)
    _check_repeated(store, place, new.sequence, context)


def _check_nothing_happened(
    place: Path, came: Outcome, untouched: dict[str, tuple[int, bytes]], context: str
) -> None:
    check_equal(type(came), StorageError, f"{context}: {came}")
    check_equal(snapshot(place), untouched, f"{context}: what lies on the disk")


def _check_saved(
    came: Outcome, fault: Fault, made: list[str], committed: int, context: str
) -> None:
    """It stands; only what nobody wrote through may fail unseen."""
    check(isinstance(came, SaveReceipt), f"{context}: it came out as {came!r}")
    if isinstance(came, SaveReceipt):
        check_equal(came.status, "saved", f"{context}: status")
        unseen = made[fault.at] == "close"
        check(unseen or fault.at > committed, f"{context}: an error was swallowed")
        check_equal(bool(came.warnings), not unseen, f"{context}: warnings {came.warnings}")


def _check_repeated_by_another(place: Path, sequence: int, context: str) -> None:
    """The next owner settles it, and the same save gives the receipt (on a copy)."""
    copied = place.with_name(f"{place.name}-other")
    clone(place, copied)
    with writer(copied) as store:
        _check_repeated(store, copied, sequence, f"{context}, after reopening")
    shutil.rmtree(copied)


def _check_repeated(store: CheckpointStore, place: Path, sequence: int, context: str) -> None:
    """The same save gives the receipt, the next one works, and everything is settled."""
    for number in (sequence, sequence + 10, sequence + 20):
        came = told(store, number)
        status = came.status if isinstance(came, SaveReceipt) else repr(came)
        check(status in ("saved", "unchanged"), f"{context}: save of {number} came out as {status}")
    store.close()
    check_settled(place, (sequence + 20, "owner"), context)


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("scene", "number"),
    [
        *(("three", number) for number in NUMBERS),
        *((scene, errno.EIO) for scene in ("absent", "published", "claimed")),
    ],
    ids=str,
)
def test_an_opening_in_which_any_call_fails_is_told_rightly(
    scenes: Scenes, scene: str, number: int
) -> None:
    """F5 to F10: a typed error or an owned session; what was good stays good.

    Method: fail each call of an opening; of one that makes everything, and of those that adopt.
    """
    calls = Calls()
    with scenes.copy(scene) as place:
        opened(place, calls).close()
    for fault, way in faults(list(calls.made), number):
        with scenes.copy(scene) as place:
            _check_faulty_opening(place, fault, Scenes.BELIEVED[scene], f"{scene}: {way}")


def _check_faulty_opening(place: Path, fault: Fault, expected: Believed, context: str) -> None:
    calls = Calls()
    calls.begin(fault)
    try:
        store = opened(place, calls)
    except LastgoodError as error:
        allowed = isinstance(error, StorageError) and not isinstance(error, NotStoredError)
        allowed = allowed or (isinstance(error, LockedError) and "flock" in calls.failed)
        check(allowed, f"{context}: it came out as {error!r}: {error}")
        store = writer(place)
    calls.fault = None
    with store:
        check_equal(believed(store.load_latest()), expected, f"{context}: what is believed")
        for sequence in (expected[0] + 10, expected[0] + 20):
            came = told(store, sequence)
            check(isinstance(came, SaveReceipt), f"{context}: the next save came out as {came!r}")
    check_settled(place, (expected[0] + 20, "owner"), context)


@pytest.mark.parametrize("longest_bytes", [1, 7, 512])
def test_short_writes_are_gone_on_with(scenes: Scenes, longest_bytes: int) -> None:
    """F8: a write that takes fewer bytes than asked changes nothing of what is stored.

    Method: cut every write to a few bytes, then save and read back.
    """
    calls = Calls(longest_write_bytes=longest_bytes)
    with scenes.copy("three") as place:
        with opened(place, calls) as store:
            for sequence in (40, 50):
                came = told(store, sequence)
                check(isinstance(came, SaveReceipt), f"save of {sequence} came out as {came!r}")
        check(calls.made.count("writev") > 6, "no write was cut")
        check_settled(place, (50, "owner"), f"writes of {longest_bytes} bytes")


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.timeout(600)
@pytest.mark.parametrize("scene", ["three", "published"])
def test_a_reading_in_which_any_call_fails_never_gives_less(scenes: Scenes, scene: str) -> None:
    """G3, F6: the newest, or a typed I/O error; cannot read is never not there.

    Method: fail each call of load and of check, once and for ever; compare with the truth.
    """
    expected = Scenes.BELIEVED[scene]
    with scenes.copy(scene) as place:
        calls = Calls()
        made = _read(place, calls, Fault(-1, system_error(errno.EIO)), expected, scene)
        for fault, way in faults(made, errno.EIO):
            _read(place, calls, fault, expected, f"{scene}: {way}")


def _read(place: Path, calls: Calls, fault: Fault, expected: Believed, context: str) -> list[str]:
    """Load and check under ``fault``; returns the calls that were made."""
    calls.begin(fault)
    try:
        root = PosixRoot(place, filesystem=faulty(calls))
        with CheckpointStore(root, SESSION, keys=KEYS, mode="read") as store:
            check_equal(believed(store.load_latest()), expected, f"{context}: loaded")
            report = store.check()
            if report.error is None:
                current = report.selection.current if report.selection else None
                check(current and current.sequence == expected[0], f"{context}: {report}")
            else:
                check_equal(report.error.exit_code, 8, f"{context}: {report.error}")
    except LastgoodError as error:
        definite = isinstance(error, StorageError) and not isinstance(error, NotStoredError)
        check(definite, f"{context}: it came out as {error!r}: {error}")
    finally:
        made = list(calls.made)
        calls.fault = None
        root.close()
    return made
