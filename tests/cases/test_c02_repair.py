"""C2, C3-05: what was damaged is mended by the one command that the error names.

Method of all: a session of four checkpoints and several segments is damaged as the case says. The
error's command is run as it is printed, with program and reason filled in; the state that comes
out is compared, by its canonical bytes, with that of the same session without the damage.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lastgood import CheckpointStore
from lastgood.errors import DamagedError
from tests.crash.scenes import clone
from tests.sessions import repaired
from tests.sessions.repaired import Damage, Known, checkpoints, cut, manifests, pointer, zero
from tests.support.check import check, check_equal

REBUILD = "rebuild-from-log"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Known]:
    """The session, and what it knows."""
    base = tmp_path_factory.mktemp("repair")
    repaired.make(base / "store")
    return base / "store", repaired.undamaged(base / "store", base / "aside")


@pytest.fixture
def root(original: tuple[Path, Known], tmp_path: Path) -> Path:
    """A copy of it."""
    clone(original[0], tmp_path / "store")
    return tmp_path / "store"


@pytest.fixture
def known(original: tuple[Path, Known]) -> Known:
    """What the undamaged session knows."""
    return original[1]


def mended(root: Path, known: Known, *expected: str, context: str) -> None:
    """Mended by exactly these repairs, to the undamaged state; and never twice."""
    found = repaired.mend(root, context=context)
    check_equal(found.repairs, list(expected), f"{context}: the repairs")
    check_equal(
        [a["missing"] for a in found.answers if a["repair"] == REBUILD],
        [None] * expected.count(REBUILD),
        "missing",
    )
    repaired.check_recorded(root, found, context=context)
    said = repaired.refused(root, found.commands[-1], code=1, context=f"{context}: again")
    check("nothing to repair" in said, said)
    repaired.check_works(root, known, context=context)
    lost = found.evidence - repaired.contents(root)
    check_equal(lost, set(), f"{context}: damaged bytes that are gone at the end")


def part(path: Path, size: str) -> None:
    """Cut a file to a part of it."""
    whole = path.stat().st_size
    cut(path, {"nothing": 0, "1 byte": 1, "half": whole // 2, "all but one byte": whole - 1}[size])


@pytest.mark.slow
@pytest.mark.parametrize("size", ["nothing", "1 byte", "half", "all but one byte"])
def test_c02_01_truncated_newest_checkpoint_is_rebuilt_from_the_log(
    root: Path, known: Known, size: str
) -> None:
    """C2-01: a cut newest checkpoint stops; one command ends in the undamaged state."""
    part(checkpoints(root)[-1], size)
    mended(root, known, REBUILD, context=f"cut to {size}")


def all_zero(*paths: Path) -> None:
    """Overwrite files with NUL."""
    for path in paths:
        zero(path)


ZEROED: dict[str, tuple[Damage, tuple[str, ...]]] = {
    "checkpoint": (lambda root: zero(checkpoints(root)[-1]), (REBUILD,)),
    "older checkpoint": (lambda root: zero(checkpoints(root)[-2]), ("pointer",)),
    "both checkpoints": (lambda root: all_zero(*checkpoints(root)[-2:]), (REBUILD,)),
    "pointer": (lambda root: zero(repaired.alone(pointer(root))), ("pointer",)),
    "newest number": (lambda root: zero(repaired.alone(manifests(root)[-1])), ("pointer",)),
    "pointer and newest number": (lambda root: zero(pointer(root)), ("pointer",)),
    "number before": (lambda root: zero(manifests(root)[-2]), ("pointer",)),
    "pointer, number and checkpoint": (
        lambda root: all_zero(pointer(root), checkpoints(root)[-1]),
        ("pointer",),
    ),
    "number before and checkpoint": (
        lambda root: all_zero(manifests(root)[-2], checkpoints(root)[-1]),
        ("pointer", REBUILD),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ZEROED)
def test_c02_02_zeros_of_the_right_length_are_mended(root: Path, known: Known, name: str) -> None:
    """C2-02: checkpoint, pointer, numbers and all of them together: never a new session.

    Method: each overwritten in place; the pointer and the newest number are one file.
    """
    damage, expected = ZEROED[name]
    damage(root)
    mended(root, known, *expected, context=name)


@pytest.mark.slow
@pytest.mark.parametrize("tail", [b'"}', b"\n{}\n", b"older"], ids=["end", "object", "older"])
def test_c02_04_bytes_behind_the_newest_checkpoint_are_mended(
    root: Path, known: Known, tail: bytes
) -> None:
    """C2-04: no prefix of a record is read; the command rebuilds it."""
    newest = checkpoints(root)[-1]
    behind = checkpoints(root)[-2].read_bytes()[-200:] if tail == b"older" else tail
    with newest.open("ab") as file:
        file.write(behind)
    mended(root, known, REBUILD, context=f"{behind[:20]!r} behind it")


@pytest.mark.slow
def test_c02_05_empty_generations_are_rebuilt_from_the_first_event(tmp_path: Path) -> None:
    """C2-05 (b): with every generation empty, the complete log is replayed from its beginning."""
    root = tmp_path / "store"
    repaired.make(root, milestone=None)
    known = repaired.undamaged(root, tmp_path / "aside")
    for path in checkpoints(root):
        cut(path)
    mended(root, known, REBUILD, context="all empty")


@pytest.mark.parametrize("which", ["newest", "every"])
def test_c02_05_empty_log_beside_a_checkpoint_is_no_repair_of_ours(root: Path, which: str) -> None:
    """C2-05 (a): a log of 0 bytes that a checkpoint is anchored in stops, and nothing mends it.

    Method: below an anchor, so every repair is refused and changes nothing.
    """
    for path in repaired.segments(root)[-2:] if which == "newest" else repaired.segments(root):
        cut(path)
    error = repaired.stop(root)
    check(error is not None and error.exit_code in (2, 3), f"it opens: {error}")
    check(error is not None and "lastgood verify SESSION" in error.do, f"{error}")
    for option in ("--tail", "--pointer", "--approve-rebuild"):
        words = ("repair", repaired.SESSION, option, "--reason", repaired.REASON)
        ran = repaired.run(root, *words)
        check(ran.code in (1, 2, 3), f"{option}: {ran}")
    check_equal(str(repaired.stop(root)), str(error), "it stops as before")


@pytest.mark.slow
def test_c02_09_newest_bad_then_both_bad(tmp_path: Path) -> None:
    """C2-09: both bad with a complete log are rebuilt from the first event.

    Method: the newest, then its rebuild; then both of what is there then.
    """
    root = tmp_path / "store"
    repaired.make(root, milestone=None)
    known = repaired.undamaged(root, tmp_path / "aside")
    zero(checkpoints(root)[-1])
    mended(root, known, REBUILD, context="newest bad")
    now = repaired.undamaged(root, root.with_name("aside"))
    for path in checkpoints(root):
        zero(path)
    found = repaired.mend(root, context="both bad")
    check_equal(found.repairs, [REBUILD], "the repairs")
    check("the initial state" in found.answers[0]["decided"], f"{found.answers}")
    repaired.check_works(root, now, context="both bad")


@pytest.mark.parametrize("at", [0.2, 0.9])
def test_c02_09_all_bad_and_the_log_damaged_lists_all_three_and_repairs_nothing(
    root: Path, at: float
) -> None:
    """C2-09: what could be begun with and the log before the anchor are bad: all is found.

    Method: both generations, the milestone, and a segment below them.
    """
    damaged = [*checkpoints(root), repaired.segments(root)[2]]
    for path in damaged:
        repaired.flip(path, int(len(path.read_bytes().rstrip(b"\0")) * at))
    before = repaired.contents(root)
    scanned = repaired.run(root, "repair", repaired.SESSION, "--scan")
    check_equal(scanned.code, 2, scanned.said)
    findings = " ".join(scanned.document["sessions"][0]["findings"])
    check(all(path.name in findings for path in damaged), findings)
    prospects = scanned.document["repairs"]
    check(not any(told["succeeds"] for told in prospects), f"{prospects}")
    error = repaired.stop(root)
    check(isinstance(error, DamagedError), f"{error}")
    words = repaired.command_in(error.do if error else "")
    repaired.refused(root, words, code=2, context="the repair")
    for option in ("--tail", "--pointer", "--approve-rebuild"):
        words = ("repair", repaired.SESSION, option, "--reason", repaired.REASON)
        check(repaired.run(root, *words).code in (1, 2), f"{option} is not refused")
    check_equal(repaired.contents(root), before, "something was changed")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["missing", "empty"])
def test_c03_05_manifest_that_names_nothing_is_mended(root: Path, known: Known, kind: str) -> None:
    """C3-05: the manifest names a checkpoint that is missing or empty; the log rebuilds it."""
    newest = checkpoints(root)[-1]
    if kind == "missing":
        newest.unlink()
    else:
        cut(newest)
    mended(root, known, REBUILD, context=kind)


def test_rebuilding_never_happens_by_itself(root: Path) -> None:
    """G3: neither an opening nor a reader nor a check mends anything that nobody decided."""
    zero(checkpoints(root)[-1])
    before = repaired.contents(root)
    for _ in range(2):
        check(repaired.stop(root) is not None, "it opens")
        with CheckpointStore(root, repaired.SESSION, keys=repaired.KEYS, mode="read") as store:
            with pytest.raises(DamagedError):
                store.load_latest()
            check_equal(store.check().exit_code, 2, "the check")
    check_equal(repaired.contents(root), before, "something was changed")
