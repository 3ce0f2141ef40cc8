"""Running: each step once, and where nobody knows, what was decided beforehand, or a question."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lastgood.clock import SystemClock
from lastgood.errors import (
    EffectUndecidedError,
    LastgoodError,
    LockedError,
    PlanError,
    StepFailedError,
    StorageError,
)
from lastgood.runbook import process
from lastgood.runbook.judging import KIND, Happening, Seen, abandoned, document, rehearse
from lastgood.runbook.plan import difference
from lastgood.runbook.process import Ended
from lastgood.runbook.running import alone
from lastgood.with_effects import newest
from tests.crash.seam import WRITES, Killed, Seam, system
from tests.runbook.bench import PROBE, WRITE, Bench, statuses, step
from tests.support.check import check, check_equal

IDEMPOTENT = 'effect = "idempotent"'
FAIL_ONCE = f"{WRITE}; test -e mended || exit 3"


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def stops(bench: Bench, kind: type[LastgoodError], *steps: str, **options: Any) -> list[Happening]:
    """Run it until it stops."""
    told: list[Happening] = []
    with pytest.raises(kind):
        bench.run(bench.plan(*steps), told=told, **options)
    return told


def rehearsed(bench: Bench, *steps: str) -> list[str]:
    with bench.session() as session:
        return statuses(list(rehearse(bench.plan(*steps), Seen.of(session))))


def test_every_step_is_run_once_in_its_order(bench: Bench) -> None:
    """Done is done: the next run skips it all."""
    plan = bench.plan(step("b", "needs = ['c']"), step("a"), step("c"))
    check_equal(statuses(bench.run(plan)), ["a done", "c done", "b done"], "first")
    check_equal(statuses(bench.run(plan)), ["a skipped", "c skipped", "b skipped"], "second")
    check_equal(bench.ledger, ["a", "c", "b"], "ledger")


def test_result_says_what_it_printed_and_what_it_left(bench: Bench) -> None:
    """Exit code, duration, the end of the output, length and hash; ``output = false``: none.

    Method: the done records of the log.
    """
    plan = bench.plan(
        step("a", script="echo said"), step("b", "output = false", script="echo said")
    )
    with bench.session() as session:
        first, second = [one for one in bench.runner(plan, session).run() if one.status == "done"]
        results: list[Any] = [session._acting.result(one.fingerprint) for one in (first, second)]
    for result, text in zip(results, ("said\n", None), strict=True):
        check_equal(result["exit"], 0, "exit")
        check(0 <= result["seconds"] < 30, result)
        check_equal(result["output"]["text"], text, "text")
        check_equal(result["output"]["bytes"], text and len(text), "bytes")
        told = text and hashlib.sha256(text.encode()).hexdigest()
        check_equal(result["output"]["sha256"], told, "hash, which could be guessed from")
        check(result["inputs"].startswith("fx:"), result)


def test_step_is_given_its_variables_and_none_is_stored(bench: Bench) -> None:
    """The plan's, the step's id, the idempotency key; a value is bound by a keyed digest alone."""
    script = 'test "$TOKEN" = hidden-token && echo "$LASTGOOD_IDEMPOTENCY_KEY" >>ledger'
    (one,) = bench.run(bench.plan(step("a", "env = { TOKEN = 'hidden-token' }", script=script)))
    check_equal(bench.ledger, [one.fingerprint], "key")
    stored = b"".join(path.read_bytes() for path in bench.root.rglob("*") if path.is_file())
    check(bool(stored), "nothing is stored")
    check(b"hidden-token" not in stored, "a value is stored")
    other = bench.plan(step("a", "env = { TOKEN = 'other' }", script="true"))
    check_equal(statuses(bench.run(other)), ["a done"], "another value is another action")


# --- nobody knows ------------------------------------------------------------------------------


def test_manual_step_that_failed_stops_until_a_person_decides(bench: Bench) -> None:
    """Nothing behind it is started, and it is not run again until somebody said that it may."""
    steps = step("a", script=FAIL_ONCE), step("b")
    told = stops(bench, EffectUndecidedError, *steps)
    check_equal(statuses(told), ["a undecided"], "told")
    check("exited with 3" in told[0].why, told[0].why)
    check_equal(rehearsed(bench, *steps), ["a would ask", "b would run"], "rehearsed")
    check_equal(statuses(stops(bench, EffectUndecidedError, *steps)), ["a undecided"], "again")
    check_equal(bench.ledger, ["a"], "ledger")
    bench.resolve(lambda _: "not done")
    (bench.top / "mended").touch()
    check_equal(statuses(bench.run(bench.plan(*steps))), ["a done", "b done"], "decided")
    check_equal(bench.ledger, ["a", "a", "b"], "ledger")


def test_manual_step_that_a_person_says_is_done_is_skipped(bench: Bench) -> None:
    """A person's word counts as the program's: the step is done, and stays so."""
    steps = step("a", script=FAIL_ONCE), step("b")
    stops(bench, EffectUndecidedError, *steps)
    bench.resolve(lambda _: "done")
    check_equal(rehearsed(bench, *steps), ["a would skip", "b would run"], "rehearsed")
    for second in ("b done", "b skipped"):
        check_equal(statuses(bench.run(bench.plan(*steps))), ["a skipped", second], "run")
    check_equal(bench.ledger, ["a", "b"], "ledger")


def test_idempotent_step_that_failed_runs_again_with_the_same_key(bench: Bench) -> None:
    """The other side can tell that it is a repetition."""
    script = "echo $LASTGOOD_IDEMPOTENCY_KEY >>ledger; test -e mended || kill -9 $$"
    steps = step("a", IDEMPOTENT, script=script), step("b", script="true")
    told = stops(bench, StepFailedError, *steps)
    check_equal((statuses(told), told[0].why), (["a failed"], "it was ended by signal 9"), "told")
    check_equal(rehearsed(bench, *steps), ["a would run", "b would run"], "rehearsed")
    (bench.top / "mended").touch()
    check_equal(statuses(bench.run(bench.plan(*steps))), ["a done", "b done"], "again")
    check_equal(len(bench.ledger), 2, "ledger")
    check_equal(len(set(bench.ledger)), 1, "keys")


@pytest.mark.parametrize(
    ("probe", "error", "status"),
    [
        ("exit 0", None, "done"), ("exit 20", StepFailedError, "failed"),
        ("exit 1", EffectUndecidedError, "undecided"),
        ("kill -9 $$", EffectUndecidedError, "undecided"),
    ],
)  # fmt: skip
def test_probe_of_a_step_that_failed_is_asked_at_once(
    bench: Bench, probe: str, error: type[LastgoodError] | None, status: str
) -> None:
    """Its answer counts; a probe that crashes or says something else is no answer."""
    text = step("a", 'effect = "probe"', f"probe = ['/bin/sh', '-c', '{probe}']", script=FAIL_ONCE)
    if error is None:
        check_equal(statuses(bench.run(bench.plan(text))), ["a done"], "told")
    else:
        check_equal(statuses(stops(bench, error, text)), [f"a {status}"], "told")
    check_equal(bench.ledger, ["a"], "ledger")
    (bench.top / "mended").touch()
    if status == "undecided":
        stops(bench, EffectUndecidedError, text)
        bench.resolve(bench.by_ledger)
    bench.run(bench.plan(text))
    check_equal(bench.ledger, ["a", "a"] if status == "failed" else ["a"], "ledger")


def test_probe_is_given_what_the_step_is_given(bench: Bench) -> None:
    """It asks with the same variables, in the same directory, as the step was run."""
    probe = 'test "$TOKEN:$LASTGOOD_STEP:${LASTGOOD_IDEMPOTENCY_KEY%:*}:$(pwd)"'
    text = step(
        "a", "env = { TOKEN = 't' }", "cwd = 'sub'", 'effect = "probe"',
        f"probe = ['/bin/sh', '-c', '''{probe} = t:a:fx:v1:{bench.top}/sub''']", script="exit 3",
    )  # fmt: skip
    (bench.top / "sub").mkdir()
    check_equal(statuses(bench.run(bench.plan(text))), ["a done"], "its answer")


def test_step_that_could_not_be_started_was_not_done(bench: Bench) -> None:
    """A missing program or directory needs no decision: it may be tried again."""
    told = stops(bench, StepFailedError, step("a", "cwd = 'sub'"))
    check("could not be started" in told[0].why and "sub" in told[0].why, told[0].why)
    (bench.top / "sub").mkdir()
    check_equal(statuses(bench.run(bench.plan(step("a", "cwd = 'sub'")))), ["a done"], "again")


def test_step_that_takes_too_long_is_ended_and_asked_about(bench: Bench) -> None:
    """A timeout says nothing about what was done; what it printed is told."""
    slow = "echo begun; echo $LASTGOOD_STEP >>ledger; sleep 60"
    (told,) = stops(bench, EffectUndecidedError, step("a", "timeout_s = 0.4", script=slow))
    check("its timeout" in told.why and told.output == "begun\n", str(told))


def test_step_that_is_late_and_exits_with_0_is_asked_about(bench: Bench) -> None:
    """It was told to end, and says that it did: whether it was through, nobody knows."""
    script = "trap 'exit 0' TERM; sleep 60 & wait"
    (told,) = stops(bench, EffectUndecidedError, step("a", "timeout_s = 0.3", script=script))
    check_equal(told.status, "undecided", "status")


def test_stricter_class_counts_of_a_step_that_was_intended_as_another(bench: Bench) -> None:
    """Who calls a step idempotent afterwards does not decide what became of it."""
    stops(bench, EffectUndecidedError, step("a", script=FAIL_ONCE))
    text = step("a", IDEMPOTENT, script=FAIL_ONCE)
    check_equal(rehearsed(bench, text), ["a would ask"], "rehearsed")
    stops(bench, EffectUndecidedError, text)
    check_equal(bench.ledger, ["a"], "ledger")


# --- inputs ------------------------------------------------------------------------------------


def test_changed_inputs_are_a_new_action_each_time(bench: Bench) -> None:
    """Whatever content comes, also one that was there before: what was done last is not it."""
    text = step("a", "inputs = ['in.*']", script="cat in.txt >>ledger")
    for content in ("1", "2", "1", "3"):
        (bench.top / "in.txt").write_text(f"{content}\n")
        check_equal(rehearsed(bench, text), ["a would run"], f"rehearsed with {content}")
        check_equal(statuses(bench.run(bench.plan(text))), ["a done"], content)
        check_equal(statuses(bench.run(bench.plan(text))), ["a skipped"], f"{content} again")
    check_equal(bench.ledger, ["1", "2", "1", "3"], "ledger")


def test_step_that_changes_its_inputs_is_done_nonetheless(bench: Bench) -> None:
    """As it left them, or as they were before it: nothing has changed since."""
    text = step("a", "inputs = ['in*']", script=f"{WRITE}; echo more >>in; echo new >in2")
    (bench.top / "in").write_text("x\n")
    bench.run(bench.plan(text))
    check_equal(statuses(bench.run(bench.plan(text))), ["a skipped"], "as it left them")
    (bench.top / "in").write_text("x\n")
    (bench.top / "in2").unlink()
    check_equal(statuses(bench.run(bench.plan(text))), ["a skipped"], "as they were")
    (bench.top / "in").write_text("y\n")
    check_equal(statuses(bench.run(bench.plan(text))), ["a done"], "others")


def test_step_that_consumes_its_inputs_is_skipped_and_missing_ones_stop(bench: Bench) -> None:
    """Nothing is run on nothing; but a step that took its inputs away is done."""
    text = step("a", "inputs = ['in*']", script=f"{WRITE}; rm in1")
    stops(bench, PlanError, text)
    (bench.top / "in1").write_text("x")
    check_equal(statuses(bench.run(bench.plan(text))), ["a done"], "first")
    check_equal(statuses(bench.run(bench.plan(text))), ["a skipped"], "consumed")


def test_step_that_leaves_what_cannot_be_read_is_done(bench: Bench) -> None:
    """It exited with 0: that its inputs are no files any more is a question for the next run."""
    text = step("a", "inputs = ['in']", script=f"{WRITE}; rm in; mkdir in")
    (bench.top / "in").write_text("x")
    check_equal(statuses(bench.run(bench.plan(text))), ["a done"], "done")
    stops(bench, PlanError, text)
    check_equal(bench.ledger, ["a"], "ledger")


@pytest.mark.parametrize("did", [True, False])
@pytest.mark.parametrize("more", ["", IDEMPOTENT, PROBE], ids=["manual", "idempotent", "probe"])
def test_changed_inputs_of_an_open_step_are_settled_under_its_old_intent(
    bench: Bench, more: str, did: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that changed its own inputs and died is not run as a new action beside the old one.

    Method: it changes them, and dies with the run before or after what it does.
    """
    script = f"echo more >>in; {WRITE if did else ''}"
    text = step("a", "inputs = ['in']", *([more] if more else []), script=script)
    (bench.top / "in").write_text("x\n")
    with monkeypatch.context() as patch:
        patch.setattr(process, "carry_out", killed_behind(process.carry_out))
        with pytest.raises(Killed):
            bench.run(bench.plan(text))
    if not more:
        stops(bench, EffectUndecidedError, text)
        bench.resolve(bench.by_ledger)
    with bench.session() as session:
        old = newest(session, KIND, key="a")
    (settled,) = bench.run(bench.plan(text))
    check_equal(settled.status, "skipped" if not more and did else "done", "settled")
    is_old = did or more == IDEMPOTENT
    check((settled.fingerprint == old) is is_old, "the action that was settled, or a new one")
    check_equal(statuses(bench.run(bench.plan(text))), ["a skipped"], "stays so")
    runs = 2 if more == IDEMPOTENT or not did else 1
    check_equal((bench.top / "in").read_text().count("more"), runs, "how often it ran")
    check_equal(len(bench.ledger), runs if did else 0, "ledger")
    with bench.session() as session:
        check_equal(session.open_effects, (), "nothing is open")


def killed_behind(real: Callable[..., Ended]) -> Callable[..., Ended]:
    """A run that dies between the end of a step and the record of it."""

    def carry_out(*words: Any, **options: Any) -> Ended:
        real(*words, **options)
        raise Killed

    return carry_out


# --- around it ---------------------------------------------------------------------------------


def sleeper(fd: int) -> subprocess.Popen[bytes]:
    """A process that inherits a descriptor and does nothing."""
    words = [sys.executable, "-c", "import time; time.sleep(60)"]
    return subprocess.Popen(words, pass_fds=[fd])


def test_nothing_is_asked_or_run_while_a_step_of_a_killed_run_is_at_work(bench: Bench) -> None:
    """What its probe says now, it may not say any more when that step is through.

    Method: a process that holds the lock that steps inherit, and whose parent let it go, as a
    killed run does.
    """
    bench.run(bench.plan(step("a")))
    (record,) = bench.root.glob("*/session.json")
    with record.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        child = sleeper(file.fileno())
    try:
        check_equal(stops(bench, LockedError, step("a"), step("b")), [], "what happened")
    finally:
        child.kill()
        child.wait()
    check_equal(statuses(bench.run(bench.plan(step("a"), step("b")))), ["a skipped", "b done"], "")


def test_what_a_step_leaves_running_on_purpose_stops_no_later_run(bench: Bench) -> None:
    """A daemon inherits the lock, too, and is let go when its step has ended."""
    bench.run(bench.plan(step("a")))
    (record,) = bench.root.glob("*/session.json")
    with alone(str(record), wait_s=0, clock=SystemClock()) as fd:
        child = sleeper(fd)
    try:
        check_equal(statuses(bench.run(bench.plan(step("a")))), ["a skipped"], "afterwards")
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize("more", ["", PROBE, IDEMPOTENT], ids=["manual", "probe", "idempotent"])
def test_disk_that_is_full_when_done_is_to_be_recorded_repeats_nothing(
    bench: Bench, more: str
) -> None:
    """It was done and nobody could write that down: decided by its class, exit 8 until then.

    Method: at the seam, every write of the store fails once the ledger has the line.
    """

    def full(_: int, made: str) -> None:
        if made.split(maxsplit=1)[0] in WRITES and bench.ledger:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    text = step("a", *([more] if more else []))
    told = stops(bench, StorageError, text, filesystem=system(Seam(before=full)))
    check_equal((told, bench.ledger), ([], ["a"]), "it was done, and nothing is told")
    if not more:
        stops(bench, EffectUndecidedError, text)
        bench.resolve(bench.by_ledger)
    bench.run(bench.plan(text))
    check_equal(bench.ledger, ["a", "a"] if more == IDEMPOTENT else ["a"], "ledger")


def test_step_that_changed_while_it_is_open_is_settled_first(bench: Bench) -> None:
    """What is said of the old action is never taken for the new one (G5).

    Method: a manual step fails, its program changes, a person says that it was done.
    """
    old, new = (step("a", script=f"echo {n} >>ledger; exit {n}") for n in (4, 0))
    plan = bench.plan(old)
    with pytest.raises(EffectUndecidedError):
        bench.run(plan)
    changed = bench.plan(new)
    with bench.session() as session:
        seen = Seen.of(session)
        changes = difference(
            seen.state["plan"] or document(plan, seen.sign), document(changed, seen.sign)
        )
        (one,) = abandoned(changes, seen)
        check_equal((one.step, one.status), ("a", "undecided"), "first")
        session.resolve(one.fingerprint, "done", actor="olga", reason="it is in the ledger")
        (one,) = abandoned(changes, Seen.of(session))
        check_equal(one.status, "undecided", "decided, and the state does not know yet")
        check_equal(list(abandoned((), Seen.of(session))), [], "without a change")
