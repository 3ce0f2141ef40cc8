"""Carrying out a plan: each step is one effect of one session, and none is repeated blindly.

::

    P1  alone    wait until nothing that an earlier run started for this session is at work
    P2  judge    skip what is done; ``judging.py``
    P3  settle   an action of the step that was intended before is decided first, under its old
                 fingerprint: by its class, its probe, or a person
    P4  act      E1 to E5 of ``effect.py``; the result, and what the step left, in one record

Killed anywhere, the next run finds what ``effect.py`` says. A step that outlives a run that was
killed still holds the lock of P1, by a descriptor that it inherited: nobody is asked whether it
was done, and nothing is run, while it is at work.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator, Mapping
from typing import Final

from lastgood.clock import Clock
from lastgood.effect import Effect, OnUnknown
from lastgood.errors import (
    EffectUndecidedError,
    LastgoodError,
    LockedError,
    PlanError,
    StepFailedError,
    StorageError,
    printable,
)
from lastgood.formats import names
from lastgood.formats.canonical import JSON
from lastgood.formats.effect import MAX_REASON_CHARS
from lastgood.formats.fingerprint import Fingerprint
from lastgood.probes import Asked, Command
from lastgood.runbook import process
from lastgood.runbook.inputs import find
from lastgood.runbook.judging import (
    KIND,
    Happening,
    Judged,
    Seen,
    Status,
    action,
    judge,
    signing,
)
from lastgood.runbook.plan import Plan, Step
from lastgood.runbook.process import Ended, NotStartedError
from lastgood.runbook.program import State
from lastgood.session import Session
from lastgood.storage.filesystem import LOCK_EXCLUSIVE_NOW, READ, UNLOCK, OsFileSystem
from lastgood.with_effects import as_intended

_PAUSE_S: Final = 0.05
_BUSY: Final = (errno.EAGAIN, errno.EWOULDBLOCK)


class _StoppedError(Exception):
    """A step that was run is not known to be done: nothing behind it is started.

    It leaves the effect's block, so the name of its type is what is recorded.
    """

    def __init__(self, happened: Happening, error: LastgoodError) -> None:
        super().__init__(error.happened)
        self.happened = happened
        self.error = error


class Runner:
    """Carries out a plan in an open session.

    Args:
        plan: The plan, which was accepted.
        session: Where what becomes of it is kept.
        store: The directory of the store.
        environment: What each step's variables are added to.
        clock: Measures.
        wait_s: How long to wait for what an earlier run left at work.
    """

    def __init__(
        self,
        plan: Plan,
        session: Session[State],
        *,
        store: str,
        environment: Mapping[str, str],
        clock: Clock,
        wait_s: float,
    ) -> None:
        self._plan = plan
        self._session = session
        self._sign = signing(session)
        folder = names.directory(names.session_id(session.id))
        self._lock = os.path.join(store, folder, names.SESSION)
        self._environment = environment
        self._clock = clock
        self._wait_s = wait_s

    def run(self) -> Iterator[Happening]:
        """Carry out each step that is not done yet; whatever stops one, stops.

        What is yielded as *undecided* or *failed* is followed by the error that says so.

        Raises:
            EffectUndecidedError: Nobody knows whether a step was done, and a person has to say.
            StepFailedError: A step failed, and may be run again.
            LockedError: What an earlier run started is still at work.
            PlanError: An input is not there, or is no file.
            LastgoodError: As ``Session.effect``.
        """
        for step in self._plan.order():
            with alone(self._lock, wait_s=self._wait_s, clock=self._clock) as lock:  # P1
                judged = self._judged(step)
                if judged.status != "would skip":
                    yield Happening(step=step.id, status="running", fingerprint=judged.fingerprint)
                error: LastgoodError | None = None
                try:
                    happened = self._settled(step, judged, lock)
                except _StoppedError as stopped:
                    happened, error = stopped.happened, stopped.error
                except EffectUndecidedError as undecided:
                    error = undecided
                    happened = Happening(
                        step=step.id,
                        status="undecided",
                        fingerprint=judged.fingerprint,
                        why=undecided.happened,
                    )
            yield happened
            if error is not None:
                raise error

    def _judged(self, step: Step) -> Judged:
        """P2.

        Raises:
            PlanError: It would be run anew, and an input is not there.
        """
        judged = judge(step, Seen.of(self._session), folder=self._plan.folder)
        for pattern in judged.unmatched:
            raise PlanError(
                f"The step {printable(step.id)} has no input: {printable(pattern)} is not there"
            )
        return judged

    def _settled(self, step: Step, judged: Judged, lock: int) -> Happening:
        """P3, and P4 where that is still needed."""
        found = judged.fingerprint
        if not judged.is_intended and judged.status == "would skip":
            return Happening(step=step.id, status="skipped", fingerprint=found)
        if not judged.is_intended:
            with self._effect(step, judged) as effect:
                if not effect.should_run:
                    return Happening(step=step.id, status="skipped", fingerprint=found)
                return self._act(step, effect, lock)
        is_same = self._sign(judged.new) == found
        with self._intended(step, found) as effect:
            if not effect.should_run:
                status: Status = "skipped" if judged.status == "would skip" else "done"
                return Happening(step=step.id, status=status, fingerprint=found)
            if is_same or judged.status == "would run":
                return self._act(step, effect, lock)
            # A probe said so; what its inputs are now is a new action.
            effect.not_done("it was not done, and its inputs changed since")
        return self._settled(step, self._judged(step), lock)

    def _effect(self, step: Step, judged: Judged) -> Effect:
        new = judged.new
        return self._session.effect(
            KIND,
            key=step.id,
            args=new.args,
            cwd=new.cwd,
            inputs=new.inputs,
            on_unknown=self._on_unknown(step, judged.fingerprint),
            supersedes=judged.supersedes,
        )

    def _intended(self, step: Step, found: Fingerprint) -> Effect:
        return as_intended(
            self._session,
            found,
            KIND,
            key=step.id,
            on_unknown=self._on_unknown(step, found),
            event=lambda _: self._became(step, found, self._left(step, found)),
        )

    def _left(self, step: Step, done: Fingerprint) -> Fingerprint:
        """The action that the step is next, if nothing changes from now on."""
        try:
            files = find(step.inputs, folder=self._plan.folder).files
            return self._sign(action(step, files, after=done))
        except LastgoodError:
            return done  # it left what cannot be read; it is done all the same, and no action is it

    def _became(self, step: Step, done: Fingerprint, left: Fingerprint) -> tuple[str, JSON]:
        """The event of a step that was done."""
        return "step", {"id": step.id, "fingerprint": done, "left": left}

    # --- P4 ----------------------------------------------------------------------------------

    def _act(self, step: Step, effect: Effect, lock: int) -> Happening:
        """Run it, and say what became of it.

        Raises:
            _StoppedError: That is not known, or it was not done.
        """
        found = effect.fingerprint
        try:
            ended = process.carry_out(
                step.run,
                cwd=self._cwd(step),
                env={**self._environment, **_variables(step, found)},
                timeout_s=step.timeout_s,
                clock=self._clock,
                held=(lock,),
            )
        except NotStartedError as error:
            why = f"it could not be started: {error}"
            effect.not_done(why[:MAX_REASON_CHARS])
            raise _failed(step, found, why) from error
        if ended.code == 0 and not ended.is_late:
            return self._done(step, effect, ended)
        asks = self._on_unknown(step, found)
        if callable(asks):
            answer = asks(Asked(kind=KIND, key=step.id, fingerprint=found))
            if answer.verdict == "done":
                return self._done(step, effect, ended)
            if answer.verdict == "not done":
                why = f"it {ended}, and was not done: {answer.reason}"
                effect.not_done(why[:MAX_REASON_CHARS])
                raise _failed(step, found, why, ended)
            raise _unknown(step, found, f"its probe cannot tell: {answer.reason}", ended)
        if step.effect == "idempotent":
            raise _failed(step, found, f"it {ended}", ended)
        raise _unknown(step, found, "nobody knows whether it was done", ended)

    def _done(self, step: Step, effect: Effect, ended: Ended) -> Happening:
        left = self._left(step, effect.fingerprint)
        result = {
            "exit": ended.code,
            "seconds": round(ended.seconds, 3),
            "output": {
                "text": ended.output.text if step.output else None,
                "bytes": ended.output.size_bytes if step.output else None,
                "sha256": ended.output.sha256 if step.output else None,
            },
            "inputs": left,
        }
        effect.done(result, event=self._became(step, effect.fingerprint, left))
        return Happening(
            step=step.id, status="done", fingerprint=effect.fingerprint, seconds=ended.seconds
        )

    def _on_unknown(self, step: Step, found: Fingerprint) -> OnUnknown:
        if step.effect != "probe":
            return step.effect
        return Command(
            step.probe,
            not_done_exit=step.not_done_exit,
            cwd=self._cwd(step),
            env=_variables(step, found),
        )

    def _cwd(self, step: Step) -> str:
        return os.path.join(self._plan.folder, step.cwd)


def _variables(step: Step, found: Fingerprint) -> dict[str, str]:
    return {**step.env, "LASTGOOD_STEP": step.id, "LASTGOOD_IDEMPOTENCY_KEY": found}


def _failed(step: Step, found: Fingerprint, why: str, ended: Ended | None = None) -> _StoppedError:
    """It was not done, or may be run again."""
    error = StepFailedError(f"The step {printable(step.id)} failed: {why}")
    return _stopped(_after(step, found, ended, "failed", why), error, ended)


def _unknown(step: Step, found: Fingerprint, why: str, ended: Ended) -> _StoppedError:
    """A person has to say whether it was done."""
    why = f"it {ended}, and {why}"
    error = EffectUndecidedError(f"The step {printable(step.id)} is undecided: {why}")
    return _stopped(_after(step, found, ended, "undecided", why), error, ended)


def _after(
    step: Step, found: Fingerprint, ended: Ended | None, status: Status, why: str
) -> Happening:
    return Happening(
        step=step.id,
        status=status,
        fingerprint=found,
        seconds=None if ended is None else ended.seconds,
        why=why,
        output=ended.output.text if ended is not None and step.output else "",
    )


def _stopped(happened: Happening, error: LastgoodError, ended: Ended | None) -> _StoppedError:
    """The exception that leaves the effect; its type's name is ``Exit3``, ``Signal9``, …."""
    kind: type[_StoppedError] = type(
        "NotStarted" if ended is None else ended.name, (_StoppedError,), {}
    )
    return kind(happened, error)


@contextlib.contextmanager
def alone(path: str, *, wait_s: float, clock: Clock) -> Iterator[int]:
    """Hold a lock that a step inherits: nobody else has it, and no step of a killed run does.

    It is taken on a file that is never replaced. Leaving unlocks it for whoever inherited it, too:
    what a step left running on purpose, in a session of its own, stops no later run. Broken off by
    an exception it is closed only: whoever inherited it may still be at the step.

    Raises:
        LockedError: Somebody held it until ``wait_s`` had passed.
        StorageError: It cannot be had.
    """
    filesystem = OsFileSystem()
    try:
        fd = filesystem.open(path, READ)
    except OSError as error:
        raise StorageError("Opening the session's record", errno=error.errno or 0) from error
    try:
        end_s = clock.monotonic_s() + wait_s
        while not _is_taken(filesystem, fd):
            if clock.monotonic_s() >= end_s:
                raise LockedError("A step that an earlier run started is still at work")
            clock.sleep(_PAUSE_S)
        yield fd
        # Not where it was broken off: then whoever inherited it may still be at work.
        filesystem.flock(fd, UNLOCK)
    finally:
        filesystem.close(fd)


def _is_taken(filesystem: OsFileSystem, fd: int) -> bool:
    try:
        filesystem.flock(fd, LOCK_EXCLUSIVE_NOW)
    except OSError as error:
        if error.errno in _BUSY:
            return False
        raise StorageError("Locking the session's record", errno=error.errno or 0) from error
    return True
