"""The command: words in, a report and an exit code out, never a traceback.

Exit codes: 0 everything was recovered; 1 the words cannot be understood; 2 a promise is broken,
or a planted bug survived; 3 something that was asked for was not run; 4 a workload cannot be
tested. An interrupt, 130, is the business of ``interrupt.py``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from fault_injection import explain, report, table
from fault_injection.failure import one_line, place
from fault_injection.level import Case, Level, NotRunError, Plan
from fault_injection.levels.registry import NOT_BUILT, WHAT, Build, Registry, built
from fault_injection.output import Output
from fault_injection.own_workloads import taken_from
from fault_injection.power.rules import MODELS
from fault_injection.recording import record
from fault_injection.runner import Job, Result, run
from fault_injection.state_id import LEVELS, BadStateIdError, StateId
from fault_injection.words import UsageError, understood
from fault_injection.workload import BadWorkloadError, Violation, Workload
from lastgood.errors import printable

if TYPE_CHECKING:
    from fault_injection.planted_bugs.mutant import Mutant

EXIT_USAGE: Final = 1
EXIT_VIOLATIONS: Final = report.EXIT_CODES["violations"]
EXIT_INCOMPLETE: Final = report.EXIT_CODES["incomplete"]
EXIT_BAD_WORKLOAD: Final = report.EXIT_CODES["bad workload"]


def main(argv: Sequence[str] | None = None, *, build: Build = built) -> int:
    """Run one command and return its exit code.

    Args:
        argv: The words after the program's name; None: those of the process.
        build: Says what there is to run.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    try:
        return _commanded(words, build)
    except (UsageError, BadStateIdError) as error:
        return _end(str(error), EXIT_USAGE)
    except NotRunError as error:
        return _end(f"not run: {error}", EXIT_INCOMPLETE)
    except BadWorkloadError as error:
        return _end(f"the workload cannot be tested: {error}", EXIT_BAD_WORKLOAD)
    except SystemExit as leave:  # --help
        return leave.code if isinstance(leave.code, int) else 0
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # the interpreter flushes into it at its end
        return EXIT_INCOMPLETE
    except Exception as error:
        if os.environ.get("LASTGOOD_DEBUG") == "1":
            raise
        said = f"unexpected: {place(error)}: {one_line(error)}; LASTGOOD_DEBUG=1 shows more"
        return _end(said, EXIT_INCOMPLETE)


def _commanded(words: list[str], build: Build) -> int:
    given = understood(words)
    commands: dict[str, Callable[[argparse.Namespace, Registry], int]] = {
        "run": _run,
        "replay": _replay,
        "explain": _explain,
        "mutants": _mutants,
        "list": _list,
    }
    registry = build()
    place: str | None = getattr(given, "workloads_from", None)
    if place is not None:
        registry = replace(registry, workloads=taken_from(place))
    code = commands[given.command](given, registry)
    sys.stdout.flush()
    return code


def _end(message: str, code: int) -> int:
    print(f"fault_injection: {printable(message, limit_chars=1000)}", file=sys.stderr)
    return code


# --- run ------------------------------------------------------------------------------------


def _run(given: argparse.Namespace, registry: Registry) -> int:
    asked = tuple(dict.fromkeys(given.level or LEVELS))
    workloads = _workloads(given.workload, registry)
    output = Output(given.json, given.junit)
    output.forget()
    levels = [level for level in registry.levels if level.name in asked]
    for name in asked:
        if registry.level(name) is None:
            output.say(f"{name} is not built: {NOT_BUILT.get(name, 'not in this version')}\n")
    jobs = [Job(level, workload) for level in levels for workload in workloads]
    plan = Plan(budget=given.budget, seed=given.seed, stop_at_first=given.fail_fast)
    with contextlib.redirect_stdout(output.people):
        results = run(
            jobs, plan, workers=given.workers, fail_fast=given.fail_fast, say=_progress(len(jobs))
        )
    found = report.Report(
        results=tuple(results),
        plan=plan,
        asked=asked,
        command=_again(given),
        require_all=os.environ.get("LASTGOOD_REQUIRE_ALL") == "1",
        workloads_from=given.workloads_from or "",
    )
    output.write(given.json, json.dumps(report.as_document(found), indent=1) + "\n")
    output.write(given.junit, report.as_junit(found))
    output.say(table.as_text(found, variants=given.variants, examples=given.examples))
    return report.EXIT_CODES[found.outcome]


def _workloads(names: list[str] | None, registry: Registry) -> list[Workload]:
    if names is None:
        return list(registry.workloads)
    found = []
    for name in dict.fromkeys(names):
        workload = registry.workload(name)
        if workload is None:
            known = ", ".join(workload.name for workload in registry.workloads)
            raise UsageError(f"there is no workload {name[:80]!r}; there are {known}")
        found.append(workload)
    return found


def _again(given: argparse.Namespace) -> str:
    words = []
    for level in given.level or ():
        words += ["--level", level]
    for workload in given.workload or ():
        words += ["--workload", workload]
    words += ["--budget", given.budget, "--seed", str(given.seed)]
    if given.fail_fast:
        words.append("--fail-fast")
    return _again_words("run", given.workloads_from, words)


def _again_words(verb: str, workloads_from: str | None, words: list[str]) -> str:
    own = ["--from", workloads_from] if workloads_from else []
    return shlex.join([*report.PROGRAM.split(), verb, *own, *words])


def _progress(jobs: int) -> Callable[[Result], None]:
    done = 0

    def say(result: Result) -> None:
        nonlocal done
        done += 1
        states = sum(tally.distinct for tally in result.tallies)
        told_ = f"{states:,} states, {result.violations} violations, {result.seconds:.1f} s"
        if result.ending != "done":
            told_ = f"{result.ending}: {result.reason}"
        line = f"[{done}/{jobs}] {result.level} {result.workload}: {told_}"
        print(printable(line, limit_chars=400), file=sys.stderr, flush=True)

    return say


# --- one state ------------------------------------------------------------------------------


def _case(text: str, registry: Registry) -> tuple[Level, Case]:
    state = StateId.parse(text[:500])
    level, workload = registry.of(state)
    return level, level.case(workload, state)


def _replay(given: argparse.Namespace, registry: Registry) -> int:
    with _planted(given.mutant):
        level, case = _case(given.id, registry)
        verdict = explain.judged(level, case)
    print(case.id, *explain.verdict_lines(verdict), sep="\n")
    return EXIT_VIOLATIONS if isinstance(verdict, Violation) else 0


def _explain(given: argparse.Namespace, registry: Registry) -> int:
    with _planted(given.mutant):
        level, case = _case(given.id, registry)
        verdict = explain.judged(level, case)
    words = [str(case.id), *(["--mutant", given.mutant] if given.mutant else [])]
    again = _again_words("replay", given.workloads_from, words)
    print(explain.explain(case, verdict, again=again), end="")
    return EXIT_VIOLATIONS if isinstance(verdict, Violation) else 0


@contextlib.contextmanager
def _planted(name: str | None) -> Iterator[None]:
    """The planted bug of that name in lastgood's code, for the length of the block."""
    if name is None:
        yield
        return
    from fault_injection.planted_bugs.catalogue import MUTANTS
    from fault_injection.planted_bugs.mutant import Plant

    mutant = next((mutant for mutant in MUTANTS if mutant.name == name), None)
    if mutant is None:
        raise UsageError(f"no planted bug is called {name[:80]!r}; `list` names them")
    with mutant.planted(Plant()):
        yield


# --- planted bugs ----------------------------------------------------------------------------


def _mutants(given: argparse.Namespace, registry: Registry) -> int:
    from fault_injection.planted_bugs import catalogue, matrix

    chosen = tuple(_chosen(given.mutant, catalogue.MUTANTS))
    output = Output(given.json)
    output.forget()
    found = matrix.run(
        Plan(budget=given.budget, seed=given.seed),
        workers=given.workers,
        registry=registry,
        mutants=chosen,
        unplanted=() if given.mutant else catalogue.UNPLANTED,
    )
    document = {"mutants": report.SCHEMA, "machine": report.machine_facts()}
    document |= {"matrix": found.as_document()}
    output.write(given.json, json.dumps(document, indent=1) + "\n")
    output.say(found.as_text())
    return found.exit_code


def _chosen(texts: list[str] | None, mutants: Sequence[Mutant]) -> Iterator[Mutant]:
    for text in texts or ():
        if not any(text in mutant.name for mutant in mutants):
            raise UsageError(f"no planted bug has {text[:80]!r} in its name; `list` names them")
    for mutant in mutants:
        if texts is None or any(text in mutant.name for text in texts):
            yield mutant


# --- list -----------------------------------------------------------------------------------


def _list(given: argparse.Namespace, registry: Registry) -> int:
    from fault_injection.planted_bugs.catalogue import MUTANTS

    print("levels")
    for name, what in WHAT.items():
        absent = "" if registry.level(name) else " (not built)"
        print(f"  {name}  {what}{absent}")
    print("workloads")
    width = max((len(workload.name) for workload in registry.workloads), default=0)
    for workload in registry.workloads:
        print(f"  {workload.name:<{width}}  {_size(workload)}")
    print("persistence models of L3")
    print(f"  {', '.join(model.name for model in MODELS)}")
    print("planted bugs")
    for mutant in MUTANTS:
        levels = " ".join(kill.where for kill in mutant.killed_by)
        print(f"  {levels:<12}  {mutant.name}")
    return 0


def _size(workload: Workload) -> str:
    """What one run does: its calls, and its acts by kind."""
    recording = record(workload)
    before = len(recording.world.marks[0].told.acts)
    kinds = Counter(act.kind for act in recording.world.told.acts[before:])
    acts = ", ".join(f"{kind} {count}" for kind, count in kinds.items())
    return f"{len(recording.calls):>4} calls; {acts or 'no acts'}"
