"""Another process that holds a session, and who is let in beside it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lastgood.errors import LockedError
from tests.storage.places import SESSION, open_session

_HOLDER = """
import sys
from lastgood.storage.posix import PosixRoot
session = PosixRoot(sys.argv[1]).session(sys.argv[2], access="write")
session.acquire(timeout_s=10)
session.note_holder("the other process")
{then}
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def holder(place: Path, *, then: str = "") -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the session until it is killed."""
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDER.format(then=then), str(place), SESSION],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        if process.stdout is None or process.stdout.readline() != "held\n":
            raise RuntimeError("the holder did not start")
        yield process
    finally:
        process.kill()
        process.communicate()


def is_locked(place: Path) -> bool:
    """Whether another handle is refused."""
    other = open_session(place)
    try:
        other.acquire(timeout_s=0)
    except LockedError:
        return True
    finally:
        other.close()
    return False


def is_freed(place: Path) -> bool:
    """Whether another handle gets the lock in the time that a busy machine may need."""
    other = open_session(place)
    try:
        other.acquire(timeout_s=20)
    except LockedError:
        return False
    finally:
        other.close()
    return True
