"""``repair``: what a person decides about damage that stopped a session, and what became of it.

``--scan`` reads only. Each other repair is judged by reading before anything is written: where
nothing of its kind is damaged, or something else stands in its way, nothing is changed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from lastgood import mending
from lastgood.cli import access, person
from lastgood.cli.answer import Answer, problem
from lastgood.cli.command import Command
from lastgood.cli.program import load_program, rehearsed, running_program
from lastgood.cli.verbs.verify import verify
from lastgood.cli.wording import cell, fill, harmless, named
from lastgood.clock import SystemClock
from lastgood.diagnosis import WAIVED, Repair
from lastgood.errors import LastgoodError, PolicyError, UsageError
from lastgood.formats import names
from lastgood.formats.names import SessionId
from lastgood.mending import Decision, Repaired
from lastgood.rules.selection import Selection, approval_in
from lastgood.session import Session
from lastgood.store import Store
from lastgood.survey import choose

_REBUILD: Final = "--rebuild-from-log --program MODULE:OBJECT"
_WORDS: Final[Mapping[Repair, str]] = {
    "pointer": "--pointer",
    "tail": "--tail",
    "rebuild": _REBUILD,
    "older": "--accept-older --sequence {sequence}",
}
_PROVED: Final = "proved to pass through the state that was sealed"
_NOT_PROVED: Final = "not compared with what was sealed: too little of it is left, or its schema"
_CHECK: Final = "Check what is stored with: lastgood verify SESSION"
_OPEN: Final = (
    "Open the session with its program: the first opening rebuilds it. Or do that now with: "
    f"lastgood repair SESSION {_REBUILD} --reason TEXT"
)


def repair(command: Command) -> Answer:
    """Make one repair, or tell what each would do.

    Raises:
        UsageError: Nothing of its kind is damaged. Nothing was changed.
        UnknownSessionError: There is no such session.
        LastgoodError: As ``lastgood.mending``.
    """
    session = access.session_of(command)
    if command.repair == "scan":
        return _scan(command, session)
    decision = Decision(
        actor=person.user() if command.actor is None else command.actor, reason=command.reason or ""
    )
    with access.store_of(command) as store:
        if command.repair == "rebuild-from-log":
            return _rebuild(command, store, session, decision)
        done = _decide(command, store, session, decision)
    return _answer(command, done, decision, then=_OPEN if _is_approval(command) else _CHECK)


def _decide(command: Command, store: Store, session: SessionId, decision: Decision) -> Repaired:
    place, owner = store.place, person.owner()
    if command.repair == "pointer":
        return mending.rebuild_pointer(place, session, owner=owner, decision=decision)
    if command.repair == "tail":
        return mending.accept_tail(place, session, owner=owner, decision=decision)
    if command.repair == "accept-older":
        return mending.accept_older(
            place,
            session,
            owner=owner,
            decision=decision,
            sequence=names.sequence(command.sequence),
        )
    return mending.approve_rebuild(place, session, owner=owner, decision=decision)


def _is_approval(command: Command) -> bool:
    return command.repair == "approve-rebuild"


def _rebuild(command: Command, store: Store, session: SessionId, decision: Decision) -> Answer:
    """Approve, and open the session with its program, which consumes the approval."""
    clock = SystemClock()
    mending.look(store.place, session, repair="rebuild", clock=clock)
    program = load_program(command.program, store=store.location)
    found = mending.look(store.place, session, repair="rebuild", clock=clock)
    with running_program():
        # Before anything is approved: a program that leads elsewhere changes nothing.
        expected = store.rehearse(session, **rehearsed(program), waived=WAIVED["rebuild"])
    before = set(_set_aside(store, session))
    sealed = approval_in(found.chosen.manifest)
    if sealed is None:
        mending.approve_rebuild(store.place, session, owner=person.owner(), decision=decision)
    else:
        # It was decided before: that decision is the one on record (T10).
        decision = Decision(actor=sealed.actor, reason=sealed.reason)
    with running_program(), _opened(store, session, program) as opened:
        base, replayed = opened.resumed.checkpoint, opened.resumed.replayed
        remarks = opened.notices
    after = _standing(store, session)
    begun = f"checkpoint {base}" if base else "the initial state"
    happened = "" if found.problem is None else f"; {found.problem.happened}"
    is_proved = expected is not None and expected.is_proved
    proof = _PROVED if is_proved else _NOT_PROVED
    done = Repaired(
        session=session,
        repair=mending.REBUILT,
        revision=0 if after.manifest is None else after.manifest.revision,
        sequence=0 if after.current is None else after.current.sequence,
        kept=tuple(sorted(set(_set_aside(store, session)) - before)),
        details=f"rebuilt from {begun} and {replayed} events behind it, {proof}{happened}",
        warnings=remarks,
    )
    return _answer(command, done, decision, then=_CHECK)


@contextlib.contextmanager
def _opened(store: Store, session: str, program: dict[str, Any]) -> Iterator[Session[Any]]:
    try:
        opened = store.session(session, **program)
    except LastgoodError as error:
        error.safe = "The approval to rebuild is sealed and waits; no damaged byte was changed"
        raise
    with opened:
        yield opened


def _standing(store: Store, session: SessionId) -> Selection:
    """What the session stands on now."""
    place = store.place
    scope = place.scope(session, schemas=None)
    with contextlib.closing(place.root.session(scope.directory, access="read")) as storage:
        return choose(scope, storage, clock=SystemClock()).selection


def _set_aside(store: Store, session: SessionId) -> Iterator[str]:
    """Damaged files in the session's archive."""
    place = store.place
    with contextlib.closing(place.root.session(names.directory(session), access="read")) as storage:
        prefix = names.archived("")
        for name in storage.list(prefix):
            if names.is_set_aside(name.removeprefix(prefix)):
                yield name


def _answer(command: Command, done: Repaired, decision: Decision, *, then: str) -> Answer:
    then = named(then, session=done.session, place=command.place)
    document = {
        "session": done.session,
        "repair": command.repair,
        "actor": decision.actor,
        "reason": decision.reason,
        "decided": done.details,
        "missing": done.missing or None,
        "kept": [cell(name) for name in done.kept],
        "revision": done.revision,
        "sequence": done.sequence or None,
        "next": then,
    }
    lines = [
        f"repaired   {cell(done.session)}",
        f"decided    {harmless(done.details)}",
        f"by         {cell(decision.actor)}: {cell(decision.reason)}",
        *(f"kept       {cell(name)}" for name in done.kept),
        f"missing    {done.missing or 'nothing that was acknowledged'}",
        f"stands on  revision {done.revision}, sequence {done.sequence or '-'}",
        f"next       {then}",
    ]
    return Answer(document=document, text=tuple(lines), remarks=done.warnings)


def _scan(command: Command, session: SessionId) -> Answer:
    """What ``verify`` says, and what each repair would do."""
    found = verify(replace(command, verb="verify"))
    with access.store_of(command) as store:
        prospects = [
            prospect
            for which in _WORDS
            if (prospect := _prospect(command, store, session, which)) is not None
        ]
    lines = [
        f"repair       {harmless(told['command'])}: {harmless(told['says'])}" for told in prospects
    ]
    if not lines:
        lines = ["repair       nothing is there that a repair would mend"]
    return replace(
        found,
        document={**found.document, "repairs": prospects},
        text=(*found.text, "", *lines),
    )


def _prospect(
    command: Command, store: Store, session: SessionId, which: Repair
) -> dict[str, Any] | None:
    """Whether a repair would succeed; None where it is not needed, or not for this session."""
    error: LastgoodError | None = None
    sequence = "N"
    says = "would succeed"
    try:
        found = mending.look(store.place, session, repair=which, clock=SystemClock())
        if which == "older":
            if found.base is None:
                return None
            sequence = str(found.base.sequence)
        if found.is_approved and which == "rebuild":
            says = "would succeed; it is approved already"
    except (UsageError, PolicyError):
        return None
    except LastgoodError as refusal:
        error = fill(refusal, session=session, verb="verify", place=command.place)
        says = f"would be refused: {refusal.happened}"
    words = _WORDS[which].format(sequence=sequence)
    return {
        "command": named(
            f"lastgood repair SESSION {words} --reason TEXT", session=session, place=command.place
        ),
        "succeeds": error is None,
        "says": says,
        "error": problem(error),
    }
