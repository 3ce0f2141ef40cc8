"""One state in plain text: what was done, what became of it, what is left, what must be.

The text is the same in every run, so that a report can quote it. Whatever came from a disk is
escaped (T12).
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Collection, Iterator
from typing import Final

from fault_injection.level import Case, Level
from fault_injection.memory.calls import Call
from fault_injection.memory.disk import Tree
from fault_injection.memory.paths import leaf
from fault_injection.workload import ORACLES, Recovered, Violation
from fault_injection.world import Told
from lastgood.errors import printable

_VERBS: Final = {"open": "begins", "acknowledged": "is acknowledged", "refused": "is refused"}
_INDENT: Final = "         "
_WHAT: Final = 72


def judged(level: Level, case: Case) -> Recovered | Violation:
    """What a level says of a state; a violation is an answer here."""
    try:
        return level.replay(case)
    except Violation as violation:
        return violation


def explain(case: Case, verdict: Recovered | Violation, *, again: str) -> str:
    """Everything about one state.

    Args:
        case: The state.
        verdict: What its level says of it.
        again: The command that judges it again.
    """
    parts = [
        [str(case.id), printable(case.title)],
        ["What was done", *_done(case)],
        ["What is on the disk", *_listing(case.tree, case.workload.unread)],
        ["What the world knows", *_known(case.told)],
        ["What must be, and what is", *_duty(case), *verdict_lines(verdict)],
        [f"again: {again}"],
    ]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


# --- what was done --------------------------------------------------------------------------


def _done(case: Case) -> Iterator[str]:
    """Calls that changed something, with their fate, and what the world learnt, in order."""
    learnt = _learnt(case)
    several = len({call.process for call in case.calls}) > 1
    shown = [call for call in case.calls if _is_shown(call, case)]
    width = max([0, *(len(printable(call.what, limit_chars=_WHAT)) for call in shown)])
    folded = 0
    for at in range(len(case.calls) + 1):
        news = learnt.get(at, [])
        call = case.calls[at] if at < len(case.calls) else None
        is_shown = call is not None and _is_shown(call, case)
        if folded and (news or is_shown or call is None):
            which = "calls that only read" if folded > 1 else "call that only reads"
            yield f"{_INDENT}… {folded} {which}"
            folded = 0
        yield from (f"{_INDENT}world: {line}" for line in news)
        if call is not None and is_shown:
            yield _line(call, case, width, several=several)
        elif call is not None:
            folded += 1


def _is_shown(call: Call, case: Case) -> bool:
    return bool(call.operations or call.injected or call.number in case.fates)


def _line(call: Call, case: Case, width: int, *, several: bool) -> str:
    process = f"p{call.process} " if several else ""
    what = printable(call.what, limit_chars=_WHAT)
    fate = case.fates.get(call.number)
    marks = [f"[{printable(fate)}]"] if fate is not None else []
    if call.injected and call.injected != fate:
        marks.append(f"<{printable(call.injected)}>")
    elif call.error and not call.injected:
        marks.append(f"<{errno.errorcode.get(call.error, call.error)}>")
    return f"{call.number:>6}   {process}{call.name:<10} {what:<{width}} {' '.join(marks)}".rstrip()


def _learnt(case: Case) -> dict[int, list[str]]:
    """By the number of calls that had returned: what the world learnt then."""
    found: dict[int, list[str]] = {}
    before = Told()
    for mark in case.marks:
        if mark.calls <= len(case.calls):
            found.setdefault(mark.calls, []).extend(_news(before, mark.told))
            before = mark.told
    return found


def _news(before: Told, after: Told) -> Iterator[str]:
    known = {act.name: act for act in before.acts}
    for act in after.acts:
        old = known.get(act.name)
        if old is None and act.outcome != "open":
            yield f"knows {act.kind} {printable(act.name)}: {act.outcome}"
        elif old is None or old.outcome != act.outcome:
            yield f"{act.kind} {printable(act.name)} {_VERBS[act.outcome]}"
        elif old.kind != act.kind:
            yield f"{old.kind} {printable(act.name)} is {act.kind} from now on"


# --- what is left ---------------------------------------------------------------------------


def _listing(tree: Tree, unread: Collection[str]) -> Iterator[str]:
    """Every path: mode, links, size, and 8 hex characters of the content's digest.

    Bytes that nobody believes have none: they may differ from run to run.
    """
    links: dict[int, int] = {}
    for _, inode in tree.paths():
        links[inode] = links.get(inode, 0) + 1
    yield "  mode  links      bytes  digest    name"
    for path, inode in tree.paths():
        node = tree.nodes[inode]
        name = printable(path, limit_chars=400)
        if node.data is None:
            yield f"  {node.mode:04o}      -          -  -         {name}/"
        else:
            is_unread = leaf(path) in unread
            digest = "-       " if is_unread else hashlib.sha256(node.data).hexdigest()[:8]
            size = f"{len(node.data):>9,}"
            yield f"  {node.mode:04o}  {links[inode]:>5}  {size}  {digest}  {name}"


def _known(told: Told) -> Iterator[str]:
    for outcome in ("acknowledged", "open", "refused"):
        acts = [f"{act.kind} {act.name}" for act in told.acts if act.outcome == outcome]
        words = {"open": "begun, and nobody was told how it ended"}.get(outcome, outcome)
        if acts:
            yield f"  {words}: {printable(', '.join(acts), limit_chars=2000)}"
    if not told.acts:
        yield "  nothing was asked for"


def _duty(case: Case) -> Iterator[str]:
    if case.must_stop:
        yield "  no crash leaves this: it must be refused, not recovered"


def verdict_lines(verdict: Recovered | Violation) -> Iterator[str]:
    """What a level says of a state, in a few lines."""
    if isinstance(verdict, Violation):
        yield f"  VIOLATION of {verdict.oracle}: {ORACLES[verdict.oracle]}"
        yield f"  expected  {printable(verdict.expected, limit_chars=2000)}"
        yield f"  got       {printable(verdict.got, limit_chars=2000)}"
    else:
        yield f"  as it must be: {printable(verdict.shown)}, by: {printable(verdict.rule)}"
