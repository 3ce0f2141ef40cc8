"""The order of the system calls of one save, and how many fsyncs each operation makes.

=========================================  ======
operation                                  fsyncs
=========================================  ======
a save (S4 two, S6 one, S7 one)                 4
a save that is ``unchanged``                    0
opening a store whose directory is missing     14
opening a new session of a store               10
opening what was closed cleanly                 4
opening after a death before S4                 5
opening after a death between S4 and S6         5
opening after a death between S6 and S7         6
loading, listing, verifying, closing            0
=========================================  ======

Recorded at the ``FileSystem`` seam, and below it with strace, so that no call goes around it.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from lastgood.checkpoints import CheckpointStore
from lastgood.storage.posix import PosixRoot
from tests.crash.scenes import KEYS, Scenes, checkpoint, reader, writer
from tests.crash.seam import Seam, system
from tests.support.check import check_equal
from tests.support.require import REPOSITORY, require_strace

# What one save that prunes does to names and bytes, in order: step, call, name.
ONE_SAVE: Final = (
    ("S4", "open", ".checkpoint-000040.json.*.tmp"),
    ("S4", "writev", ""),
    ("S4", "fsync", ""),
    ("S4", "close", ""),
    ("S4", "link", ".checkpoint-000040.json.*.tmp checkpoint-000040.json"),
    ("S4", "unlink", ".checkpoint-000040.json.*.tmp"),
    ("S4", "fsync", ""),
    ("S5", "open", "checkpoint-000040.json"),
    ("S5", "read", ""),
    ("S5", "read", ""),
    ("S5", "close", ""),
    ("S6", "listdir", ""),
    ("S6", "open", ".manifest.json.*.tmp"),
    ("S6", "writev", ""),
    ("S6", "fsync", ""),
    ("S6", "close", ""),
    ("S6", "open", ".manifest.json.*.tmp"),
    ("S6", "link", ".manifest.json.*.tmp manifest-000005.json"),
    ("S6", "listdir", ""),
    ("S7", "rename", ".manifest.json.*.tmp manifest.json"),
    ("S7", "fsync", ""),
    ("S7", "close", ""),
    ("S9", "open", "checkpoint-000030.json"),
    ("S9", "read", ""),
    ("S9", "read", ""),
    ("S9", "close", ""),
    ("S9", "listdir", ""),
    ("S9", "open", "checkpoint-000020.json"),
    ("S9", "read", ""),
    ("S9", "read", ""),
    ("S9", "close", ""),
    ("S9", "unlink", "checkpoint-000020.json"),
    ("S9", "open", "manifest-000003.json"),
    ("S9", "read", ""),
    ("S9", "read", ""),
    ("S9", "close", ""),
    ("S9", "unlink", "manifest-000003.json"),
)
LOOKS: Final = ("fstat", "stat", "realpath")
CHANGES: Final = (
    "writev", "pwrite", "fsync", "fdatasync", "link", "rename", "unlink", "mkdir", "fchmod",
    "flock",
)  # fmt: skip


def recorded(made: list[str]) -> list[str]:
    """The calls without the random parts of names, and without those that only look."""
    plain = [re.sub(r"\.[0-9a-f]{16}\.tmp", ".*.tmp", call) for call in made]
    return [call for call in plain if call.split()[0] not in LOOKS]


def three_saved(place: Path, seam: Seam) -> CheckpointStore:
    """An open handle on three checkpoints."""
    store = writer(place, seam)
    for sequence in (10, 20, 30):
        store.save(checkpoint(sequence))
    seam.begin()
    return store


def test_one_save_makes_exactly_these_calls_in_this_order(fast: Path) -> None:
    """S1 to S9, C3-05: write, fsync, name, fsync, read back; then the manifest alike; then prune.

    Method: record the fourth save at the seam and compare it with the written list.
    """
    seam = Seam()
    with three_saved(fast, seam) as store:
        store.save(checkpoint(40))
        made = recorded(seam.made)
    begin = made.index("open .checkpoint-000040.json.*.tmp")
    check_equal(made[:begin], ["listdir"], "S1: the epoch is looked at, nothing is written")
    expected = [f"{call} {name}".strip() for _, call, name in ONE_SAVE]
    check_equal(made[begin:], expected, "S4 to S9")


def opening(scene: str) -> Callable[[Scenes], list[str]]:
    """The calls of opening ``scene`` for writing."""

    def calls(scenes: Scenes) -> list[str]:
        seam = Seam()
        with scenes.copy(scene) as place, writer(place, seam):
            return list(seam.made)

    return calls


def second_session(scenes: Scenes) -> list[str]:
    """The calls of opening a session that is not there, in a store that is."""
    seam = Seam()
    with scenes.copy("three") as place:
        CheckpointStore(PosixRoot(place, filesystem=system(seam)), "weekly", keys=KEYS).close()
    return seam.made


def working(*steps: Callable[[CheckpointStore], object]) -> Callable[[Scenes], list[str]]:
    """The calls of the last of ``steps`` on a handle that has ``three`` open for writing."""

    def calls(scenes: Scenes) -> list[str]:
        seam = Seam()
        with scenes.copy("three") as place, writer(place, seam) as store:
            for step in steps:
                seam.begin()
                step(store)
            return list(seam.made)

    return calls


FSYNCS: Final[dict[str, tuple[Callable[[Scenes], list[str]], int]]] = {
    "a save": (working(lambda store: store.save(checkpoint(40))), 4),
    "the same save again": (
        working(lambda store: store.save(checkpoint(40)), lambda store: store.save(checkpoint(40))),
        0,
    ),
    "opening a new store": (opening("absent"), 14),
    "opening a new session": (second_session, 10),
    "opening a closed session": (opening("three"), 4),
    "opening after a death before S4": (opening("temporary"), 5),
    "opening after a death between S4 and S6": (opening("published"), 5),
    "opening after a death between S6 and S7": (opening("claimed"), 6),
    "loading": (working(CheckpointStore.load_latest), 0),
    "listing and verifying": (working(CheckpointStore.check), 0),
    "closing": (working(CheckpointStore.close), 0),
}


@pytest.mark.parametrize("what", FSYNCS)
def test_an_operation_makes_the_stated_number_of_fsyncs(scenes: Scenes, what: str) -> None:
    """S4 to S7, R1, R4: the table of this module.

    Method: count at the seam.
    """
    calls, expected = FSYNCS[what]
    made = calls(scenes)
    found = sum(call in ("fsync", "fdatasync") for call in made)
    check_equal(found, expected, f"fsyncs of {what}, among {len(made)} calls")


def test_reading_changes_nothing_on_the_disk(scenes: Scenes) -> None:
    """G8: no call of a reader can change a byte, a name, a mode or a time.

    Method: record load, load by number, check and verify at the seam, in every scene.
    """
    for scene in Scenes.BELIEVED:
        seam = Seam()
        with scenes.copy(scene) as place, reader(place, seam) as store:
            latest = store.load_latest()
            store.check()
            if latest is not None:
                store.load(latest.sequence)
        changes = [call for call in seam.made if call.split()[0] in CHANGES]
        check_equal(changes, [], f"{scene}: calls that change something")


PROGRAM: Final = """
import os, sys
from pathlib import Path
from tests.crash.scenes import checkpoint, reader, writer
place = Path(sys.argv[1])
mark = lambda name: os.access("/lastgood-mark-" + name, os.F_OK)
with writer(place) as store:
    for sequence in (10, 20, 30):
        store.save(checkpoint(sequence))
    mark("save")
    store.save(checkpoint(40))
    mark("end")
with reader(place) as store:
    mark("read")
    store.load_latest(); store.check(); store.load(40); store.close()
    mark("end")
"""
SYSTEM_CALLS: Final = {
    "writev": "writev", "pwrite64": "pwrite", "write": "write", "fsync": "fsync",
    "fdatasync": "fdatasync", "linkat": "link", "link": "link", "renameat": "rename",
    "renameat2": "rename", "rename": "rename", "unlinkat": "unlink", "unlink": "unlink",
    "mkdirat": "mkdir", "mkdir": "mkdir", "fchmod": "fchmod", "fchmodat": "fchmod",
    "utimensat": "utimes", "ftruncate": "truncate", "truncate": "truncate", "flock": "flock",
}  # fmt: skip


@pytest.mark.needs_strace
@pytest.mark.normal_only
def test_the_kernel_sees_the_same_calls_as_the_seam(fast: Path, tmp_path: Path) -> None:
    """C3-05, G8: nothing goes around the seam: in a save the list, in a reading nothing.

    Method: strace a process that saves and reads, and compare what changes a file.
    """
    log = tmp_path / "trace"
    ran = subprocess.run(
        [require_strace(), "-f", "-o", log, "-s", "200", "-e", "trace=all", sys.executable, "-c",
         PROGRAM, fast],
        cwd=REPOSITORY, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    check_equal(ran.returncode, 0, f"the traced process: {ran.stderr}")
    text = log.read_text()
    expected = [f"{call} {name}".strip() for _, call, name in ONE_SAVE if call in CHANGES]
    check_equal(_changes(text, "save"), expected, "changes of a save")
    check_equal(_changes(text, "read"), [], "changes of a reading")


def _changes(trace: str, mark: str) -> list[str]:
    """What the process changed between two marks."""
    between = trace.split(f"/lastgood-mark-{mark}", 1)[1].split("/lastgood-mark-end", 1)[0]
    found = []
    for line in between.split("\n"):
        call = re.match(r"\d+ +(\w+)\(", line)
        if call is None or call[1] not in SYSTEM_CALLS:
            continue
        quoted = re.findall(r'"([^"]*)"', line) if call[1] not in ("writev", "write") else []
        given = [re.sub(r"\.[0-9a-f]{16}\.tmp", ".*.tmp", name) for name in quoted]
        found.append(" ".join([SYSTEM_CALLS[call[1]], *given]))
    return found
