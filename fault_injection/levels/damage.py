"""L5: every byte and every file of a session is changed, and the session is opened again.

Method. The job runs once. Of the tree that it leaves, and of those of its quiet instants, every
changed tree of ``tampering`` is made and read, by a process of its own; another opens it for
writing, but of changes of bytes only one in a few (``_WHOLE_EACH``). What must be true of each:

* It *stops*, with a typed error of integrity, rollback, schema or key, to whoever opens it; and
  then every byte, name and mode is as it was (G3, G8).
* Or the *newest* state comes back, and ``verify`` reports damage of whatever is stored (O6). It
  need not report what nobody believes, and what is authentic and merely too much it only tells.
* Or something older comes back, and exactly one of ``overlaps.OVERLAPS`` says why (O12).

Another state is never given (O1 to O3), and no error is a traceback.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Literal

from fault_injection.damage import belief
from fault_injection.damage.belief import Belief, Looked, Subject
from fault_injection.damage.files import kind_of, leaf, spread
from fault_injection.damage.history import History, history_of
from fault_injection.damage.overlaps import Found, claiming
from fault_injection.damage.segments import is_intact
from fault_injection.damage.tampering import (
    ALL,
    BYTE_KINDS,
    KINDS,
    Tamperer,
    Tampering,
    TamperKind,
    Thinning,
)
from fault_injection.level import Case, Counterexample, Plan, Tally
from fault_injection.memory.calls import Call
from fault_injection.memory.disk import Node
from fault_injection.state_id import BadStateIdError, LevelName, StateId
from fault_injection.workload import Recovered, Violation, Workload
from lastgood.errors import LastgoodError
from lastgood.formats import names
from lastgood.formats.names import Kind

_STOPS: Final = range(2, 6)
"""Exit codes of integrity, rollback or fork, schema, key."""
_NEWER: Final = "newer-schema"
_AUTHENTIC: Final[tuple[TamperKind, ...]] = (
    "delete", "older", "renamed", "returned", "rolled-back", "mode", "unbelieved",
)  # fmt: skip
"""Kinds after which every byte that is there may be the truth: they need only be told."""
_DIGITS: Final = 12
_WHOLE_EACH: Final = {"ci": 4, "exhaustive": 16}
"""Of so many changes of bytes, one is owned as well, and checked although it stops a load."""
_CI: Final = Thinning(3, 40)
_SOME: Final = Thinning(30, None)


def thinning(kind: TamperKind, plan: Plan, workload: str) -> Thinning:
    """How much of a kind is tried; *every byte* means that every byte is flipped."""
    few = _CI if plan.budget == "ci" else _SOME
    if plan.budget == "exhaustive" and kind not in BYTE_KINDS[1:]:
        few = ALL
    return replace(few, seed=f"{plan.seed} {workload}")


def judge(
    tampering: Tampering, history: History, *, depth: Literal["whole", "short"] = "whole"
) -> Recovered:
    """Open one changed tree, and judge what comes back.

    Args:
        tampering: The change.
        history: What it was made of.
        depth: ``short`` opens it for reading only, and checks it only where it loads.

    Raises:
        Violation: A promise does not hold.
    """
    judged = [_judge_one(tampering, history, subject, depth) for subject in history.subjects]
    return judged[0] if len(judged) == 1 else max(judged, key=lambda one: one.rule)


def _judge_one(
    tampering: Tampering, history: History, subject: Subject, depth: Literal["whole", "short"]
) -> Recovered:
    tree, owned = tampering.tree(), None
    try:
        looked = belief.read(tree, subject, depth=depth)
        if depth == "whole":
            owned = belief.own(tree, subject)
    except Exception as error:
        raise Violation(
            "error", expected="a finding, or a stop", got=f"{type(error).__name__}: {error}"
        ) from error
    if looked.left.digest() != tree.digest():
        raise Violation("O6", expected="a reader that changes nothing (G8)", got="a changed tree")
    if isinstance(looked.belief, LastgoodError):
        return _judge_stop(tampering, looked, looked.belief, owned)
    if owned is not None:
        _judge_owner(tampering, looked.belief, owned)
    found = Found(tampering, history, subject, looked.belief)
    if looked.belief == found.newest:
        return _judge_newest(found, looked)
    return _judge_older(found)


def _judge_stop(
    tampering: Tampering, looked: Looked, error: LastgoodError, owned: Looked | None
) -> Recovered:
    """It stops for everybody, in the same way, and nothing is touched."""
    if error.exit_code not in _STOPS:
        raise Violation(
            "error", expected="an error of integrity, rollback, schema or key", got=_said(error)
        )
    if tampering.kind == "unbelieved":
        raise Violation("O1", expected="what nobody believes to stop nobody", got=_said(error))
    stopped = Recovered(f"stops: {type(error).__name__}", _said(error))
    if owned is None:
        return stopped
    if not isinstance(owned.belief, LastgoodError):
        raise Violation("O4", expected=f"{_said(error)} for writers", got=f"{owned.belief}")
    if owned.belief.exit_code not in _STOPS:
        raise Violation("error", expected=f"{_said(error)} for writers", got=_said(owned.belief))
    if owned.left.digest() != tampering.tree().digest():
        raise Violation("O6", expected="a refused opening to change nothing", got="a changed tree")
    if looked.reported not in _STOPS and tampering.kind != _NEWER:
        raise Violation("O6", expected=f"{_said(error)} from verify", got=f"{looked.reported}")
    return stopped


def _judge_owner(tampering: Tampering, read: Belief, owned: Looked) -> None:
    """Whoever owns it goes on with the same, and nothing that was there is lost."""
    if isinstance(owned.belief, LastgoodError):
        raise Violation("O4", expected=f"{read} for writers as well", got=_said(owned.belief))
    if owned.belief != replace(read, epoch=read.epoch + 1):
        raise Violation("O4", expected=f"{read} for writers as well", got=f"{owned.belief}")
    before, after = tampering.files(), spread(owned.left)
    lost = [
        path
        for path, node in before.items()
        if kind_of(path) not in (Kind.LOCK, Kind.TEMPORARY, Kind.POINTER)
        and (after.get(path) != node)
    ]
    if lost:
        raise Violation("O6", expected="nothing deleted or overwritten", got=f"lost: {lost}")


def _judge_newest(found: Found, looked: Looked) -> Recovered:
    tampering = found.tampering
    if tampering.kind == _NEWER:
        raise Violation("O3", expected="an unknown schema to stop", got=f"{looked.belief}")
    if any(_is_needed(found, path) for path in tampering.edits):
        raise Violation("O6", expected=f"{_touched(tampering)}: a stop", got=f"{looked.belief}")
    if looked.reported in _STOPS:
        return Recovered("newest, damage reported", f"{looked.belief}")
    if _touches_nothing(found):
        return Recovered("newest, untouched", f"{looked.belief}")
    if _may_be_told(tampering) and looked.is_told:
        return Recovered("newest, told", f"{looked.belief}")
    raise Violation(
        "O6",
        expected=f"{_touched(tampering)} reported by verify",
        got=f"{looked.belief}; verify exits with {looked.reported}",
    )


def _judge_older(found: Found) -> Recovered:
    if not found.history.is_known(found.subject, found.belief):
        raise Violation("O3", expected="bytes that were saved", got=f"{found.belief}")
    overlaps = claiming(found)
    if len(overlaps) == 1:
        return Recovered(f"overlap: {overlaps[0].name}", f"{found.belief}")
    claimed = ", ".join(overlap.name for overlap in overlaps) or "no overlap"
    raise Violation(
        "O12",
        expected=f"a stop, or {found.newest}",
        got=f"{found.belief}, claimed by {claimed}",
    )


def _may_be_told(tampering: Tampering) -> bool:
    """Whether every byte that is there may be the truth.

    A record is, under a foreign name; under another one of ours it is read and is not what it must
    be. A segment there may lie below the floor, where nobody reads it.
    """
    if tampering.kind == "renamed":
        put = [path for path, node in tampering.edits.items() if node is not None]
        return all(kind_of(path) in (None, Kind.SEGMENT) for path in put)
    return tampering.kind in _AUTHENTIC


def _is_needed(found: Found, path: str) -> bool:
    """Whether a record is gone or damaged without which nothing may be believed (design 6)."""
    honest, was = found.tampering.base.honest[found.subject], found.tampering.base.files.get(path)
    owner, _, name = path.rpartition("/")
    is_here = owner == found.folder or (name == names.STORE and owner == found.subject.store)
    node = found.tampering.edits[path]
    if was is None or not is_here or name not in {*honest.needed, *honest.sound, honest.before}:
        return False
    if node is None:
        return name not in honest.sound
    if node.data is None or node.mode & 0o077:
        return True
    if name == honest.before:
        return node.data.split(b"\n")[:2] != (was.data or b"").split(b"\n")[:2]
    if name == names.POINTER:
        return node.data not in {known.data for known, _ in found.history.versions(path)}
    return node.data != was.data


def _touches_nothing(found: Found) -> bool:
    """Whether everything that somebody believes has the bytes it had, and only its owner reads."""
    return all(_is_nothing(found, path, node) for path, node in found.tampering.edits.items())


def _is_nothing(found: Found, path: str, node: Node | None) -> bool:
    kind, was = kind_of(path), found.tampering.base.files.get(path)
    if kind in (Kind.LOCK, Kind.TEMPORARY) or (kind is None and _is_in_root(found, path)):
        return True
    if node is None and kind in (Kind.POINTER, Kind.MANIFEST) and found.newest.is_nothing:
        return True  # the verdict is *new*, and nothing is there that could be missed
    if was is not None and leaf(path) in found.leftovers:
        return True
    if was is None or node is None or was.data is None or node.data is None:
        return False
    if node.mode & 0o077 and node.mode != was.mode:
        return False
    return node.data == was.data or (
        kind is Kind.SEGMENT and is_intact(path, node.data, found.tampering.base.files)
    )


def _is_in_root(found: Found, path: str) -> bool:
    """Whether it is beside the sessions, where no session's check looks."""
    return path.rpartition("/")[0] == found.subject.store


def _touched(tampering: Tampering) -> str:
    return f"{', '.join(sorted(set(map(leaf, tampering.edits)))[:4])}: {tampering.what}"


def _said(error: LastgoodError) -> str:
    return f"{type(error).__name__}: {error.happened}"


class Damage:
    """Level 5."""

    name: LevelName = "L5"

    def run(self, workload: Workload, plan: Plan) -> Iterator[Tally]:
        """Every kind of change; a tally each.

        Raises:
            NotRunError: It leaves no session.
            BadWorkloadError: The workload cannot be tested.
        """
        history = history_of(workload)
        for kind in KINDS:
            yield self._tally(history, kind, plan)

    def case(self, workload: Workload, state: StateId) -> Case:
        """Build one changed tree again.

        Raises:
            BadStateIdError: There is no such change of this workload's session (any more).
        """
        history = history_of(workload)
        tampering = self._find(history, state)
        calls = history.recording.calls[: tampering.base.calls]
        return Case(
            id=state,
            workload=workload,
            title=f"{_touched(tampering)} (kind {tampering.kind}), after call "
            f"{tampering.base.calls}",
            tree=tampering.tree(),
            told=tampering.base.told,
            calls=calls,
            fates=_fates(tampering, calls),
            must_stop=_must_stop(tampering, history),
            marks=tuple(history.recording.world.marks),
        )

    def replay(self, case: Case) -> Recovered:
        """Judge that tree again.

        Raises:
            Violation: A promise does not hold.
        """
        history = history_of(case.workload)
        return judge(self._find(history, case.id), history)

    def _find(self, history: History, state: StateId) -> Tampering:
        for kind in KINDS:
            if kind == state.variant:
                for tampering in Tamperer(history).tamperings(kind):
                    if (
                        tampering.point == state.point
                        and _digest(tampering, history) == state.choice
                    ):
                        return tampering
        raise BadStateIdError(f"no change by hand of {state.workload} is named {state}")

    def _tally(self, history: History, kind: TamperKind, plan: Plan) -> Tally:
        began_s = time.process_time()
        few = thinning(kind, plan, history.workload.name)
        tamperer = Tamperer(history)
        tally = Tally(level=self.name, workload=history.workload.name, variant=kind)
        tally.exhaustive = tamperer.is_all(kind, few)
        seen: set[tuple[int, str]] = set()
        points: set[int] = set()
        for tampering in tamperer.tamperings(kind, few):
            points.add(tampering.point)
            tally.raw += 1
            digest = _digest(tampering, history)
            if (tampering.base.number, digest) in seen:
                continue
            seen.add((tampering.base.number, digest))
            is_short = kind in BYTE_KINDS and tally.raw % _WHOLE_EACH[plan.budget]
            self._count(tally, history, tampering, digest, "short" if is_short else "whole")
            if plan.stop_at_first and tally.violations:
                tally.exhaustive = False
                break
        tally.points, tally.distinct = len(points), len(seen)
        tally.seconds = time.process_time() - began_s
        return tally

    def _count(
        self,
        tally: Tally,
        history: History,
        tampering: Tampering,
        digest: str,
        depth: Literal["whole", "short"],
    ) -> None:
        try:
            recovered = judge(tampering, history, depth=depth)
        except Violation as violation:
            state = StateId("L5", tally.workload, tampering.kind, tampering.point, digest)
            tally.violations.append(
                Counterexample(
                    id=state,
                    oracle=violation.oracle,
                    expected=violation.expected,
                    got=violation.got,
                )
            )
        else:
            tally.recovered += 1
            tally.rules[recovered.rule] += 1


def _fates(tampering: Tampering, calls: list[Call]) -> dict[int, str]:
    """Of the call that last gave a changed file its name or its bytes: what became of that."""
    fates = {}
    for path, node in sorted(tampering.edits.items()):
        made = [call.number for call in calls if call.path == path and call.changes]
        if made:
            fates[made[-1]] = "GONE by hand" if node is None else f"CHANGED by hand: {leaf(path)}"
    return fates


def _must_stop(tampering: Tampering, history: History) -> bool:
    """Whether nothing but a stop is right: neither the newest state nor an overlap's comes back."""
    try:
        return judge(tampering, history).rule.startswith("stops")
    except Violation:
        return True


def _digest(tampering: Tampering, history: History) -> str:
    """The lock's text has the number of this very process in it."""
    return tampering.tree().digest(unread=history.workload.unread)[:_DIGITS]


LEVEL: Final = Damage()
"""This level."""
