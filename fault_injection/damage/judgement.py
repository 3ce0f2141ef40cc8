"""What must be true of each changed tree, whoever opens it.

* It *stops*, with a typed error of integrity, rollback, schema or key, for whoever opens it; then
  every byte, name and mode is as it was (G3, G8). A change of what nobody believes stops nobody
  (O1).
* Or the *newest* state comes back, and ``verify`` reports damage of whatever is stored (O6). It
  need not report what nobody believes, and what is authentic and merely too much it only tells.
* Or something older comes back, and exactly one of ``overlaps.OVERLAPS`` says why (O12).

Another state is never given (O1 to O3), and no error is a traceback.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fault_injection.damage import belief
from fault_injection.damage.belief import Belief, Looked, Subject
from fault_injection.damage.files import kind_of, leaf, spread
from fault_injection.damage.history import History
from fault_injection.damage.overlaps import Found, claiming
from fault_injection.damage.reach import hurts_needed, may_stop_nobody, touches_nothing
from fault_injection.damage.tampering import Tampering, TamperKind
from fault_injection.failure import one_line
from fault_injection.judgement import Depth
from fault_injection.workload import Recovered, Violation
from lastgood.errors import LastgoodError
from lastgood.formats.names import Kind

_STOPS: Final = range(2, 6)
"""Exit codes of integrity, rollback or fork, schema, key."""
_NEWER: Final = "newer-schema"
_AUTHENTIC: Final[tuple[TamperKind, ...]] = (
    "delete", "older", "renamed", "returned", "rolled-back", "mode", "unbelieved",
)  # fmt: skip
"""Kinds after which every byte that is there may be the truth: they need only be told."""


def judge(tampering: Tampering, history: History, *, depth: Depth = "whole") -> Recovered:
    """Open one changed tree, and judge what comes back.

    Args:
        tampering: The change.
        history: What it was made of.
        depth: ``short``: opened for reading only, and checked only where it loads.

    Raises:
        Violation: A promise does not hold.
    """
    judged = [_judge_one(tampering, history, subject, depth) for subject in history.subjects]
    return judged[0] if len(judged) == 1 else max(judged, key=lambda one: one.rule)


def touched(tampering: Tampering) -> str:
    """What was done to which files, for people."""
    return f"{', '.join(sorted(set(map(leaf, tampering.edits)))[:4])}: {tampering.what}"


def _judge_one(tampering: Tampering, history: History, subject: Subject, depth: Depth) -> Recovered:
    tree, owned = tampering.tree, None
    try:
        looked = belief.read(tree, subject, depth=depth)
        if depth == "whole":
            owned = belief.own(tree, subject)
    except Exception as error:
        raise Violation("error", expected="a finding, or a stop", got=one_line(error)) from error
    if looked.left.digest() != tree.digest():
        raise Violation("O6", expected="a reader that changes nothing (G8)", got="a changed tree")
    if isinstance(looked.belief, LastgoodError):
        _judge_stop(tampering, subject, looked.belief)
        if owned is not None:
            _judge_refused(tampering, looked, looked.belief, owned)
        return Recovered(f"stops: {type(looked.belief).__name__}", _said(looked.belief))
    if owned is not None:
        _judge_owner(tampering, looked.belief, owned)
    found = Found(tampering, history, subject, looked.belief)
    if looked.belief == found.newest:
        return _judge_newest(found, looked)
    return _judge_older(found)


def _judge_stop(tampering: Tampering, subject: Subject, error: LastgoodError) -> None:
    if error.exit_code not in _STOPS:
        raise Violation(
            "error", expected="an error of integrity, rollback, schema or key", got=_said(error)
        )
    if may_stop_nobody(tampering, subject):
        raise Violation("O1", expected="what nobody believes to stop nobody", got=_said(error))


def _judge_refused(
    tampering: Tampering, looked: Looked, error: LastgoodError, owned: Looked
) -> None:
    """It stops for writers as well, and for ``verify``, and nothing is touched."""
    if not isinstance(owned.belief, LastgoodError):
        raise Violation("O4", expected=f"{_said(error)} for writers", got=f"{owned.belief}")
    if owned.belief.exit_code not in _STOPS:
        raise Violation("error", expected=f"{_said(error)} for writers", got=_said(owned.belief))
    if owned.left.digest() != tampering.tree.digest():
        raise Violation("O6", expected="a refused opening to change nothing", got="a changed tree")
    if looked.reported not in _STOPS and tampering.kind != _NEWER:
        raise Violation("O6", expected=f"{_said(error)} from verify", got=f"{looked.reported}")


def _judge_owner(tampering: Tampering, read: Belief, owned: Looked) -> None:
    """Whoever owns it goes on with the same, and nothing that was there is lost."""
    if isinstance(owned.belief, LastgoodError):
        raise Violation("O4", expected=f"{read} for writers as well", got=_said(owned.belief))
    if owned.belief != replace(read, epoch=read.epoch + 1):
        raise Violation("O4", expected=f"{read} for writers as well", got=f"{owned.belief}")
    before, after = tampering.files, spread(owned.left)
    lost = [
        path
        for path, node in before.items()
        if kind_of(path) not in (Kind.LOCK, Kind.TEMPORARY, Kind.POINTER)
        and (after.get(path) != node)
    ]
    if lost:
        raise Violation("O6", expected="nothing deleted or overwritten", got=f"lost: {lost}")


def _judge_newest(found: Found, looked: Looked) -> Recovered:
    tampering, subject = found.tampering, found.subject
    if tampering.kind == _NEWER:
        raise Violation("O3", expected="an unknown schema to stop", got=f"{looked.belief}")
    if hurts_needed(tampering, found.history, subject):
        raise Violation("O6", expected=f"{touched(tampering)}: a stop", got=f"{looked.belief}")
    if looked.reported in _STOPS:
        return Recovered("newest, damage reported", f"{looked.belief}")
    if touches_nothing(tampering, subject):
        return Recovered("newest, untouched", f"{looked.belief}")
    if _may_be_told(tampering) and looked.is_told:
        return Recovered("newest, told", f"{looked.belief}")
    raise Violation(
        "O6",
        expected=f"{touched(tampering)} reported by verify",
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


def _said(error: LastgoodError) -> str:
    return f"{type(error).__name__}: {error.happened}"
