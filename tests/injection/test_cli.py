"""The command: exit codes, one line for what is wrong, nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest

from fault_injection.words import understood
from tests.docs.documents import blocks
from tests.injection.toys import ended
from tests.support.check import check, check_equal

TOP = Path(__file__).resolve().parents[2]
TOYS = [sys.executable, "-m", "tests.injection.toys"]


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "LASTGOOD_REQUIRE_ALL"}
    return {**kept, "PYTHONPATH": str(TOP), **more}


def toys(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run the command with toys in place of levels."""
    return subprocess.run(
        [*TOYS, *words],
        cwd=TOP,
        env=environment(**more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("names", "code", "said"),
    [
        ("fine chatty", 0, "0 violations in 2,468 distinct states: recovered"),
        ("fine violates", 2, "2 violations in 2,468 distinct states: violations"),
        ("fine absent", 3, "L1 absent: not run: no such thing here; remedy: install it"),
        ("fine unfit", 4, "L3 unfit: bad workload: unfit acknowledges nothing"),
        ("fine mistaken", 4, "L1 mistaken: bad workload: mine.py:12: NameError: name 'x' is not"),
        ("fine raises", 3, ": TypeError: a defect of two lines"),
        ("fine dies", 3, "L1 dies: died: its process ended with exit code -9"),
        ("half", 3, "L1 half: not run: the rest is not here; remedy: install the rest"),
        ("violates unfit absent", 2, "violations"),
        ("absent", 3, "0 violations in 0 distinct states: incomplete"),
    ],
)
def test_exit_code_says_what_a_run_comes_to(names: str, code: int, said: str) -> None:
    """0 is said only where everything that was asked for was run and recovered.

    Method: levels that behave as the workload is called, on two processes.
    """
    ran = toys("run", "--level", "L1", "--level", "L3", "--workers", "2", TOYS=names)
    check_equal(ran.returncode, code, f"exit code: {ran.stdout} {ran.stderr}")
    check(said in ran.stdout, ran.stdout)
    check("Traceback" not in ran.stdout + ran.stderr, ran.stderr)
    check("\x1b" not in ran.stdout + ran.stderr and "\u202e" not in ran.stdout, "not escaped")
    check("L4: not built" in ran.stdout and "L2: not asked for" in ran.stdout, ran.stdout)
    check("what a job prints" not in ran.stdout, "a job printed into the report")


def test_level_that_is_not_built_is_said_to_be_and_is_no_success() -> None:
    """Who asks for L4 is told that it does not exist. Method: ask, alone and with another."""
    for words in (["--level", "L4"], ["--level", "L1", "--level", "L4"]):
        ran = toys("run", *words, "--workers", "1")
        check_equal(ran.returncode, 3, f"exit code: {ran.stdout}")
        check("L4 is not built: real file systems" in ran.stdout, ran.stdout)


def test_required_level_that_cannot_be_run_is_called_a_failure(tmp_path: Path) -> None:
    """With LASTGOOD_REQUIRE_ALL=1 nothing is left out quietly. Method: the same run, both ways."""
    for require, tag in (("0", "skipped"), ("1", "error")):
        junit = tmp_path / f"{tag}.xml"
        ran = toys(
            *("run", "--level", "L1", "--workers", "1", "--junit", str(junit)),
            TOYS="absent",
            LASTGOOD_REQUIRE_ALL=require,
        )
        check_equal(ran.returncode, 3, ran.stdout)
        check_equal("FAILED" in ran.stdout, require == "1", ran.stdout)
        cases = ElementTree.parse(junit).getroot().iter("testcase")  # noqa: S314 - it is our own
        check_equal([[told.tag for told in case] for case in cases], [[tag]], "JUnit")


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["fly"],
        ["run", "--level", "L9"],
        ["run", "--workload", "absent-minded\x1b[31m"],
        ["run", "--workers", "0"],
        ["run", "--workers", "100000"],
        ["run", "--seed", "-1"],
        ["run", "--seed", "9" * 5000],
        ["run", "--seed", "٣"],
        ["run", "--budget", "all"],
        ["run", "--json", "/nowhere/at/all"],
        ["run", "--json", "/"],
        ["run", "--json", ""],
        ["run", "--json", "-", "--junit", "-"],
        ["run", "--json", "both", "--junit", "both"],
        ["replay"],
        ["replay", ""],
        ["replay", "x" * 100_000],
        ["replay", "v0.L1.fine.weak.2.c0ffee"],
        ["replay", "v1.L4.fine.weak.2.c0ffee"],
        ["replay", "v1.L2.fine.weak.2.c0ffee"],
        ["replay", "v1.L1.unheard.weak.2.c0ffee"],
        ["replay", "v1.L1.fine.weak.2.other"],
        ["mutants", "--mutant", "no such mistake"],
        ["mutants", "--json", "/nowhere/at/all"],
        ["explain", "v1.L1.fine.weak.2.other"],
        ["explain", "v1.L1.fine.weak.-2.c0ffee"],
        ["explain", "v1.L1.fine.\x1b[31m.2.c0ffee"],
    ],
    ids=lambda words: "-".join(words)[:40].encode("ascii", "backslashreplace").decode(),
)
def test_words_that_cannot_be_understood_are_one_line_and_exit_code_1(words: list[str]) -> None:
    """Nobody sees a traceback for a mistyped word. Method: each kind of wrong word."""
    ran = toys(*words)
    check_equal(ran.returncode, 1, f"exit code: {ran.stdout} {ran.stderr}")
    check(ran.stdout == "" and ran.stderr.count("\n") == 1, ran.stdout + ran.stderr)
    check(len(ran.stderr) < 1200 and ran.stderr.strip().isprintable(), repr(ran.stderr))


def test_commands_of_the_readme_are_understood() -> None:
    """A reader may type what stands there. Method: the words of each of them; they are not run."""
    text = (TOP / "fault_injection" / "README.md").read_text("utf-8")
    commands = [
        line.partition("#")[0].split()[3:]
        for block in blocks(text)
        for line in block.body.splitlines()
        if line.startswith("python -m fault_injection")
    ]
    check(len(commands) > 7, f"{commands}")
    for words in commands:
        check_equal(understood(words).command, words[0], "command")


def test_name_of_another_version_is_told_to_be_that() -> None:
    """A name that an older harness gave is not taken for another state."""
    ran = toys("replay", "v0.L1.fine.weak.2.c0ffee")
    check("version v0 of the harness, this is v1" in ran.stderr, ran.stderr)


def test_replay_and_explain_judge_a_state_again() -> None:
    """What a report names can be seen again. Method: a good state and a bad one, both verbs."""
    for verb in ("replay", "explain"):
        good, bad = (toys(verb, f"v1.L3.{name}.weak.2.c0ffee", TOYS="fine violates")
                     for name in ("fine", "violates"))  # fmt: skip
        check_equal((good.returncode, bad.returncode), (0, 2), "exit codes")
        check("as it must be: checkpoint 20, by: newest revision" in good.stdout, good.stdout)
        check("VIOLATION of O1" in bad.stdout and r"\x1b[31m" in bad.stdout, bad.stdout)


def test_reports_are_written_and_progress_is_apart(tmp_path: Path) -> None:
    """Programs read the reports; people read the table. Method: all three of one run."""
    ran = toys(
        *("run", "--level", "L3", "--workers", "2", "--seed", "5"),
        *("--json", str(tmp_path / "r.json"), "--junit", str(tmp_path / "r.xml")),
        TOYS="fine violates",
    )
    check_equal(ran.returncode, 2, ran.stderr)
    document = json.loads((tmp_path / "r.json").read_text("utf-8"))
    check_equal((document["outcome"], document["seed"]), ("violations", 5), "document")
    check_equal(ran.stderr.count("\n"), 2, f"progress: {ran.stderr}")
    check("<testsuites" in (tmp_path / "r.xml").read_text("utf-8"), "JUnit")


@pytest.mark.parametrize("option", ["--json", "--junit"])
def test_document_on_standard_output_is_alone_there(tmp_path: Path, option: str) -> None:
    """``-`` is for a pipe: the document there, the text on the other stream, no file of that name.

    Method: a run in one process, with a job that prints, in an empty directory.
    """
    ran = subprocess.run(
        [*TOYS, "run", "--level", "L1", "--level", "L4", "--workers", "1", option, "-"],
        cwd=tmp_path,
        env=environment(TOYS="chatty"),
        capture_output=True,
        text=True,
        check=False,
    )
    check_equal(ran.returncode, 3, ran.stderr)
    if option == "--json":
        check_equal(json.loads(ran.stdout)["outcome"], "incomplete", "document")
    else:
        check_equal(ElementTree.fromstring(ran.stdout).tag, "testsuites", "document")  # noqa: S314
    for part in ("L1      chatty", "what a job prints", "L4 is not built"):
        check(part in ran.stderr, ran.stderr)
    check_equal(os.listdir(tmp_path), [], "files")


def test_matrix_on_standard_output_is_alone_there() -> None:
    """``mutants`` keeps to it, too. Method: a planted bug that toys cannot find."""
    ran = toys("mutants", "--mutant", "no sync at all", "--json", "-")
    check_equal(json.loads(ran.stdout)["matrix"]["mutants"][0]["outcome"], "survived", "document")
    check("SURVIVED: no sync at all" in ran.stderr, ran.stderr)


def test_command_that_a_report_gives_repeats_it() -> None:
    """Who reads a report can see for themselves. Method: run what it says; compare numbers."""
    words = ("run", "--level", "L1", "--workload", "violates", "--seed", "7", "--fail-fast")
    first = toys(*words, TOYS="fine violates").stdout
    again = first.rstrip().rpartition("again: python -m fault_injection ")[2].split()
    check_equal(toys(*again, TOYS="fine violates").stdout, first, "the same report")


OWN = """
from fault_injection.examples.notes import Job, Notes
class Other(Job): name = "other"
class Odd(Job): name = "an odd name"
class Forgetful(Notes):
    def make_durable(self, file): self._system.fsync(file)
class Half:
    name, run = "half", None
    def judge(self): pass
ONE, BOTH, BAD, TWICE, ODD = Job(), [Job(), Other()], Job(Forgetful), [Job(), Job()], Odd()
HALF, NONE, MIXED = Half(), [], [Job(), Job]
"""
MISTAKES = {
    "wrong": "\nclass :\n",
    "raises": "def half():\n\n    return 1 / 0\nONE = half()\n",
    "leaves": "import sys\nsys.exit(0)\n",
    "needs": "\nimport no_such_module\n",
}


def own(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the real command in a folder with somebody's workloads."""
    (folder / "own.py").write_text(OWN, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "-P", "-m", "fault_injection", *words],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_workloads_of_somebody_else_are_run_and_replayed(tmp_path: Path) -> None:
    """Anybody's store is put to the test from the shell, and what is found can be repeated.

    Method: a module in the current directory; two good jobs, then a bad one and what it prints.
    """
    ran = own(tmp_path, "run", "--from", "own:BOTH", "--level", "L3")
    check_equal(ran.returncode, 0, ran.stdout + ran.stderr)
    check("L3      notes " in ran.stdout and "L3      other " in ran.stdout, ran.stdout)
    ran = own(tmp_path, "run", "--from", "own:BAD", "--level", "L3", "--fail-fast")
    check_equal(ran.returncode, 2, ran.stdout + ran.stderr)
    state = ran.stdout.partition("VIOLATION ")[2].partition("\n")[0]
    ran = own(tmp_path, "explain", "--from", "own:BAD", state)
    check_equal(ran.returncode, 2, ran.stdout + ran.stderr)
    again = f"again: python -m fault_injection replay --from own:BAD {state}\n"
    check(ran.stdout.endswith(again), ran.stdout)


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("own", "--from takes MODULE:NAME, as mine:JOB for JOB in mine.py, not 'own'"),
        (":", "--from takes MODULE:NAME, as mine:JOB for JOB in mine.py, not ':'"),
        ("own.py:ONE", "--from takes the name of a module, not of a file: own, not own.py"),
        ("./sub/own:ONE", "the name of a module, not of a file: sub.own, not ./sub/own"),
        ("nowhere:ONE", "there is no module nowhere: it is neither in the current directory nor"),
        ("own.deeper:ONE", "there is no module own.deeper: it is neither"),
        ("own:GONE", "own has no GONE; it has ONE, BOTH, BAD"),
        ("own:TWICE", "own:TWICE holds two workloads of the name 'notes'"),
        ("own:ODD", "own:ODD is no workload: its name is letters, digits, and -_+@, not 'an odd"),
        ("own:NONE", "own:NONE holds no workload"),
        (
            "own:Job",
            "own:Job is no workload: it is the class Job; name an object of it, JOB = Job()",
        ),
        ("own:MIXED", "own:MIXED[1] is no workload: it is the class Job"),
        ("own:HALF", "own:HALF is no workload: Half lacks unread, prepare, run, go_on"),
        ("os:sep", "os:sep is no workload: str lacks name, unread, prepare, run, go_on, judge"),
        ("wrong:ONE", "wrong.py:2 is not Python: "),
        ("raises:ONE", "raises cannot be imported: raises.py:3: ZeroDivisionError: division by"),
        ("leaves:ONE", "leaves cannot be imported: leaves.py:2: SystemExit: 0"),
        ("needs:ONE", "needs cannot be imported: needs.py:2: ModuleNotFoundError: No module named"),
    ],
)
def test_place_that_holds_no_workloads_is_one_line_and_exit_code_1(
    tmp_path: Path, place: str, said: str
) -> None:
    """A mistyped place, or a mistake in the module, says what to mend. Method: each kind."""
    for name, text in MISTAKES.items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    ran = own(tmp_path, "run", "--from", place, "--level", "L3")
    check_equal((ran.returncode, ran.stdout), (1, ""), ran.stderr)
    check_equal(ran.stderr.count("\n"), 1, ran.stderr)
    check(said in ran.stderr, ran.stderr)


def test_reader_that_goes_away_ends_the_command_without_a_word() -> None:
    """``| head`` is no error to look at. Method: close the pipe before anything is printed."""
    with subprocess.Popen(
        [*TOYS, "list"], cwd=TOP, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        if process.stdout is not None:
            process.stdout.close()
        said = process.stderr.read() if process.stderr else b""
    check_equal((process.returncode, said), (3, b""), "exit code and standard error")


def test_planted_bug_that_survives_is_exit_code_2(tmp_path: Path) -> None:
    """A level that is blind to what it should see is found out. Method: toys cannot find it."""
    ran = toys("mutants", "--mutant", "no sync at all", "--json", str(tmp_path / "m.json"))
    check_equal(ran.returncode, 2, ran.stdout + ran.stderr)
    (bug,) = json.loads((tmp_path / "m.json").read_text("utf-8"))["matrix"]["mutants"]
    check_equal((bug["name"], bug["outcome"]), ("no sync at all", "survived"), "document")


@pytest.mark.slow
@pytest.mark.normal_only
def test_planted_bug_that_is_found_is_exit_code_0(tmp_path: Path) -> None:
    """The real levels see it. Method: one of the planted bugs, by part of its name."""
    ran = own(tmp_path, "mutants", "--mutant", "no sync at", "--workers", "2")
    check_equal(ran.returncode, 0, ran.stdout + ran.stderr)
    check("1 of 1 killed" in ran.stdout, ran.stdout)


@pytest.mark.parametrize("module", ["argparse", "orjson"])
@pytest.mark.parametrize("number", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_interrupt_while_modules_are_imported_is_one_line_and_130(
    tmp_path: Path, number: str, module: str
) -> None:
    """Whoever is quick with Ctrl-C sees no traceback. Method: an import that sends the signal."""
    text = f"import os, signal\nos.kill(os.getpid(), signal.{number})\n"
    (tmp_path / f"{module}.py").write_text(text, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "fault_injection", "list"],  # without -P: what is here comes first
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    check_equal((ran.returncode, ran.stdout), (130, ""), ran.stderr)
    check_equal(ran.stderr, "fault_injection: interrupted\n", "what is said")


def test_interrupt_in_text_that_is_run_is_exit_code_130(tmp_path: Path) -> None:
    """The interpreter's own memory of an interrupt is not the exit code. Method: exec of text."""
    text = 'exec("import os, signal; os.kill(os.getpid(), signal.SIGINT)")\n'
    (tmp_path / "theirs.py").write_text(text, encoding="utf-8")
    ran = own(tmp_path, "run", "--from", "theirs:JOB")
    check_equal((ran.returncode, ran.stdout), (130, ""), ran.stderr)
    check_equal(ran.stderr, "fault_injection: interrupted\n", "what is said")


@pytest.mark.slow
@pytest.mark.normal_only
@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["SIGINT", "SIGTERM", "SIGHUP"]
)
def test_interrupted_run_leaves_no_process_and_no_file(
    tmp_path: Path, number: signal.Signals, workers: str
) -> None:
    """Ctrl-C, SIGTERM and a terminal that goes end a run with 130 and with all that it began.

    Method: a job that sleeps with a child and temporary files; the signal; what is there then.
    """
    begun, scratch = tmp_path / "begun", tmp_path / "scratch"
    scratch.mkdir()
    more = {"TOYS": "hangs fine", "TOYS_BEGUN": str(begun), "TMPDIR": str(scratch)}
    process = subprocess.Popen(
        [*TOYS, "run", "--level", "L1", "--workers", workers],
        cwd=TOP,
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )
    until = time.monotonic() + 30
    while not (begun.exists() and begun.read_text("utf-8")) and time.monotonic() < until:
        time.sleep(0.02)
    child = int(begun.read_text("utf-8").split()[0])
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    check_equal((process.returncode, out), (130, ""), err)
    check_equal(err.rstrip().rpartition("\n")[2], "fault_injection: interrupted", "last line")
    check_equal(os.listdir(scratch), [], "temporary files")
    if workers == "1":
        os.kill(child, signal.SIGKILL)  # in the same process nobody else knows of it
    else:
        check(ended(child), "a child is left")
