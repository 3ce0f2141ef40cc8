"""Power is lost at each point of a passage: which disks are left, and whether each is recovered.

Two disks that differ in nothing that anybody believes, of which the world was told the same, are
one state; it is judged once, whichever model and passage it comes from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from fault_injection.judgement import Depth, judge
from fault_injection.level import Tally
from fault_injection.memory.disk import Tree
from fault_injection.power.cache import Cache
from fault_injection.power.choices import Extent, choices
from fault_injection.power.passage import Moment, Passage, moments
from fault_injection.power.pending import Lost
from fault_injection.power.rules import Model
from fault_injection.power.tearing import PIECE_BYTES, Tearing
from fault_injection.state_id import StateId
from fault_injection.workload import Recovered, Violation, Workload
from fault_injection.world import Told

_NAME: Final = 12
"""Characters of a digest that name a disk among those of its crash point."""


@dataclass(frozen=True, slots=True)
class Power:
    """How power is lost.

    Attributes:
        model: What the file system promises.
        tearing: How finely writes are torn.
        extent: How many disks of each crash point are tried.
        depth: How each is judged.
        seed: Decides on samples.
    """

    model: Model
    tearing: Tearing
    extent: Extent
    depth: Depth
    seed: int = 0

    def cache(self, passage: Passage, workload: Workload) -> Cache:
        """The page cache where ``passage`` begins."""
        return Cache(passage.base, self.model, tearing=self.tearing, unread=workload.unread)


@dataclass(frozen=True, slots=True)
class State:
    """One disk that was left.

    Attributes:
        point: How many calls had returned.
        lost: What is not on it.
        told: What the world knew.
        tree: The disk.
        digest: Its identity.
        choice: Its name among those of its crash point, from which it is found again.
    """

    point: int
    lost: Lost
    told: Told
    tree: Tree
    digest: str
    choice: str

    def id(self, workload: str, variant: str) -> StateId:
        """Its name, by which ``case`` builds it again."""
        return StateId("L3", workload, variant, self.point, self.choice)


class Verdicts:
    """Judges states of one workload, each once.

    Args:
        workload: The job and the judge.
    """

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self._known: dict[tuple[str, Told, Depth], Recovered | Violation] = {}

    def of(self, state: State, depth: Depth) -> Recovered | Violation:
        """What becomes of that state."""
        for known in ("whole", depth) if depth == "short" else ("whole",):
            verdict = self._known.get((state.digest, state.told, known))
            if verdict is not None:
                return verdict
        try:
            verdict = judge(self.workload, state.tree, state.told, depth=depth)
        except Violation as violation:
            verdict = violation.with_traceback(None)
        self._known[state.digest, state.told, depth] = verdict
        return verdict


def state_of(moment: Moment, lost: Lost, power: Power, *, unread: Collection[str]) -> State:
    """One disk of a crash point; its name says what is lost."""
    tree = moment.cache.tree(lost)
    digest = tree.digest(unread=unread)
    choice = f"{digest[:_NAME]}+{spelled(lost, power.tearing)}"
    return State(moment.point, lost, moment.told, tree, digest, choice)


def spelled(lost: Lost, tearing: Tearing) -> str:
    """What is lost, as a part of a name."""
    return "_".join([tearing, *(f"{number}-{fate}" for number, fate in lost)])


def read(text: str) -> tuple[Lost, Tearing]:
    """What ``spelled`` wrote.

    Raises:
        ValueError: It is something else.
    """
    word, *pairs = text.split("_")
    if word not in PIECE_BYTES:
        raise ValueError(text)
    lost = []
    for pair in pairs:
        number, fate = pair.split("-")
        lost.append((int(number), int(fate)))
    return tuple(lost), word


def walk(
    passage: Passage,
    power: Power,
    verdicts: Verdicts,
    *,
    variant: str,
    tally: Tally,
    seen: set[tuple[str, Told]],
    settles: bool = False,
    stride: int = 1,
) -> Iterator[tuple[State, Recovered | Violation]]:
    """Lose power at each point of ``passage``; yields each distinct state with its verdict.

    Args:
        passage: The calls.
        power: How power is lost.
        verdicts: The judge.
        variant: Name of the way in which the passage came about.
        tally: Each state is booked in it.
        seen: States that are not judged again; is added to.
        settles: Stop once nothing that was pending at the passage's first point may still be lost.
        stride: Of the disks one in so many is tried, from there on.
    """
    below: int | None = None
    is_settled = False
    for moment in moments(passage, power.cache(passage, verdicts.workload)):
        below = moment.cache.changes if below is None else below
        is_settled = is_settled or not moment.cache.unsettled(below)
        if settles and is_settled:
            tally.exhaustive = False
            return
        thinned = stride if is_settled else 1
        for state in _tried(moment, power, verdicts.workload, tally=tally, stride=thinned):
            if (state.digest, state.told) in seen:
                continue
            seen.add((state.digest, state.told))
            verdict = verdicts.of(state, power.depth)
            tally.book(partial(state.id, tally.workload, variant), verdict)
            yield state, verdict


def _tried(
    moment: Moment, power: Power, workload: Workload, *, tally: Tally, stride: int
) -> Iterator[State]:
    """The disks of one crash point that are tried, one in ``stride``."""
    seed = f"{power.seed} {power.model.name} {moment.point}"
    tried = choices(moment.cache, extent=power.extent, seed=seed)
    tally.points += 1
    tally.exhaustive &= tried.is_exhaustive
    for lost in tried.lost:
        tally.raw += 1
        if (tally.raw + power.seed) % stride:
            tally.exhaustive = False
            continue
        state = state_of(moment, lost, power, unread=workload.unread)
        yield state if lost in tried.drawn else replace(state, choice=state.digest[:_NAME])
