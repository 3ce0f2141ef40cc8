"""The types of the awaited names: right uses check strictly, wrong ones are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.check import check_equal
from tests.support.require import REPOSITORY
from tests.typing.test_typing import checked

PROGRAM = Path(__file__).with_name("program.py")


@pytest.mark.slow
@pytest.mark.normal_only
def test_a_user_s_awaiting_program_checks_strictly_and_wrong_uses_are_found(tmp_path: Path) -> None:
    """py.typed: a project outside this one sees the types, and each wrong use of the program.

    Method: the program as it stands, and without the comments that excuse its wrong uses.
    """
    cache = REPOSITORY / ".mypy_cache" / "typing-test-aio"
    program = tmp_path / "program.py"
    program.write_bytes(PROGRAM.read_bytes())
    check_equal(checked(program, cache), (0, ""), "the program")
    wrong = tmp_path / "wrong.py"
    wrong.write_text(PROGRAM.read_text().replace("  # type: ignore", "  # ignored: "))
    code, output = checked(wrong, cache)
    lines = {line.split(":")[1] for line in output.split("\n") if ": error:" in line}
    expected = PROGRAM.read_text().count("# type: ignore[")
    check_equal((code, len(lines)), (1, expected), f"wrong uses that are found in\n{output}")
