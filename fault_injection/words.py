"""The words of a command line, and what is wrong with them in one line."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Final, NoReturn

from fault_injection.levels.registry import WHAT
from fault_injection.report import PROGRAM

_MOST_WORKERS: Final = 256
_MOST_SEED: Final = 2**63 - 1


class UsageError(Exception):
    """The words cannot be understood; the message is one line."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; {self.prog} --help says more")


def understood(words: list[str]) -> argparse.Namespace:
    """What the words ask for.

    Raises:
        UsageError: They cannot be understood.
        SystemExit: They ask for help, which was given.
    """
    return _parser().parse_args(words)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog=PROGRAM, description="Crash and fault tests.", allow_abbrev=False)
    verbs = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    runs = verbs.add_parser("run", help="try the levels with the workloads", allow_abbrev=False)
    runs.add_argument("--level", action="append", choices=sorted(WHAT), help="again for more")
    runs.add_argument("--workload", action="append", metavar="NAME", help="again for more")
    _add_plan(runs)
    _add_from(runs)
    runs.add_argument("--variants", action="store_true", help="a row for every variant")
    runs.add_argument("--examples", action="store_true", help="name a state that each rule rescued")
    runs.add_argument("--junit", metavar="FILE", help="write JUnit XML; -: to standard output")
    runs.add_argument("--fail-fast", action="store_true", help="stop at the first violation")
    for verb, text in (
        ("replay", "judge one state again"),
        ("explain", "show one state, and what led to it"),
    ):
        one = verbs.add_parser(verb, help=text, allow_abbrev=False)
        one.add_argument("id", metavar="STATE-ID")
        one.add_argument("--mutant", metavar="NAME", help="with this planted bug in the code")
        _add_from(one)
    bugs = verbs.add_parser("mutants", help="see that planted bugs are found", allow_abbrev=False)
    bugs.add_argument("--mutant", action="append", metavar="TEXT", help="those whose name has it")
    _add_plan(bugs)
    verbs.add_parser("list", help="say what there is to run", allow_abbrev=False)
    return parser


def _add_from(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from",
        dest="workloads_from",
        metavar="MODULE:NAME",
        help="your own workloads: one, or several in a tuple or list",
    )


def _add_plan(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--budget", choices=("ci", "exhaustive"), default="ci")
    parser.add_argument("--seed", type=_number(0, _MOST_SEED), default=0, metavar="N")
    parser.add_argument("--workers", type=_number(1, _MOST_WORKERS), default=_cores(), metavar="N")
    parser.add_argument("--json", metavar="FILE", help="write JSON; -: to standard output")


def _cores() -> int:
    return min(_MOST_WORKERS, len(os.sched_getaffinity(0)))


def _number(least: int, most: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not text.isascii() or not text.isdigit() or len(text) > 20:
            raise argparse.ArgumentTypeError(f"not a number: {text[:40]!r}")
        if not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"not from {least} to {most}: {text}")
        return int(text)

    return number
