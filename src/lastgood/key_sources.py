"""Where keys come from: a file, an environment variable, a descriptor, a command.

Each gives the bytes of a key file; one validator, ``formats.keyfile`` and then ``Keyring``,
judges them all. No bytes at all (not set, not there, cannot be run) is ``KeyMissingError``;
bytes that will not do, or that others could have written, are ``KeyFileError``.
"""

from __future__ import annotations

import contextlib
import errno as errnos
import os
import selectors
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, cast

from lastgood import private_file
from lastgood.clock import Clock
from lastgood.errors import KeyFileError, KeyMissingError, UsageError, printable
from lastgood.formats.keyfile import MAX_FILE_BYTES
from lastgood.private_file import Location
from lastgood.storage.filesystem import FileSystem

_LONGEST_WAIT_S = 3600.0


@dataclass(frozen=True, slots=True)
class KeySource:
    """What a source gave.

    Attributes:
        data: The bytes of a key file; secret.
        origin: Where they came from, escaped, for messages.
        location: The file's place, or None if it was no file.
        notices: What a person should know of this source.
    """

    data: bytes = field(repr=False, compare=False)
    origin: str
    location: Location | None = None
    notices: tuple[str, ...] = ()


def read_file(path: str | os.PathLike[str], *, filesystem: FileSystem) -> KeySource:
    """Read a key file that nobody but us and root could read or replace.

    Raises:
        KeyMissingError: There is none.
        KeyFileError: As ``private_file.read``.
    """
    file = private_file.read(path, max_bytes=MAX_FILE_BYTES, filesystem=filesystem)
    return KeySource(file.data, printable(file.location.path), file.location, file.notices)


def read_environment(variable: str) -> KeySource:
    """Read a key file's content from an environment variable.

    Raises:
        KeyMissingError: It is not set.
    """
    value = os.environ.get(variable)
    origin = f"the environment variable {printable(variable)}"
    if value is None:
        raise KeyMissingError(f"There are no keys: {origin} is not set")
    notice = f"The keys come from {origin}, which child processes inherit and /proc shows"
    return KeySource(os.fsencode(value), origin, notices=(notice,))


def read_descriptor(fd: int, *, filesystem: FileSystem) -> KeySource:
    """Read a key file's content from ``fd`` to its end; it stays open.

    Raises:
        UsageError: ``fd`` is no descriptor's number.
        KeyMissingError: It is not open, or cannot be read.
        KeyFileError: More comes than a key file holds.
    """
    if type(fd) is not int or not 0 <= fd < 2**31:
        raise UsageError("A descriptor is a number, 0 or more")
    origin = f"descriptor {fd}"
    try:
        data = private_file.read_to_end(fd, max_bytes=MAX_FILE_BYTES, filesystem=filesystem)
    except OSError as error:
        reason = errnos.errorcode.get(error.errno or 0, "refused")
        raise KeyMissingError(f"There are no keys: {origin} cannot be read: {reason}") from None
    return KeySource(data, origin)


def read_command(command: Sequence[str], *, timeout_s: float, clock: Clock) -> KeySource:
    """Run a program and read a key file's content from its standard output.

    Args:
        command: Absolute path, then arguments; they may be secret and are never shown.
        timeout_s: Seconds until its output must have ended and it must have exited.
        clock: What the time-out is measured on.

    Raises:
        UsageError: ``command`` or ``timeout_s`` is none.
        KeyMissingError: It cannot be run, failed, or took too long.
        KeyFileError: It prints more than a key file holds.
    """
    _check_command(command)
    if not 0 < timeout_s <= _LONGEST_WAIT_S:
        raise UsageError(f"A time-out is more than 0 and at most {_LONGEST_WAIT_S:.0f} seconds")
    origin = f"the command {printable(command[0])}"
    deadline_s = clock.monotonic_s() + timeout_s
    process = _start(command, origin=origin)
    status: int | None = None
    try:
        data = _output(process, origin=origin, deadline_s=deadline_s, clock=clock)
        status = process.wait(timeout=max(0.0, deadline_s - clock.monotonic_s()))
    except (TimeoutError, subprocess.TimeoutExpired):
        pass  # raised below, because this error holds the arguments and would be chained to it
    finally:
        _end(process)
    if status is None:
        raise KeyMissingError(
            f"There are no keys: {origin} took longer than {timeout_s:g} seconds",
            do="Run it by hand to see what it waits for; here it has no terminal to ask at",
        )
    if status != 0:
        ended = f"was killed by signal {-status}" if status < 0 else f"exited with {status}"
        raise KeyMissingError(
            f"There are no keys: {origin} {ended}",
            do="Run it by hand to see why; what it said went to standard error",
        )
    return KeySource(data, origin)


def _check_command(command: Sequence[str]) -> None:
    if isinstance(command, (str, bytes)) or not command:
        raise UsageError("A key command is a list: the absolute path of a program, its arguments")
    if not all(type(part) is str and "\0" not in part for part in command):
        raise UsageError("A key command is a list of texts without NUL characters")
    if not command[0].startswith("/"):
        # A name that is looked up could be found in a directory that others write to.
        raise UsageError(
            f"The key command {printable(command[0])} is not an absolute path",
            do="Give the program's whole path",
        )


def _start(command: Sequence[str], *, origin: str) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(command),
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,  # so that what it starts can be ended with it
        )
    except (OSError, UnicodeEncodeError) as error:
        number = error.errno if isinstance(error, OSError) else None
        reason = errnos.errorcode.get(number or 0, "refused")
    raise KeyMissingError(
        f"There are no keys: {origin} cannot be run: {reason}",
        do="Give the path of a program that can be run here",
    )


def _output(
    process: subprocess.Popen[bytes], *, origin: str, deadline_s: float, clock: Clock
) -> bytes:
    """Standard output to its end; ``TimeoutError`` if that does not come by the deadline."""
    data = bytearray()
    with selectors.DefaultSelector() as selector:
        pipe = cast("IO[bytes]", process.stdout)
        selector.register(pipe, selectors.EVENT_READ)
        while len(data) <= MAX_FILE_BYTES:
            left_s = deadline_s - clock.monotonic_s()
            if left_s <= 0 or not selector.select(left_s):
                raise TimeoutError
            piece = pipe.read(MAX_FILE_BYTES + 1 - len(data))
            if not piece:
                return bytes(data)
            data += piece
    raise KeyFileError(
        f"The keys from {origin} cannot be used: it printed more than {MAX_FILE_BYTES} bytes"
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """Leave no process behind that was still running, and no zombie."""
    if process.returncode is None:
        # Not reaped yet, so the number of its group cannot belong to anybody else.
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    cast("IO[bytes]", process.stdout).close()
