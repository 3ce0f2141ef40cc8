"""Every call of create, swap and begin fails, in every way, and the outcome is told rightly (P4).

Method: record a clean run; then, for each of its calls, each errno, once and for ever, not
executed and executed but reported failed, run it again in a new store and compare what was
raised with what is on the disk. The link is the border: before it a failure is definite
and leaves no trace, from it on the outcome is unknown and settled by the next call.
"""

from __future__ import annotations

import errno
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from lastgood.errors import DurabilityUnknownError, LastgoodError, StorageError
from lastgood.storage.posix import PosixStorage
from tests.storage.places import (
    ERRORS,
    MAX_BYTES,
    SESSION,
    none_leaked,
    open_session,
    picture,
    temporaries,
)
from tests.support.check import check, check_equal
from tests.support.faulty import Calls, Fault, Repeats, When, faulty, system_error

OLD = b"manifest of revision 1"
NEW = b"what is written now"

Operation = Callable[[PosixStorage], object]


@dataclass(frozen=True)
class Kind:
    """What fails: the operation, the name it publishes, what that holds then.

    Attributes:
        look: The call by which it finds out what an error of the link has done.
    """

    operation: Operation
    published: str
    content: bytes = NEW
    look: str = "open"


OPERATIONS: dict[str, Kind] = {
    "create": Kind(lambda session: session.create("new", [NEW[:4], NEW[4:]]), "new"),
    "swap": Kind(
        lambda session: session.swap([NEW[:4], NEW[4:]], expected=1), "manifest-000002.json"
    ),
    "begin": Kind(lambda session: session.begin("new", size_bytes=99), "new", bytes(99), "stat"),
}


def prepared(place: Path, calls: Calls) -> PosixStorage:
    """A session at revision 1."""
    session = open_session(place, filesystem=faulty(calls))
    session.swap([OLD], expected=0)
    return session


def clean_calls(place: Path, operation: Operation) -> list[str]:
    """The calls of ``operation`` when nothing fails."""
    calls = Calls()
    session = prepared(place, calls)
    calls.begin()
    operation(session)
    made = list(calls.made)
    session.close()
    return made


def ways() -> Iterator[tuple[Repeats, When]]:
    """Once and for ever, not executed and executed."""
    return itertools.product(("once", "for ever"), ("instead", "after"))


@pytest.mark.parametrize("number", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("kind", OPERATIONS)
def test_a_failing_call_is_told_as_what_it_is(tmp_path: Path, kind: str, number: int) -> None:
    """P4: definite before the link, unknown from it on, never a conflict, nothing synced twice."""
    made = clean_calls(tmp_path / "clean", OPERATIONS[kind].operation)
    # At its end a swap gives back what the one before it held, and no error of that counts.
    counting = made[:-1] if kind == "swap" else made
    for at, (repeats, when) in itertools.product(range(len(counting)), ways()):
        context = f"{kind}: call {at} ({made[at]}) fails {repeats}, {when} it is executed"
        fault = Fault(at, system_error(number), when=when, repeats=repeats)
        # A close that is not executed leaves its descriptor open, there is no way around it.
        if made[at] == "close" and when == "instead":
            _check_fault(tmp_path / f"{at}{repeats}{when}", kind, fault, made, context)
            continue
        with none_leaked(context):
            _check_fault(tmp_path / f"{at}{repeats}{when}", kind, fault, made, context)


def _check_fault(place: Path, kind: str, fault: Fault, made: list[str], context: str) -> None:
    operation, published = OPERATIONS[kind].operation, OPERATIONS[kind].published
    calls = Calls()
    session = prepared(place, calls)
    before = picture(place / SESSION)
    calls.begin(fault)
    error = _raised(operation, session, context)
    calls.fault = None
    check(bool(calls.failed), f"{context}: the fault never came")
    check(not calls.synced_again, f"{context}: fsynced again after an error")
    after = picture(place / SESSION)
    session.close()

    border = made.index("link")
    linked = fault.at > border or (fault.at == border and fault.when == "after")
    if linked:
        check_equal(type(error), DurabilityUnknownError, f"{context}: {error}")
        content = OPERATIONS[kind].content
        check_equal(after[published][1], content, f"{context}: what the name holds")
    else:
        check_equal(type(error), StorageError, f"{context}: {error}")
        check_equal(after, before, f"{context}: the directory")
    if isinstance(error, StorageError):
        check_equal(error.errno, calls_errno(fault), f"{context}: the errno told")
    if made[fault.at] != "unlink" or fault.repeats == "once":
        check_equal(temporaries(place), [], f"{context}: temporaries")
    _check_next_call_goes_on(place, kind, linked=linked, context=context)


def calls_errno(fault: Fault) -> int:
    """The number of the error that ``fault`` raises."""
    error = fault.error()
    return (error.errno or 0) if isinstance(error, OSError) else 0


def _raised(operation: Operation, session: PosixStorage, context: str) -> LastgoodError:
    try:
        returned = operation(session)
    except LastgoodError as error:
        return error
    raise AssertionError(f"{context}: it returned {returned!r}")


def _check_next_call_goes_on(place: Path, kind: str, *, linked: bool, context: str) -> None:
    """The next owner settles it: what was linked is there, what was not can be written now."""
    session = open_session(place)
    session.acquire(timeout_s=1)
    newest = 2 if kind == "swap" and linked else 1
    data = NEW if newest == 2 else OLD
    behind = session.read("manifest.json", max_bytes=MAX_BYTES) != data
    session.settle(newest, number_missing=False, pointer_behind=behind)
    check_equal(session.read("manifest.json", max_bytes=MAX_BYTES), data, f"{context}: pointer")
    if not linked:
        OPERATIONS[kind].operation(session)
        newest += kind == "swap"
    found = session.read(OPERATIONS[kind].published, max_bytes=MAX_BYTES)
    check_equal(found, OPERATIONS[kind].content, f"{context}: settled")
    check_equal(session.swap([b"next"], expected=newest), newest + 1, f"{context}: next swap")
    check_equal(temporaries(place), [], f"{context}: temporaries after settling")
    session.close()


@pytest.mark.parametrize("kind", OPERATIONS)
def test_an_interrupt_at_any_call_leaves_no_temporary(tmp_path: Path, kind: str) -> None:
    """P2: Ctrl-C before the link changes nothing, after it what was published stays.

    Method: raise KeyboardInterrupt instead of and after every call.
    """
    operation, published = OPERATIONS[kind].operation, OPERATIONS[kind].published
    made = clean_calls(tmp_path / "clean", operation)
    for at, when in itertools.product(range(len(made)), ("instead", "after")):
        context = f"{kind}: interrupted {when} call {at} ({made[at]})"
        place = tmp_path / f"{at}{when}"
        calls = Calls()
        session = prepared(place, calls)
        before = picture(place / SESSION)
        calls.begin(Fault(at, KeyboardInterrupt, when="after" if when == "after" else "instead"))
        with pytest.raises(KeyboardInterrupt):
            operation(session)
        calls.fault = None
        check_equal(temporaries(place), [], f"{context}: temporaries")
        after = picture(place / SESSION)
        if published in after:
            content = OPERATIONS[kind].content
            check_equal(after[published][1], content, f"{context}: what the name holds")
            check(at >= made.index("link"), f"{context}: published before the link")
        else:
            check_equal(after, before, f"{context}: the directory")
        session.close()


def test_a_read_that_fails_too_makes_the_outcome_unknown(tmp_path: Path) -> None:
    """P4: when a link fails and the name cannot be read, nobody claims to know.

    Method: fail the link and every look after it.
    """
    for kind, tried in OPERATIONS.items():
        operation, look = tried.operation, tried.look
        made = clean_calls(tmp_path / f"clean-{kind}", operation)
        calls = Calls()
        session = prepared(tmp_path / kind, calls)
        calls.begin(Fault(made.index("link"), system_error(errno.EIO), then=look))
        error = _raised(operation, session, kind)
        check_equal(calls.failed, ["link", look], f"{kind}: calls that failed")
        check_equal(type(error), DurabilityUnknownError, f"{kind}: {error}")
        check_equal(temporaries(tmp_path / kind), [], "temporaries")
        calls.begin()
        session.close()


@pytest.mark.parametrize("number", [errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.EXDEV])
def test_a_file_system_without_hard_links_is_named(tmp_path: Path, number: int) -> None:
    """P4: definite, nothing changed, and the text says what is missing.

    Method: the link of each operation fails for ever.
    """
    for kind, tried in OPERATIONS.items():
        operation = tried.operation
        made = clean_calls(tmp_path / f"clean-{kind}", operation)
        calls = Calls()
        session = prepared(tmp_path / kind, calls)
        calls.begin(Fault(made.index("link"), system_error(number), repeats="for ever"))
        error = _raised(operation, session, kind)
        check_equal(type(error), StorageError, str(error))
        check("hard links" in str(error), f"the text does not say it: {error}")
        session.close()


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EXDEV, errno.EPERM])
def test_a_pointer_that_cannot_be_replaced_is_never_overwritten(
    tmp_path: Path, number: int
) -> None:
    """C6-06: the claim stands, the pointer keeps its old bytes, the text names the directory.

    Method: the rename fails for ever; then a new owner settles.
    """
    calls = Calls()
    session = prepared(tmp_path, calls)
    made = clean_calls(tmp_path / "clean", OPERATIONS["swap"].operation)
    calls.begin(Fault(made.index("rename"), system_error(number), repeats="for ever"))
    error = _raised(OPERATIONS["swap"].operation, session, "swap")
    check_equal(type(error), DurabilityUnknownError, str(error))
    check("Mount the directory" in str(error), f"the text does not say it: {error}")
    check_equal(session.read("manifest.json", max_bytes=99), OLD, "the pointer")
    calls.fault = None
    session.close()
    _check_next_call_goes_on(tmp_path, "swap", linked=True, context="after the mount is mended")
