"""One fault at one call of a job: which, how it is made, and what the job did about it (L1).

A strike's *kind* is an error that the call reports without an effect, ``after``: EIO although
it took effect (F7), or ``short``: half of a write (F8). It *lasts* ``once``; for ``ever``: every
later call of the same name, too; or as a broken ``disk``: every later call that changes something.
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, Literal

from fault_injection.failure import one_line
from fault_injection.faults import discipline
from fault_injection.limit import Overdue, limited
from fault_injection.machine import MemoryMachine
from fault_injection.memory.calls import (
    WRITES,
    Call,
    Die,
    Fail,
    FailAfter,
    Hook,
    Injection,
    Killed,
    Short,
)
from fault_injection.memory.disk import Tree
from fault_injection.recording import Recording, Work
from fault_injection.workload import BadWorkloadError, Violation
from fault_injection.world import Told, World
from lastgood.errors import (
    ConflictError,
    LastgoodError,
    LockedError,
    NotStoredError,
    StorageError,
)

Lasting = Literal["once", "ever", "disk"]

_INJECTIONS: Final[dict[str, Injection]] = {
    "EIO": Fail(errno.EIO),
    "after": FailAfter(errno.EIO),
    "ENOSPC": Fail(errno.ENOSPC),
    "EDQUOT": Fail(errno.EDQUOT),
    "EINTR": Fail(errno.EINTR),
    "EROFS": Fail(errno.EROFS),
    "EMFILE": Fail(errno.EMFILE),
    "short": Short(),
}
_TIMES: Final = 20
_LEAST_CALLS: Final = 4_000
"""A lock is waited for ten seconds, which are some thousand calls, however short the job is."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What strikes, wherever it does.

    Attributes:
        kind: Which error, or ``after``, or ``short``.
        lasting: How long.
    """

    kind: str
    lasting: Lasting

    def __str__(self) -> str:
        """The name of the variant."""
        return f"{self.kind}-{self.lasting}"

    def strikes(self, call: Call) -> bool:
        """Whether this call is one that it can strike first."""
        if self.kind == "short":
            return call.name in WRITES
        return self.lasting != "disk" or call.changes

    def hook(self, point: int, name: str) -> Hook:
        """Strike call number ``point``, whose name is ``name``, and those that follow from it."""
        injection, lasting = _INJECTIONS[self.kind], self.lasting

        def hook(call: Call) -> Injection | None:
            if call.number < point or (call.number > point and lasting == "once"):
                return None
            again = call.changes if lasting == "disk" else call.name == name
            return injection if call.number == point or again else None

        return hook


FAULTS: Final = tuple(
    Fault(kind, lasting)
    for lasting in ("once", "ever", "disk")
    for kind in _INJECTIONS
    if (kind, lasting) != ("short", "disk")
)
"""Every way in which a call fails."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended.

    Attributes:
        recording: What it did, and the typed error that escaped it.
        tree: What processes see on the disk.
        open_paths: What its processes held open when it had ended, except dead ones.
        escaped: Any other exception that escaped it.
        stuck: How it went on and on until it was ended; empty: it did not.
    """

    recording: Recording
    tree: Tree
    open_paths: tuple[str, ...] = ()
    escaped: Exception | None = None
    stuck: str = ""

    def check(self, *, unread: Collection[str]) -> None:
        """Return only if a job may end so, whatever struck it.

        Raises:
            Violation: It may not.
        """
        if self.stuck:
            raise Violation("error", expected="an end of the job", got=self.stuck)
        if isinstance(self.escaped, Violation):
            raise self.escaped
        if self.escaped is not None:
            raise Violation("error", expected="a typed error", got=one_line(self.escaped))
        if self.recording.error is not None:
            check_error(self.recording.error, true=self._conflicts())
        if self.open_paths:
            raise Violation(
                "O9",
                expected="no descriptor is open when the job has ended",
                got=f"{', '.join(self.open_paths)} open",
            )
        discipline.judge(self.recording, exempt=unread)

    def _conflicts(self) -> tuple[type[ConflictError], ...]:
        """What may be told of other owners: all of it if there are any, nothing if there are none.

        A lock that is interrupted to the end cannot be told from one that somebody holds.
        """
        calls = self.recording.calls
        if _are_others(calls):
            return (ConflictError,)
        locks = [call for call in calls if call.name == "flock"]
        interrupted = locks and locks[-1].injected and locks[-1].error == errno.EINTR
        return (LockedError,) if interrupted else ()


def _are_others(calls: Iterable[Call]) -> bool:
    """Whether a process changed a directory, or a file of it, behind a later one that did."""
    latest: dict[str, int] = {}
    for call in calls:
        if not call.alters:
            continue
        folder = call.path.rpartition("/")[0]
        if call.process < latest.setdefault(folder, call.process):
            return True
        latest[folder] = call.process
    return False


def run(work: Work, base: Tree, told: Told, *, seed: str, hook: Hook | None, usual: int) -> Ended:
    """Do ``work`` on a disk that holds ``base``, and see how it ends.

    Args:
        work: The job.
        base: What is on the disk.
        told: What the world knows.
        seed: Of the machine.
        hook: What strikes it.
        usual: How many calls it makes when nothing does.
    """
    limit = max(_TIMES * usual, _LEAST_CALLS)

    def bounded(call: Call) -> Injection | None:
        if call.number >= limit:
            return Die()
        return hook(call) if hook is not None else None

    machine = MemoryMachine(base, seed=seed, hook=bounded)
    world = World(told, calls=lambda: len(machine.calls))
    error: LastgoodError | None = None
    escaped: Exception | None = None
    stuck = ""
    try:
        with limited():
            work(machine, world)
    except LastgoodError as raised:
        error = raised
    except BadWorkloadError:
        raise
    except Overdue as overdue:
        stuck = f"it {overdue}"
    except Killed:
        if len(machine.calls) <= limit:
            raise
    except Exception as raised:  # noqa: BLE001 - whatever it is, it is what is looked for
        escaped = raised
    open_paths = [path for process in machine.processes for path in process.open_paths]
    machine.end()
    recording = Recording(base, machine.calls, world, error)
    if len(machine.calls) > limit:
        stuck = f"{len(machine.calls)} calls, no end"
    return Ended(recording, machine.disk.tree(), tuple(open_paths), escaped, stuck)


def check_error(error: LastgoodError, *, true: tuple[type[ConflictError], ...]) -> None:
    """Return only if an error tells people about a machine that fails, and tells it rightly.

    Args:
        error: What escaped a job.
        true: What it may say of other owners.

    Raises:
        Violation: It does not say what happened, what is safe and what to do; or it says, because
            a call failed, that something is damaged, was never there, or is somebody else's.
    """
    for what in ("happened", "safe", "do"):
        sentence = getattr(error, what)
        if not sentence.strip() or sentence not in str(error):
            raise Violation("error", expected=f"an error that says {what!r}", got=one_line(error))
    if not isinstance(error, (StorageError, *true)) or isinstance(error, NotStoredError):
        raise Violation("error", expected="an error of the machine", got=one_line(error))
