"""What is made of a session that nobody has changed, and what of it nobody can do without."""

from __future__ import annotations

from dataclasses import dataclass

from fault_injection.damage.belief import Belief, Looked, Subject
from fault_injection.damage.files import Files
from lastgood.errors import LastgoodError
from lastgood.formats import names
from lastgood.report import Report
from lastgood.rules.selection import Selection


@dataclass(frozen=True, slots=True)
class Honest:
    """What is made of a session that nobody has changed.

    Attributes:
        belief: What is believed.
        leftovers: Names that nobody needs, as a check lists them.
        named: Sequence of the checkpoint that the newest revision names; a newer one may have
            been left by a crash.
        needed: Names of the records without which nothing may be believed (design 6).
        sound: Names of those that may be missing, one of the two, and must be sound if they are
            there: the pointer and the newest number.
        before: Name of the generation before, of which seal and header are needed; or empty.
    """

    belief: Belief
    leftovers: tuple[str, ...]
    named: int
    needed: frozenset[str]
    sound: frozenset[str]
    before: str


def honest_of(looked: Looked) -> Honest | None:
    """What somebody made of an unchanged tree; None: it stopped."""
    report = looked.report
    if isinstance(looked.belief, LastgoodError) or report is None or report.selection is None:
        return None
    return _of(looked.belief, report, report.selection)


def is_whole(now: Files, then: Files, subject: Subject, honest: Honest) -> bool:
    """Whether ``now`` has all that was needed ``then``, as it was, to believe what was believed."""

    def is_kept(name: str) -> bool:
        path = path_of(name, subject)
        return path in now and now[path] == then.get(path)

    one_of = any(map(is_kept, honest.sound)) or honest.belief.epoch == 0
    return one_of and all(map(is_kept, honest.needed))


def path_of(name: str, subject: Subject) -> str:
    """Where a record of a session lies."""
    if name == names.STORE:
        return f"{subject.store}/{name}"
    return f"{subject.store}/{subject.directory}/{name}"


def _of(known: Belief, report: Report, chosen: Selection) -> Honest:
    newest = chosen.manifest
    needed = {names.STORE, names.SESSION} if newest is not None else set[str]()
    if newest is not None and newest.revision > 1:
        needed.add(names.manifest(newest.revision - 1))
    if chosen.current is not None:
        needed.add(chosen.current.name)
    return Honest(
        belief=known,
        leftovers=report.leftovers,
        named=newest.current.sequence if newest is not None and newest.current else 0,
        needed=frozenset(needed),
        sound=frozenset({names.POINTER, names.manifest(newest.revision if newest else 1)}),
        before=chosen.previous.name if chosen.previous is not None else "",
    )
