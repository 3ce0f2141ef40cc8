"""A state that breaks a promise, made as small as possible before it is shown.

Small means: at the earliest crash point, and there with the fewest changes that were lost or torn.
Every candidate must fail the same judgement; how many are tried is bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from fault_injection.power.cache import Cache
from fault_injection.power.choices import is_permitted
from fault_injection.power.loss import State
from fault_injection.power.passage import Moment
from fault_injection.power.pending import Lost
from fault_injection.workload import Violation

BUDGET: Final = 200
"""Judgements for one counterexample."""

Try = Callable[[Moment, Lost], tuple[State, Violation | None]]
"""Builds and judges what is left at a crash point."""


@dataclass(slots=True)
class _Search:
    """What was tried of one counterexample, and the smallest that still fails."""

    state: State
    violation: Violation
    judged: Try
    left: int

    def breaks(self, moment: Moment, lost: Lost) -> bool:
        """Try one; it becomes the smallest if it fails the same judgement."""
        if self.left <= 0 or not is_permitted(moment.cache, lost):
            return False
        self.left -= 1
        state, violation = self.judged(moment, lost)
        if violation is None or violation.oracle != self.violation.oracle:
            return False
        self.state, self.violation = state, violation
        return True


def minimise(
    state: State,
    violation: Violation,
    *,
    moments: Iterable[Moment],
    judged: Try,
    budget: int = BUDGET,
) -> tuple[State, Violation]:
    """The smallest state found that fails the same judgement, with what it says there.

    Args:
        state: What failed.
        violation: How.
        moments: The crash points of its passage, earliest first; those behind it are not looked at.
        judged: Builds and judges a state.
        budget: The most that are judged.
    """
    search = _Search(state, violation, judged, budget)
    for moment in moments:
        if moment.point > state.point:
            break
        if moment.point == state.point or _breaks_here(search, moment, state.lost):
            _shrink(search, moment)
            break
    return search.state, search.violation


def _breaks_here(search: _Search, moment: Moment, lost: Lost) -> bool:
    """Whether the loss of the same changes, as far as they had been made, fails already here."""
    pending = {one.number for one in moment.cache.open}
    known = tuple((number, fate) for number, fate in lost if number in pending)
    return bool(known) and search.breaks(moment, known)


def _shrink(search: _Search, moment: Moment) -> None:
    """Lose one change alone, if that is enough; else give back one after the other."""
    for lost in sorted(_alone(moment.cache, search.state.lost), key=len):
        if len(lost) >= len(search.state.lost) or search.breaks(moment, lost):
            break
    is_smaller = True
    while is_smaller:
        is_smaller = any(
            search.breaks(moment, tuple(one for one in search.state.lost if one != kept))
            for kept in search.state.lost
        )


def _alone(cache: Cache, lost: Lost) -> Iterator[Lost]:
    """Nothing, and each loss with what the model's order takes with it."""
    yield ()
    ordered = cache.ordered
    for number, fate in lost:
        if number in ordered:
            yield tuple((one, 0) for one in ordered[ordered.index(number) :])
        else:
            yield ((number, fate),)
