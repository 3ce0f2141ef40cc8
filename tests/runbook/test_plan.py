"""Plans: what cannot be meant is refused before anything is opened, with the place of the value."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import PlanError, StorageError
from lastgood.runbook.plan import MAX_PLAN_BYTES, Change, Plan, Step, difference, parse, read
from tests.support.check import check, check_equal

NAME = 'name = "move"\n'
STEP = '[[step]]\nid = "a"\nrun = ["true"]\n'
WHOLE = """
name = "move the shop"
version = "2026-12"
[[step]]
id = "copy"
run = ["cp", "a", ""]
cwd = "sub"
env = { TOKEN = "hidden", B = "" }
inputs = ["*.csv", "more/**"]
needs = ["later"]
effect = "probe"
probe = ["test", "-e", "b"]
not_done_exit = [1, 20]
timeout_s = 5
output = false
[[step]]
id = "later"
run = ["true"]
"""


def plan(text: str) -> Plan:
    return parse(text.encode())


def seal(name: str, value: str) -> str:
    return f"{name} of {len(value)}"


def document(text: str) -> dict[str, Any]:
    found = plan(text)
    steps = [step.document(seal) for step in found.steps]
    return {"name": found.name, "version": found.version, "steps": steps}


def test_every_key_of_a_plan_is_read() -> None:
    """What is written is what is meant, and what is not written has the default of the table."""
    found = plan(WHOLE)
    copy, later = found.steps
    check_equal((found.name, found.version), ("move the shop", "2026-12"), "plan")
    expected = Step(
        id="copy", run=("cp", "a", ""), cwd="sub", env={"TOKEN": "hidden", "B": ""},
        inputs=("*.csv", "more/**"), needs=("later",), effect="probe", probe=("test", "-e", "b"),
        not_done_exit=(1, 20), timeout_s=5.0, output=False,
    )  # fmt: skip
    check_equal(copy, expected, "step")
    check_equal(later, Step(id="later", run=("true",)), "defaults")
    check("hidden" not in repr(copy), "a value is in the repr")
    check("hidden" not in repr(copy.document(seal)), "a value is in what is stored")


BAD: list[tuple[str, str, str]] = [
    ("", "name", "missing"), (NAME, "step", "missing"), (NAME + "step = []", "step", "1 to"),
    ("name = 1\n" + STEP, "name", "a text is wanted, not an integer"),
    ('name = ""\n' + STEP, "name", "1 to 200"),
    ('name = "a\\u0000b"\n' + STEP, "name", "control"),
    (NAME + "version = 2026-12-01\n" + STEP, "version", "not a date"),
    (NAME + "verison = 1\n" + STEP, "verison", "no such key; known are name, version, step"),
    (NAME + "[step]\nid = 1", "step", "an array is wanted, not a table"),
    (NAME + "step = [1]", "step[0]", "a table is wanted"),
    (NAME + '[[step]]\nrun = ["a"]', "step[0].id", "missing"),
    (NAME + '[[step]]\nid = "a"', "step[0].run", "missing"),
    (NAME + '[[step]]\nid = "a\\n"\nrun = ["a"]', "step[0].id", "control"),
    (NAME + f'[[step]]\nid = "{"a" * 201}"\nrun = ["a"]', "step[0].id", "1 to 200"),
    (NAME + '[[step]]\nid = "a"\nrun = "rm -rf /"', "step[0].run", "array is wanted, not a text"),
    (NAME + '[[step]]\nid = "a"\nrun = []', "step[0].run", "program first"),
    (NAME + '[[step]]\nid = "a"\nrun = [""]', "step[0].run[0]", "empty"),
    (NAME + '[[step]]\nid = "a"\nrun = ["a", 1]', "step[0].run[1]", "a text is wanted"),
    (NAME + '[[step]]\nid = "a"\nrun = ["a", "\\u0000"]', "step[0].run[1]", "NUL"),
    (NAME + STEP + 'runs = ["b"]', "step[0].runs", "no such key"),
    (NAME + STEP + '"\\u202e" = 1', "step[0].\\u202e", "no such key"),
    (NAME + STEP + "cwd = 1", "step[0].cwd", "a text is wanted"),
    (NAME + STEP + 'cwd = ""', "step[0].cwd", "empty"),
    (NAME + STEP + 'env = ["A"]', "step[0].env", "a table is wanted"),
    (NAME + STEP + "env = { A = 1 }", "step[0].env.A", "a text is wanted"),
    (NAME + STEP + 'env = { A = "\\u0000" }', "step[0].env.A", "no variable"),
    (NAME + STEP + 'env = { "A=B" = "c" }', "step[0].env.A=B", "no variable"),
    (NAME + STEP + 'env = { "" = "c" }', "step[0].env.", "no variable"),
    (NAME + STEP + 'env = { LASTGOOD_STEP = "c" }', "step[0].env.LASTGOOD_STEP", "given to each"),
    (NAME + STEP + "inputs = [true]", "step[0].inputs[0]", "not a truth value"),
    (NAME + STEP + 'inputs = ["a", ""]', "step[0].inputs[1]", "empty"),
    (NAME + STEP + 'needs = ["b"]', "step[0].needs[0]", "there is no step b"),
    (NAME + STEP + 'needs = ["a"]', "step[0].needs", "it goes round: a needs a"),
    (NAME + STEP + STEP, "step[1].id", "a is the id of step[0] already"),
    (NAME + STEP + 'effect = "sometimes"', "step[0].effect", "one of idempotent, probe, manual"),
    (NAME + STEP + "effect = 1", "step[0].effect", "a text is wanted"),
    (NAME + STEP + 'effect = "probe"', "step[0].effect", "a probe stands beside"),
    (NAME + STEP + 'probe = ["a"]', "step[0].probe", "a probe stands beside"),
    (NAME + STEP + 'effect = "probe"\nprobe = []', "step[0].probe", "program first"),
    (NAME + STEP + "not_done_exit = [1]", "step[0].not_done_exit", "answer of a probe"),
    (NAME + STEP + "not_done_exit = [0]", "step[0].not_done_exit[0]", "1 to 255"),
    (NAME + STEP + "not_done_exit = [true]", "step[0].not_done_exit[0]", "an integer is wanted"),
    (NAME + STEP + "timeout_s = 0", "step[0].timeout_s", "above 0"),
    (NAME + STEP + "timeout_s = nan", "step[0].timeout_s", "above 0"),
    (NAME + STEP + "timeout_s = inf", "step[0].timeout_s", "above 0"),
    (NAME + STEP + f"timeout_s = 1{'0' * 400}", "step[0].timeout_s", "above 0"),
    (NAME + STEP + 'timeout_s = "5"', "step[0].timeout_s", "a float is wanted"),
    (NAME + STEP + "timeout_s = true", "step[0].timeout_s", "not a truth value"),
    (NAME + STEP + "output = 1", "step[0].output", "a truth value is wanted"),
    (NAME + 'name = "b"\n' + STEP, "", "it is no TOML"), ("{", "", "it is no TOML"),
    (f"a = {'9' * 5000}", "", "it is no TOML"), (f"a = {'[' * 5000}", "", "nested too deep"),
    (" " * (MAX_PLAN_BYTES + 1), "", "larger than"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "path", "says"), BAD)
def test_what_cannot_be_meant_is_refused_with_its_path(text: str, path: str, says: str) -> None:
    """Unknown keys, wrong types, missing and impossible values: one error, with the place."""
    with pytest.raises(PlanError) as caught:
        plan(text)
    check_equal(caught.value.path, path, "path")
    check(says in caught.value.happened, caught.value.happened)
    check(caught.value.happened.startswith(f"plan: {path}"), caught.value.happened)
    check(str(caught.value).isprintable(), "what acts on a terminal is escaped (T12)")


def test_cycle_is_shown_whole() -> None:
    """Who has to break it sees it; what only leads into it is not a part of it."""
    steps = {"a": ["b"], "b": ["c"], "c": ["d", "free"], "d": ["b"], "free": []}
    text = "".join(f'[[step]]\nid = "{k}"\nrun = ["x"]\nneeds = {v}\n' for k, v in steps.items())
    with pytest.raises(PlanError, match="it goes round: b needs c needs d needs b"):
        plan(NAME + text)


def test_bytes_that_are_no_text_are_refused() -> None:
    """A plan is UTF-8, and where it is not is said."""
    with pytest.raises(PlanError, match="byte 8 is not UTF-8"):
        parse(b'name = "\xff"')


def test_order_is_that_of_the_file_behind_what_each_needs() -> None:
    """Nobody has to sort steps, and nobody's order is changed without need."""
    steps = {"z": [], "deploy": ["build", "test"], "test": ["build"], "build": [], "a": []}
    text = "".join(f'[[step]]\nid = "{k}"\nrun = ["x"]\nneeds = {v}\n' for k, v in steps.items())
    check_equal(
        [step.id for step in plan(NAME + text).order()],
        ["z", "build", "test", "deploy", "a"],
        "order",
    )


def test_long_plan_is_ordered_at_once() -> None:
    """A long plan costs no more than its length. Method: each needs the one behind it."""
    count = 3_000
    text = "".join(
        f'[[step]]\nid = "{n}"\nrun = ["x"]\nneeds = ["{n + 1}"]\n' for n in range(count)
    )
    found = plan(NAME + text + f'[[step]]\nid = "{count}"\nrun = ["x"]\n')
    check_equal([int(step.id) for step in found.order()], list(range(count, -1, -1)), "order")


def test_difference_names_each_step_and_its_keys() -> None:
    """Who accepts a change has seen all of it: nothing else differs, nothing is missing."""
    before = document(WHOLE)
    after = WHOLE.replace('"hidden"', '"longer still"').replace('"2026-12"', '"2027"')
    after = after.replace('"later"', '"new"').replace("timeout_s = 5", "timeout_s = 6")
    check_equal(
        difference(before, document(after)),
        (
            Change(None, "changed", ("version",)),
            Change("later", "removed"),
            Change("new", "added"),
            Change("copy", "changed", ("env", "needs", "timeout_s")),
        ),
        "difference",
    )
    check_equal(difference(before, document(WHOLE)), (), "the same plan")
    turned = {**before, "steps": before["steps"][::-1]}
    check_equal(difference(before, turned), (Change(None, "changed", ("order",)),), "turned")


def test_plan_is_read_from_its_file_and_lies_in_its_directory(tmp_path: Path) -> None:
    """What is relative is relative to the plan, whoever calls from wherever, by a link or not."""
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "plan.toml").write_text(NAME + STEP)
    (tmp_path / "link.toml").symlink_to(tmp_path / "real" / "plan.toml")
    for name in ("real/plan.toml", "link.toml"):
        found = read(str(tmp_path / name))
        check_equal(found.folder, os.path.realpath(tmp_path / "real"), "folder")


def test_file_that_is_no_plan_is_one_error(tmp_path: Path) -> None:
    """Missing, a directory, a FIFO: nothing hangs, nothing is a traceback."""
    os.mkfifo(tmp_path / "fifo")
    for name in ("missing", "missing/plan", "nul\0", "fifo"):
        with pytest.raises(PlanError):
            read(str(tmp_path / name))
    with pytest.raises(StorageError, match="EISDIR"):
        read(str(tmp_path))
    (tmp_path / "b\x1b[2J.toml").write_text("{")
    with pytest.raises(PlanError, match=r"b\\x1b\[2J\.toml: it is no TOML"):
        read(str(tmp_path / "b\x1b[2J.toml"))


@given(st.text(max_size=60) | st.binary(max_size=60).map(lambda b: b.decode("latin-1")))
def test_no_text_is_more_than_one_error(text: str) -> None:
    """Whatever stands in a plan, it is one, or it is refused by a typed error."""
    for given_text in (text, NAME + text, NAME + STEP + text):
        try:
            parse(given_text.encode("utf-8", "surrogatepass"))
        except PlanError as error:
            check(str(error).isprintable(), repr(str(error)))
