"""Every repair is killed at every call: it is run again or is done, and no damaged byte is lost.

Method: a forked process makes the repair, or the opening that consumes an approval, and kills
itself by SIGKILL before a call, or in the middle of a write. Calls that only read leave what the
one before them left, so the kills are before the others. Whatever is left, the session opens or
names a repair that works, and ends in the state that was to come out. What a death kept from being
set aside is shown as damage until the next save, which does that.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from lastgood import Checkpoint, CheckpointStore, mending
from tests.crash.scenes import clone
from tests.crash.seam import CHANGES, WRITES, Seam, write_half
from tests.crash.sessions import looks_of
from tests.sessions import repaired
from tests.sessions.repaired import DECISION, OWNER, SESSION, Known, checkpoints, flip, zero
from tests.support.check import check, check_equal

pytestmark = [
    pytest.mark.slow,
    pytest.mark.crash,
    pytest.mark.normal_only,
    # A generator that the dead process leaves behind is closed by the interpreter, in vain.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

Step = Callable[[Path, Seam], object]


def approving(root: Path, seam: Seam) -> None:
    with repaired.place_of(root, seam) as place:
        mending.approve_rebuild(place, SESSION, owner=OWNER, decision=DECISION)


def consuming(root: Path, seam: Seam) -> None:
    repaired.opened(root, seam).close()


def accepting_tail(root: Path, seam: Seam) -> None:
    with repaired.place_of(root, seam) as place:
        mending.accept_tail(place, SESSION, owner=OWNER, decision=DECISION)


def rebuilding_pointer(root: Path, seam: Seam) -> None:
    with repaired.place_of(root, seam) as place:
        mending.rebuild_pointer(place, SESSION, owner=OWNER, decision=DECISION)


def accepting_older(root: Path, seam: Seam) -> None:
    with repaired.place_of(root, seam) as place:
        mending.accept_older(place, SESSION, owner=OWNER, decision=DECISION, sequence=30)


def _newest_checkpoint(root: Path) -> None:
    zero(checkpoints(root)[-1])


def _approved(root: Path) -> None:
    _newest_checkpoint(root)
    approving(root, Seam())


def _every_checkpoint_approved(root: Path) -> None:
    for path in checkpoints(root):
        zero(path)
    approving(root, Seam())


def _twins(root: Path) -> None:
    zero(repaired.pointer(root))


def _pointer(root: Path) -> None:
    zero(repaired.alone(repaired.pointer(root)))


def _before(root: Path) -> None:
    zero(repaired.manifests(root)[-2])
    zero(checkpoints(root)[-2])


def _last_line(root: Path) -> None:
    path = repaired.segments(root)[-1]
    flip(path, repaired.line_starts(path)[-3] + 200)


def _whole_segment(root: Path) -> None:
    with repaired.opened(root) as session:
        repaired.add(session, "unsaved")
    flip(repaired.segments(root)[-1], 200)


@dataclass(frozen=True, slots=True)
class Work:
    """What is killed.

    Attributes:
        spoil: The damage before it.
        step: What is killed.
        gone: How many items of the state may be gone at the end.
        log: Whether the session has one.
    """

    spoil: Callable[[Path], None]
    step: Step
    gone: int = 0
    log: bool = True


WORKS: Final = {
    "approve": Work(_newest_checkpoint, approving),
    "consume": Work(_approved, consuming),
    "consume, from the first event": Work(_every_checkpoint_approved, consuming),
    "pointer": Work(_pointer, rebuilding_pointer),
    "pointer and newest number": Work(_twins, rebuilding_pointer),
    "number and generation before": Work(_before, rebuilding_pointer),
    "tail": Work(_last_line, accepting_tail, gone=1),
    "tail, a whole segment": Work(_whole_segment, accepting_tail, gone=0),
    "older": Work(_newest_checkpoint, accepting_older, log=False),
    "pointer of checkpoints only": Work(_twins, rebuilding_pointer, log=False),
}


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    """Where the stores are: in memory where that is offered; a death is no different there."""
    memory = Path("/dev/shm")
    parent = memory if os.access(memory, os.W_OK | os.X_OK) else None
    made = Path(tempfile.mkdtemp(prefix="lastgood-", dir=parent))
    yield made
    shutil.rmtree(made)


@pytest.fixture(scope="module")
def originals(base: Path) -> dict[bool, tuple[Path, Known | None]]:
    """A session with a log, and one without."""
    repaired.make(base / "log", rounds=2, milestone=None)
    repaired.make_checkpoints(base / "checkpoints")
    known = repaired.undamaged(base / "log", base / "aside")
    return {True: (base / "log", known), False: (base / "checkpoints", None)}


def calls_of(work: Work, root: Path) -> list[str]:
    """The calls that the work makes when nobody kills it."""
    seam = Seam()
    work.step(root, seam)
    return list(seam.made)


def killed(work: Work, root: Path, at: int, *, middle: bool) -> None:
    """Make the work in a process that dies at call ``at``."""
    pid = os.fork()
    if pid == 0:
        try:
            _die_in(work, root, at, middle=middle)
        finally:
            os._exit(7)
    status = os.waitpid(pid, 0)[1]
    check(os.WIFSIGNALED(status), f"call {at}: it did not die: {status}")
    check_equal(os.WTERMSIG(status), int(signal.SIGKILL), f"call {at}: the signal")


class _Dying(Seam):
    """One whose process kills itself at a call."""

    def __init__(self, at: int, *, middle: bool) -> None:
        super().__init__()
        self._at = at
        self._middle = middle

    def _call(self, name: str, call: Callable, args: tuple, options: dict) -> object:
        if len(self.made) == self._at:
            if self._middle:
                write_half(name, args)
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._call(name, call, args, options)


def _die_in(work: Work, root: Path, at: int, *, middle: bool) -> None:
    work.step(root, _Dying(at, middle=middle))


def deaths(made: list[str]) -> Iterator[tuple[int, bool]]:
    """Before every call that changes a file or a name, and in the middle of every write."""
    for at, call in enumerate(made):
        name, _, about = call.partition(" ")
        if name in CHANGES or (name == "open" and about.startswith(".")):
            yield at, False
        if name in WRITES:
            yield at, True
    yield len(made) - 1, False


def check_mended(root: Path, work: Work, known: Known | None, *, context: str) -> None:
    """It opens, or what it names works; the state is the one that was to come out."""
    held = repaired.damaged_of(root)
    found = repaired.mend(root, context=context, most=4, scan="never")
    if known is None:
        with CheckpointStore(root, SESSION, keys=repaired.KEYS) as store:
            loaded = store.load_latest()
            wanted = {"n": 3} if work.step is accepting_older else {"n": 4}
            check_equal(loaded and loaded.state, wanted, f"{context}: after {found.repairs}")
            done = [] if loaded is None else loaded.fingerprints
            store.save(Checkpoint(60, wanted, done))
    else:
        with repaired.opened(root) as session:
            now = Known.of(session)
            items = session.state["items"]
            check_equal(now.fingerprints, known.fingerprints, f"{context}: effects")
        if work.gone:
            with_all = len(items) + work.gone
            check_equal(f"{with_all} items", f"{_count(known)} items", f"{context}: {items}")
        else:
            check_equal(now.state, known.state, f"{context}: the state after {found.repairs}")
        if work.step is consuming:
            used = [note.type for note in repaired.notes(root)]
            check_equal(used, ["rebuilt-from-log"], f"{context}: the approval")
        _check_goes_on(root, now, context=context)
    ran = repaired.run(root, "verify", SESSION)
    check_equal(ran.code, 0, f"{context}: verify said {ran.said}")
    lost = held - repaired.contents(root)
    check_equal(lost, set(), f"{context}: damaged bytes that are gone")


def _check_goes_on(root: Path, now: Known, *, context: str) -> None:
    with repaired.opened(root) as session:
        check_equal(Known.of(session), now, f"{context}: the second opening")
        repaired.add(session, "after")
        session.save()
        state = session.state
    with repaired.opened(root) as session:
        check_equal(session.state, state, f"{context}: what was appended behind")


def _count(known: Known) -> int:
    return len(json.loads(known.state)["items"])


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", WORKS)
def test_repair_killed_anywhere_is_run_again_or_is_done(
    originals: dict[bool, tuple[Path, Known | None]], base: Path, name: str
) -> None:
    """G2, G3: at no call anything else is possible; the damaged bytes outlive every death.

    Method: as the module says; states that look the same are judged once.
    """
    work = WORKS[name]
    source, known = originals[work.log]
    folder = base / name
    folder.mkdir()
    spoiled = folder / "spoiled"
    clone(source, spoiled)
    work.spoil(spoiled)
    evidence = repaired.damaged_of(spoiled)
    root = folder / "store"
    clone(spoiled, root)
    made = calls_of(work, root)
    check_mended(root, work, known, context=f"{name}: never killed")
    seen: set[str] = set()
    count = 0
    for at, middle in deaths(made):
        shutil.rmtree(root)
        clone(spoiled, root)
        when = "in the middle of" if middle else "before"
        context = f"{name}: killed {when} call {at}, {made[at]}"
        killed(work, root, at, middle=middle)
        count += 1
        lost = evidence - repaired.contents(root)
        check_equal(lost, set(), f"{context}: damaged bytes that are gone")
        looks = looks_of(root)
        if looks not in seen:
            seen.add(looks)
            check_mended(root, work, known, context=context)
    print(f"{name}: {count} kills, {len(seen)} states")
    check(len(seen) >= 3, f"{name}: only {len(seen)} states")
