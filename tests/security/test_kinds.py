"""T7, C11-02: whatever stands in place of a file, nothing outside is read or written.

Method of all: the final store on a disk, one name of it replaced; a reader and a writer open
it. Neither believes anything, hangs, or changes a name, mode, mtime or byte, inside or outside.
"""

from __future__ import annotations

import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood import CheckpointStore, LastgoodError
from lastgood.errors import StorageError
from tests.storage.places import in_child
from tests.support import trees
from tests.support.check import check, check_equal
from tests.support.require import missing, require_unprivileged_user

pytestmark = pytest.mark.timeout(30)

PATHS = [trees.STORE, *(f"nightly/{name}" for name in trees.FILES)]
LOCK = "nightly/lock"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The final store, on a disk, with locks; ``outside`` beside it is a directory of ours."""
    (tmp_path / "outside").mkdir(0o700)
    return trees.plant(trees.final(), tmp_path / "store")


def named(place: Path, path: str) -> Path:
    """Where a path of a tree lies on the disk."""
    session, _, name = path.rpartition("/")
    return place / (trees.directory(session) if session else "") / name


def writer_says(place: Path) -> LastgoodError | None:
    """What a writer's opening raises; None if it opens."""
    try:
        CheckpointStore(place, "nightly", keys=trees.KEYS, clock=trees.SteadyClock()).close()
    except LastgoodError as error:
        return error
    return None


def refused(place: Path, what: str, *, codes: tuple[int, ...] = (2, 3, 4, 5)) -> None:
    """Fail unless reader and writer refuse the store and leave all of it as it is."""
    before = trees.picture(place.parent)
    outcome = trees.read(place)
    check(outcome.error is not None, f"{what}: {outcome.says()}")
    check(outcome.reported in codes, f"{what}: {outcome.says()}")
    trees.check_untouched(place.parent, before, f"{what}: after reading")
    error = writer_says(place)
    check(error is not None and error.exit_code in codes, f"{what}: a writer says {error}")
    trees.check_untouched(place.parent, before, f"{what}: after a refused opening")


def _symlink_outside(target: Path, copy: Path) -> None:
    target.rename(copy)
    target.symlink_to(copy)


def _symlink_inside(target: Path, copy: Path) -> None:
    target.rename(target.with_name("kept"))
    target.symlink_to("kept")


def _dangling(target: Path, copy: Path) -> None:
    target.unlink()
    target.symlink_to(copy)


def _linked_from_outside(target: Path, copy: Path) -> None:
    os.link(target, copy)


def _linked_to_outside(target: Path, copy: Path) -> None:
    shutil.copy2(target, copy)
    target.unlink()
    os.link(copy, target)


def _fifo(target: Path, copy: Path) -> None:
    target.unlink()
    os.mkfifo(target, 0o600)


def _directory(target: Path, copy: Path) -> None:
    target.unlink()
    target.mkdir(0o700)


def _socket(target: Path, copy: Path) -> None:
    target.unlink()
    here = os.getcwd()
    os.chdir(target.parent)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(target.name)
    finally:
        os.chdir(here)
    target.chmod(0o600)


PLANTS = [
    _symlink_outside, _symlink_inside, _dangling, _linked_from_outside, _linked_to_outside, _fifo,
    _directory, _socket,
]  # fmt: skip
Plant = Callable[[Path, Path], None]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__.strip("_"))
def test_file_of_another_kind_is_refused_and_nothing_is_touched(
    place: Path, path: str, plant: Plant
) -> None:
    """T7: a link, even to the very same bytes, a FIFO, directory or socket is no record.

    Method: each kind in place of each file.
    """
    plant(named(place, path), place.parent / "outside" / "copy")
    refused(place, f"{path} as {plant.__name__}")


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.__name__.strip("_"))
def test_lock_of_another_kind_stops_the_writer_and_nothing_is_touched(
    place: Path, plant: Plant
) -> None:
    """T7: the lock is never followed, truncated or unlinked; readers do not need it.

    Method: each kind in place of the lock; the reader loads, the writer is refused.
    """
    plant(named(place, LOCK), place.parent / "outside" / "copy")
    before = trees.picture(place.parent)
    outcome = trees.read(place)
    check(outcome.loaded is not None and outcome.error is None, outcome.says())
    error = writer_says(place)
    check(error is not None and error.exit_code == 2, f"a writer says {error}")
    trees.check_untouched(place.parent, before, "after both")


@pytest.mark.needs_root
@pytest.mark.parametrize("path", PATHS)
def test_device_in_place_of_a_file_is_refused(place: Path, path: str) -> None:
    """T7: a device is no record, and it is not read from.

    Method: the null device's numbers under each name.
    """
    target = named(place, path)
    target.unlink()
    try:
        os.mknod(target, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        missing("devices cannot be made here", remedy="run with the capability CAP_MKNOD")
    refused(place, f"{path} as a device")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o666, 0o4600, 0o2600, 0o1600])
def test_file_with_a_mode_that_no_writer_gives_is_refused(
    place: Path, path: str, mode: int
) -> None:
    """C14-05: a file that others may read, change or run as its owner is not believed (exit 2).

    Method: each mode on each file.
    """
    named(place, path).chmod(mode)
    refused(place, f"{path} with mode {mode:04o}", codes=(2,))


@pytest.mark.needs_root
@pytest.mark.parametrize("path", PATHS)
def test_file_of_another_owner_is_refused(place: Path, path: str) -> None:
    """T7: a file that does not belong to its directory's owner is not believed, not by root.

    Method: each file given away.
    """
    user = require_unprivileged_user()
    os.chown(named(place, path), user.pw_uid, user.pw_gid)
    refused(place, f"{path} of another owner", codes=(2,))


@pytest.mark.needs_unprivileged_user
@pytest.mark.parametrize("path", PATHS)
def test_unreadable_file_is_an_error_of_its_own_never_a_missing_one(path: str) -> None:
    """Design 6: cannot read is never not there: StorageError (exit 8), and nothing starts.

    Method: an unprivileged user owns a store in which one file has mode 0000.
    """
    user = require_unprivileged_user()
    top = Path("/tmp") / f"lastgood-unreadable-{os.getpid()}"
    top.mkdir(0o755)
    try:
        place = trees.plant(trees.final(), top / "store")
        for found in [place, *place.rglob("*")]:
            os.chown(found, user.pw_uid, user.pw_gid)
        named(place, path).chmod(0)

        def look() -> None:
            os.setgroups([])
            os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
            os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
            outcome = trees.read(place)
            check(isinstance(outcome.error, StorageError), outcome.says())
            check_equal(outcome.reported, 8, outcome.says())
            error = writer_says(place)
            check(isinstance(error, StorageError) and error.exit_code == 8, f"writer: {error}")

        check_equal(in_child(look), "returned", path)
    finally:
        shutil.rmtree(top)
