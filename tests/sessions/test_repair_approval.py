"""An approval to rebuild: for one checkpoint, consumed once, by nobody but the session (T13).

Method of all: a session whose current checkpoint is damaged, and an approval that was sealed.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lastgood
from lastgood import CheckpointStore, LastgoodError, mending
from lastgood.errors import DamagedError, LockedError, ProgramMismatchError, UsageError
from tests.crash.scenes import clone
from tests.sessions import repaired
from tests.sessions.repaired import (
    DECISION,
    OWNER,
    PROGRAM,
    SESSION,
    Known,
    checkpoints,
    manifests,
    pointer,
    zero,
)
from tests.support.check import check, check_equal

REBUILD = ("repair", SESSION, "--rebuild-from-log", "--program", f"{repaired.__name__}:PROGRAM")


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Known]:
    """The session, and what it knows."""
    base = tmp_path_factory.mktemp("approval")
    repaired.make(base / "store", rounds=3, milestone=None)
    return base / "store", repaired.undamaged(base / "store", base / "aside")


@pytest.fixture
def root(original: tuple[Path, Known], tmp_path: Path) -> Path:
    """A copy of it, damaged."""
    clone(original[0], tmp_path / "store")
    zero(checkpoints(tmp_path / "store")[-1])
    return tmp_path / "store"


@pytest.fixture
def known(original: tuple[Path, Known]) -> Known:
    """What the undamaged session knows."""
    return original[1]


def approve(root: Path, session: str = SESSION) -> mending.Repaired:
    """Seal an approval."""
    with repaired.place_of(root) as place:
        return mending.approve_rebuild(place, session, owner=OWNER, decision=DECISION)


def kinds(root: Path) -> list[str]:
    """The notes of the newest revision, by type."""
    return [note.type for note in repaired.notes(root)]


def test_approval_is_consumed_by_the_next_opening_once(root: Path, known: Known) -> None:
    """T13: it is used up by the checkpoint that it allowed; a second damage stops again."""
    approve(root)
    check_equal(kinds(root), ["rebuild-approved"], "approved")
    with repaired.opened(root) as session:
        check_equal(Known.of(session), known, "the state")
    check_equal(kinds(root), ["rebuilt-from-log"], "consumed")
    (told,) = repaired.recorded(root)
    check_equal((told["repair"], told["actor"]), ("rebuild-from-log", "operator"), f"{told}")
    zero(checkpoints(root)[-1])
    check(isinstance(repaired.stop(root), DamagedError), "the approval is used twice")
    repaired.mend(root, context="the second damage")
    repaired.check_works(root, known, context="the second damage")


def test_second_approval_is_refused_and_the_command_uses_the_first(
    root: Path, known: Known
) -> None:
    """T13: approving twice changes nothing; ``--rebuild-from-log`` goes on with the first."""
    approve(root)
    words = ("repair", SESSION, "--approve-rebuild", "--reason", "again")
    said = repaired.refused(root, words, code=1, context="again")
    check("approved already" in said, said)
    ran = repaired.run(root, *REBUILD, "--reason", "now", "--actor", "somebody", "--json")
    check_equal(ran.code, 0, "the rebuild")
    told = (ran.document["actor"], ran.document["reason"])
    check_equal(told, (repaired.ACTOR, repaired.REASON), "whose decision the answer tells (T10)")
    (note,) = repaired.notes(root)
    check_equal((note.type, note.reason), ("rebuilt-from-log", repaired.REASON), "the note")
    repaired.check_works(root, known, context="rebuilt")


def test_no_reader_consumes_an_approval(root: Path, known: Known) -> None:
    """T13: load, list, show, verify, history and rehearsal neither use it up nor believe more."""
    approve(root)
    before = repaired.contents(root)
    for verb, code in (("load", 2), ("list", 2), ("verify", 2), ("show", 2)):
        check_equal(repaired.run(root, verb, SESSION).code, code, verb)
    with CheckpointStore(root, SESSION, keys=repaired.KEYS, mode="read") as store:
        with pytest.raises(DamagedError):
            store.load_latest()
        store.check()
    with pytest.raises(LastgoodError):
        CheckpointStore(root, SESSION, keys=repaired.KEYS)
    with lastgood.open_store(root, keys=repaired.KEYS) as store_:
        arguments = {k: v for k, v in PROGRAM.items() if k != "policy"}
        rehearsed: Any = store_.rehearse(SESSION, **arguments)
        check_equal(len(rehearsed.state["items"]), 12, "the rehearsal")
    check_equal(repaired.contents(root), before, "something was changed")
    check_equal(kinds(root), ["rebuild-approved"], "consumed by a reader")
    with repaired.opened(root) as session:
        check_equal(Known.of(session), known, "the state")


def test_wrong_program_leaves_the_approval_for_the_right_one(root: Path, known: Known) -> None:
    """T13: what refuses to go on with the session consumes nothing."""
    approve(root)
    for wrong in (
        {"program": lastgood.Program("other", "1")},
        {"reducer": lambda state, event: state["nothing"]},
        {"validate": lambda state: False},
    ):
        with pytest.raises(LastgoodError):
            repaired.opened(root, **wrong)
        check_equal(kinds(root), ["rebuild-approved"], f"{wrong}")
    with repaired.opened(root) as session:
        check_equal(Known.of(session), known, "the state")
    check_equal(kinds(root), ["rebuilt-from-log"], "consumed")


def test_approval_is_for_one_checkpoint_only(
    original: tuple[Path, Known], root: Path, known: Known
) -> None:
    """T13: approved for a checkpoint that came back meanwhile, it allows nothing of a later one.

    Method: approve; put the file back; save; damage the new checkpoint.
    """
    approve(root)
    shutil.copy2(checkpoints(original[0])[-1], checkpoints(root)[-1])
    with repaired.opened(root) as session:
        check_equal(Known.of(session), known, "the state")
        session.save()
    zero(checkpoints(root)[-1])
    error = repaired.stop(root)
    check(isinstance(error, DamagedError), f"another checkpoint's approval is used: {error}")
    check("--rebuild-from-log" in (error.do if error else ""), f"{error}")
    check_equal(repaired.run(root, *REBUILD, "--reason", "new").code, 0, "the rebuild")
    check_equal(kinds(root), ["rebuild-approved", "rebuilt-from-log"], "notes")
    check_equal([told["reason"] for told in repaired.recorded(root)], ["new"], "the event")


def _replayed(root: Path, early: Path) -> None:
    """Put the approving revisions of ``early`` and its damaged checkpoint back."""
    for path in (*manifests(root), pointer(root)):
        path.unlink()
    for path in (*manifests(early), pointer(early), *checkpoints(early)):
        there = repaired.inside(root) / path.name
        there.unlink(missing_ok=True)
        shutil.copy2(path, there)


def test_approval_of_an_earlier_revision_is_not_replayed(root: Path, tmp_path: Path) -> None:
    """T13: consumed, and put back from a copy: the log remembers more, which stops.

    Method: the approving manifests and their checkpoints, over a session that went on.
    """
    approve(root)
    early = tmp_path / "early"
    clone(root, early)
    with repaired.opened(root) as session:
        repaired.add(session, "later")
    _replayed(root, early)
    error = repaired.stop(root)
    check(error is not None and error.exit_code == 3, f"an old approval is used: {error}")


Forge = Callable[[Path, Path], None]


def _unsealed(root: Path, _: Path) -> None:
    """A note written by hand."""
    path = repaired.alone(pointer(root))
    path.write_bytes(path.read_bytes().replace(b'"notes":[]', b'"notes":[{"type":"x"}]'))


def _of_another_session(root: Path, other: Path) -> None:
    """The approving manifest of another session."""
    repaired.alone(pointer(root)).write_bytes(pointer(other).read_bytes())


def _data_changed(root: Path, _: Path) -> None:
    """An approval of another digest, changed to this one's."""
    path = repaired.alone(pointer(root))
    data = path.read_bytes()
    at = data.rindex(b'"notes":')
    path.write_bytes(data[:at] + data[at:].replace(b'"reason":"', b'"reason":"x'))


@pytest.mark.parametrize("forge", [_unsealed, _of_another_session], ids=lambda f: f.__name__)
def test_forged_approval_is_damage(root: Path, tmp_path: Path, forge: Forge) -> None:
    """T13: an approval is part of a sealed revision of this session, or it is damage."""
    other = tmp_path / "other"
    with repaired.place_of(other), lastgood.open_store(other, keys=repaired.KEYS) as store:
        for _ in range(2):
            with store.session("weekly", **PROGRAM) as session:
                session.append("put", {"item": "a"})
                session.save()
    inside = next(path for path in other.iterdir() if path.is_dir())
    zero(sorted(inside.glob("checkpoint-*"))[-1])
    approve(other, "weekly")
    inside.rename(repaired.inside(other))  # so that the forger finds it by the same name
    forge(root, other)
    error = repaired.stop(root)
    check(isinstance(error, DamagedError) and "manifest" in error.name, f"it is used: {error}")


def test_edited_approval_is_damage(root: Path) -> None:
    """T13: a byte of a sealed approval changed is a revision that does not verify."""
    approve(root)
    _data_changed(root, root)
    error = repaired.stop(root)
    check(isinstance(error, DamagedError) and "manifest" in error.name, f"it is used: {error}")


def test_session_that_somebody_holds_is_locked(root: Path, original: tuple[Path, Known]) -> None:
    """T11: no repair works under an owner, and nothing is changed; of a sound one nothing is to do.

    Method: another handle holds the lock of a session that is damaged meanwhile.
    """
    root = root.with_name("held")
    clone(original[0], root)
    with repaired.opened(root) as session:
        repaired.add(session, "z")
        with pytest.raises(UsageError):
            approve(root)
        session.save()
        data = checkpoints(root)[-1].read_bytes()
        zero(checkpoints(root)[-1])
        before = repaired.contents(root)
        with pytest.raises(LockedError):
            approve(root)
        for option in ("--pointer", "--tail"):
            words = ("repair", SESSION, option, "--reason", "x")
            check_equal(repaired.run(root, *words).code, 1, option)
        ran = repaired.run(root, *REBUILD, "--reason", "x")
        check_equal(ran.code, 7, ran.said)
        check_equal(repaired.contents(root), before, "something was changed")
        checkpoints(root)[-1].write_bytes(data)
        repaired.add(session, "y")
    with repaired.opened(root) as session:
        check_equal(session.state["items"][-2:], ["z", "y"], "the owner goes on")


def test_program_of_another_name_is_told_before_the_state(root: Path) -> None:
    """G3: a rebuild by another program stops, before anything is changed; the approval waits."""
    approve(root)
    with pytest.raises(ProgramMismatchError):
        repaired.opened(root, program=lastgood.Program("other", "1"))
    words = (*REBUILD[:-1], f"{__name__}:OTHER", "--reason", "x")
    before = repaired.contents(root)
    ran = repaired.run(root, *words)
    check_equal(ran.code, 4, ran.said)
    check_equal(repaired.contents(root), before, "the tree")


OTHER = {**PROGRAM, "program": lastgood.Program("other", "1")}


@pytest.mark.parametrize(("bad", "code"), [((-1,), 0), ((-1, -2), 2)], ids=["the newest", "both"])
def test_trimmed_log_rebuilds_from_a_generation_or_not_at_all(
    tmp_path: Path, bad: tuple[int, ...], code: int
) -> None:
    """G3: where older segments left the log, it is never replayed from its new beginning.

    Method: everything that may leave is erased; the newest generation damaged, then both, beside a
    milestone from before the log begins.
    """
    root = tmp_path / "store"
    repaired.make(root)
    known = repaired.undamaged(root, tmp_path / "aside")
    words = ("--log-before", "1000", "--erase", "--reason", "small disk")
    check_equal(repaired.run(root, "gc", SESSION, *words).code, 0, "gc")
    generations = [path for path in checkpoints(root) if "000016" not in path.name]
    for number in bad:
        zero(generations[number])
    before = repaired.contents(root)
    ran = repaired.run(root, *REBUILD, "--reason", repaired.REASON)
    check_equal(ran.code, code, ran.said)
    if code:
        check("the log was cut" in ran.said, ran.said)
        check_equal(repaired.contents(root), before, "something was changed")
        return
    repaired.check_works(root, known, context="trimmed")
