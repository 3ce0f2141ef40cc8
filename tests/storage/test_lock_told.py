r"""What somebody who is locked out is told of the holder: useful, and harmless to print (T12).

Method of all: a session that is held, its lock file as the holder wrote it, or overwritten in
place, by which the lock itself stays; a second opening is refused and its message is read.
"""

from __future__ import annotations

import json
import os
import platform
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from lastgood import Limits
from lastgood.checkpoints import CheckpointStore
from lastgood.errors import LockedError
from lastgood.storage.lock import HOLDER_BYTES
from tests.storage.places import in_child
from tests.support import records, trees
from tests.support.check import check, check_equal

SESSION: Final = "nightly"
SEED: Final = 20_261_201
LONGEST_TOLD: Final = 8 * HOLDER_BYTES
"""A sector, with each byte escaped twice."""


def opened(root: Path) -> CheckpointStore:
    """Open the session, or be told who holds it."""
    return CheckpointStore(root, SESSION, keys=records.keyring(), limits=Limits(lock_wait_s=0.02))


def lock(root: Path) -> Path:
    """The lock file."""
    return root / trees.directory(SESSION) / "lock"


def told(root: Path) -> LockedError:
    """What a second opening raises."""
    with pytest.raises(LockedError) as caught:
        opened(root)
    return caught.value


def written(root: Path) -> dict[str, Any]:
    """What the holder wrote."""
    found: dict[str, Any] = json.loads(lock(root).read_bytes())
    return found


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A store whose session this process holds, by its third opening."""
    place = tmp_path / "store"
    for _ in range(2):
        opened(place).close()
    with opened(place):
        yield place


# --- an honest holder ---------------------------------------------------------------------


def test_second_opening_in_one_process_names_that_very_process(root: Path) -> None:
    """R1, C5-01: pid, host, epoch and time of the holder, and that it is oneself."""
    note = written(root)
    check_equal(set(note), {"pid", "host", "epoch", "since"}, "what is noted")
    check_equal((note["pid"], note["epoch"]), (os.getpid(), 3), "the holder")
    host = platform.node()[:64]
    check(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*Z", note["since"]), f"{note}")
    check_equal(
        told(root).happened,
        f"The session is held by process {os.getpid()}, which is this very process, on host "
        f"{host}, epoch 3, since {note['since']}",
        "the message",
    )


def test_opening_in_another_process_is_not_told_that_it_holds_it(root: Path) -> None:
    """R1, C5-01: another process is told the holder's pid, and not that it is itself.

    Method: a forked child, which shares the host's name and has another pid.
    """
    holder = os.getpid()

    def look() -> None:
        said = told(root).happened
        check(f"held by process {holder} on host" in said, said)
        check("very process" not in said, said)
        check("epoch 3, since" in said, said)

    check_equal(in_child(look), "returned", "the child")


@pytest.mark.parametrize("changed", [{"host": "elsewhere"}, {"pid": 1}], ids=["host", "pid"])
def test_same_pid_on_another_host_is_another_process(root: Path, changed: dict[str, Any]) -> None:
    """R1: a number alone does not make the holder this process; containers share numbers."""
    note = {**written(root), **changed}
    overwrite(root, json.dumps(note).encode())
    said = told(root).happened
    check(f"process {note['pid']} on host {note['host']}, epoch 3" in said, said)
    check("very process" not in said, said)


# --- a hostile lock file ------------------------------------------------------------------


def overwrite(root: Path, data: bytes) -> None:
    """Change the content of the file whose lock is held."""
    with lock(root).open("r+b") as file:
        file.truncate(0)
        file.write(data)


def note_of(value: str, *, ascii_only: bool) -> bytes:
    """A note in which each field says ``value``."""
    fields = dict.fromkeys(("pid", "host", "epoch", "since"), value)
    return json.dumps(fields, ensure_ascii=ascii_only).encode()


ESCAPE: Final = "\x1b[2J\x1b]0;x\x07"
BIDI: Final = "\u202eabc\u2066\u200b"
HOSTILE: Final[dict[str, bytes]] = {
    "escape": ESCAPE.encode() * 20,
    "bidi": BIDI.encode() * 20,
    "escape in fields, as escapes": note_of(ESCAPE, ascii_only=True),
    "bidi in fields, raw": note_of(BIDI, ascii_only=False),
    "bidi in fields, as escapes": note_of(BIDI, ascii_only=True),
    "line feeds in fields": note_of("a\nThe store is good.\r", ascii_only=True),
    "half a pair in fields": note_of("\ud800", ascii_only=True),
    "lists in fields": b'{"pid":["\\u202e"],"host":{"\\u001b":1},"epoch":null,"since":[]}',
    "no object": b'"\\u202e\\u001b[2J"',
    "a field less": b'{"pid":"\\u202e","host":"\\u001b"}',
    "deep": b"[" * HOLDER_BYTES,
    "garbage": random.Random(SEED).randbytes(HOLDER_BYTES),
    "more than a sector": b"\x1b" * 100_000,
    "zeros": bytes(HOLDER_BYTES),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_lock_file_is_told_escaped_and_bounded(root: Path, name: str) -> None:
    """T12: whatever stands in the lock file, no character of it repaints or reorders a line.

    Method: escape sequences, bidi, line feeds, raw and as escapes inside JSON; seed in the module.
    """
    overwrite(root, HOSTILE[name])
    error = told(root)
    for said in (str(error), error.holder):
        raw = sorted({character for character in said if not character.isprintable()})
        check_equal(raw, [], f"{name}, seed {SEED}: raw characters in {said!r}")
        check(len(said) <= LONGEST_TOLD, f"{name}: {len(said)} characters")
    check_equal(error.exit_code, 7, "the exit code")
    check(str(error).startswith("The session is held by "), str(error))


@pytest.mark.parametrize("data", [b"", b"   \n", bytes(4096)], ids=["empty", "blank", "zeros"])
def test_empty_lock_file_says_that_the_holder_is_unknown(root: Path, data: bytes) -> None:
    """R1: who holds the lock and wrote nothing is unknown, and still a holder."""
    overwrite(root, data)
    error = told(root)
    check_equal(error.holder, "unknown", "the holder")
    check_equal(error.happened, "The session is held by another: unknown", "the message")


def test_escaped_text_still_tells_one_holder_from_another(root: Path) -> None:
    """T12: a name that was escaped is not the name that looks like its escape."""
    said = set()
    for host in ("\u202e", "\\u202e", "u202e", ""):
        note = {**written(root), "host": host}
        overwrite(root, json.dumps(note).encode())
        said.add(told(root).happened)
    check_equal(len(said), 4, f"{said}")
