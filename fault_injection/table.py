"""A report as a table that is readable in 120 columns."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Final

from fault_injection.report import Report, Sums, summed
from fault_injection.workload import ORACLES
from lastgood.errors import printable

WIDTH: Final = 120
_SHOWN_VIOLATIONS: Final = 20
_SHOWN_ALIKE: Final = 3
_SHOWN_RULES: Final = 12
_NUMBERS: Final = ("points", "states", "distinct", "recovered", "violations")
_NAMES_WIDTH: Final = WIDTH - 8 - len(_NUMBERS) * 11 - 12 - 9


def as_text(report: Report, *, variants: bool = False, examples: bool = False) -> str:
    """The report, to be read by people.

    Args:
        report: What was found.
        variants: Show a row for each variant, not one for each workload.
        examples: Name a state for each rule of each level.
    """
    parts = [
        _table(report, variants=variants),
        _violations(report),
        _rules(report),
        _examples(report) if examples else (),
        _absences(report),
        _foot(report),
    ]
    return "\n\n".join("\n".join(part) for part in map(list, parts) if part) + "\n"


def _table(report: Report, *, variants: bool) -> Iterator[str]:
    by = ("level", "workload", "variant") if variants else ("level", "workload")
    rows = summed(report.tallies, by=by)
    if not rows:
        return
    named = [(row, _name(row, variants=variants)) for row in rows]
    width = min(_NAMES_WIDTH, max([len("workload"), *(len(name) for _, name in named)]))
    heads = "".join(f"{head:>11}" for head in _NUMBERS)
    head = f"{'level':<7} {'workload':<{width}}{heads}  {'tried':<11}{'seconds':>8}"
    yield head
    totals = report.totals()
    for level, total in totals.items():
        yield "-" * len(head)
        for row, name in named:
            if row.level == level:
                yield _line(level, name, row, width)
        yield _line(level, "together", total, width)


def _name(row: Sums, *, variants: bool) -> str:
    return f"{row.workload} {row.variant}" if variants else row.workload


def _line(level: str, name: str, row: Sums, width: int) -> str:
    shown = name if len(name) <= width else name[: width - 1] + "…"
    numbers = (row.points, row.raw, row.distinct, row.recovered, row.violations)
    cells = "".join(f"{number:>11,}" for number in numbers)
    return f"{level:<7} {shown:<{width}}{cells}  {row.tried:<11}{row.seconds:>8.1f}"


def _violations(report: Report) -> list[str]:
    """The first of each level, workload and judgement: a flood of one kind hides no other."""
    lines, shown = [], Counter[tuple[str, str, str]]()
    for one in report.violations:
        kind = (one.id.level, one.id.workload, one.oracle)
        if shown[kind] == _SHOWN_ALIKE or shown.total() == _SHOWN_VIOLATIONS:
            continue
        shown[kind] += 1
        lines += [
            f"VIOLATION {one.id}",
            f"  {one.oracle}: {ORACLES[one.oracle]}",
            f"  expected  {printable(one.expected)}",
            f"  got       {printable(one.got)}",
            f"  look      {report.one_state('explain', one)}",
            f"  again     {report.one_state('replay', one)}",
        ]
    more = len(report.violations) - shown.total()
    if more:
        lines.append(f"and {more} more violations, all of them in --json")
    return lines


def _rules(report: Report) -> Iterator[str]:
    """O11: of each level, the rules that rescued most, and how many states each did."""
    for level, rules in report.rules().items():
        ordered = sorted(rules.items(), key=lambda item: (-item[1], item[0]))
        told = [f"{printable(rule)} {count:,}" for rule, count in ordered[:_SHOWN_RULES]]
        if len(ordered) > _SHOWN_RULES:
            others = sum(count for _, count in ordered[_SHOWN_RULES:])
            told.append(f"{len(ordered) - _SHOWN_RULES} more rules {others:,}")
        yield from _wrapped(f"{level} rescued by (O11): ", told)


def _examples(report: Report) -> Iterator[str]:
    """Good states, for whoever wants to see for themselves."""
    found = report.examples()
    if found:
        yield "A state that each rule rescued; `explain` shows it:"
    width = max((len(str(state)) for _, state in found), default=0)
    for rule, state in found:
        yield f"  {state!s:<{width}}  {printable(rule)}"


def _wrapped(head: str, parts: list[str]) -> Iterator[str]:
    """Parts between dots, none of them broken."""
    line = head + parts[0] if parts else head.rstrip()
    for part in parts[1:]:
        if len(line) + len(part) + 5 > WIDTH:
            yield f"{line} ·"
            line = f"  {part}"
        else:
            line += f" · {part}"
    yield line


def _absences(report: Report) -> Iterator[str]:
    """What was not run, one line for all workloads that have the same reason."""
    grouped: dict[tuple[str, str, str, str], list[str]] = {}
    for absence in report.not_run():
        key = (absence["level"], absence["ending"], absence["reason"], absence["remedy"])
        grouped.setdefault(key, []).append(absence["workload"])
    for (level, ending, reason, remedy), workloads in grouped.items():
        names = ", ".join(filter(None, workloads))
        line = f"{level} {names}".strip() + f": {ending}"
        line += f": {printable(reason, limit_chars=400)}" if reason else ""
        line += f"; remedy: {printable(remedy, limit_chars=400)}" if remedy else ""
        if report.require_all and ending == "not run":
            line = f"FAILED, because everything is required: {line}"
        yield from textwrap.wrap(line, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def _foot(report: Report) -> list[str]:
    machine = report.machine
    found, tried = len(report.violations), sum(tally.distinct for tally in report.tallies)
    return [
        f"{found:,} violations in {tried:,} distinct states: {report.outcome}",
        f"lastgood {machine['lastgood']}, Python {machine['python']}, {machine['kernel']}, "
        f"{machine['architecture']}; budget {report.plan.budget}, seed {report.plan.seed}",
        f"again: {report.command}",
    ]
