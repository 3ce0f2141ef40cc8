"""C6 for sessions: disks that are full or fail while events are appended."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from lastgood import CheckpointPolicy, Session, open_store
from lastgood.errors import DurabilityUnknownError
from lastgood.storage.filesystem import FileSystem
from lastgood.storage.posix import PosixRoot
from tests.cases.harness import SESSION, in_a_process, in_mount_namespace, inside
from tests.support import trees
from tests.support.check import check, check_equal
from tests.support.faulty import Calls, Fault, faulty, system_error

NEVER = CheckpointPolicy(events=None, seconds=None, log_bytes=None, after=())

SCRIPT = """
from lastgood import CheckpointPolicy, open_store
NEVER = CheckpointPolicy(events=None, seconds=None, log_bytes=None, after=())
def opened(root):
    store = open_store(root, keys=trees.KEYS)
    return store.session("nightly", reducer=lambda s, e: [*s, e.data], initial=[], policy=NEVER)
"""


def append_to(state: list[Any], event: Any) -> list[Any]:
    return [*state, event.data]


def opened(place: Path, filesystem: FileSystem | None = None) -> Session[list[Any]]:
    root = PosixRoot(place, filesystem=filesystem)
    store = open_store(root, keys=trees.KEYS)
    return store.session(SESSION, reducer=append_to, initial=[], policy=NEVER)


@pytest.mark.needs_unshare
def test_c06_01_full_disk_takes_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """C6-01: an append that does not fit is told; what was acknowledged stays, also while full.

    Method: a file system of 2 MiB, appends of 100 KB until one is refused; a fresh handle reads;
    space is freed; the same session goes on, and the whole is there.
    """
    in_mount_namespace(
        f'mkdir -p "{tmp_path}/small"; mount -t tmpfs -o size=2m,mode=700 none "{tmp_path}/small"',
        SCRIPT
        + """
small = place / "small"
filler = small / "filler"
filler.write_bytes(bytes(600_000))
session = opened(small / "store")
acknowledged = []
error = None
for number in range(100):
    try:
        session.append("x", [number, "y" * 100_000])
        acknowledged.append(number)
    except StorageError as refused:
        error = refused
        break
check(error is not None and error.errno == errno.ENOSPC, f"refused: {error}")
check(len(acknowledged) > 2, f"{acknowledged}")
session.close()
filler.unlink()
session = opened(small / "store")
check_equal([item[0] for item in session.state], acknowledged, "after space was freed")
session.append("x", [1000, ""])
session.close()
session = opened(small / "store")
check_equal([item[0] for item in session.state], [*acknowledged, 1000], "the whole")
session.close()
""",
        tmp_path,
    )


def test_c06_02_append_that_does_not_fit_is_not_acknowledged_and_the_next_is_whole(
    tmp_path: Path,
) -> None:
    """C6-02: half a record is never believed; the next append begins a new segment.

    Method: RLIMIT_FSIZE of half of what a new segment reserves, so that making it is cut short
    and then refused; the limit is lifted; the same handle appends again.
    """
    in_a_process(
        SCRIPT
        + """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
session = opened(place / "store")
session.append("x", 1)
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, resource.RLIM_INFINITY))
error = refusal(lambda: session.append("x", "y" * 70_000))
check(isinstance(error, StorageError) and error.errno == errno.EFBIG, str(error))
check_equal(temporaries(place), [], "temporaries")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
session.append("x", 2)
check_equal(session.state, [1, 2], "the handle goes on")
session.close()
session = opened(place / "store")
check_equal(session.state, [1, 2], "and so does the next")
session.close()
""",
        tmp_path,
    )


def test_c06_04_failed_flush_is_not_acknowledged_and_its_segment_is_left(tmp_path: Path) -> None:
    """C6-04: after EIO of fdatasync nothing more goes into that segment, and no sync is repeated.

    Method: the first fdatasync of an append fails; the same append is tried again.
    """
    calls = Calls()
    place = tmp_path / "store"
    session = opened(place, faulty(calls))
    session.append("x", 0)
    calls.begin()
    session.append("x", 1)
    at = calls.made.index("fdatasync")
    segments = sorted(inside(place).glob("events-*"))
    before = [path.read_bytes() for path in segments]
    calls.begin(Fault(at, system_error(errno.EIO)))
    with pytest.raises(DurabilityUnknownError):
        session.append("x", 2)
    calls.begin()
    session.append("x", 2)
    check_equal(session.state, [0, 1, 2], "the retry")
    later = sorted(inside(place).glob("events-*"))
    check(len(later) > len(segments), "it went into the segment whose flush had failed")
    check(later[0].read_bytes().startswith(before[0].rstrip(b"\0")), "acknowledged bytes changed")
    session.close()
    with opened(place) as session:
        check_equal(session.state, [0, 1, 2], "what a fresh handle reads")
