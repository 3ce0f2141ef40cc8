"""``run``: the steps of a plan are carried out, each once, whatever kills it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Generator, Iterable, Iterator
from typing import Any, Final

from lastgood.cli import access, person
from lastgood.cli.answer import Answer, Piece, Streamed
from lastgood.cli.command import Command
from lastgood.cli.program import rehearsed
from lastgood.cli.wording import cell, fill
from lastgood.clock import SystemClock
from lastgood.errors import EXIT_GOOD, EffectUndecidedError, LastgoodError, PolicyError
from lastgood.formats.names import SessionId, session_id
from lastgood.rules.cadence import CheckpointPolicy
from lastgood.runbook.judging import Happening, Seen, abandoned, document, rehearse
from lastgood.runbook.plan import Change, Plan, difference, read
from lastgood.runbook.program import PROGRAM, State
from lastgood.runbook.running import Runner
from lastgood.session import Session
from lastgood.store import Store

_POLICY: Final = CheckpointPolicy(after=())
"""A checkpoint behind each step would only save a replay that is short, for twice the time."""
_STATUS_CHARS: Final = 10
_NAME_CHARS: Final = 40
_SHOWN_LINES: Final = 10


def run(command: Command) -> Streamed:
    """Carry out a plan, or tell what would be; each happening is told as it comes.

    Raises:
        PlanError: The plan cannot be understood; has the path of the value.
        InvalidIdError: It has no session's id.
    """
    plan = read(command.plan)
    session = session_id(plan.name if command.session is None else command.session)
    return Streamed(_pieces(command, plan, session), pace="live")


def _pieces(command: Command, plan: Plan, session: SessionId) -> Generator[Piece, None, Answer]:
    """Every happening, then what became of all."""
    became: dict[str, Happening] = {}
    width = max(len(cell(step.id)) for step in plan.steps)
    remarks: list[str] = []
    error: LastgoodError | None = None
    try:
        does = _rehearsed if command.dry_run == "yes" else _carried_out
        with (
            access.store_of(command) as store,
            contextlib.closing(does(command, plan, session, store, remarks)) as happenings,
        ):
            for told in happenings:
                if isinstance(told, Happening):
                    became[told.step] = told
                    yield _happening(told, min(width, _NAME_CHARS))
                else:
                    yield _change(told)
    except LastgoodError as failed:
        error = _filled(failed, command, session, list(became.values()))
    status = "rehearsed" if command.dry_run == "yes" else "done"
    return Answer(
        document={
            "session": session,
            "plan": plan.name,
            "status": "stopped" if error is not None else status,
            "steps": {step: told.status for step, told in became.items()},
        },
        exit_code=EXIT_GOOD if error is None else error.exit_code,
        error=error,
        remarks=tuple(remarks),
    )


def _carried_out(
    command: Command, plan: Plan, session: SessionId, store: Store, remarks: list[str]
) -> Generator[Happening | Change, None, None]:
    """Run it.

    Raises:
        PolicyError: It is not the plan that was accepted.
        LastgoodError: As ``Runner.run``.
    """
    with _signals(), store.session(session, policy=_POLICY, **PROGRAM) as opened:
        remarks += opened.notices
        seen = Seen.of(opened)
        yield from _compared(command, plan, seen)
        _accept(command, opened, document(plan, seen.sign))
        runner = Runner(
            plan,
            opened,
            store=store.location,
            environment=os.environ,
            clock=SystemClock(),
            wait_s=store.place.limits.lock_wait_s,
        )
        yield from runner.run()


def _rehearsed(
    command: Command, plan: Plan, session: SessionId, store: Store, remarks: list[str]
) -> Generator[Happening | Change, None, None]:
    """Tell what would be, by reading only.

    Raises:
        PolicyError: It is not the plan that was accepted.
        LastgoodError: As ``Store.rehearse``.
    """
    found = store.rehearse(session, **rehearsed(PROGRAM))
    remarks += () if found is None else found.notices
    seen = Seen.by_reading(found, limits=store.place.limits)
    yield from _compared(command, plan, seen, happenings=rehearse(plan, seen))


def _compared(
    command: Command, plan: Plan, seen: Seen, *, happenings: Iterable[Happening] = ()
) -> Iterator[Happening | Change]:
    """What the plan changes of the accepted one, and what would happen.

    Raises:
        PolicyError: Something, and nobody said that it is meant.
        EffectUndecidedError: It has not a step any more that has to be decided first.
    """
    accepted = seen.state["plan"]
    changes = () if accepted is None else difference(accepted, document(plan, seen.sign))
    yield from changes
    yield from happenings
    if changes and command.accept_plan_change == "no":
        raise PolicyError(
            "The plan is not the one that this session accepted",
            safe="Nothing was started",
            do="If these changes are meant, add --accept-plan-change --reason TEXT; otherwise "
            "bring back the plan, or give the new one a session of its own",
        )
    for one in abandoned(changes, seen):
        yield one
        raise EffectUndecidedError(f"The step {cell(one.step)} is undecided: {one.why}")


def _accept(command: Command, opened: Session[State], now: dict[str, Any]) -> None:
    """Make the plan the accepted one, if it is not."""
    before = opened.state["plan"]
    if before == now:
        return
    who = None if before is None else command.actor or person.user()
    opened.append("plan", {"plan": now, "actor": who, "reason": command.reason})


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Let SIGTERM, and SIGHUP unless it is ignored, end it as Ctrl-C does: cleanly."""
    before = {
        number: signal.signal(number, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _filled(
    error: LastgoodError, command: Command, session: SessionId, became: list[Happening]
) -> LastgoodError:
    """``error`` with the very command that a person needs."""
    fill(error, session=session, verb=command.verb, place=command.place)
    if isinstance(error, EffectUndecidedError) and became:
        before, which, behind = error.do.rpartition("FINGERPRINT")
        found = became[-1].fingerprint if which else ""
        error.do = f"{before}{found}{behind}, and run the same command again"
    return error


def _change(change: Change) -> Piece:
    told = {"event": "plan", "id": change.step, "status": change.what, "keys": list(change.keys)}
    about = "the plan" if change.step is None else cell(change.step)
    keys = f": {', '.join(change.keys)}" if change.keys else ""
    return Piece(told, f"{change.what:<{_STATUS_CHARS}}  {about}{keys}")


def _happening(told: Happening, width: int) -> Piece:
    row = {
        "event": "step",
        "id": told.step,
        "status": told.status,
        "fingerprint": told.fingerprint,
        "seconds": None if told.seconds is None else round(told.seconds, 3),
        "why": told.why or None,
        "output": told.output or None,
    }
    line = f"{told.status:<{_STATUS_CHARS}}  {cell(told.step):<{width}}"
    if told.seconds is not None:
        line += f"  {told.seconds:.1f} s"
    lines = [line.rstrip()]
    if told.output:
        lines += [f"  | {cell(one)}" for one in told.output.rstrip().split("\n")[-_SHOWN_LINES:]]
    return Piece(row, "\n".join(lines), is_passing=told.status == "running")
