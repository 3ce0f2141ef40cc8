"""What is to be done about a step, by what is known of it and by its inputs as they are.

==========================================  ===================================================
its newest action                           the step
==========================================  ===================================================
open: nobody knows whether it was done      is settled under that action first, whatever its
                                            inputs are now: it may have changed them itself
done, and inputs as before it or as it      is skipped
left them
done, and other inputs, program, variables  is run as a new action, which supersedes the old one
or directory
not done, or there is none                  is run
==========================================  ===================================================
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self

from lastgood.entropy import system_entropy
from lastgood.formats.canonical import JSON
from lastgood.formats.fingerprint import Fingerprint
from lastgood.formats.identity import Identity
from lastgood.formats.limits import Limits
from lastgood.rehearsal import Rehearsed
from lastgood.runbook.inputs import find
from lastgood.runbook.plan import Change, Plan, Step
from lastgood.runbook.program import INITIAL, State
from lastgood.session import Session
from lastgood.with_effects import newest

KIND: Final = "run"
"""The kind of a step's effect; its key is the step's id."""

_SALT_BYTES: Final = 32

Sign = Callable[[Identity], Fingerprint]
"""The fingerprint of an action in one session."""
Status = Literal[
    "running", "done", "skipped", "undecided", "failed", "would run", "would skip", "would ask"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Happening:
    """What becomes of a step.

    Attributes:
        step: Its id.
        status: What.
        fingerprint: The action that it is about.
        seconds: How long it ran, where it did.
        why: Why it is not done, for people; or empty.
        output: The end of what it printed, where it is not done.
    """

    step: str
    status: Status
    fingerprint: Fingerprint
    seconds: float | None = None
    why: str = ""
    output: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is known of a session.

    Attributes:
        state: Of its program.
        known: Effects that are done.
        undecided: The class of each effect that nobody knows the outcome of.
        newest: The action of a step that was intended last.
        sign: Gives fingerprints.
    """

    state: State
    known: Collection[str]
    undecided: Mapping[Fingerprint, str]
    newest: Callable[[str], Fingerprint | None]
    sign: Sign

    @classmethod
    def of(cls, session: Session[State]) -> Self:
        """Of a session that is open."""
        return cls(
            state=session.state,
            known=frozenset(session.fingerprints),
            undecided={one.fingerprint: one.effect_class for one in session.open_effects},
            newest=lambda step: newest(session, KIND, key=step),
            sign=signing(session),
        )

    @classmethod
    def by_reading(cls, found: Rehearsed[State] | None, *, limits: Limits) -> Self:
        """Of a session that was only read; None: a new one."""
        if found is None:
            salt = system_entropy(_SALT_BYTES)
            return cls(
                state=INITIAL,
                known=(),
                undecided={},
                newest=lambda _: None,
                # Nobody can guess from these what the values of the environment are.
                sign=lambda one: one.fingerprint(salt, limits=limits),
            )
        salt, effects = found.salt, found.effects
        return cls(
            state=found.state,
            known=effects.known,
            undecided={one.fingerprint: one.effect_class for one in effects.open.values()},
            newest=lambda step: effects.keys.get(Identity(kind=KIND, key=step).key_digest(salt)),
            sign=lambda one: one.fingerprint(salt, limits=limits),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What is to be done about a step.

    Attributes:
        status: What a run would do.
        fingerprint: The action that it is about.
        is_intended: Whether that was intended before, and is to be settled first.
        new: The action that the step is with its inputs as they are.
        supersedes: What ``new`` stands in for.
        unmatched: Patterns of inputs that no file matches.
    """

    status: Literal["would run", "would skip", "would ask"]
    fingerprint: Fingerprint
    is_intended: bool = False
    new: Identity
    supersedes: Fingerprint | None = None
    unmatched: tuple[str, ...] = ()


def signing(session: Session[State]) -> Sign:
    """What gives the fingerprints of an open session."""

    def sign(one: Identity) -> Fingerprint:
        given = session.effect(one.kind, key=one.key, args=one.args, cwd=one.cwd, inputs=one.inputs)
        return given.fingerprint

    return sign


def document(plan: Plan, sign: Sign) -> dict[str, JSON]:
    """What is stored of a plan: of its variables names and keyed digests, never a value."""

    def seal(name: str, value: str) -> str:
        return sign(Identity(kind="run env", key=plan.name, args={"name": name, "value": value}))

    return {
        "name": plan.name,
        "version": plan.version,
        "steps": [step.document(seal) for step in plan.steps],
    }


def action(step: Step, files: Mapping[str, str], *, after: str | None) -> Identity:
    """The exact action of a step: on these files, behind that action of the same step."""
    args: JSON = {"argv": list(step.run), "env": dict(step.env), "after": after}
    return Identity(kind=KIND, key=step.id, args=args, cwd=step.cwd, inputs=files)


def judge(step: Step, seen: Seen, *, folder: str) -> Judged:
    """What is to be done about a step; the table above.

    Raises:
        PlanError: An input is no file.
        StorageError: An input cannot be read.
    """
    found = find(step.inputs, folder=folder)
    became = seen.state["steps"].get(step.id)
    done = None if became is None else Fingerprint(became["fingerprint"])
    new = action(step, found.files, after=done)
    last = seen.newest(step.id)
    if last is not None and last in seen.undecided:
        runs = step.effect == seen.undecided[last] == "idempotent"  # the stricter class counts
        return Judged(
            status="would run" if runs else "would ask", fingerprint=last, is_intended=True, new=new
        )
    if last is not None and last in seen.known and last != done:
        # A person said that it was done; what that means for the step is still to be recorded.
        return Judged(status="would skip", fingerprint=last, is_intended=True, new=new)
    fingerprint = seen.sign(new)
    if became is not None and done is not None:
        is_as_before = seen.sign(action(step, found.files, after=became["after"])) == done
        if is_as_before or fingerprint == became["left"]:
            return Judged(status="would skip", fingerprint=done, new=new)
    return Judged(
        status="would run",
        fingerprint=fingerprint,
        new=new,
        supersedes=None if last == fingerprint else last,
        unmatched=found.unmatched,
    )


_ACTION: Final = frozenset({"run", "cwd", "env", "effect", "probe", "not_done_exit", "inputs"})
"""Keys of a step that say what it does, or how its outcome is found out."""


def abandoned(changes: Iterable[Change], seen: Seen) -> Iterator[Happening]:
    """Steps that the plan has no more, or that are another action now, and are not settled.

    Under another id such a step would be run again without a decision; as another action it would
    be taken for settled by what is said of the old one.
    """
    for change in changes:
        last = None if change.step is None or change.what == "added" else seen.newest(change.step)
        if change.step is None or last is None:
            continue
        is_gone = change.what == "removed"
        # A person said that it is done, and the state does not know of it yet.
        is_owed = not is_gone and last in seen.known and last != _done(seen, change.step)
        if (last in seen.undecided or is_owed) and (is_gone or _ACTION & set(change.keys)):
            how = "is not in the plan any more" if is_gone else "is another action now"
            why = f"it {how}, and what it was is to be settled first"
            yield Happening(step=change.step, status="undecided", fingerprint=last, why=why)


def _done(seen: Seen, step: str) -> str | None:
    """The action of a step that its state says was done last."""
    found = seen.state["steps"].get(step)
    return None if found is None else found["fingerprint"]


def rehearse(plan: Plan, seen: Seen) -> Iterator[Happening]:
    """What a run would do with each step, if none of them changed the inputs of another."""
    for step in plan.order():
        judged = judge(step, seen, folder=plan.folder)
        yield Happening(step=step.id, status=judged.status, fingerprint=judged.fingerprint)
