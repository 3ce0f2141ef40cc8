"""The words of the command line, and the ``Command`` that they mean.

Options that every verb takes may stand before or after it. Words are judged as they are:
numbers by ASCII digits only (``int`` takes ``'1_0'`` and ``'١٢'`` for numbers), no
abbreviations, and a refusal is a ``UsageError``, exit 1, never argparse's 2.

It loads nothing heavier than argparse, so that ``lastgood --version`` is fast.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NoReturn

from lastgood.cli.combinations import check, misuse
from lastgood.cli.command import Command, Verb
from lastgood.version import VERSION

_NUMBER: Final = re.compile(r"-?[0-9]{1,30}", re.ASCII)
_SECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)
_LIMITS: Final = (
    "payload_bytes", "event_bytes", "header_bytes", "manifest_bytes", "depth", "milestones",
    "directory_entries",
)  # fmt: skip
_ABSENT: Final = argparse.SUPPRESS
"""As a default: an option that was not given leaves alone what another parser found."""


def parse(words: Sequence[str]) -> Command:
    """The command that ``words`` mean.

    Raises:
        UsageError: They mean none.
        SystemExit: ``--help`` or ``--version`` was asked for and has been answered.
    """
    found = vars(_parser().parse_args(list(words)))
    check(found)
    found["place"] = tuple(_place(found))
    found.setdefault("root", os.environ.get("LASTGOOD_ROOT", ""))
    found.setdefault("keys", os.environ.get("LASTGOOD_KEYS", ""))
    found["effects"] = tuple(found.get("effects", ()))
    found["raised"] = tuple(found.get("raised", ()))
    if len(dict(found["raised"])) < len(found["raised"]):
        raise misuse("lastgood", "a limit was raised twice")
    return Command(**found)


def _place(found: dict[str, Any]) -> Iterator[str]:
    """What of ``found`` leads to the store; the environment leads there without being repeated.

    A key command may hold secrets, and a descriptor is read only once: neither is repeated.
    """
    if "root" in found:
        yield from ("--root", found["root"])
    if "keys" in found and not found["keys"].startswith(("exec:", "fd:")):
        yield from ("--keys", found["keys"])
    for name, value in found.get("raised", ()):
        yield from ("--raise-limit", f"{name}={value}")
    if "network_filesystem" in found:
        yield "--accept-network-filesystem"


class _Parser(argparse.ArgumentParser):
    """One that raises instead of leaving with exit code 2."""

    def error(self, message: str) -> NoReturn:
        """Refuse the words; whatever of them is repeated is escaped (T12)."""
        raise misuse(self.prog, message)


def _parser() -> _Parser:
    parser = _Parser(
        prog="lastgood",
        description="Keeps the state of a long-running job, so that it can be killed at any "
        "instant and goes on from the last good checkpoint.",
        epilog="Exit codes: 0 good, 1 usage or input, 2 integrity, 3 rollback or fork, 4 schema, "
        "5 key, 6 good but limited or recoverable, 7 conflict, 8 input/output, 9 policy, "
        "10 an effect is undecided, 130 interrupted.",
        parents=[_common()],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"lastgood {VERSION}")
    verbs = parser.add_subparsers(metavar="VERB", required=True)
    _keys(verbs)
    _save(verbs)
    _load(verbs)
    _verb(verbs, "list", "list every checkpoint of a session, verified")
    _verb(verbs, "sessions", "list the sessions of the store", session="none")
    _show(verbs)
    _verify(verbs)
    _migrate(verbs)
    _repair(verbs)
    _gc(verbs)
    _effects(verbs)
    _run(verbs)
    return parser


def _common() -> _Parser:
    common = _Parser(add_help=False, argument_default=_ABSENT)
    group = common.add_argument_group("for every verb, before or after it")
    group.add_argument("--root", metavar="DIR", help="the store; default: $LASTGOOD_ROOT")
    group.add_argument(
        "--keys",
        metavar="KEYS",
        help="key file, env:NAME, fd:N or 'exec:/path/to/program args'; default: $LASTGOOD_KEYS",
    )
    group.add_argument(
        "--json",
        action="store_const",
        const="yes",
        help="answer with one JSON document on standard output",
    )
    group.add_argument(
        "--lock-timeout",
        dest="lock_timeout_s",
        metavar="SECONDS",
        type=_seconds,
        help="how long to wait for another holder of the session; default: 10",
    )
    group.add_argument(
        "--raise-limit",
        dest="raised",
        metavar="NAME=N",
        type=_raised,
        action="append",
        help="a limit that the store's program raised: " + ", ".join(_LIMITS) + "; repeatable",
    )
    group.add_argument(
        "--accept-network-filesystem",
        dest="network_filesystem",
        action="store_const",
        const="accept",
        help="use a store on a network file system; only if a single machine ever writes",
    )
    group.add_argument(
        "-v", "--verbose", action="store_const", const="yes", help="say more, on standard error"
    )
    return common


# argparse has no public name for what add_subparsers returns.
_Verbs = argparse._SubParsersAction


def _verb(
    verbs: _Verbs[_Parser],
    name: Verb,
    summary: str,
    *,
    session: Literal["one", "optional", "none"] = "one",
    word: str | None = None,
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(
        word or name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        parents=[_common()],
        argument_default=_ABSENT,
        allow_abbrev=False,
    )
    parser.set_defaults(verb=name)
    if session != "none":
        nargs = "?" if session == "optional" else None
        parser.add_argument("session", metavar="SESSION", nargs=nargs, help="the session's id")
    return parser


def _keys(verbs: _Verbs[_Parser]) -> None:
    keys = verbs.add_parser("keys", help="make a key file", allow_abbrev=False)
    new = _verb(
        keys.add_subparsers(metavar="VERB", required=True),
        "keys new",
        "make a new key file, which also names a new store",
        session="none",
        word="new",
    )
    new.add_argument("file", metavar="FILE", help="the file to make; outside every store")


def _save(verbs: _Verbs[_Parser]) -> None:
    save = _verb(verbs, "save", "save a state as the current checkpoint, durably")
    _sequence(save, "of this checkpoint; a higher one than before", required=True)
    save.add_argument(
        "--state", metavar="FILE", help="the state, as JSON; default: -, standard input"
    )
    save.add_argument(
        "--effect",
        dest="effects",
        metavar="FINGERPRINT",
        action="append",
        help="fingerprint of a side effect that is done, added to those already known; repeatable",
    )
    save.add_argument("--milestone", metavar="LABEL", help="keep this checkpoint for good")
    _schema(save)


def _load(verbs: _Verbs[_Parser]) -> None:
    load = _verb(verbs, "load", "print the state of the last good checkpoint, as JSON")
    _sequence(load, "to load instead of the last good one")
    load.add_argument(
        "--if-new", metavar="JSON", help="print this where the session has no checkpoint yet"
    )
    _schema(load)


def _show(verbs: _Verbs[_Parser]) -> None:
    show = _verb(verbs, "show", "show what is known of one checkpoint, or the events")
    _sequence(show, "to show instead of the last good one")
    show.add_argument(
        "--state", dest="with_state", action="store_const", const="yes", help="its state too"
    )
    _schema(show, "version of the state's shape, for an archived checkpoint; default: 1")
    show.add_argument(
        "--events",
        action="store_const",
        const="yes",
        help="the events of the session's log instead, one a line",
    )
    show.add_argument("--since", metavar="N", type=_number, help="from event N on")
    show.add_argument("--limit", metavar="N", type=_number, help="at most N events")
    show.add_argument(
        "--data", dest="with_data", action="store_const", const="yes", help="what they say, too"
    )


def _verify(verbs: _Verbs[_Parser]) -> None:
    summary = "read and verify everything that is stored, and give a verdict"
    verify = _verb(verbs, "verify", summary, session="optional")
    verify.add_argument("--all", action="store_const", const=True, help="every session")
    verify.add_argument(
        "--full",
        action="store_const",
        const="yes",
        help="read everything: every checkpoint, archived ones too, and the whole log; this is "
        "what verify always does, and may be said",
    )
    verify.add_argument(
        "--require",
        choices=("L0", "L1", "L2", "L3"),
        help="level of assurance; above L0 never good: it needs a witness. Default: L0",
    )


def _migrate(verbs: _Verbs[_Parser]) -> None:
    summary = "bring a session's state up to its program's schema, offline"
    migrate = _verb(verbs, "migrate", summary)
    _program(migrate)
    migrate.add_argument(
        "--dry-run",
        action="store_const",
        const="yes",
        help="migrate and replay in memory, tell what would be, and change nothing",
    )


def _repair(verbs: _Verbs[_Parser]) -> None:
    repair = _verb(verbs, "repair", "decide how a session that stopped goes on, for the record")
    which = repair.add_mutually_exclusive_group(required=True)
    for word, meaning in (
        ("scan", "only tell what is there and what each repair would do; nothing is changed"),
        ("pointer", "go on from the newest revision that verifies"),
        ("tail", "the event log ends before its damaged end"),
        (
            "rebuild-from-log",
            "rebuild a damaged current checkpoint from the log now, with --program",
        ),
        ("approve-rebuild", "approve that, for the next opening of the session by its program"),
        (
            "accept-older",
            "without a log: go on from the older checkpoint at --sequence; what came after is lost",
        ),
    ):
        which.add_argument(
            f"--{word}", dest="repair", action="store_const", const=word, help=meaning
        )
    _sequence(repair, "of the older checkpoint to go on from")
    _program(repair, required=False)
    _decision(repair)


def _gc(verbs: _Verbs[_Parser]) -> None:
    gc = _verb(verbs, "gc", "let older segments leave a session's event log, for the record")
    gc.add_argument(
        "--log-before",
        metavar="N",
        type=_number,
        required=True,
        help="whole segments of events below N, and below the generation before the current one",
    )
    what = gc.add_mutually_exclusive_group()
    what.add_argument("--archive", metavar="DIR", help="keep them there first, durably")
    what.add_argument("--erase", action="store_const", const="yes", help="keep them nowhere")
    gc.add_argument(
        "--dry-run",
        action="store_const",
        const="yes",
        help="only tell what would leave; nothing is changed",
    )
    _decision(gc)


def _effects(verbs: _Verbs[_Parser]) -> None:
    effects = verbs.add_parser(
        "effects", help="list and decide effects whose outcome nobody knows", allow_abbrev=False
    ).add_subparsers(metavar="VERB", required=True)
    _verb(effects, "effects list", "list the effects whose outcome nobody knows", word="list")
    resolve = _verb(
        effects, "effects resolve", "decide what became of an effect, for good", word="resolve"
    )
    resolve.add_argument("fingerprint", metavar="FINGERPRINT", help="which one; see: effects list")
    what = resolve.add_mutually_exclusive_group()
    what.add_argument(
        "--done", dest="result", metavar="RESULT", help="it was done; its result, as JSON: null"
    )
    what.add_argument(
        "--not-done",
        dest="outcome",
        action="store_const",
        const="not done",
        help="it was not, and will not be any more: the job may do it once",
    )
    _decision(resolve)


def _run(verbs: _Verbs[_Parser]) -> None:
    run = _verb(verbs, "run", "carry out the steps of a plan, each once", session="none")
    run.add_argument("plan", metavar="PLAN.toml", help="the plan")
    run.add_argument("--session", metavar="ID", help="the session's id; default: the plan's name")
    run.add_argument(
        "--dry-run",
        action="store_const",
        const="yes",
        help="only tell what would be run, skipped or asked; nothing is changed",
    )
    run.add_argument(
        "--accept-plan-change",
        action="store_const",
        const="yes",
        help="what the plan changes of the one that was accepted is meant; needs --reason",
    )
    _decision(run)


def _decision(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reason", metavar="TEXT", help="why; sealed into the record")
    parser.add_argument(
        "--actor", metavar="NAME", help="who decides; default: the operating system's user"
    )


def _program(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument(
        "--program",
        metavar="MODULE:OBJECT",
        required=required,
        help="a mapping of Store.session's arguments, such as the reducer; imported as by "
        "python -m, never from the store",
    )


def _sequence(parser: argparse.ArgumentParser, meaning: str, *, required: bool = False) -> None:
    parser.add_argument(
        "--sequence",
        metavar="N",
        type=_number,
        required=required,
        help=f"sequence {meaning}: 1 to 10^15",
    )


def _schema(
    parser: argparse.ArgumentParser,
    meaning: str = "version of the state's shape that you know; default: 1",
) -> None:
    parser.add_argument("--schema-version", metavar="V", type=_number, help=meaning)


def _number(text: str) -> int:
    if _NUMBER.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number in ASCII digits")
    return int(text)


def _raised(text: str) -> tuple[str, int]:
    name, _, value = text.partition("=")
    if name not in _LIMITS:
        raise argparse.ArgumentTypeError(f"{text!r} names no limit: {', '.join(_LIMITS)}")
    return name, _number(value)


def _seconds(text: str) -> float:
    if _SECONDS.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds")
    return float(text)
