"""The session lock and processes: it dies with its holder, and no child keeps or frees it."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from lastgood.storage.posix import PosixStorage
from tests.storage.lock_holders import holder, is_freed, is_locked
from tests.storage.places import in_child, open_session
from tests.support.check import check, check_equal


@pytest.fixture
def session(tmp_path: Path) -> Iterator[PosixStorage]:
    """A session whose lock this process holds."""
    held = open_session(tmp_path)
    held.acquire(timeout_s=0)
    yield held
    held.close()


def test_a_killed_holder_frees_the_session(tmp_path: Path) -> None:
    """R1: the lock dies with its process; what it wrote of itself holds nobody up.

    Method: SIGKILL, then acquire; the time-out is for a busy machine.
    """
    with holder(tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        check(is_freed(tmp_path), "the lock outlived its process")


@pytest.mark.parametrize("closing", ["True", "False"])
def test_a_tool_started_by_the_holder_does_not_keep_the_lock(tmp_path: Path, closing: str) -> None:
    """C5-04: descriptors close on exec, whatever the caller asks of subprocess."""
    then = (
        "import subprocess, os\n"
        f"tool = subprocess.Popen(['sleep', '60'], close_fds={closing}, "
        "stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)\n"
        "print(tool.pid, file=open(sys.argv[1] + '/pid', 'w'))"
    )
    with holder(tmp_path, then=then) as process:
        process.kill()
        process.wait()
        tool = int((tmp_path / "pid").read_text())
        try:
            os.kill(tool, 0)  # it lives
            check(is_freed(tmp_path), "a tool inherited the lock")
        finally:
            os.kill(tool, signal.SIGKILL)


def test_a_forked_child_that_outlives_the_holder_does_not_keep_the_lock(tmp_path: Path) -> None:
    """C5-04: the child closes its copies of the lock before anything else."""
    then = (
        "import os, time\n"
        "child = os.fork()\n"
        "if child == 0:\n    os.close(0); os.close(1); time.sleep(60); os._exit(0)\n"
        "print(child, file=open(sys.argv[1] + '/pid', 'w'))"
    )
    with holder(tmp_path, then=then) as process:
        process.kill()
        process.wait()
        child = int((tmp_path / "pid").read_text())
        try:
            os.kill(child, 0)  # it lives
            check(is_freed(tmp_path), "a forked child kept the lock")
        finally:
            os.kill(child, signal.SIGKILL)


def test_a_forked_child_never_frees_its_parents_lock(tmp_path: Path, session: PosixStorage) -> None:
    """C5-02: whatever a child does with the handle, the parent still holds the session.

    Method: the child releases, closes and deletes the handle; a third handle contends.
    """
    for work in (session.release, session.close, lambda: None):
        check_equal(in_child(work), "returned", "the child")
        check(is_locked(tmp_path), "a child freed the lock of its parent")
        session.confirm_held()


def test_a_child_that_python_knows_nothing_of_never_frees_its_parents_lock(
    tmp_path: Path, session: PosixStorage
) -> None:
    """C5-02: without the hook, too, a child closes its copies and never unlocks.

    Method: fork by the C library, as an extension module may; the child releases and closes.
    """
    for work in (session.release, session.close):
        child = ctypes.PyDLL(None).fork()
        if child == 0:
            try:
                work()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        check(is_locked(tmp_path), "a child freed the lock of its parent")
        session.confirm_held()


def test_a_forked_child_cannot_use_the_handle(tmp_path: Path, session: PosixStorage) -> None:
    """T11: in a child every change is FencedError, and so is the proof of ownership."""
    session.create("name", [b"x"])
    session.begin("log", size_bytes=9)
    session.swap([b"1"], expected=0)
    for what, work in {
        "confirm": session.confirm_held,
        "acquire": lambda: session.acquire(timeout_s=0),
        "create": lambda: session.create("other", [b""]),
        "swap": lambda: session.swap([b""], expected=0),
        "confirm of the pointer": lambda: session.confirm_newest(1),
        "begin": lambda: session.begin("log-2", size_bytes=9),
        "append": lambda: session.append("log", b"x"),
        "finish": lambda: session.finish("log"),
        "delete": lambda: session.delete("name"),
        "settle": lambda: session.settle(0, number_missing=False, pointer_behind=False),
    }.items():
        said = in_child(work)
        check(said.startswith("FencedError"), f"{what} in a child: {said}")
    check_equal(session.read("name", max_bytes=9), b"x", "the parent's file")
