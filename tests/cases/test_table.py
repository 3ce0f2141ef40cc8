"""The table: each public failure of the classes that a store and its log meet has its test."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.check import check, check_equal
from tests.support.require import require_cases

HERE = Path(__file__).parent
WHOLE = ("C1", "C2", "C4", "C5", "C6", "C7", "C9", "C10", "C11", "C13")
PARTS = {
    "C3": ("01", "02", "03", "05"),
    "C12": ("02", "04", "05", "06", "08", "10"),
}


def known() -> list[str]:
    """The ids of the public cases."""
    return re.findall(r"^### (C[0-9]+-[0-9]+)$", require_cases().read_text("utf-8"), re.MULTILINE)


def named() -> set[str]:
    """The ids that a test of this room is named by."""
    found = set()
    for path in HERE.glob("test_c*.py"):
        names = re.findall(r"^def test_c0*([0-9]+)_([0-9]{2})_", path.read_text("utf-8"), re.M)
        found |= {f"C{number}-{case}" for number, case in names}
    return found


def test_every_case_of_the_classes_of_a_store_has_a_test_by_its_id() -> None:
    """Each case of C1, C2, C6, C9, C10, C11, and what applies of C3 and C12, is named by a test.

    Method: the headings of the list of cases, and the names of the tests here.
    """
    cases = known()
    check(len(cases) >= 60, f"only {len(cases)} cases are listed")
    expected = {case for case in cases if case.split("-")[0] in WHOLE}
    expected |= {f"{number}-{case}" for number, listed in PARTS.items() for case in listed}
    check(expected <= set(cases), f"not in the list: {expected - set(cases)}")
    check_equal(sorted(expected - named()), [], "cases without a test")


def test_every_test_by_an_id_is_of_a_case_that_exists() -> None:
    """No test claims a case that is not in the list.

    Method: the other way round.
    """
    check_equal(sorted(named() - set(known())), [], "tests of no case")


@pytest.mark.parametrize("path", sorted(HERE.glob("test_c*.py")), ids=lambda path: path.name)
def test_every_case_states_its_guarantee_by_its_id(path: Path) -> None:
    """The first line of each case's docstring begins with its id, and what follows says it.

    Method: the text of the tests; a test of a spy says that the spy is alive.
    """
    tests = re.findall(
        r'^def test_c0*([0-9]+)_([0-9]{2})_(\w+)\((?:.|\n)*?\) -> None:\n    """(.*)',
        path.read_text("utf-8"),
        re.MULTILINE,
    )
    check(tests, f"no test in {path.name}")
    for number, case, name, first in tests:
        told = first.startswith(f"C{number}-{case}") or name.startswith("the_spy_")
        check(told, f"{path.name}: {first}")
