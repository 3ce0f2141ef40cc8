"""The one rule, as a comparison of two sets of disks.

*Every state that a crash can leave is recovered without a human; every other state stops.* A disk
has one answer, so a disk that is in both sets, and of which a change by hand must not be recovered
while a crash must, needs two. Those are the overlaps; each is known by name, and what decides.

Method. The first set is every disk that a persistence model permits at any point of the job, and
of what lay there before it; of a write of many sectors, some tears. The second is every tree of
``tampering``, made of any quiet instant. Both are compared by what somebody believes of them. Of
each disk in both, lastgood is asked: what a crash left must not stop; and if what comes back is
not what there was before the change, exactly one overlap has to say so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from fault_injection.damage import belief
from fault_injection.damage.history import History, history_of, preparation
from fault_injection.damage.overlaps import Found, claiming
from fault_injection.damage.tampering import BYTE_KINDS, KINDS, Tamperer, Tampering, Thinning
from fault_injection.memory.disk import Tree
from fault_injection.power import passage
from fault_injection.power.choices import choices
from fault_injection.power.loss import Power
from fault_injection.power.passage import moments
from fault_injection.power.rules import ALICE, WEAK
from fault_injection.recording import record
from fault_injection.workload import Workload
from lastgood.errors import LastgoodError

MODELS: Final = (WEAK, ALICE)
"""Every state of the other two models is one of ``weak``."""
_PLACES: Final = 12


@dataclass(frozen=True, slots=True)
class Crash:
    """A disk that a loss of power, or a kill, may leave.

    Attributes:
        tree: The disk.
        place: Where it was left, for people.
    """

    tree: Tree
    place: str


@dataclass(slots=True)
class Comparison:
    """What the two sets have in common.

    Attributes:
        workload: The job.
        crashes: Disks of the first set.
        is_exhaustive: Whether those are all that the models permit.
        changes: Trees of the second, each as often as another change makes it.
        common: Of those, the ones that are in the first set too.
        agreed: Of those, the ones of which both sets ask for the same.
        overlaps: Of the others, how many fall into which overlap.
        violations: What breaks the rule, in words.
    """

    workload: str
    crashes: int = 0
    is_exhaustive: bool = True
    changes: int = 0
    common: int = 0
    agreed: int = 0
    overlaps: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)


def left_by_crashes(workload: Workload) -> tuple[dict[str, Crash], bool]:
    """Disks that a crash of the job or one before it may leave, by digest; and if they are all."""
    found: dict[str, Crash] = {}
    is_exhaustive = True
    for name, recording in (("before", preparation(workload)), ("job", record(workload))):
        whole = passage.of(recording)
        for model in MODELS:
            power = Power(model, "sector", "all", "short")
            for moment in moments(whole, power.cache(whole, workload)):
                tried = choices(moment.cache, seed=f"{model.name} {moment.point}")
                is_exhaustive &= tried.is_exhaustive
                for lost in tried.lost:
                    tree = moment.cache.tree(lost)
                    place = f"{name}, call {moment.point}, model {model.name}"
                    found.setdefault(tree.digest(unread=workload.unread), Crash(tree, place))
    return found, is_exhaustive


def made_by_hand(history: History) -> Iterator[Tampering]:
    """Every change of whole files, and a sample of those of bytes."""
    tamperer = Tamperer(history)
    for kind in KINDS:
        places = _PLACES if kind in BYTE_KINDS else None
        yield from tamperer.tamperings(kind, Thinning(places, places, None, history.workload.name))


def compare(workload: Workload) -> Comparison:
    """Compare both sets of one job.

    Raises:
        BadWorkloadError: It cannot be tested.
    """
    history = history_of(workload)
    crashes, is_exhaustive = left_by_crashes(workload)
    comparison = Comparison(workload.name, crashes=len(crashes), is_exhaustive=is_exhaustive)
    for tampering in made_by_hand(history):
        comparison.changes += 1
        crash = crashes.get(tampering.tree.digest(unread=workload.unread))
        if crash is not None:
            comparison.common += 1
            _judge(comparison, history, tampering, crash)
    return comparison


def _judge(comparison: Comparison, history: History, tampering: Tampering, crash: Crash) -> None:
    """One disk of both sets; agreed, in an overlap, or a violation."""
    what = f"{tampering.kind} {tampering.point} ({tampering.what}); {crash.place}"
    names = set()
    for subject in history.subjects:
        known = belief.read(tampering.tree, subject).belief
        if isinstance(known, LastgoodError):
            comparison.violations.append(f"what a crash leaves stops: {what}: {known.happened}")
            return
        found = Found(tampering, history, subject, known)
        if known != found.newest:
            claimed = [overlap.name for overlap in claiming(found)]
            if len(claimed) != 1:
                comparison.violations.append(f"{known} in {claimed or 'no overlap'}: {what}")
                return
            names.update(claimed)
    comparison.agreed += not names
    comparison.overlaps.update(names)
