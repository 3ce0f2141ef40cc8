"""What reviews of a session found: each once more, so that it stays found.

Method of most: a session that is open while something happens to its files, its calls, its
process or its program.
"""

from __future__ import annotations

import errno
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import lastgood
from lastgood import CheckpointPolicy, Limits, Session, mending
from lastgood.entropy import system_entropy
from lastgood.errors import (
    DamagedError,
    DurabilityUnknownError,
    FencedError,
    ForkDetectedError,
    LastgoodError,
    LimitError,
    LockedError,
    ReducerError,
    StateError,
    StorageError,
    UsageError,
)
from lastgood.formats.event import Event
from lastgood.handle import SharedHandle
from tests.crash import sessions
from tests.crash.scenes import DIRECTORY, clone
from tests.crash.seam import Seam
from tests.sessions import repaired
from tests.storage.places import in_child
from tests.support.check import check, check_equal
from tests.support.faulty import Calls, Fault, faulty, system_error

State = dict[str, Any]
FIVE: Final = CheckpointPolicy(events=5, seconds=None, log_bytes=None)
SMALL: Final = Limits(payload_bytes=1_000)


# --- a state that is read again -----------------------------------------------------------


def spoiled(root: Path) -> Session[State]:
    """An open session with a checkpoint of its own, whose state has to be read again."""
    session = repaired.opened(root)
    repaired.add(session, "mine")
    session.save()
    with pytest.raises(ReducerError):
        session.append("put", {})
    return session


def check_unsaved(session: Session[State], root: Path, kind: type[LastgoodError]) -> LastgoodError:
    """Neither an append nor a save of ``session`` works, nor is anything of them kept."""
    session_files = repaired.contents(root)
    sequence = session.sequence
    errors: list[LastgoodError] = []
    for call in (lambda: session.append("put", {"item": "x"}), session.save, lambda: session.state):
        with pytest.raises(kind) as caught:
            call()
        errors.append(caught.value)
    check_equal(session.sequence, sequence, "the sequence")
    check_equal(repaired.contents(root), session_files, "something was stored")
    return errors[0]


def test_checkpoint_of_a_fork_is_no_state_to_go_on_from(tmp_path: Path) -> None:
    """G3: read again after a reducer's error, the state is that of the named checkpoint only.

    Method: a copy of the store goes another way to the same sequence; its authentic checkpoint
    takes the place of this one's, while the session is open.
    """
    root, other = tmp_path / "store", tmp_path / "fork"
    repaired.make(root, rounds=2, milestone=None)
    clone(root, other)
    with repaired.opened(other) as forked:
        repaired.add(forked, "other")
        forked.save()
    session = spoiled(root)
    named, foreign = repaired.checkpoints(root)[-1], repaired.checkpoints(other)[-1]
    check_equal(named.name, foreign.name, "the sequences")
    named.unlink()
    shutil.copy2(foreign, named)
    error = check_unsaved(session, root, ForkDetectedError)
    check(named.name in error.happened, str(error))
    session.close()


def test_checkpoint_that_goes_under_an_open_session_is_named(tmp_path: Path) -> None:
    """G3: read again after a reducer's error, a state whose checkpoint is gone stops, by name.

    Method: the current checkpoint's file is moved away, and put back afterwards.
    """
    root = tmp_path / "store"
    repaired.make(root, rounds=2, milestone=None)
    session = spoiled(root)
    named = repaired.checkpoints(root)[-1]
    named.rename(tmp_path / "kept")
    error = check_unsaved(session, root, DamagedError)
    check_equal(getattr(error, "name", ""), named.name, "the name")
    (tmp_path / "kept").rename(named)
    repaired.add(session, "after")
    check_equal(session.state["items"][-2:], ["mine", "after"], "it goes on")
    session.close()


# --- what an append that fails may have left ----------------------------------------------

WRITTEN: Final = "may be in the log"


def behind_the_flush(root: Path) -> range:
    """The numbers of the calls behind an append's fdatasync, asked of a copy."""
    aside = root.with_name("aside")
    clone(root, aside)
    calls = Calls()
    with sessions.opened(aside, faulty(calls)) as session:
        session.append(*sessions.given("x"))
        calls.begin()
        session.append(*sessions.given("y"))
        behind = range(calls.made.index("fdatasync") + 1, len(calls.made))
        check(len(behind) > 0, f"no look behind the flush: {calls.made}")
    shutil.rmtree(aside)
    return behind


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A session with one item."""
    root = tmp_path / "store"
    with sessions.opened(root) as session:
        session.append(*sessions.given("a"))
    return root


def test_ownership_that_cannot_be_looked_up_after_the_flush_is_an_unknown_outcome(
    begun: Path,
) -> None:
    """G1, F6: what is durable is never called "not stored"; before the write that is the truth.

    Method: EIO from each look behind the fdatasync, then from the first one of another append.
    """
    behind = behind_the_flush(begun)
    calls, known = Calls(), ["a", "x"]
    with sessions.opened(begun, faulty(calls)) as session:
        session.append(*sessions.given("x"))
        for at in behind:
            calls.begin(Fault(at, system_error(errno.EIO)))
            with pytest.raises(DurabilityUnknownError) as caught:
                session.append(*sessions.given("y"))
            check_equal(caught.value.errno, errno.EIO, f"call {at}: the cause")
            calls.begin()
            check_equal(session.state["items"], known, f"call {at}: settled by the next call")
            session.append(*sessions.given(f"{at}"))  # it has a segment again
            known.append(f"{at}")
        calls.begin(Fault(0, system_error(errno.EIO)))
        with pytest.raises(StorageError) as before:
            session.append(*sessions.given("w"))
        check(not isinstance(before.value, DurabilityUnknownError), f"{before.value!r}")
        calls.begin()
    with sessions.opened(begun) as session:
        check_equal(session.state["items"], known, "what is believed")


def test_fenced_append_says_whether_its_event_may_be_in_the_log(begun: Path) -> None:
    """G1, T11: fenced behind the flush, the event may be read; fenced before, it is not there.

    Method: the lock file goes, once right behind the fdatasync and once before the append.
    """
    at = behind_the_flush(begun)[0]
    for when, wanted in (("behind", ["a", "x", "y"]), ("before", ["a", "x"])):
        root = begun.with_name(when)
        clone(begun, root)
        lock = root / DIRECTORY / "lock"
        seam = Seam()
        session = sessions.opened(root, seam)
        session.append(*sessions.given("x"))

        def remove(number: int, _: str, lock: Path = lock) -> None:
            if number == at:
                lock.unlink()

        seam.begin(remove if when == "behind" else None)
        if when == "before":
            lock.unlink()
        with pytest.raises(FencedError) as caught:
            session.append(*sessions.given("y"))
        check_equal(WRITTEN in str(caught.value), when == "behind", f"{when}: {caught.value}")
        seam.begin()
        session.close()
        with sessions.opened(root) as after:
            check_equal(after.state["items"], wanted, f"{when}: what the next owner reads")


# --- saves by themselves ------------------------------------------------------------------


def test_job_that_dies_often_saves_all_the_same(tmp_path: Path) -> None:
    """G2: deaths before a save count towards the next, so that no replay grows without bound.

    Method: six processes append 60 events each, by the default policy, and die without a close.
    """
    root, replays = tmp_path / "store", []

    def run() -> None:
        kept.append(repaired.opened(root, policy=CheckpointPolicy()))
        for number in range(60):
            repaired.add(kept[0], f"{number}")
        (tmp_path / "replayed").write_text(f"{kept[0].resumed.replayed}")

    kept: list[Session[State]] = []
    for _ in range(6):
        check_equal(in_child(run), "returned", "the job")
        replays.append(int((tmp_path / "replayed").read_text()))
    check(repaired.checkpoints(root), f"no checkpoint at all; replays: {replays}")
    with repaired.opened(root) as session:
        replays.append(session.resumed.replayed)
        check_equal(len(session.state["items"]), 360, "events")
    check(max(replays) <= 100 + 60, f"events replayed at each opening: {replays}")


def small(root: Path, **options: Any) -> Session[State]:
    """A session that may save a kilobyte, and tries to after each five events."""
    store = lastgood.open_store(
        root, keys=repaired.KEYS, limits=SMALL, entropy=options.pop("entropy", system_entropy)
    )
    return store.session(repaired.SESSION, **{**repaired.PROGRAM, "policy": FIVE, **options})


def outgrow(session: Session[State]) -> None:
    """Let the state be more than may be saved; its type of event is proved before."""
    repaired.add(session, "a", "x" * 2_000)


def test_failing_automatic_save_is_tried_again_only_with_the_next_span(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """G1: it fails no append, is told each time, and costs one try for each span of the policy.

    Method: a state over the payload limit, 60 events more, a policy of 5; records are counted.
    """
    session = small(tmp_path / "store")
    outgrow(session)
    with caplog.at_level(logging.ERROR, logger="lastgood"):
        for number in range(60):
            repaired.add(session, f"{number}")
    told = [record for record in caplog.records if record.levelno == logging.ERROR]
    check(10 <= len(told) <= 13, f"{len(told)} tries in 60 events")
    check_equal({record.name for record in told}, {"lastgood"}, "the logger")
    check(any("automatic save failed" in text for text in session.notices), f"{session.notices}")
    with pytest.raises(LimitError):
        session.close()
    session.close()  # told once
    with small(tmp_path / "store", policy=repaired.NEVER) as again:
        check_equal(len(again.state["items"]), 62, "every event is stored")


def test_failed_automatic_save_hides_no_error_of_the_block(tmp_path: Path) -> None:
    """G1: what the with block raises comes out of it, not what closing would say."""

    def block(root: Path, error: type[Exception] | None) -> None:
        with small(root) as session:
            outgrow(session)
            repaired.add(session, *"bcdef")
            check(any("automatic save" in text for text in session.notices), "it did not fail")
            if error is not None:
                raise error

    with pytest.raises(ZeroDivisionError):
        block(tmp_path / "store", ZeroDivisionError)
    with pytest.raises(LimitError):
        block(tmp_path / "other", None)
    small(tmp_path / "store", policy=repaired.NEVER).close()  # it was given back


def test_save_that_succeeds_takes_the_failure_back(tmp_path: Path) -> None:
    """G1: after a save that succeeded there is nothing left to tell."""

    def shrinking(state: State, event: Event) -> State:
        return {"items": []} if event.type == "forget" else {"items": [*state["items"], "x" * 900]}

    with small(tmp_path / "store", reducer=shrinking, initial={"items": []}) as session:
        for _ in range(6):
            session.append("put")
        check(any("automatic save" in text for text in session.notices), f"{session.notices}")
        session.append("forget")
        session.save()
        check_equal(session.notices, (), "notices")


def test_validator_that_raises_inside_an_automatic_save_fails_no_append(tmp_path: Path) -> None:
    """G1: the event is durable before the save; what the validator raises there is told, later.

    Method: a validator that raises something odd when it sees a state for the second time.
    """
    seen: list[int] = []

    def odd(state: State) -> object:
        number = len(state["items"])
        if number and number in seen:
            raise UnicodeError("odd")
        seen.append(number)
        return True

    session = small(tmp_path / "store", validate=odd)
    repaired.add(session, *"abcde")
    check(any("validator" in text for text in session.notices), f"{session.notices}")
    with pytest.raises(StateError, match="validator"):
        session.close()


def test_callers_code_that_raises_inside_an_automatic_save_fails_no_append(tmp_path: Path) -> None:
    """G1: any exception of the caller's own code in a save is told as one of ours, by ``close``.

    Method: randomness that raises when a save names its temporary.
    """
    broken: list[bool] = []

    def entropy(size: int) -> bytes:
        if broken:
            raise ZeroDivisionError
        return system_entropy(size)

    session = small(tmp_path / "store", entropy=entropy)
    repaired.add(session, "a")
    broken.append(True)
    items = iter("bcdefg")
    while not session.notices:
        repaired.add(session, next(items))
    broken.clear()
    check("ZeroDivisionError" in session.notices[0], f"{session.notices}")
    appended = session.state["items"]
    with pytest.raises(LastgoodError, match="ZeroDivisionError"):
        session.close()
    with small(tmp_path / "store") as again:
        check_equal(again.state["items"], appended, "every event is stored")
    check_equal(appended, list("abcdefg")[: len(appended)], "in their order")


# --- a program that refuses what an opening found -----------------------------------------


def test_program_that_refuses_to_resume_leaves_an_approval_standing(tmp_path: Path) -> None:
    """T13: what ``on_resume`` raises stops: nothing saved, no approval used, the session free.

    Method: an approved rebuild whose first opening is refused by the program.
    """
    root = tmp_path / "store"
    repaired.make(root, rounds=3, milestone=None)
    repaired.zero(repaired.checkpoints(root)[-1])
    with repaired.place_of(root) as place:
        mending.approve_rebuild(
            place, repaired.SESSION, owner=repaired.OWNER, decision=repaired.DECISION
        )
    before = [(path.name, path.read_bytes()) for path in repaired.checkpoints(root)]

    def refuse(found: lastgood.Resumed[State]) -> None:
        check_equal(len(found.state["items"]), 12, "what was found")
        raise ZeroDivisionError

    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            repaired.opened(root, on_resume=refuse)
        after = [(path.name, path.read_bytes()) for path in repaired.checkpoints(root)]
        check_equal(after, before, "a checkpoint was made or moved")
        kinds = [note.type for note in repaired.notes(root)]
        check_equal(kinds, ["rebuild-approved"], "the approval")
    with repaired.opened(root) as session:
        check_equal(len(session.state["items"]), 12, "the rebuilt state")
    check_equal([note.type for note in repaired.notes(root)], ["rebuilt-from-log"], "used now")


# --- whose a handle is --------------------------------------------------------------------


def _close(session: Session[State]) -> None:
    session.close()


def _leave(session: Session[State]) -> None:
    with session:
        pass


@pytest.mark.parametrize("end", [_close, _leave], ids=["close", "with"])
def test_forked_child_that_closes_leaves_its_parents_session_alone(
    tmp_path: Path, end: Callable[[Session[State]], None]
) -> None:
    """C5-02: in a child closing is nothing, also where the parent's last save failed.

    Method: a parent with a failed automatic save forks; the child closes; the parent goes on.
    """
    root = tmp_path / "store"
    session = small(root)
    outgrow(session)
    repaired.add(session, *"bcdef")
    before = repaired.contents(root)
    check_equal(in_child(lambda: end(session)), "returned", "the child")
    check_equal(repaired.contents(root), before, "the child wrote something")
    with pytest.raises(LockedError, match="this very process"):
        repaired.opened(root)
    repaired.add(session, "after")
    check_equal(session.state["items"][-1], "after", "the parent's state")
    with pytest.raises(LimitError):
        session.close()


def test_end_that_is_broken_off_is_finished_by_whoever_comes_next() -> None:
    """C7-06: a signal's exception in the end of a handle keeps neither lock nor descriptors.

    Method: ``finish`` raises the first time, for the last who leaves.
    """
    handle = SharedHandle()
    runs: list[str] = []

    def finish() -> None:
        runs.append("run")
        if len(runs) == 1:
            raise KeyboardInterrupt

    def leave_last() -> None:
        with handle.entered():
            handle.end(finish)
            check_equal(runs, [], "somebody is inside")

    with pytest.raises(KeyboardInterrupt):
        leave_last()
    check_equal(runs, ["run"], "broken off")
    for _ in range(3):
        with pytest.raises(UsageError, match="closed"), handle.entered():
            runs.append("inside")
        check_equal(runs, ["run", "run"], "finished once, and nobody came in")
