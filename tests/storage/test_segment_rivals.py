"""Log segments in a directory: who else begins, sweeps, replaces or fills it meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from lastgood.errors import (
    ConflictError,
    DamagedError,
    DurabilityUnknownError,
    FencedError,
    LimitError,
    NotStoredError,
)
from lastgood.formats.limits import Limits
from lastgood.storage.posix import PosixRoot
from tests.crash.seam import Seam, once, system
from tests.storage.places import MAX_BYTES, SESSION, none_leaked, open_session, temporaries
from tests.support.check import check, check_equal

LOG = "events-000001-0001.jsonl"


def content(place: Path) -> bytes:
    """What a fresh reader finds."""
    reader = open_session(place, access="read")
    try:
        return reader.read(LOG, max_bytes=MAX_BYTES)
    finally:
        reader.close()


def sweeping(place: Path) -> Callable[[], object]:
    """What the next owner does to temporaries."""

    def sweep() -> None:
        other = open_session(place)
        other.settle(0, number_missing=False, pointer_behind=False)
        other.close()

    return sweep


@pytest.mark.parametrize("at", [f"open .{LOG}", f"link .{LOG}"])
def test_an_owner_whose_reserve_is_swept_is_fenced(tmp_path: Path, at: str) -> None:
    """F13: whoever is paused in begin while another takes over makes no segment.

    Method: the next owner sweeps right before the second open of the temporary, or its link.
    """
    seam = Seam()
    session = open_session(tmp_path, filesystem=system(seam))
    sweep = sweeping(tmp_path)
    made = 0

    def hook(number: int, call: str) -> None:
        nonlocal made
        if call.startswith(at):
            made += 1
            if made == (2 if at.startswith("open") else 1):
                sweep()

    seam.begin(hook)
    with none_leaked(at), pytest.raises(FencedError):
        session.begin(LOG, size_bytes=64)
    check_equal(session.list("events-"), (), "segments")
    check_equal(temporaries(tmp_path), [], "temporaries")
    session.close()


def test_of_two_owners_who_begin_one_segment_one_has_it(tmp_path: Path) -> None:
    """P3: the name is won at the link; the loser changes nothing, and cannot append.

    Method: another handle begins the segment, with the same size, right before our link.
    """
    seam = Seam()
    session = open_session(tmp_path, filesystem=system(seam))
    other = open_session(tmp_path)
    seam.begin(once(f"link .{LOG}", lambda: other.begin(LOG, size_bytes=64)))
    with pytest.raises(ConflictError):
        session.begin(LOG, size_bytes=64)
    with pytest.raises(NotStoredError):
        session.append(LOG, b"ours")
    other.append(LOG, b"theirs")
    check_equal(content(tmp_path), b"theirs".ljust(64, b"\0"), "the segment")
    check_equal(temporaries(tmp_path), [], "temporaries")
    session.close()
    other.close()


Swap = Callable[[Path, Path], None]


def _by_a_link(name: Path, outside: Path) -> None:
    name.symlink_to(outside)


def _by_a_hard_link(name: Path, outside: Path) -> None:
    os.link(outside, name)


def _by_a_fifo(name: Path, outside: Path) -> None:
    os.mkfifo(name, 0o600)


def _by_a_file(name: Path, outside: Path) -> None:
    name.write_bytes(bytes(64))
    name.chmod(0o600)


def _by_a_file_for_all(name: Path, outside: Path) -> None:
    name.write_bytes(bytes(64))
    name.chmod(0o644)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("call", ["open", "link", "stat"])
@pytest.mark.parametrize(
    "swap", [_by_a_link, _by_a_hard_link, _by_a_fifo, _by_a_file, _by_a_file_for_all]
)
def test_what_is_put_in_the_place_of_a_reserve_is_never_appended_to(
    tmp_path: Path, swap: Swap, call: str
) -> None:
    """T7, C11-02: an error, nothing outside is written, nothing can be appended, nothing leaks.

    Method: the temporary is replaced before it is opened again, or before its link; or the
    name, before it is looked at. A file of ours that is all zeros can only be told at the end.
    """
    outside = tmp_path / "outside"
    outside.write_bytes(b"precious")
    outside.chmod(0o600)
    directory = tmp_path / "store" / SESSION
    seam = Seam()
    session = open_session(tmp_path / "store", filesystem=system(seam))
    opened = 0

    def hook(number: int, made: str) -> None:
        nonlocal opened
        opened += made.startswith(f"open .{LOG}")
        due = (
            opened == 2 if call == "open" else made.startswith((f"{call} .{LOG}", f"{call} {LOG}"))
        )
        if due and made.startswith(call):
            seam.before = None
            (path,) = directory.glob("*.jsonl*") if call == "stat" else directory.glob(".*.tmp")
            path.unlink()
            swap(path, outside)

    seam.begin(hook)
    errors = (DamagedError, DurabilityUnknownError)
    context = f"{swap.__name__} before {call}"
    with none_leaked(context):
        try:
            session.begin(LOG, size_bytes=64)
        except errors:
            with pytest.raises(NotStoredError):
                session.append(LOG, b"ours")
        else:
            # Before its second open no name tells one file of ours from another: it is ours then.
            check_equal((swap, call), (_by_a_file, "open"), "what was not refused")
            session.append(LOG, b"ours")
            check_equal(content(tmp_path / "store"), b"ours".ljust(64, b"\0"), context)
            session.finish(LOG)
    check_equal(outside.read_bytes(), b"precious", f"{context}: the file outside")
    check_equal(temporaries(directory), [], f"{context}: temporaries")
    session.close()


def test_a_directory_near_its_limit_takes_no_more_segments(tmp_path: Path) -> None:
    """T8, G2: segments never fill a directory so far that its owner could not save any more.

    Method: begin one segment after another until one is refused; then swap.
    """
    root = PosixRoot(tmp_path, limits=Limits(directory_entries=100))
    session = root.session(SESSION, access="write")
    session.swap([b"1"], expected=0)
    for number in range(1, 101):
        try:
            session.begin(f"events-{number:06d}-0001.jsonl", size_bytes=9)
        except LimitError as refused:
            check("kept free" in str(refused), str(refused))
            break
    check(30 < number < 90, f"segment {number} was refused, or none was")
    check_equal(temporaries(tmp_path), [], "temporaries")
    check_equal(session.swap([b"2"], expected=1), 2, "the swap in a directory full of segments")
    session.append("events-000001-0001.jsonl", b"x")
    session.close()
    root.close()
