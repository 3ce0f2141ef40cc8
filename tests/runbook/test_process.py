"""Children: bounded in memory and time whatever they do, and gone afterwards with all they started.

Each child is a program of Python or of the shell that misbehaves in one way.
"""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any, Final

import pytest

from lastgood.clock import SystemClock
from lastgood.runbook.process import KEPT_BYTES, Ended, NotStartedError, Output, carry_out
from tests.runbook.bench import MARK, left, soon
from tests.support.check import check, check_equal

MIB: Final = 1 << 20


def ran(*argv: str, **options: Any) -> Ended:
    given: dict[str, Any] = {"cwd": "/", "env": dict(os.environ), "timeout_s": 30, "grace_s": 0.3}
    return carry_out(argv, clock=SystemClock(), **(given | options))


def shell(script: str, **options: Any) -> Ended:
    return ran("/bin/sh", "-c", script, **options)


def python(script: str, **options: Any) -> Ended:
    return ran(sys.executable, "-c", script, **options)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_output_and_exit_code_are_told() -> None:
    """Both streams in their order, how many bytes, and the hash of all."""
    ended = shell("echo out; echo err >&2; exit 3")
    check_equal((ended.code, ended.is_late, ended.name), (3, False, "Exit3"), "end")
    check_equal((ended.output.text, ended.output.size_bytes), ("out\nerr\n", 8), "output")
    check_equal(ended.output.sha256, hashlib.sha256(b"out\nerr\n").hexdigest(), "hash")
    check_equal(str(ended), "exited with 3", "for people")


def test_death_by_a_signal_is_told() -> None:
    """A crash is no exit code."""
    ended = shell("kill -9 $$")
    check_equal((ended.name, str(ended)), ("Signal9", "was ended by signal 9"), "end")


def test_child_has_no_input_and_its_own_variables(tmp_path: Path) -> None:
    """It can neither wait for somebody at a terminal, nor see more than it was given."""
    ended = shell('cat; pwd; echo "$A" "${HOME-none}"', cwd=str(tmp_path), env={"A": "b"})
    check_equal(ended.output.text, f"{tmp_path}\nb none\n", "output")


@pytest.mark.parametrize("size", [300 * MIB, pytest.param(5 * 10**9, marks=pytest.mark.slow)])
def test_large_output_is_bounded_in_memory(size: int) -> None:
    """However much is printed, the end of it is kept and all of it counted and hashed.

    Method: as fast as it comes; what Python allocates meanwhile is counted.
    """
    tracemalloc.start()
    try:
        ended = shell(f"head -c {size} /dev/zero; echo end", timeout_s=200)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    check(peak < MIB, f"{peak} bytes were allocated")
    check_equal(ended.output.size_bytes, size + 4, "bytes")
    check_equal(len(ended.output.tail), KEPT_BYTES, "kept")
    check(ended.output.text.endswith("\0end\n"), "the end is kept")
    expected = hashlib.sha256()
    for _ in range(size // 100_000):
        expected.update(bytes(100_000))
    expected.update(bytes(size % 100_000) + b"end\n")
    check_equal(ended.output.sha256, expected.hexdigest(), "hash")


def test_output_that_is_no_text_is_escaped() -> None:
    """Any bytes can be kept, also a beginning that was cut within a character."""
    ended = shell(r"printf 'a\377\303\200\303'")
    check_equal(ended.output.text, "a\\xffÀ\\xc3", "text")
    output = Output()
    output.add("é".encode() * KEPT_BYTES)
    output.add(b"!")
    check_equal(output.text[:6], "\\xa9éé", "text that begins within a character")


def test_grandchild_that_keeps_the_pipe_open_is_ended_with_its_group() -> None:
    """What a step leaves running does not run on, and does not keep the run waiting."""
    started_s = time.monotonic()
    ended = shell("sleep 60 & echo $!; exit 0")
    check_equal(ended.code, 0, "exit code")
    check(time.monotonic() - started_s < 10, "it was waited for")
    check(soon(lambda: not is_alive(int(ended.output.text))), "it still runs")


def test_grandchild_in_a_session_of_its_own_does_not_keep_the_run_waiting() -> None:
    """A daemon may go on, and its pipe is not waited for; what came before it is there."""
    script = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(['sleep', '60'], start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
    )
    started_s = time.monotonic()
    ended = python(script)
    check(time.monotonic() - started_s < 10, "it was waited for")
    pid = int(ended.output.text)
    check(is_alive(pid), "a daemon was ended")
    os.kill(pid, signal.SIGKILL)


def test_child_that_closes_its_output_is_waited_for() -> None:
    """The end of the output is not the end of the step."""
    ended = shell("exec >&- 2>&-; sleep 0.2; exit 4")
    check_equal((ended.code, ended.output.size_bytes), (4, 0), "end")


def test_timeout_tells_it_to_end_and_takes_what_it_says_then() -> None:
    """A step may tidy up; that it was late is told all the same."""
    ended = shell("trap 'echo tidied; exit 0' TERM; echo on; sleep 60 & wait", timeout_s=0.4)
    check_equal((ended.name, ended.output.text), ("Timeout", "on\ntidied\n"), "end")
    check(str(ended).startswith("was stopped after"), str(ended))


def test_child_that_ignores_being_told_is_made_to_end() -> None:
    """SIGTERM, some time, SIGKILL: to the whole group, also while it prints without end."""
    script = (
        f"import os, signal  # {MARK}\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "os.fork()\n"
        "print(os.getpid(), flush=True)\n"
        "while True: os.write(1, bytes(1000))\n"
    )
    started_s = time.monotonic()
    ended = python(script, timeout_s=1)
    check_equal(ended.name, "Timeout", "end")
    check(1.2 < time.monotonic() - started_s < 10, "it was not given its time, or too much")
    check(soon(lambda: not left()), "processes are left")


def test_what_is_left_running_is_seen() -> None:
    """The look at processes that the tests here rely on is alive."""
    child = subprocess.Popen([sys.executable, "-c", f"import time; time.sleep(60)  # {MARK}"])
    try:
        check(soon(lambda: bool(left())), "it is not seen")
    finally:
        child.kill()
        child.wait()
    check(soon(lambda: not left()), "processes are left")


def test_interruption_ends_it_and_goes_on() -> None:
    """Ctrl-C in the middle of a step: the step is told to end, and nothing is left."""
    mine = os.getpid()
    threading.Timer(0.4, lambda: os.kill(mine, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        shell(f"sleep 60; : {MARK}")
    check(soon(lambda: not left()), "processes are left")


def test_second_interruption_does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who presses twice means it: the step that ignores being told is killed at once."""
    mine = os.getpid()
    for at_s in (0.4, 0.8):
        threading.Timer(at_s, lambda: os.kill(mine, signal.SIGINT)).start()
    started_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        shell(f"trap '' TERM; sleep 60; : {MARK}", grace_s=30)
    check(time.monotonic() - started_s < 10, "it was waited for")
    check(soon(lambda: not left()), "processes are left")


@pytest.mark.parametrize("argv", [("no-such-program",), ("/",), ("a\ud800",), ("/etc/passwd",)])
def test_program_that_cannot_be_started_is_known_not_to_have_run(argv: tuple[str, ...]) -> None:
    """Missing, a directory, no text, not executable: nothing was done, which is said."""
    with pytest.raises(NotStartedError) as caught:
        ran(*argv)
    check(str(caught.value).isprintable(), str(caught.value))


def test_missing_directory_is_known_not_to_have_run(tmp_path: Path) -> None:
    """Also where it is to run is a part of being started."""
    with pytest.raises(NotStartedError, match="No such file or directory"):
        ran("true", cwd=str(tmp_path / "missing"))


def test_no_descriptor_is_left_open() -> None:
    """A plan of ten thousand steps opens no more files than one of one."""
    shell("true")
    before = len(os.listdir("/dev/fd"))
    for _ in range(5):
        shell("echo a")
        with pytest.raises(NotStartedError):
            ran("no-such-program")
    check_equal(len(os.listdir("/dev/fd")), before, "open descriptors")
