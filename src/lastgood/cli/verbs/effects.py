"""``effects``: list and decide effects whose outcome nobody knows (G5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lastgood import deciding
from lastgood.cli import access, person, state_file
from lastgood.cli.answer import Answer
from lastgood.cli.command import Command
from lastgood.cli.wording import cell, named
from lastgood.clock import SystemClock
from lastgood.deciding import Question
from lastgood.errors import StateError
from lastgood.formats.canonical import JSON
from lastgood.formats.fingerprint import fingerprint


def undecided(command: Command) -> Answer:
    """List the effects of a session whose outcome nobody knows.

    Raises:
        UnknownSessionError: There is no such session.
        LastgoodError: What is there cannot be believed.
    """
    session = access.session_of(command)
    with access.store_of(command) as store:
        found = deciding.questions(store.place, session, clock=SystemClock())
    remarks = (named(_decide(found), session=session, place=command.place),) if found else ()
    return Answer(
        document={"session": session, "undecided": [_row(one) for one in found]},
        text=tuple(line for one in found for line in _lines(one)) or ("no effect is undecided",),
        remarks=remarks,
    )


def resolve(command: Command) -> Answer:
    """Decide what became of one; on return that is sealed.

    Raises:
        UsageError: No such effect is undecided.
        StateError: The result is not JSON, or not surely one value.
        LastgoodError: As ``deciding.resolve``.
    """
    session = access.session_of(command)
    found = fingerprint(command.fingerprint)
    actor = person.user() if command.actor is None else command.actor
    reason = command.reason or ""
    decided = deciding.decision(command.outcome, _result(command), actor=actor, reason=reason)
    with access.store_of(command) as store:
        asked = deciding.resolve(store.place, session, found, decided, owner=person.owner())
    return Answer(
        document={
            "session": session,
            "status": command.outcome,
            "effect": _row(asked),
            "actor": actor,
            "reason": reason,
        },
        text=(
            f"{command.outcome}  {cell(asked.kind)} {cell(asked.key)}",
            f"effect   {asked.fingerprint}",
            f"by       {cell(actor)}: {cell(reason)}",
        ),
    )


def _decide(found: Sequence[Question]) -> str:
    of = "its target" if len(found) == 1 else "the target of each"
    return (
        f"Look at {of}, then say what became of it with: lastgood effects resolve SESSION "
        "FINGERPRINT --done RESULT --reason TEXT, or with --not-done in place of --done RESULT"
    )


def _result(command: Command) -> JSON:
    if command.result is None:
        return None
    try:
        return state_file.parse(command.result.encode("utf-8", "surrogateescape"))
    except StateError as error:
        raise StateError(
            error.happened, what="result", do="Give it as JSON text: null, 7, '{\"id\": 7}'"
        ) from error


def _row(one: Question) -> dict[str, Any]:
    return {
        "fingerprint": one.fingerprint,
        "class": one.effect_class,
        "sequence": one.sequence,
        "kind": one.kind or None,
        "key": one.key or None,
    }


def _lines(one: Question) -> tuple[str, ...]:
    return (
        f"{cell(one.kind)} {cell(one.key)}  intended by event {one.sequence}, {one.effect_class}",
        f"  {one.fingerprint}",
    )
