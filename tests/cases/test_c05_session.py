"""C5, sessions: locks that look stale, that a child shares, or that do not work.

Method: children that are forked or spawned while a session is held, a lock file with any content,
mounts that are read-only, and a flock that fails.
"""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from lastgood import LastgoodError, Session
from lastgood.errors import FencedError, LockedError, StorageError
from tests.cases.harness import in_mount_namespace
from tests.crash.processes import Say, fork
from tests.crash.scenes import DIRECTORY
from tests.crash.sessions import Sessions, State, check_recovers, given, opened
from tests.support import trees
from tests.support.check import check, check_equal
from tests.support.faulty import Calls, Fault, faulty, system_error
from tests.support.require import REPOSITORY

pytestmark = pytest.mark.crash

CONTENTS: Final = {
    "our own process": f'{{"pid": {os.getpid()}, "host": "{platform.node()}", "epoch": 1}}',
    "process 1": '{"pid": 1, "host": "elsewhere", "epoch": 99}',
    "a live process": f'{{"pid": {os.getppid()}, "epoch": 3}}',
    "another host": '{"pid": 4711, "host": "another.example", "epoch": 3}',
    "garbage": "\x00\xff no JSON {{{",
    "nothing": "",
}


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    """Sessions to begin with."""
    return Sessions(tmp_path)


def contender(place: Path) -> str:
    """What a process that shares nothing with this one is told when it opens the session."""
    program = (
        "import sys\nfrom pathlib import Path\nfrom tests.crash.sessions import opened\n"
        "from lastgood.errors import LastgoodError\n"
        "try:\n    opened(Path(sys.argv[1])).close()\n    print('opened')\n"
        "except LastgoodError as error:\n    print(type(error).__name__, error)\n"
    )
    ran = subprocess.run(
        [sys.executable, "-B", "-c", program, place],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    check_equal(ran.returncode, 0, f"the contender: {ran.stderr}")
    return ran.stdout


@pytest.mark.parametrize("content", CONTENTS)
def test_c05_01_what_the_lock_file_says_decides_nothing(sessions: Sessions, content: str) -> None:
    """C5-01: without a kernel lock the session opens at once; with one it never does.

    Method: each content in the lock file, with nobody and with a child that holds the lock.
    """
    with sessions.copy("begun") as place:
        lock = place / DIRECTORY / "lock"
        lock.write_bytes(CONTENTS[content].encode("utf-8", "surrogateescape"))
        began = time.monotonic()
        with opened(place, lock_wait_s=20) as session:
            check(time.monotonic() - began < 5, "it waited")
            check_equal(session.fencing_token, 2, "epoch")
        lock.write_bytes(CONTENTS[content].encode("utf-8", "surrogateescape"))
        going, holding = os.pipe(), os.pipe()

        def hold(say: Say) -> None:
            os.close(going[1])
            descriptor = os.open(lock, os.O_RDWR)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.write(holding[1], b"x")
            os.read(going[0], 1)

        child = fork(hold)
        os.read(holding[0], 1)
        with pytest.raises(LockedError):
            opened(place, lock_wait_s=0.02)
        os.close(going[1])
        child.finish()
        for descriptor in (going[0], *holding):
            os.close(descriptor)
        check_recovers(place, sessions.told("begun"), content)


def asks_of(session: Session[State]) -> list[str]:
    """What each call of the session comes to."""
    asks = (
        lambda: session.append(*given("child")), session.save, lambda: session.state,
        lambda: session.should_replay("fx:v1:" + 64 * "0"),
    )  # fmt: skip
    came = []
    for ask in asks:
        try:
            came.append(f"told {ask()}")
        except LastgoodError as error:
            came.append(type(error).__name__)
    return came


FORKING: Final = """
import gc, os, sys
from pathlib import Path
from tests.cases.test_c05_session import asks_of, contender
from tests.crash.sessions import given, opened
from tests.support.check import check, check_equal
place = Path(sys.argv[1])
session = opened(place)
session.append(*given("x"))
pid = os.fork()
if pid == 0:
    came = asks_of(session)
    session.close()
    del session
    gc.collect()
    sys.exit(0 if came == ["FencedError"] * 4 else f"the child was told {came}")
_, status = os.waitpid(pid, 0)
check_equal(status, 0, "the child")
check(contender(place).startswith("LockedError"), "the child gave the lock away")
session.append(*given("y"))
session.save()
session.close()
check_equal(contender(place), "opened\\n", "after the end")
"""


def test_c05_02_the_end_of_a_forked_child_ends_nothing(sessions: Sessions) -> None:
    """C5-02: a child cannot use the session, and neither its close nor its exit frees the lock.

    Method: fork with the session open; the child asks, closes, collects and exits as programs do;
    a third process contends before and after the parent goes on.
    """
    with sessions.copy("begun") as place:
        ran = subprocess.run(
            [sys.executable, "-B", "-c", FORKING, place],
            cwd=REPOSITORY, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        check_equal(ran.returncode, 0, f"{ran.stdout}{ran.stderr}")
        told = sessions.told("begun")
        told.acknowledged += ["x", "y"]
        check_recovers(place, told, "after the fork")


def _work_of_pool(number: int) -> int:
    return number * 2


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_c05_02_a_pool_of_forked_workers_ends_nothing(sessions: Sessions) -> None:
    """C5-02: the same with multiprocessing's own children, which end by their own rules.

    Method: a pool that is forked, used and joined while the session is open.
    """
    with sessions.copy("begun") as place:
        session, told = opened(place), sessions.told("begun")
        with multiprocessing.get_context("fork").Pool(2) as pool:
            check_equal(pool.map(_work_of_pool, [1, 2, 3]), [2, 4, 6], "the pool's work")
            told.append(session, "x")
        with pytest.raises(LockedError):
            opened(place, lock_wait_s=0.02)
        told.append(session, "y")
        session.close()
        check_recovers(place, told, "after the pool")


CHILDREN: Final = ("subprocess", "open descriptors", "fork")


@pytest.mark.slow
@pytest.mark.parametrize("how", CHILDREN)
def test_c05_04_a_child_that_outlives_the_owner_keeps_nothing(sessions: Sessions, how: str) -> None:
    """C5-04: no descriptor is inherited; when the owner is killed, the session is free at once.

    Method: an owner starts a child that sleeps, and is killed; what the child has open is listed.
    """
    with sessions.copy("begun") as place:

        def own(say: Say) -> None:
            session = opened(place)
            session.append(*given("x"))
            if how == "fork":
                sleeper = os.fork()
                if sleeper == 0:
                    time.sleep(60)
                    os._exit(0)
            else:
                sleeper = subprocess.Popen(
                    ["/bin/sleep", "60"], close_fds=how == "subprocess", stdout=subprocess.DEVNULL
                ).pid
            say(str(sleeper))
            time.sleep(60)

        child = fork(own)
        with os.fdopen(os.dup(child.pipe)) as pipe:
            sleeper = int(pipe.readline())
        try:
            child.send(signal.SIGKILL)
            os.waitpid(child.pid, 0)
            told = sessions.told("begun")
            told.acknowledged.append("x")
            held = [os.readlink(path) for path in Path(f"/proc/{sleeper}/fd").iterdir()]
            if how != "fork":  # whose other descriptors harm nobody: it cannot use them
                check_equal([name for name in held if str(place) in name], [], "inherited")
            check_recovers(place, told, f"a child by {how} sleeps on")
        finally:
            os.kill(sleeper, signal.SIGKILL)
            os.close(child.pipe)


READ_ONLY: Final = """
from tests.crash.scenes import DIRECTORY, reader
from tests.crash.sessions import found_log, history, opened
called = []
with reader(place) as store:
    report = store.check()
check_equal((report.error, report.findings), (None, ()), "what a reader finds")
check_equal([item for _, item in history(place)], ["a", "b", "c", "d"], "the log")
before = contents(place)
for attempt in range(2):
    try:
        opened(place, on_resume=called.append)
    except StorageError as error:
        check_equal(error.errno, errno.EROFS, f"{error}")
    else:
        raise AssertionError("it was opened for writing")
check_equal(called, [], "the program was called")
check_equal(contents(place), before, "what lies there")
"""


@pytest.mark.needs_root
@pytest.mark.needs_unshare
def test_c05_05_a_read_only_store_is_read_and_never_resumed(sessions: Sessions) -> None:
    """C5-05: reading works and writes nothing; resume is EROFS before the program is called; K5.

    Method: a mount that is read-only, in a name space of its own.
    """
    with sessions.copy("begun") as place:
        before = trees.picture(place)
        shell = f"mount --bind {place} {place}\nmount -o remount,ro,bind {place}"
        in_mount_namespace(shell, READ_ONLY, place)
        trees.check_untouched(place, before, "a read-only mount")


@pytest.mark.parametrize(
    "number",
    [errno.ENOLCK, errno.ENOTSUP, errno.EBADF, errno.EDEADLK, errno.EINTR],
    ids=lambda number: errno.errorcode[number],
)
@pytest.mark.parametrize("which", [0, 1])
def test_c05_06_a_lock_that_does_not_work_is_never_gone_on_without(
    sessions: Sessions, number: int, which: int
) -> None:
    """C5-06: an error with its number and advice, nothing changed; EINTR is tried again.

    Method: flock fails, on the lock file and on the directory.
    """
    with sessions.copy("begun") as place:
        calls = Calls()
        opened(place, faulty(calls)).close()
        at = [n for n, made in enumerate(calls.made) if made == "flock"][which]
        lock = place / DIRECTORY / "lock"
        before = {path: path.read_bytes() for path in (place / DIRECTORY).iterdir()}
        calls.begin(Fault(at, system_error(number)))
        if number == errno.EINTR:
            with opened(place, faulty(calls), lock_wait_s=5) as session:
                check_equal(session.state["items"], [*"abcd"], "the state")
        else:
            with pytest.raises(StorageError) as refused:
                opened(place, faulty(calls))
            check_equal(refused.value.errno, number, "the number")
            check("local file system" in str(refused.value), f"no advice: {refused.value}")
            after = {path: path.read_bytes() for path in (place / DIRECTORY).iterdir()}
            changed = [p.name for p in after if p != lock and after[p] != before.get(p)]
            check_equal(changed, [], "files that were changed")
        check("flock" in calls.failed, "the fault never came")
        calls.fault = None
        check_recovers(place, sessions.told("begun"), f"flock {number}")


def test_c05_06_a_lock_taken_from_under_the_owner_is_noticed(sessions: Sessions) -> None:
    """C5-06, T7: whose lock file is replaced is told before its next event, not after.

    Method: unlink the lock file and make another one while the session is open.
    """
    with sessions.copy("begun") as place:
        session, told = opened(place), sessions.told("begun")
        told.append(session, "x")
        (place / DIRECTORY / "lock").unlink()
        (place / DIRECTORY / "lock").touch(mode=0o600)
        with pytest.raises(FencedError):
            session.append(*given("late"))
        session.close()
        told.maybe = []
        check_recovers(place, told, "after the lock was replaced")
