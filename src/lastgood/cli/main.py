"""The entry point: words in, an exit code out, never a traceback.

Nothing heavy is imported here; each verb is, when it is asked for.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, cast

from lastgood.cli import arguments, output
from lastgood.cli.answer import Answer, Streamed
from lastgood.cli.command import Command, Verb
from lastgood.cli.wording import fill, named
from lastgood.errors import EXIT_INTERRUPTED, DurabilityUnknownError, LastgoodError, StorageError

_HOME: Final = {
    "keys new": ("lastgood.cli.verbs.keys", "new"),
    "save": ("lastgood.cli.verbs.checkpoints", "save"),
    "load": ("lastgood.cli.verbs.checkpoints", "load"),
    "list": ("lastgood.cli.verbs.inspect", "rows"),
    "sessions": ("lastgood.cli.verbs.inspect", "sessions"),
    "migrate": ("lastgood.cli.verbs.migrate", "migrate"),
    "repair": ("lastgood.cli.verbs.repair", "repair"),
    "gc": ("lastgood.cli.verbs.gc", "gc"),
    "effects list": ("lastgood.cli.verbs.effects", "undecided"),
    "effects resolve": ("lastgood.cli.verbs.effects", "resolve"),
    "run": ("lastgood.cli.verbs.run", "run"),
    "show": ("lastgood.cli.verbs.inspect", "show"),
    "verify": ("lastgood.cli.verbs.verify", "verify"),
}
_LAST_STANDARD_FD: Final = 2


class _InterruptedError(LastgoodError):
    """The person, or the machine, wants it to end."""

    code = "interrupted"
    exit_code = EXIT_INTERRUPTED
    default_do = "Run the same command again"


class _UnexpectedError(LastgoodError):
    """A defect of lastgood."""

    code = "unexpected"
    default_safe = "What was acknowledged before is durable, and nothing damaged is overwritten"
    default_do = "Run it again with LASTGOOD_DEBUG=1 to see where, and report that"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Args:
        argv: The words after the program's name; None: those of the process.
    """
    words = sys.argv[1:] if argv is None else list(argv)
    # Until the words are understood, a document is promised if it was asked for anywhere.
    command = Command(
        verb=cast("Verb", ""), root="", keys="", json="yes" if "--json" in words else "no"
    )
    try:
        command = arguments.parse(words)
        _occupy_standard_descriptors()
        return _print(command, _verb(command)(command))
    except SystemExit as leave:  # --help, --version
        return leave.code if isinstance(leave.code, int) else 0
    except KeyboardInterrupt:
        return _stopped(command, _interrupted(command))
    except BrokenPipeError:
        return StorageError.exit_code  # who closed the pipe knows; the exit code is for the rest
    except LastgoodError as error:
        return _stopped(command, error)
    except MemoryError:
        return _stopped(command, _no_memory())
    except Exception as error:
        if os.environ.get("LASTGOOD_DEBUG") == "1":
            raise
        # Its text could hold anything, also what was stored, so only its type is named.
        return _stopped(command, _UnexpectedError(f"Unexpected {type(error).__name__}"))


def _no_memory() -> LastgoodError:
    return StorageError(
        "Finding memory",
        errno=errno.ENOMEM,
        safe=_UnexpectedError.default_safe,
        do="Give the process more memory and run the command again",
    )


def _occupy_standard_descriptors() -> None:
    """Let no file of the store get the number of a standard stream that came closed.

    What is written to standard error by number, by a key command or the interpreter, would
    land in it.
    """
    if None not in (sys.stdin, sys.stdout, sys.stderr):
        return
    from lastgood.storage.filesystem import OsFileSystem  # noqa: PLC0415  # rarely needed

    filesystem = OsFileSystem()
    while (fd := filesystem.open(os.devnull, os.O_RDWR)) <= _LAST_STANDARD_FD:
        pass
    filesystem.close(fd)


def _verb(command: Command) -> Callable[[Command], Answer | Streamed]:
    module, name = _HOME[command.verb]
    found = getattr(importlib.import_module(module), name)
    return cast("Callable[[Command], Answer | Streamed]", found)


def _interrupted(command: Command) -> LastgoodError:
    if command.verb == "repair":
        return _InterruptedError(
            "Interrupted",
            safe="What was decided is sealed, or nothing is; no damaged byte is lost",
        )
    if command.verb == "gc":
        return _InterruptedError(
            "Interrupted", safe="Nothing left the log that is not in the archive, if one was named"
        )
    if command.verb == "run":
        return _InterruptedError(
            "Interrupted",
            safe="What was done stays done, the step that was running was stopped, and whether it "
            "was done is decided before anything else",
        )
    if command.verb == "effects resolve":
        return _InterruptedError("Interrupted", safe="The decision is sealed, whole, or it is not")
    if command.verb not in ("save", "migrate"):
        return _InterruptedError("Interrupted")
    return _InterruptedError(
        "Interrupted",
        safe=DurabilityUnknownError.default_safe,
        do=DurabilityUnknownError.default_do,
    )


def _print(command: Command, answer: Answer | Streamed) -> int:
    if isinstance(answer, Streamed):
        answer = output.pour(answer, machine=command.json)
    if answer.error is not None:
        fill(answer.error, session=command.session, verb=command.verb, place=command.place)
    remarks = tuple(
        named(text, session=command.session, place=command.place) for text in answer.remarks
    )
    output.show(replace(answer, remarks=remarks), verb=command.verb, machine=command.json)
    return answer.exit_code


def _stopped(command: Command, error: LastgoodError) -> int:
    fill(error, session=command.session, verb=command.verb, place=command.place)
    try:
        output.show_error(error, verb=command.verb, machine=command.json)
    except (LastgoodError, BrokenPipeError):
        pass  # it was said on standard error, and the exit code says it
    return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
