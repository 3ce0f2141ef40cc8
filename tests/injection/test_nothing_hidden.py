"""What a run found is never hidden: by another level, by an early end, by a word too much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from fault_injection.cli import main
from fault_injection.damage import byte_changes
from fault_injection.damage.byte_changes import Sample
from fault_injection.examples.notes import NOTES, Job
from fault_injection.interrupt import interruptible
from fault_injection.level import Plan
from fault_injection.levels.registry import built
from fault_injection.machine import Machine
from fault_injection.planted_bugs import trial
from fault_injection.recording import check_testable
from fault_injection.workload import ORACLES, BadWorkloadError
from fault_injection.world import World
from lastgood.errors import DamagedError, LastgoodError, UsageError
from tests.injection.bad_notes import DEAF, FORGETFUL
from tests.injection.test_plugin import PLUGIN, STAND_IN, pytest_of
from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.normal_only]


@dataclass(frozen=True)
class _Watched:
    """What pytest tells a plugin of a call that raised."""

    value: Exception

    @property
    def excinfo(self) -> _Watched:
        return self


class GivesUp(Job):
    """Recovers, and stops behind that with an error of its store's."""

    def go_on(self, machine: Machine, world: World) -> None:
        super().go_on(machine, world)
        raise DamagedError("it cannot go on", name="note-1")


def test_a_recovery_that_nothing_strikes_comes_to_its_end() -> None:
    """O9: what goes on behind a kill, a failure or a recovery may not end in an error.

    Method: a job that recovers well and then stops.
    """
    level = built().level("L3")
    if level is None:
        raise AssertionError("L3 is not there")
    found = {tally.variant: tally.violations for tally in level.run(GivesUp(), Plan())}
    for variant in ("nested-weak", "killed-weak"):
        oracles = {one.oracle for one in found[variant]}
        check("O9" in oracles, f"{variant}: {found[variant][:2]}")


def test_a_run_that_ends_at_its_first_violation_is_not_called_exhaustive() -> None:
    """*Exhaustive* is said where every state was tried. Method: two bad stores, ended early."""
    for name, workload in (("L3", FORGETFUL), ("L1", DEAF)):
        level = built().level(name)
        if level is None:
            raise AssertionError(f"{name} is not there")
        tallies = list(level.run(workload, Plan(budget="exhaustive", stop_at_first=True)))
        ended = [tally for tally in tallies if tally.violations]
        check(ended, f"{name} found nothing")
        check(not any(tally.exhaustive for tally in ended), f"{name}: {ended}")


def test_reserved_bytes_of_which_a_few_are_tried_are_a_sample() -> None:
    """L5 says of reserved zeros, too, how many it tried. Method: twelve, of which three."""
    data = b'{"e":1}\n' + bytes(12)
    for places, is_all in ((None, True), (3, False), (12, True)):
        sample = Sample(places, "0")
        tried = len(list(byte_changes.changes("reserve", data, sample)))
        check(byte_changes.is_all("reserve", data, sample) == is_all, f"{places}: {tried} tried")


def test_what_one_level_found_is_not_hidden_by_one_that_cannot_run(tmp_path: Path) -> None:
    """A violation fails the test, also where another level was not run behind it.

    Method: a level that finds one, and then cannot go on.
    """
    source = STAND_IN.format(name="violates") + (
        "class Absent:\n"
        "    name = 'L3'\n"
        "    def run(self, workload, plan):\n"
        "        from fault_injection.level import NotRunError\n"
        "        raise NotRunError('not here', remedy='none')\n"
        "        yield\n"
        "ToyLevel.run_before = ToyLevel.run\n"
        "ToyLevel.run = lambda self, *a: (\n"
        "    Absent().run(*a) if self.name == 'L3' else self.run_before(*a))\n"
    )
    ran = pytest_of(tmp_path, source, *PLUGIN, "-rs", require_all="0")
    check_equal(ran.returncode, 1, ran.stdout + ran.stderr)
    check("v1.L1.violates.weak.6.c0ffee" in ran.stdout, ran.stdout)


@pytest.mark.parametrize(
    ("error", "oracle"),
    [
        (UsageError("called in a wrong way"), "UsageError"),
        (DamagedError("a byte", name="x"), "LastgoodError"),
        (AssertionError("a promise"), "AssertionError"),
        (KeyError("x"), "KeyError"),
    ],
    ids=["usage", "damage", "assertion", "key"],
)
def test_a_test_that_fails_by_misuse_kills_no_planted_bug(error: Exception, oracle: str) -> None:
    """A wrong call is the patch's own mistake, also as an error of lastgood's. Method: each."""
    watch = trial._Watch()
    watch.pytest_exception_interact(_Watched(error))
    check_equal(watch.failed[0][0], oracle, "what it counts as")
    is_honest = watch.failed[0][0] in trial._HONEST
    check_equal(is_honest, not isinstance(error, UsageError | KeyError), "honest")
    check(isinstance(error, LastgoodError) or oracle != "LastgoodError", "a kind of its own")


def _silent(machine: Machine, world: World) -> None:
    with world.act("one"):
        pass


def test_a_job_that_makes_no_call_is_told_what_to_call() -> None:
    """Who writes past the machine is told so, in one line. Method: a job that only acknowledges."""
    work = mock.patch.object(Job, "run", lambda self, machine, world: _silent(machine, world))
    with work, pytest.raises(BadWorkloadError, match=r"machine\.process\(\)"):
        check_testable(NOTES)


def test_a_job_with_other_bytes_in_the_same_call_is_told_so() -> None:
    """Two calls that look alike and are not are told apart. Method: a note that counts its runs."""
    runs: list[None] = []

    def work(self: Job, machine: Machine, world: World) -> None:
        runs.append(None)
        system = machine.process()
        with world.act("one"):
            file = system.open("/disk/note", 0o101)
            system.writev(file, [str(len(runs)).encode()])
            system.close(file)

    with (
        mock.patch.object(Job, "run", work),
        pytest.raises(BadWorkloadError, match="the same call with other bytes"),
    ):
        check_testable(NOTES)


def test_the_printed_commands_name_where_a_workload_comes_from(
    run: Callable[..., tuple[int, str]],
) -> None:
    """What is shown repeats the state of that very workload. Method: the example's, made bad."""
    code, text = run("run", "--from", "tests.injection.bad_notes:FORGETFUL", "--level", "L3")
    check_equal(code, 2, text)
    for verb in ("explain", "replay"):
        check(f"{verb} --from tests.injection.bad_notes:FORGETFUL v1.L3.notes" in text, text)


def test_an_interrupted_run_leaves_no_report_of_an_older_one(tmp_path: Path) -> None:
    """Who reads a report reads that of the last run. Method: an old file, an interrupt, a link."""
    old, link, kept = tmp_path / "run.json", tmp_path / "link.xml", tmp_path / "kept"
    for path in (old, kept):
        path.write_text('{"outcome": "recovered"}', encoding="utf-8")
    link.symlink_to(kept)
    with mock.patch("fault_injection.cli.run", side_effect=KeyboardInterrupt):
        words = ["run", "--level", "L1", "--json", str(old), "--junit", str(link)]
        code = interruptible(lambda: main(words))
    check_equal((code, old.exists(), kept.exists()), (130, False, True), "exit and files")


def test_every_judgement_is_explained_to_people() -> None:
    """fault_injection/README.md says what each oracle means. Method: its table against the code."""
    text = (REPOSITORY / "fault_injection" / "README.md").read_text("utf-8")
    section = text.partition("### The judgements")[2].partition("###")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    check_equal([row for row in rows if len(row) == 2], [*map(list, ORACLES.items())], "rows")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    """The command, with what it prints."""

    def ran(*words: str) -> tuple[int, str]:
        code = main([*words, "--workers", "1"])
        return code, capsys.readouterr().out

    return ran
