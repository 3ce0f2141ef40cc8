"""Probes: who is asked what became of an effect whose outcome nobody wrote down.

A probe is a function of ``Asked`` that looks at the target and changes nothing. It answers with
``done``, ``not_done`` or ``unknown``; raising is no answer. Ready made are those that look at a
file, at whether a path exists, and the exit code of a command.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from lastgood.errors import UsageError, printable
from lastgood.formats.canonical import JSON
from lastgood.formats.fingerprint import Fingerprint

_CHUNK_BYTES: Final = 1 << 20
_MAX_EXIT: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The effect that is asked about.

    Attributes:
        kind: What was to be done.
        key: Which one.
        fingerprint: What the outside was given as its idempotency key.
        is_done: Whether it is known to be done; then the question is whether that still shows.
    """

    kind: str
    key: str
    fingerprint: Fingerprint
    is_done: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of it; made by ``done``, ``not_done`` and ``unknown``.

    Attributes:
        verdict: ``unknown`` leaves the decision to a person.
        result: Of ``done``: what is stored as its result.
        reason: How that is known, for people; it is stored, so it is no secret.

    Raises:
        UsageError: The verdict is none of these: a misspelt one must not pass for *not done*.
    """

    verdict: Literal["done", "not done", "unknown"]
    result: JSON = field(default=None, repr=False)
    reason: str = ""

    def __post_init__(self) -> None:
        """Refuse what would decide by accident."""
        if self.verdict not in ("done", "not done", "unknown"):
            raise UsageError("A probe's verdict is 'done', 'not done' or 'unknown'")


def done(result: JSON = None, *, reason: str = "") -> Answer:
    """It was done, with this result."""
    return Answer("done", result, reason)


def not_done(reason: str = "") -> Answer:
    """It definitely was not done, and nothing that is under way will do it any more."""
    return Answer("not done", None, reason)


def unknown(reason: str = "") -> Answer:
    """It cannot be told."""
    return Answer("unknown", None, reason)


Probe = Callable[[Asked], Answer]


@dataclass(frozen=True, slots=True)
class FileHash:
    """Whether a file has the content that the effect gives it.

    Asked again of an effect that is done: a file that was changed since stops (``rechecks``).

    Attributes:
        path: The file.
        sha256: Of its content afterwards; 64 hex characters.
        before: Of its content before; None: it was not there. Any other content is ``unknown``:
            somebody else wrote it, or a part of it was written.
    """

    path: str | os.PathLike[str]
    sha256: str
    before: str | None = None
    rechecks: bool = True

    def __call__(self, asked: Asked) -> Answer:
        """Read the file."""
        shown = printable(os.fspath(self.path))
        try:
            found: str | None = _sha256(Path(self.path))
        except FileNotFoundError:
            found = None
        except OSError as error:
            return unknown(f"{shown} cannot be read: {error.strerror}")
        if found == self.sha256:
            return done({"sha256": found}, reason=f"{shown} has the content that it leads to")
        if found == self.before:
            return not_done(f"{shown} is as it was before")
        return unknown(f"{shown} is neither as it was before nor as it is afterwards")


@dataclass(frozen=True, slots=True)
class PathExists:
    """Whether a path that the effect makes, in one step, is there: a rename, a directory.

    Asked again of an effect that is done: a path that is gone stops (``rechecks``).

    Attributes:
        path: The path; a link counts as it is.
    """

    path: str | os.PathLike[str]
    rechecks: bool = True

    def __call__(self, asked: Asked) -> Answer:
        """Look at it."""
        shown = printable(os.fspath(self.path))
        try:
            os.lstat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return not_done(f"{shown} is not there")
        except OSError as error:
            return unknown(f"{shown} cannot be looked at: {error.strerror}")
        return done(reason=f"{shown} is there")


@dataclass(frozen=True, slots=True)
class Command:
    """What the exit code of a command says: 0 done, one of ``not_done_exit`` not done.

    Anything else is ``unknown``: another code, a signal, a timeout, a command that cannot be
    started. It runs without a shell, without input, and its output is dropped; whatever it
    started is ended with it.

    Attributes:
        argv: The command. It finds the effect in ``LASTGOOD_KIND``, ``LASTGOOD_KEY`` and
            ``LASTGOOD_FINGERPRINT``.
        not_done_exit: The codes of *not done*.
        timeout_s: What it may take.
        cwd: Where it runs; None: here.
        env: Variables beside those of this process.
        rechecks: Whether it is asked again of an effect that is done.
    """

    argv: Sequence[str]
    not_done_exit: Collection[int] = (20,)
    timeout_s: float = 60.0
    cwd: str | os.PathLike[str] | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    rechecks: bool = False

    def __post_init__(self) -> None:
        """Refuse what would only show once it is asked.

        Raises:
            UsageError: It is no command, or an exit code is none that says *not done*.
        """
        if isinstance(self.argv, str | bytes) or not self.argv:
            raise UsageError("A command is a list of words, the program first")
        if not all(type(code) is int and 0 < code <= _MAX_EXIT for code in self.not_done_exit):
            raise UsageError(f"An exit code that says 'not done' is an int from 1 to {_MAX_EXIT}")

    def __call__(self, asked: Asked) -> Answer:
        """Run it."""
        shown = printable(str(self.argv[0]), limit_chars=200)  # its arguments may be secret
        told = {
            "LASTGOOD_KIND": asked.kind,
            "LASTGOOD_KEY": asked.key,
            "LASTGOOD_FINGERPRINT": asked.fingerprint,
        }
        try:
            process = subprocess.Popen(  # a list of words, never a shell
                list(self.argv),
                cwd=self.cwd,
                env=os.environ | dict(self.env) | told,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            return unknown(f"{shown} cannot be started: {error}")
        try:
            code = process.wait(self.timeout_s)
        except subprocess.TimeoutExpired:
            return unknown(f"{shown} took longer than {self.timeout_s:g} s")
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if code == 0:
            return done(reason=f"{shown} says so")
        if code in self.not_done_exit:
            return not_done(f"{shown} exited with {code}")
        how = f"was ended by signal {-code}" if code < 0 else f"exited with {code}"
        return unknown(f"{shown} {how}")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
