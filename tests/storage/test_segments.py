"""Log segments in a directory: the exact calls, short writes, failing calls, descriptors."""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.errors import (
    ConflictError,
    DurabilityUnknownError,
    NotStoredError,
    StorageError,
)
from tests.crash.seam import Seam, once, system
from tests.storage.places import (
    MAX_BYTES,
    SESSION,
    descriptors,
    none_leaked,
    open_session,
)
from tests.support.check import check, check_equal
from tests.support.faulty import Calls, Fault, When, faulty, system_error

LOG = "events-000001-0001.jsonl"
OTHER = "events-000009-0001.jsonl"
TEMPORARY = f".{LOG}.RANDOM.tmp"


def shown(calls: list[str]) -> list[str]:
    """Calls without the random part of names."""
    return [re.sub(r"\.[0-9a-f]{16}\.tmp", ".RANDOM.tmp", call) for call in calls]


def content(place: Path, name: str = LOG) -> bytes:
    """What a fresh reader finds."""
    reader = open_session(place, access="read")
    try:
        return reader.read(name, max_bytes=MAX_BYTES)
    finally:
        reader.close()


def test_a_segment_is_begun_by_exactly_these_calls(tmp_path: Path) -> None:
    """Design 7: zeros on the medium first, then the name, then the directory; then it is written.

    Method: record begin, two appends and finish at the seam.
    """
    calls = Calls()
    session = open_session(tmp_path, filesystem=faulty(calls))
    calls.begin()
    session.begin(LOG, size_bytes=700_000)
    check_equal(
        shown(calls.subjects),
        [
            "listdir",  # is there room for another name
            f"open {TEMPORARY}",
            "fstat",
            "writev",  # zeros, not a hole: an append then changes no metadata
            "fsync",
            "close",
            f"open {TEMPORARY}",  # for appending; an error still is definite
            "fstat",
            f"link {TEMPORARY} {LOG}",
            f"unlink {TEMPORARY}",
            "fsync",
            f"stat {LOG}",  # the name leads to what is held
        ],
        "calls of begin",
    )
    for data in (b"first\n", b"second\n" * 10_000):
        calls.begin()
        session.append(LOG, data)
        check_equal(calls.made, ["pwrite", "fdatasync", "fstat"], "calls of an append")
    calls.begin()
    session.append(LOG, b"")
    check_equal(calls.made, ["fdatasync", "fstat"], "calls of an append of nothing")
    calls.begin()
    session.finish(LOG)
    check_equal(calls.made, ["ftruncate", "close"], "calls of finish")
    calls.begin()
    session.begin(OTHER, size_bytes=9)
    session.close()
    check("ftruncate" not in calls.made, f"closing cut a segment: {calls.made}")


def test_the_reserve_is_written_and_not_a_hole(tmp_path: Path) -> None:
    """Design 7: blocks are allocated before the first append, which can no longer want space.

    Method: count the blocks of a segment; odd sizes have every byte.
    """
    session = open_session(tmp_path)
    for number, size_bytes in enumerate((1, 4095, 65_536, 262_145, 1_048_576)):
        name = f"events-{number + 1:06d}-0001.jsonl"
        session.begin(name, size_bytes=size_bytes)
        status = (tmp_path / SESSION / name).stat()
        check_equal(status.st_size, size_bytes, f"size of {name}")
        check(status.st_blocks * 512 >= size_bytes, f"{name} has {status.st_blocks} blocks")
    session.close()


def test_rewriting_an_end_writes_that_end_and_syncs_its_data(tmp_path: Path) -> None:
    """R1: compare, write the same bytes again, fdatasync; of nothing only the fdatasync.

    Method: record the calls behind the open; a difference writes and syncs nothing.
    """
    session = open_session(tmp_path)
    session.begin(LOG, size_bytes=64)
    session.append(LOG, b"attested, not attested")
    session.close()
    calls = Calls()
    session = open_session(tmp_path, filesystem=faulty(calls))
    for data, expected in (
        (b"not attested", ["pread", "pwrite", "fdatasync", "close"]),
        (b"", ["fdatasync", "close"]),
    ):
        calls.begin()
        session.rewrite(LOG, data, offset=10)
        check_equal(calls.made, ["open", "fstat", *expected], f"calls of rewriting {data!r}")
    calls.begin()
    with pytest.raises(ConflictError):
        session.rewrite(LOG, b"NOT attested", offset=10)
    check_equal(calls.made, ["open", "fstat", "pread", "close"], "calls of a refused rewrite")
    session.close()


def test_a_long_end_is_compared_to_its_last_byte(tmp_path: Path) -> None:
    """R1: nothing is written where a single byte differs, wherever it is.

    Method: an end of 600 KiB, read in pieces; short reads too; its last byte changed.
    """

    class Short(Seam):
        def _call(self, name: str, call: Callable, args: tuple, options: dict) -> object:
            if name == "pread":
                args = (args[0], min(args[1], 10_000), args[2])
            return super()._call(name, call, args, options)

    lines = b"0123456789abcde\n" * 38_400
    session = open_session(tmp_path, filesystem=system(Short()))
    session.begin(LOG, size_bytes=len(lines) + 9)
    session.append(LOG, lines)
    session.rewrite(LOG, lines[5:], offset=5)
    with pytest.raises(ConflictError):
        session.rewrite(LOG, lines[5:-1] + b"X", offset=5)
    with pytest.raises(ConflictError):
        session.rewrite(LOG, lines[5:] + bytes(10), offset=5)
    check_equal(content(tmp_path), lines + bytes(9), "the segment")
    session.close()


@pytest.mark.parametrize("limit", range(1, 12))
def test_a_short_write_goes_on_where_it_stopped(tmp_path: Path, limit: int) -> None:
    """P2: an append that is written in pieces of any length is there whole, behind the last.

    Method: cut every write to 1, 2, … 11 bytes; then append once more without cutting.
    """
    calls = Calls()
    session = open_session(tmp_path, filesystem=faulty(calls))
    session.begin(LOG, size_bytes=64)
    session.append(LOG, b"before,")
    calls.longest_write_bytes = limit
    calls.begin()
    session.append(LOG, b"0123456789,")
    pieces = -(-11 // limit)
    check_equal(calls.made, ["pwrite"] * pieces + ["fdatasync", "fstat"], "calls of a cut")
    calls.longest_write_bytes = None
    session.append(LOG, b"behind")
    check_equal(content(tmp_path), b"before,0123456789,behind".ljust(64, b"\0"), "the segment")
    session.close()


@pytest.mark.parametrize("limit", [1, 7, 4096])
def test_a_reserve_written_in_pieces_is_whole(tmp_path: Path, limit: int) -> None:
    """P2: short writes of the zeros go on, too."""
    session = open_session(tmp_path, filesystem=faulty(Calls(longest_write_bytes=limit)))
    size_bytes = 200 * limit + 1
    session.begin(LOG, size_bytes=size_bytes)
    check_equal(content(tmp_path), bytes(size_bytes), "the reserve")
    session.close()


def test_a_write_of_nothing_gives_the_segment_up(tmp_path: Path) -> None:
    """C6-02: a write that returns 0 for ever is an error and no endless loop.

    Method: a file system whose pwrite writes the first byte and then nothing.
    """

    class Stuck(Seam):
        def _call(self, name: str, call: Callable, args: tuple, options: dict) -> object:
            if name == "pwrite":
                if args[2] > 0:
                    return 0
                args = (args[0], bytes(args[1])[:1], args[2])
            return super()._call(name, call, args, options)

    session = open_session(tmp_path, filesystem=system(Stuck()))
    session.begin(LOG, size_bytes=64)
    with pytest.raises(DurabilityUnknownError):
        session.append(LOG, b"line")
    with pytest.raises(StorageError, match="after an error"):
        session.append(LOG, b"line")
    check_equal(content(tmp_path), b"l".ljust(64, b"\0"), "the segment")
    session.close()


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOSPC, errno.EINTR, errno.EFBIG])
def test_a_finish_that_fails_loses_nothing(tmp_path: Path, number: int) -> None:
    """P4: whatever call of it fails, every appended byte is there and nothing more is appended.

    Method: each call of finish fails, not executed and executed.
    """
    whens: list[When] = ["instead", "after"]
    for at, call in enumerate(("ftruncate", "close")):
        for when in whens:
            place = tmp_path / f"{call}{when}"
            context = f"{call} fails, {when} it is executed"
            calls = Calls()
            session = open_session(place, filesystem=faulty(calls))
            session.begin(LOG, size_bytes=64)
            session.append(LOG, b"line\n")
            before = descriptors()
            calls.begin(Fault(at, system_error(number), when=when))
            with pytest.raises(StorageError, match="All that was appended") as raised:
                session.finish(LOG)
            check_equal(type(raised.value), StorageError, context)
            check_equal(raised.value.errno, number, context)
            check_equal(calls.failed, [call], context)
            calls.begin()
            is_cut = call == "close" or when == "after"
            check_equal(content(place), b"line\n".ljust(5 if is_cut else 64, b"\0"), context)
            with pytest.raises(NotStoredError):
                session.append(LOG, b"x")
            with pytest.raises(NotStoredError):
                session.finish(LOG)
            check_equal(len(before - descriptors()), 1, f"{context}: descriptors given back")
            session.close()


def test_an_interrupted_append_gives_the_segment_up(tmp_path: Path) -> None:
    """C7-06: after Ctrl-C nobody knows what is there, so nothing goes behind it.

    Method: KeyboardInterrupt instead of and after each call of an append.
    """
    whens: list[When] = ["instead", "after"]
    for at in range(2):
        for when in whens:
            context = f"interrupted {when} call {at}"
            calls = Calls()
            with none_leaked(context):
                session = open_session(tmp_path / f"{at}{when}", filesystem=faulty(calls))
                session.begin(LOG, size_bytes=64)
                calls.begin(Fault(at, KeyboardInterrupt, when=when))
                with pytest.raises(KeyboardInterrupt):
                    session.append(LOG, b"line\n")
                calls.begin()
                with pytest.raises(StorageError, match="after an error"):
                    session.append(LOG, b"line\n")
                with pytest.raises(ConflictError):
                    session.begin(LOG, size_bytes=64)
                check_equal(calls.made, [], f"{context}: calls of a given up segment")
                session.close()


def test_a_segment_holds_one_descriptor_until_it_ends(tmp_path: Path) -> None:
    """C5-04: begun, one more, which no program inherits; finished, given up or closed, none.

    Method: look at this process's descriptors.
    """
    calls = Calls()
    session = open_session(tmp_path, filesystem=faulty(calls))
    before = descriptors()

    def held() -> list[str]:
        """The segments that are open beyond what was before."""
        inodes = {}
        for fd in descriptors() - before:
            check(not os.get_inheritable(int(fd)), f"a program inherits {fd}")
            inodes[os.fstat(int(fd)).st_ino] = fd
        names = {path.stat().st_ino: path.name for path in (tmp_path / SESSION).iterdir()}
        return sorted(names.get(inode, f"descriptor {fd}") for inode, fd in inodes.items())

    for name in (LOG, OTHER):
        session.begin(name, size_bytes=9)
        session.append(name, b"x")
    check_equal(held(), [LOG, OTHER], "descriptors of two segments")
    session.finish(LOG)
    check_equal(held(), [OTHER], "descriptors after a finish")
    calls.begin(Fault(1, system_error(errno.EIO)))
    with pytest.raises(DurabilityUnknownError):
        session.append(OTHER, b"x")
    calls.begin()
    check_equal(held(), [], "descriptors after a segment was given up")
    session.begin("events-000010-0001.jsonl", size_bytes=9)
    session.close()
    session.close()
    check_equal(held(), [], "descriptors after close")
    check(len(descriptors()) < len(before), "close gave back nothing")


def test_threads_that_append_do_not_mix(tmp_path: Path) -> None:
    """P2: appends of one handle come one after the other, whole, none lost.

    Method: 8 threads, 40 lines each, into one segment; every other write is cut to 3 bytes.
    """
    session = open_session(tmp_path, filesystem=faulty(Calls(longest_write_bytes=3)))
    session.begin(LOG, size_bytes=20_000)
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for line in range(40):
                session.append(LOG, b"thread %d line %d\n" % (number, line))
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check_equal(errors, [], "errors of the threads")
    found = content(tmp_path).rstrip(b"\0").split(b"\n")
    expected = [b"thread %d line %d" % (number, line) for number in range(8) for line in range(40)]
    check_equal(sorted(found[:-1]), sorted(expected), "lines")
    session.close()


@pytest.mark.timeout(20)
def test_a_close_in_the_middle_of_an_append_takes_no_descriptor_from_it(tmp_path: Path) -> None:
    """C7-06: a signal handler that closes the handle lets the write it interrupted end.

    Method: close right before each call of an append; the bytes are there, nothing leaks.
    """
    for call in ("pwrite", "fdatasync", "fstat"):
        seam = Seam()
        place = tmp_path / call
        with none_leaked(f"closed before {call}"):
            session = open_session(place, filesystem=system(seam))
            session.begin(LOG, size_bytes=16)
            seam.begin(once(call, session.close))
            session.append(LOG, b"line\n")
        check_equal(content(place), b"line\n".ljust(16, b"\0"), f"closed before {call}")


def test_an_append_into_a_deleted_segment_is_not_acknowledged(tmp_path: Path) -> None:
    """T2, G1: what is durable under no name is not durable.

    Method: the name goes between two appends; the second one is refused, and so is a third.
    """
    session = open_session(tmp_path)
    session.begin(LOG, size_bytes=64)
    session.append(LOG, b"before\n")
    for path in tmp_path.rglob(LOG):
        path.unlink()
    with pytest.raises(DurabilityUnknownError):
        session.append(LOG, b"after\n")
    with pytest.raises(StorageError):
        session.append(LOG, b"again\n")
    session.close()
