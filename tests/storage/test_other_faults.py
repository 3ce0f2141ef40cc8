"""Every failing call of what only an owner does: a typed error, and trying again ends it.

Method: for each operation and each call of its clean run, once not executed and once executed
but reported failed: the error is typed, no record is lost, nothing is fsynced twice after an
error, and after the fault a new owner does the same again with the same result.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.errors import (
    ConflictError,
    DurabilityUnknownError,
    LastgoodError,
    NotStoredError,
    StorageError,
)
from lastgood.storage.posix import PosixStorage
from tests.storage.places import MAX_BYTES, SESSION, open_session, picture, temporaries
from tests.support.check import check, check_equal
from tests.support.faulty import Calls, Fault, When, faulty, system_error

Work = Callable[[PosixStorage], object]

CHECKPOINT = "checkpoint-000001.json"
FENCED = "fenced-0123456789abcdef-checkpoint-000001.json"
NUMBER = "manifest-000002.json"
TEMPORARY = ".x.0123456789abcdef.tmp"


def settle_pointer(session: PosixStorage) -> None:
    session.settle(2, number_missing=False, pointer_behind=True)


def settle_number(session: PosixStorage) -> None:
    """What R4 asks for when the pointer alone holds the newest revision."""
    missing = NUMBER not in session.list()
    session.settle(2, number_missing=missing, pointer_behind=False)


def supersede(session: PosixStorage) -> None:
    if session.read(CHECKPOINT, max_bytes=99) == b"checkpoint":
        session.supersede(CHECKPOINT, [b"ours"], fenced=b"checkpoint", as_name=FENCED, revision=1)


def lose_number(session: PosixStorage) -> None:
    session.swap([b"manifest 2"], expected=1)
    session.delete(NUMBER)


OPERATIONS: dict[str, tuple[Work, Work, dict[str, bytes]]] = {
    # name: (what was there before, the operation, what must be there in the end)
    "settle a pointer that is behind": (
        lambda session: session.create(NUMBER, [b"manifest 2"]),
        settle_pointer,
        {"manifest.json": b"manifest 2", NUMBER: b"manifest 2"},
    ),
    "settle a pointer that is there already": (
        lambda session: session.swap([b"manifest 2"], expected=1),
        settle_pointer,
        {"manifest.json": b"manifest 2", NUMBER: b"manifest 2"},
    ),
    "settle a missing number": (
        lose_number,
        settle_number,
        {"manifest.json": b"manifest 2", NUMBER: b"manifest 2"},
    ),
    "sweep": (
        lambda session: session.create(TEMPORARY, [b"unpublished"]),
        lambda session: session.settle(1, number_missing=False, pointer_behind=False),
        {"manifest.json": b"manifest 1"},
    ),
    "archive": (
        lambda session: session.create(CHECKPOINT, [b"checkpoint"]),
        lambda session: session.archive(CHECKPOINT),
        {f"archive/{CHECKPOINT}": b"checkpoint"},
    ),
    "archive under another name": (
        lambda session: session.create(CHECKPOINT, [b"checkpoint"]),
        lambda session: session.archive(CHECKPOINT, as_name=FENCED),
        {f"archive/{FENCED}": b"checkpoint"},
    ),
    "supersede": (
        lambda session: session.create(CHECKPOINT, [b"checkpoint"]),
        supersede,
        {f"archive/{FENCED}": b"checkpoint", CHECKPOINT: b"ours"},
    ),
    "rewrite": (
        lambda session: session.create(CHECKPOINT, [b"checkpoint"]),
        lambda session: session.rewrite(CHECKPOINT, b"checkpoint"),
        {CHECKPOINT: b"checkpoint"},
    ),
    "persist": (
        lambda session: session.create(CHECKPOINT, [b"checkpoint"]),
        lambda session: session.persist(),
        {CHECKPOINT: b"checkpoint"},
    ),
    "delete": (
        lambda session: session.create(CHECKPOINT, [b"checkpoint"]),
        lambda session: session.delete(CHECKPOINT),
        {"manifest.json": b"manifest 1"},
    ),
}


def prepared(place: Path, before: Work, calls: Calls) -> PosixStorage:
    session = open_session(place, filesystem=faulty(calls))
    session.swap([b"manifest 1"], expected=0)
    before(session)
    return session


def contents(place: Path) -> set[bytes]:
    return {data for _, data in picture(place / SESSION).values()}


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EINTR, errno.EPERM])
@pytest.mark.parametrize("kind", OPERATIONS)
def test_a_failing_call_is_typed_and_trying_again_ends_it(
    tmp_path: Path, kind: str, number: int
) -> None:
    """P4, G2: nothing is lost at any call, and the next owner finishes what was begun."""
    before, operation, expected = OPERATIONS[kind]
    calls = Calls()
    session = prepared(tmp_path / "clean", before, calls)
    calls.begin()
    operation(session)
    made = list(calls.made)
    session.close()
    whens: list[When] = ["instead", "after"]
    for at, when in itertools.product(range(len(made)), whens):
        context = f"{kind}: call {at} ({made[at]}) fails, {when} it is executed"
        place = tmp_path / f"{at}{when}"
        session = prepared(place, before, calls := Calls())
        kept = contents(place) & set(expected.values())
        calls.begin(Fault(at, system_error(number), when=when))
        try:
            operation(session)
        except LastgoodError as error:
            check(isinstance(error, StorageError), f"{context}: {error!r}")
            check(not isinstance(error, NotStoredError), f"{context}: {error!r}")
        else:
            check("close" in calls.failed or made[at] == "unlink", f"{context}: unseen")
        check(not calls.synced_again, f"{context}: fsynced again after an error")
        calls.begin()
        session.close()
        check(kept <= contents(place), f"{context}: a record was lost")
        again = open_session(place)
        operation(again)
        for name, data in expected.items():
            check_equal(again.read(name, max_bytes=MAX_BYTES), data, f"{context}: {name}")
        names = {Path(name).name for name in picture(place / SESSION)}
        allowed = {Path(name).name for name in expected} | {"archive", "manifest.json"}
        odd = names - allowed - {"manifest-000001.json", NUMBER}
        check(not odd, f"{context}: left {odd}")
        again.close()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EDQUOT])
def test_a_failed_append_gives_the_segment_up(tmp_path: Path, number: int) -> None:
    """C6-02, C6-04: behind an error nothing is appended by this handle, nothing is synced again.

    Method: each call of an append fails, in both ways; then append and finish again.
    """
    whens: list[When] = ["instead", "after"]
    for at, when in itertools.product(range(2), whens):
        place = tmp_path / f"{at}{when}"
        calls = Calls()
        session = open_session(place, filesystem=faulty(calls))
        session.begin("log", size_bytes=32)
        session.append("log", b"acknowledged")
        calls.begin(Fault(at, system_error(number), when=when))
        with pytest.raises(DurabilityUnknownError) as raised:
            session.append("log", b"!")
        context = f"call {at} ({calls.made[at]}) fails, {when} it is executed"
        check_equal(raised.value.errno, number, context)
        calls.begin()
        works: list[Work] = [lambda s: s.append("log", b"?"), lambda s: s.finish("log")]
        for work in works:
            with pytest.raises(StorageError, match="after an error") as refused:
                work(session)
            check_equal(type(refused.value), StorageError, context)
        check_equal(calls.made, [], f"{context}: calls of a given up segment")
        session.begin("log-2", size_bytes=32)
        session.append("log-2", b"another file")
        data = session.read("log", max_bytes=99)
        check_equal(len(data), 32, f"{context}: a given up segment was cut")
        may_be = {b"acknowledged", b"acknowledged!"}
        check(data.rstrip(b"\0") in may_be, f"{context}: it holds {data!r}")
        session.close()


def test_every_failing_call_of_opening_makes_no_half_store(tmp_path: Path) -> None:
    """S4: whatever fails while directories are made, the next opening makes the rest.

    Method: each call of opening a session in a store three levels deep fails, in both ways.
    """
    calls = Calls()
    open_session(tmp_path / "clean" / "a" / "store", filesystem=faulty(calls)).close()
    made = list(calls.made)
    whens: list[When] = ["instead", "after"]
    refused = 0
    for at, when in itertools.product(range(len(made)), whens):
        place = tmp_path / f"{at}{when}" / "a" / "store"
        calls = Calls()
        calls.begin(Fault(at, system_error(errno.EIO), when=when))
        try:
            open_session(place, filesystem=faulty(calls)).close()
        except LastgoodError as error:
            check(isinstance(error, StorageError), f"call {at} ({made[at]}): {error!r}")
            refused += 1
        session = open_session(place)
        session.create("name", [b"x"])
        check_equal(session.read("name", max_bytes=9), b"x", f"after call {at} ({made[at]})")
        session.close()
    check(refused > len(made), f"only {refused} of {2 * len(made)} faults were told")


def test_a_paused_writer_is_disarmed_by_the_next_owner(tmp_path: Path) -> None:
    """R4, T11: sweeping takes the temporary from a paused writer; its pointer never moves.

    Method: a writer that stops between claim and rename, while another settles and goes on.
    """
    resumed: list[int] = []

    class Pausing:
        """Lets the other owner work right before the rename."""

        def __init__(self) -> None:
            self.inner = faulty(Calls())

        def __getattr__(self, name: str) -> object:
            if name == "rename" and not resumed:
                resumed.append(1)
                other = open_session(tmp_path)
                other.settle(2, number_missing=False, pointer_behind=True)
                check_equal(other.swap([b"3, of the other"], expected=2), 3, "the other's swap")
                other.close()
            return getattr(self.inner, name)

    open_session(tmp_path).swap([b"1"], expected=0)
    paused = open_session(tmp_path, filesystem=Pausing())  # type: ignore[arg-type]
    with pytest.raises(DurabilityUnknownError, match="ENOENT"):
        paused.swap([b"2, of the paused one"], expected=1)
    pointer = paused.read("manifest.json", max_bytes=99)
    check_equal(pointer, b"3, of the other", "the pointer moved down")
    check_equal(temporaries(tmp_path), [], "temporaries")
    paused.close()


def test_a_pruned_number_is_no_way_back(tmp_path: Path) -> None:
    """B1: a writer so late that its number was pruned claims it and loses: claim, then confirm.

    Method: a writer that stops before its claim, while another goes on and prunes.
    """
    resumed: list[int] = []

    class Pausing:
        """Lets the other owner work right before the claim."""

        def __init__(self) -> None:
            self.inner = faulty(Calls())

        def __getattr__(self, name: str) -> object:
            if name == "link" and not resumed:
                resumed.append(1)
                other = open_session(tmp_path)
                for expected in range(1, 5):
                    other.swap([b"of the other"], expected=expected)
                for revision in (1, 2, 3):
                    other.delete(f"manifest-{revision:06d}.json")
                other.close()
            return getattr(self.inner, name)

    open_session(tmp_path).swap([b"1"], expected=0)
    paused = open_session(tmp_path, filesystem=Pausing())  # type: ignore[arg-type]
    with pytest.raises(ConflictError, match="Revision 5 exists"):
        paused.swap([b"of the paused one"], expected=1)
    check_equal(paused.read("manifest.json", max_bytes=99), b"of the other", "the pointer")
    claim = paused.read(NUMBER, max_bytes=99)
    check_equal(claim, b"of the paused one", "a claim is never withdrawn")
    check_equal(temporaries(tmp_path), [], "temporaries")
    paused.close()
