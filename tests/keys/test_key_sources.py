"""Keys from the environment, a descriptor or a command: one validator, clean refusals."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from lastgood.errors import KeyFileError, KeyMissingError, UsageError
from lastgood.formats.keyfile import MAX_FILE_BYTES
from lastgood.keyring import Keyring
from tests.keys.samples import KID, MASTER, as_bytes, check_hides, entry, key_file, refused, write
from tests.support.check import check, check_equal

GOOD = as_bytes(key_file())
BAD = as_bytes(key_file(entry(kid="0" * 32)))
VARIABLE = "LASTGOOD_TEST_KEYS"


# --- environment --------------------------------------------------------------------------


def test_environment_gives_keys_and_says_that_it_is_weak(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable holds a key file's content; the notice says who else sees it."""
    monkeypatch.setenv(VARIABLE, GOOD.decode())
    keyring = Keyring.from_environment(VARIABLE)
    check_equal(keyring.primary_kid, KID, "kid")
    check_equal(keyring.location, None, "location")
    (notice,) = keyring.notices
    check(VARIABLE in notice and "child processes" in notice and "/proc" in notice, notice)


@pytest.mark.parametrize("variable", [VARIABLE, "", "A=B", "A\0B", "\x1b[2K", "\udcff"])
def test_variable_that_is_not_set_is_missing(
    variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No keys were given: said so, by the variable's escaped name."""
    monkeypatch.delenv(VARIABLE, raising=False)
    text = refused(Keyring.from_environment, variable, error=KeyMissingError, match="is not set")
    check("\x1b" not in text, repr(text))


@pytest.mark.parametrize("value", ["", " ", MASTER.hex(), BAD.decode(), "\udcff" + GOOD.decode()])
def test_bad_content_of_a_variable_names_it(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one validator refuses, and says which source it was."""
    monkeypatch.setenv(VARIABLE, value)
    refused(Keyring.from_environment, VARIABLE, error=KeyFileError, match=f"variable {VARIABLE}")


# --- descriptor ---------------------------------------------------------------------------


def test_descriptor_of_a_pipe_gives_keys_and_stays_open() -> None:
    """Bytes that come in pieces are read to the end; the descriptor is the caller's."""
    reader, writer = os.pipe()
    try:
        os.write(writer, GOOD[:50])
        os.write(writer, GOOD[50:])
        os.close(writer)
        keyring = Keyring.from_descriptor(reader)
        check_equal((keyring.primary_kid, keyring.location), (KID, None), "keyring")
        os.fstat(reader)
    finally:
        os.close(reader)


def test_descriptor_of_a_file_gives_keys(tmp_path: Path) -> None:
    """Who opened it vouches for it: a mode that a path would be refused for does not matter."""
    with write(tmp_path / "keys.json", mode=0o644).open("rb") as file:
        check_equal(Keyring.from_descriptor(file.fileno()).primary_kid, KID, "kid")


@pytest.mark.parametrize("fd", [-1, True, 1.0, "3", None, 2**31, 2**70])
def test_what_is_no_descriptor_is_a_usage_error(fd: Any) -> None:
    """Exit 1, no traceback from below."""
    with pytest.raises(UsageError):
        Keyring.from_descriptor(fd)


def test_descriptor_that_gives_nothing_is_missing(tmp_path: Path) -> None:
    """Not open, open for writing only, a directory, or with nothing to read yet."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        for fd, reason in ((writer, "EBADF"), (folder, "EISDIR"), (reader, "EAGAIN")):
            refused(Keyring.from_descriptor, fd, error=KeyMissingError, match=reason)
    finally:
        for fd in (reader, writer, folder):
            os.close(fd)
    refused(Keyring.from_descriptor, reader, error=KeyMissingError, match="EBADF")


@pytest.mark.timeout(10)
def test_descriptor_without_end_is_refused_at_the_limit() -> None:
    """T8: an endless source costs 64 KiB."""
    fd = os.open("/dev/zero", os.O_RDONLY)
    try:
        refused(Keyring.from_descriptor, fd, error=KeyFileError, match="larger than 65536")
    finally:
        os.close(fd)


@pytest.mark.parametrize("content", [b"", BAD], ids=["empty", "bad"])
def test_bad_content_of_a_descriptor_names_it(content: bytes) -> None:
    """The one validator refuses, and says which source it was."""
    reader, writer = os.pipe()
    os.write(writer, content)
    os.close(writer)
    try:
        refused(Keyring.from_descriptor, reader, error=KeyFileError, match=f"descriptor {reader}")
    finally:
        os.close(reader)


# --- command ------------------------------------------------------------------------------


def python(code: str, *arguments: str) -> list[str]:
    return [sys.executable, "-S", "-c", code, *arguments]


def refused_command(command: Any, *, error: Any, match: str, **named: Any) -> str:
    return refused(Keyring.from_command, command, error=error, match=match, **named)


def test_command_gives_keys(tmp_path: Path) -> None:
    """What an absolute program prints is a key file's content; arguments are passed as they are."""
    path = write(tmp_path / "a b; $(touch x) *.json")
    keyring = Keyring.from_command(["/bin/cat", str(path)])
    check_equal((keyring.primary_kid, keyring.location), (KID, None), "keyring")
    keyring = Keyring.from_command(("/bin/cat", str(path)), timeout_s=5)
    check_equal(keyring.primary_kid, KID, "kid")


def test_command_has_no_input_and_its_error_output_is_ours(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """It cannot take our input, and what it says to people reaches them, not the keys.

    Method: input lies ready on our descriptor 0.
    """
    reader, writer = os.pipe()
    os.write(writer, b"our input")
    os.close(writer)
    ours = os.dup(0)
    os.dup2(reader, 0)
    code = "import sys; sys.stderr.write('hello' + sys.stdin.read()); print(sys.argv[1])"
    try:
        keyring = Keyring.from_command(python(code, GOOD.decode()))
    finally:
        os.dup2(ours, 0)
        os.close(ours)
        os.close(reader)
    check_equal(keyring.primary_kid, KID, "kid")
    check_equal(capfd.readouterr().err, "hello", "error output")


@pytest.mark.parametrize(
    "command",
    [
        "/bin/cat /etc/keys", b"/bin/cat", [], (), ["cat"], ["./cat"], ["../bin/cat"], [""],
        ["~/cat"], ["/bin/cat", 1], ["/bin/cat", None], ["/bin/cat", b"x"], ["/bin/c\0at"],
        ["/bin/cat", "a\0b"],
    ],
)  # fmt: skip
def test_command_that_is_no_list_with_an_absolute_program_is_a_usage_error(command: Any) -> None:
    """No shell and no search path, in which others could put a program of that name."""
    with pytest.raises(UsageError):
        Keyring.from_command(command)


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), float("inf"), 10_000])
def test_time_out_that_is_none_is_a_usage_error(timeout_s: float) -> None:
    """Nothing waits for ever."""
    with pytest.raises(UsageError):
        Keyring.from_command(["/bin/cat"], timeout_s=timeout_s)


def test_command_that_cannot_be_run_is_missing(tmp_path: Path) -> None:
    """Not there, a directory, without the right to run, not a program."""
    text_file = write(tmp_path / "text", b"no program", mode=0o700)
    for path, reason in (
        (tmp_path / "absent", "ENOENT"),
        (tmp_path, "EACCES"),
        (write(tmp_path / "plain"), "EACCES"),
        (text_file, "ENOEXEC"),
        (Path("/\ud800"), "cannot be run"),
    ):
        refused_command([str(path)], error=KeyMissingError, match=reason)


def test_command_that_fails_is_missing_even_if_it_printed_keys() -> None:
    """A non-zero exit or a signal is a failure, whatever was printed."""
    for code, reason in (
        ("import sys; print(sys.argv[1]); sys.exit(3)", "exited with 3"),
        ("import sys, os; print(sys.argv[1], flush=True); os.kill(os.getpid(), 9)", "signal 9"),
    ):
        text = refused_command(python(code, GOOD.decode()), error=KeyMissingError, match=reason)
        check(MASTER.hex() not in text, text)


@pytest.mark.parametrize("content", ["", "x", BAD.decode()], ids=["nothing", "text", "bad"])
def test_bad_output_of_a_command_names_it(content: str) -> None:
    """The one validator refuses, and says which source it was, without the arguments."""
    command = python("import sys; sys.stdout.write(sys.argv[1])", content, "argument-secret")
    text = refused_command(command, error=KeyFileError, match="the command /")
    check("argument-secret" not in text, text)


def children() -> set[str]:
    """The processes of this one, those that are dead and not waited for, too.

    Others may have started some before: the start of an interpreter's own helper, for one.
    """
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            parent = (
                status.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[1]
            )
            if parent == str(os.getpid()):
                found.add(status.parent.name)
    return found


@pytest.mark.timeout(20)
def test_command_without_end_is_stopped_at_the_limit() -> None:
    """T8: endless output costs 64 KiB, and no process is left."""
    before = children()
    refused_command(["/bin/cat", "/dev/zero"], error=KeyFileError, match=str(MAX_FILE_BYTES))
    check_equal(children(), before, "processes that are left")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("silent", ["", "sys.stdout.close(); os.close(1);"], ids=["open", "closed"])
def test_command_that_hangs_is_killed_with_all_it_started(tmp_path: Path, silent: str) -> None:
    """After the time-out nothing of it runs, whether or not its output had ended.

    Method: a child of the command writes its pid; after the refusal that process is gone.
    """
    note = tmp_path / "pid"
    code = (
        "import os, sys, time\n"
        "child = os.fork()\n"
        "if child: open(sys.argv[1] + '.new', 'w').write(str(child)); "
        "os.rename(sys.argv[1] + '.new', sys.argv[1])\n"
        f"{silent}\n"
        "time.sleep(60)\n"
    )
    before = children()
    command = python(code, str(note), MASTER.hex())
    text = refused_command(command, error=KeyMissingError, match="longer than 1.5", timeout_s=1.5)
    check_hides(text, MASTER)
    pid = int(note.read_text(encoding="utf-8"))
    for _ in range(100):
        if not runs(pid):
            break
        time.sleep(0.05)
    else:
        os.kill(pid, signal.SIGKILL)
        check(False, f"process {pid} survived the time-out")
    check_equal(children(), before, "processes that are left")


def runs(pid: int) -> bool:
    """Whether the process exists and is no zombie that somebody else has yet to reap."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0]
    except (ProcessLookupError, FileNotFoundError):
        return False
    return state != "Z"
