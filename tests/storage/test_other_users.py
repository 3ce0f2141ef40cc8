"""What root may always do is tested as somebody else, and what root may do, as root."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from lastgood.errors import DamagedError, StorageError
from lastgood.storage.interface import Access
from lastgood.storage.posix import PosixStorage
from tests.storage.places import SESSION, in_child, open_session, picture
from tests.support.check import check, check_equal
from tests.support.require import require_unprivileged_user

pytestmark = pytest.mark.needs_unprivileged_user


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that the unprivileged user can reach and owns."""
    user = require_unprivileged_user()
    made = Path(tempfile.mkdtemp(prefix="lastgood-"))
    os.chown(made, user.pw_uid, user.pw_gid)
    try:
        yield made
    finally:
        shutil.rmtree(made)


def unprivileged(work: Callable[[], object]) -> str:
    """What a child of the unprivileged user says of ``work``."""
    user = require_unprivileged_user()

    def become_and_work() -> None:
        os.setgroups([])
        os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
        os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
        work()

    return in_child(become_and_work)


def make_store(place: Path) -> None:
    """A session with one record, of the unprivileged user."""

    def make() -> None:
        session = open_session(place / "store")
        session.swap([b"1"], expected=0)
        session.create("name", [b"x"])

    check_equal(unprivileged(make), "returned", "making the store")


def read_one(store: Path, name: str) -> bytes:
    """The content of one file in the session."""
    return open_session(store).read(name, max_bytes=9)


def refused(work: Callable[[PosixStorage], object], number: int, place: Path) -> None:
    """Fail unless ``work`` is a definite StorageError of ``number`` for the unprivileged user."""

    def try_it() -> None:
        session = open_session(place / "store")
        try:
            work(session)
        except StorageError as error:
            check_equal(type(error), StorageError, str(error))
            check_equal(error.errno, number, "the errno")
        else:
            raise AssertionError("it returned")

    check_equal(unprivileged(try_it), "returned", "the child")


def test_an_unreadable_file_is_never_taken_for_a_missing_one(place: Path) -> None:
    """Design 6: cannot read is never not there; the error says so and names the modes.

    Method: a file of mode 0000.
    """
    make_store(place)
    (place / "store" / SESSION / "name").chmod(0)
    refused(lambda session: session.read("name", max_bytes=9), errno.EACCES, place)
    refused(lambda session: list(session.stream("name", max_bytes=9)), errno.EACCES, place)


def test_a_directory_that_cannot_be_written_to_loses_nothing(place: Path) -> None:
    """C14-02: EACCES is not retried and nothing is deleted to make room.

    Method: a session directory of mode 0500.
    """
    make_store(place)
    directory = place / "store" / SESSION
    directory.chmod(0o500)
    before = picture(directory)
    for work in (
        lambda session: session.create("other", [b"y"]),
        lambda session: session.swap([b"2"], expected=1),
        lambda session: session.delete("name"),
        lambda session: session.archive("name"),
        lambda session: session.acquire(timeout_s=0),
    ):
        refused(work, errno.EACCES, place)
        check_equal(picture(directory), before, "the directory")


def test_a_directory_that_cannot_be_listed_is_never_empty(place: Path) -> None:
    """P5: nothing is reported in place of what cannot be read.

    Method: a session directory of mode 0300, and one below a root that cannot be entered.
    """
    make_store(place)
    for path in (place / "store" / SESSION, place / "store"):
        path.chmod(0o300)

        def look() -> None:
            try:
                open_session(place / "store", access="read").list()
            except StorageError as error:
                check_equal(error.errno, errno.EACCES, str(error))
            else:
                raise AssertionError("it returned")

        check_equal(unprivileged(look), "returned", f"a child looking at {path.name}")
        path.chmod(0o700)


def test_what_belongs_to_somebody_else_is_refused(place: Path) -> None:
    """T7: a file, a session or a store of another user is damage, even where modes would do.

    Method: root owns one of them in a store of the unprivileged user.
    """
    make_store(place)
    user = require_unprivileged_user()
    store = place / "store"
    for path, work in (
        (store / SESSION / "name", lambda session: session.read("name", max_bytes=9)),
        (store / SESSION / "manifest.json", lambda session: session.rewrite("manifest.json", b"1")),
    ):
        os.chown(path, 0, 0)
        path.chmod(0o600)

        def touch(work: Callable[[PosixStorage], object] = work) -> None:
            work(open_session(store))

        said = unprivileged(touch)
        # Its mode lets nobody else open it; with a wider one the owner alone would be refused.
        check(said.startswith("StorageError") and "EACCES" in said, f"{path.name}: {said}")
        path.chmod(0o604)
        said = unprivileged(partial(read_one, store, path.name))
        check(said.startswith("DamagedError") and "belongs to user 0" in said, said)
        os.chown(path, user.pw_uid, user.pw_gid)
        path.chmod(0o600)


@pytest.mark.parametrize("access", ["read", "write"])
def test_root_reads_a_users_store_and_never_writes_it(place: Path, access: Access) -> None:
    """Design 4: root may look at what belongs to one user throughout; a write is refused.

    Method: as root, on a store of the unprivileged user; then with one file of root in it.
    """
    make_store(place)
    before = picture(place)
    if access == "write":
        with pytest.raises(DamagedError, match=r"belongs to user.*Run this as the user"):
            open_session(place / "store")
    else:
        reader = open_session(place / "store", access="read")
        check_equal(reader.read("manifest.json", max_bytes=9), b"1", "the pointer")
        names = {"name", "manifest.json", "manifest-000001.json"}
        check_equal(set(reader.list()), names, "names")
        os.chown(place / "store" / SESSION / "name", 0, 0)
        with pytest.raises(DamagedError, match=r"belongs to user 0.*find out who changed it"):
            reader.read("name", max_bytes=9)
        reader.close()
    check_equal(picture(place), before, "the store")


def test_a_root_in_a_directory_without_read_permission_is_made(place: Path) -> None:
    """S4: a parent that can be entered and not listed is above the store, as /home may be.

    Method: a store two levels below a directory of mode 0711 that root owns.
    """
    outer = place / "outer"
    outer.mkdir(0o755)
    inner = outer / "mine"
    inner.mkdir(0o700)
    user = require_unprivileged_user()
    os.chown(inner, user.pw_uid, user.pw_gid)
    outer.chmod(0o711)
    said = unprivileged(lambda: open_session(inner / "a" / "store").create("name", [b"x"]))
    check_equal(said, "returned", "the child")
    check_equal((inner / "a" / "store" / SESSION / "name").read_bytes(), b"x", "the file")
