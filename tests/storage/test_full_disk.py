"""C6-01, C6-02, C6-06: real full disks, real size limits and a real bind mount."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.support.check import check_equal
from tests.support.require import REPOSITORY, require_unshare

_PRELUDE = """
import errno, os, sys
from pathlib import Path
from lastgood.errors import ConflictError, DurabilityUnknownError, StorageError
from tests.storage.places import SESSION, open_session, picture, temporaries
from tests.support.check import check, check_equal

place = Path(sys.argv[1])

def raised(work):
    try:
        work()
    except StorageError as error:
        return error
    raise AssertionError("it returned")
"""


def run(script: str, place: Path, *, before: list[str] | None = None) -> None:
    """Run ``script`` in a process of its own; fail unless it comes to its end."""
    options = ["-O"] if sys.flags.optimize else []
    text = _PRELUDE + textwrap.dedent(script) + "\nprint('to the end')\n"
    ran = subprocess.run(
        [*(before or []), sys.executable, *options, "-c", text, str(place)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    check_equal(ran.stdout, "to the end\n", f"exit {ran.returncode}, {ran.stderr}")


def in_mount_namespace(shell: str, script: str, place: Path) -> None:
    """The same after ``shell`` has mounted something, in a name space that goes with it."""
    command = [require_unshare(), "--mount", "sh", "-ec", f'{shell}\nexec "$@"', "sh"]
    run(script, place, before=command)


@pytest.mark.needs_unshare
def test_a_full_disk_changes_nothing_and_leaves_no_temporary(tmp_path: Path) -> None:
    """C6-01: ENOSPC is told, what was there stays byte by byte, and reads go on.

    Method: a tmpfs of 64 KiB, filled by saves; then space is freed and the next save works.
    """
    in_mount_namespace(
        f"mount -t tmpfs -o size=64k,mode=700 tmpfs {tmp_path}",
        """
        session = open_session(place)
        session.swap([b"1"], expected=0)
        session.begin("events", size_bytes=9_000)
        for number in range(100):
            before = picture(place)
            try:
                session.create(f"checkpoint-{number + 1:06d}.json", [bytes(6_000)])
            except StorageError as caught:
                error = caught
                break
        else:
            raise AssertionError("the disk never was full")
        check_equal(type(error), StorageError, str(error))
        check_equal(error.errno, errno.ENOSPC, "the errno")
        check_equal(picture(place), before, "the store")
        for work in (lambda: session.swap([bytes(6_000)], expected=1),
                     lambda: session.create("checkpoint-000999.json", [bytes(6_000)]),
                     lambda: session.begin("more-events", size_bytes=9_000)):
            check_equal(raised(work).errno, errno.ENOSPC, "the errno while it stays full")
            check_equal(picture(place), before, "the store while it stays full")
        check_equal(session.read("manifest.json", max_bytes=9), b"1", "a read while full")
        session.confirm_newest(1)
        for number in range(8):  # what was reserved is there
            session.append("events", b"x" * 1_000)
        session.finish("events")
        check_equal(session.read("events", max_bytes=9_000), b"x" * 8_000, "events while full")
        session.delete("checkpoint-000001.json")
        session.delete("checkpoint-000002.json")
        session.create("checkpoint-000999.json", [bytes(6_000)])
        check_equal(session.swap([b"2"], expected=1), 2, "the next swap")
        check_equal(temporaries(place), [], "temporaries")
        """,
        tmp_path,
    )


def test_a_write_that_is_cut_in_the_middle_publishes_nothing(tmp_path: Path) -> None:
    """C6-02: a real short write and the EFBIG behind it; the partial file is gone.

    Method: RLIMIT_FSIZE in a child that ignores SIGXFSZ.
    """
    run(
        """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        session = open_session(place)
        session.begin("log", size_bytes=8_000)
        session.append("log", b"acknowledged")
        before = picture(place)
        unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, unlimited[1]))
        for work in (lambda: session.create("name", [b"a" * 4_000, b"b" * 6_000]),
                     lambda: session.swap([b"a" * 10_000], expected=0),
                     lambda: session.begin("events", size_bytes=10_000)):
            error = raised(work)
            check_equal(type(error), StorageError, str(error))
            check_equal(error.errno, errno.EFBIG, "the errno")
            check_equal(picture(place), before, "the store")

        error = raised(lambda: session.append("log", b"x" * 6_000))
        check_equal(type(error), DurabilityUnknownError, str(error))
        partial = session.read("log", max_bytes=20_000)
        expected = (b"acknowledged" + b"x" * 6_000)[:5_000].ljust(8_000, b"\\0")
        check_equal(partial, expected, "what is there of the record")
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)

        error = raised(lambda: session.append("log", b"y"))
        check_equal(type(error), StorageError, "appended behind a partial record: " + str(error))
        error = raised(lambda: session.finish("log"))
        check_equal(type(error), StorageError, "cut behind a partial record: " + str(error))
        check_equal(session.read("log", max_bytes=20_000), partial, "the given up file")
        session.begin("log-2", size_bytes=100)
        session.append("log-2", b"goes on elsewhere")
        session.create("name", [b"a" * 10_000])
        """,
        tmp_path,
    )


@pytest.mark.needs_unshare
def test_a_bind_mounted_pointer_is_told_and_settled_later(tmp_path: Path) -> None:
    """C6-06: EBUSY at the rename; no write in place, the claim stands, the next open ends it.

    Method: a real bind mount of the single file.
    """
    in_mount_namespace(
        "true",
        """
        import subprocess
        session = open_session(place / "store")
        session.swap([b"1"], expected=0)
        pointer = place / "store" / SESSION / "manifest.json"
        subprocess.run(["mount", "--bind", str(pointer), str(pointer)], check=True)
        error = raised(lambda: session.swap([b"2"], expected=1))
        check_equal(type(error), DurabilityUnknownError, str(error))
        check_equal(error.errno, errno.EBUSY, "the errno")
        check("Mount the directory" in str(error), str(error))
        check_equal(pointer.read_bytes(), b"1", "the pointer was not written in place")
        check_equal(temporaries(place), [], "temporaries")
        session.close()
        owner = open_session(place / "store")
        owner.acquire(timeout_s=1)
        error = raised(lambda: owner.settle(2, number_missing=False, pointer_behind=True))
        check("Mount the directory" in str(error), str(error))
        check_equal(temporaries(place), [], "temporaries after settling in vain")
        subprocess.run(["umount", str(pointer)], check=True)
        owner.settle(2, number_missing=False, pointer_behind=True)
        check_equal(pointer.read_bytes(), b"2", "the pointer after settling")
        check_equal(owner.swap([b"3"], expected=2), 3, "the next swap")
        """,
        tmp_path,
    )


@pytest.mark.needs_unshare
def test_a_store_mounted_read_only_is_read_and_never_written(tmp_path: Path) -> None:
    """G8: on a read-only mount everything can be read; a write is EROFS and nothing else.

    Method: a read-only bind mount over the store.
    """
    in_mount_namespace(
        "true",
        """
        import subprocess
        session = open_session(place / "store")
        session.swap([b"1"], expected=0)
        session.close()
        store = str(place / "store")
        subprocess.run(["mount", "--bind", store, store], check=True)
        subprocess.run(["mount", "-o", "remount,ro,bind", store], check=True)
        reader = open_session(place / "store", access="read")
        check_equal(reader.read("manifest.json", max_bytes=9), b"1", "the pointer")
        check_equal(len(reader.list()), 2, "names")
        writer = open_session(place / "store")
        for work in (lambda: writer.create("name", [b""]), lambda: writer.swap([b""], expected=1),
                     lambda: writer.delete("manifest.json"), lambda: writer.acquire(timeout_s=0)):
            check_equal(raised(work).errno, errno.EROFS, "the errno")
        """,
        tmp_path,
    )
