"""One state after a loss of power, built again from its name, and what became of each call."""

from __future__ import annotations

import re
from itertools import islice

from fault_injection.level import Case
from fault_injection.memory.calls import Call
from fault_injection.power import passage
from fault_injection.power.choices import CAP, every, few, is_permitted
from fault_injection.power.loss import Power, State, read, state_of
from fault_injection.power.passage import Moment, Passage
from fault_injection.power.pending import Lost, Pending
from fault_injection.power.tearing import LOST, PERSISTED
from fault_injection.power.variants import Passages, Variant
from fault_injection.state_id import BadStateIdError, StateId
from fault_injection.workload import Violation, Workload

JOB = "job"
"""The choice of a state that is none: the job itself found what was wrong on its way."""


def build(passages: Passages, state: StateId) -> Case:
    """The state of that name.

    Raises:
        BadStateIdError: The workload does not come through such a state.
    """
    variant = Variant.parse(state.variant)
    if state.choice == JOB:
        return _of_job(passages, variant, state)
    try:
        made = passage_of(passages, variant)
    except Violation as violation:
        raise BadStateIdError(f"the job does not come to {variant}: {violation}") from violation
    moment, found = resolve(made, variant, state, passages.workload)
    return case_of(passages.workload, state, made, moment, found)


def passage_of(passages: Passages, variant: Variant) -> Passage:
    """The calls before the loss of power.

    Raises:
        BadStateIdError: The workload has no such passage.
        Violation: The workload itself found one on its way.
    """
    if variant.kind == "plain":
        return passages.plain()
    if variant.kind == "killed":
        return passages.killed(variant.at)
    if variant.kind == "failed":
        return passages.failed(variant.at)
    _, found = _base(passages, variant)
    return passages.nested(found.tree, found.told)


def _base(passages: Passages, variant: Variant) -> tuple[Moment, State]:
    point, _, choice = variant.at.partition("+")
    if not point.isascii() or not point.isdigit():
        raise BadStateIdError(f"{variant.at!r} names no state whose recovery is struck")
    plain = Variant("plain", variant.model)
    base = StateId("L3", passages.workload.name, str(plain), int(point), choice)
    return resolve(passages.plain(), plain, base, passages.workload)


def _of_job(passages: Passages, variant: Variant, state: StateId) -> Case:
    """What there was when the job, or who went on with it, found what was wrong."""
    run, point = passages.recording, state.point
    if point > len(run.calls):
        raise BadStateIdError(f"the job makes {len(run.calls)} calls, not {point}")
    tree, told = run.seen_after(point), run.told_after(point)
    if variant.kind == "nested":
        _, base = _base(passages, variant)
        tree, told = base.tree, base.told
    calls = run.calls[:point]
    return Case(
        id=state,
        workload=passages.workload,
        title=f"the job goes on after {point} calls, {variant}",
        tree=tree,
        told=told,
        calls=calls,
        fates={call.number: PERSISTED.told for call in calls if call.alters},
        marks=tuple(mark for mark in passages.plain().marks if mark.calls <= point),
    )


def resolve(
    made: Passage, variant: Variant, state: StateId, workload: Workload
) -> tuple[Moment, State]:
    """The crash point and the disk of that name.

    Raises:
        BadStateIdError: There is none.
    """
    digest, _, rest = state.choice.partition("+")
    try:
        if re.fullmatch(r"[0-9a-f]{12}", digest) is None:
            raise ValueError(digest)
        spelled = read(rest) if rest else None
    except ValueError:
        raise BadStateIdError(f"{state.choice!r} names no disk") from None
    for tearing in (spelled[1],) if spelled else ("block", "sector"):
        power = Power(variant.model, tearing, "all", "whole")
        moment = passage.at(made, power.cache(made, workload), state.point)
        if moment is None:
            raise BadStateIdError(f"call {state.point} is no crash point of {variant}")
        for lost in [spelled[0]] if spelled else _tried(moment):
            if not _is_possible(moment, lost):
                continue
            found = state_of(moment, lost, power, unread=workload.unread)
            if found.digest.startswith(digest):
                return moment, found
    raise BadStateIdError(
        f"{variant} leaves no disk {digest} after {state.point} calls; the code has changed since"
    )


def case_of(
    workload: Workload, state: StateId, made: Passage, moment: Moment, found: State
) -> Case:
    """A state, and what became of each call before it."""
    point = moment.point
    under_way = made.calls[point : point + 1]
    calls = made.calls[:point] + [call for call in under_way if call.alters]
    what = f"after call {point - 1}" if point else "before the first call"
    if len(calls) > point:
        what = f"in call {point}"
    return Case(
        id=state,
        workload=workload,
        title=f"power lost {what}, {state.variant}",
        tree=found.tree,
        told=found.told,
        calls=calls,
        fates=_fates(calls, moment, found.lost),
        marks=tuple(mark for mark in made.marks if mark.calls <= point),
    )


def _tried(moment: Moment) -> list[Lost]:
    return [*few(moment.cache), *islice(every(moment.cache), CAP)]


def _is_possible(moment: Moment, lost: Lost) -> bool:
    fates = {one.number: len(one.fates) for one in moment.cache.open}
    return is_permitted(moment.cache, lost) and all(
        fate < fates.get(number, 0) - 1 for number, fate in lost
    )


def _fates(calls: list[Call], moment: Moment, lost: Lost) -> dict[int, str]:
    known = moment.cache.fates(lost)
    return {call.number: fate_of(known.get(call.number, [])) for call in calls if call.alters}


def fate_of(parts: list[tuple[Pending, str]]) -> str:
    """What became of one call, which may have made several changes."""
    fates = {fate for _, fate in parts}
    if not fates:
        return PERSISTED.told
    if len(fates) == 1:
        return fates.pop()
    told = [_name_fate(one, fate) for one, fate in parts if one.names]
    return f"torn: {', '.join(told)}" if told else "; ".join(sorted(fates))


def _name_fate(one: Pending, fate: str) -> str:
    _, name, inode = one.names[-1]
    if fate == LOST.told:
        return f"{name} not set" if inode else f"{name} not removed"
    return f"{name} set" if inode else f"{name} removed"
