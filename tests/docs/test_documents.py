"""Every command and every program in the documentation is run, and does what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.documents import Block, Shell, blocks, run_block, run_document
from tests.support.check import check, check_equal

TOP = Path(__file__).resolve().parents[2]
HARNESS = TOP / "fault_injection" / "README.md"
DOCUMENTS = [*sorted(TOP.glob("*.md")), *sorted((TOP / "docs").glob("*.md")), HARNESS]


@pytest.mark.slow
@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(TOP)))
def test_every_block_of_a_document_does_what_it_says(path: Path, tmp_path: Path) -> None:
    """A reader may type what stands there. Method: as ``tests/docs/documents.py`` describes."""
    own = str(TOP) if path == HARNESS else ""  # it need not be installed
    count = run_document(path, scratch=tmp_path, top=TOP, python_path=own)
    if path.name in ("README.md", "cli.md"):
        check(count > 0, "no block was run: this test would prove nothing")


WRONG = [
    ("sh", "false\ntrue\n"),
    ("sh", 'echo "$UNSET"\n'),
    ("console", "$ echo a\nb\n"),
    ("console", "$ echo a\n"),
    ("console", "$ false\n"),
    ("console", "$ true\na\n"),
    ("console", "$ printf 'a\\nb\\nc\\n'\na\n…c\n"),
    ("console", "a\n"),
    ("console", ""),
    ("python", "1/0\n"),
    ("python", "print(1)  # 2\n"),
    ("python", "print(1)\nprint(2)  # 2\n"),
    ("python", "if 0:\n    print(1)  # 1\n"),
    ("", "echo a\n"),
    ("bash", "true\n"),
]
RIGHT = [
    ("sh", "true\n"),
    ("console", "$ echo a; echo b >&2\na\nb\n"),
    ("console", "$ false; echo $?\n1\n"),
    ("console", "$ printf 'a\\nb\\nc\\n'\na\n…\nc\n$ echo abc\na…\n$ true\n"),
    ("console", "$ printf 'a.c\\n'\na.c\n$ seq 3\n…\n"),
    ("console", "$ echo a \\\n> b\na b\n"),
    ("python", "print(1)  # 1: one\nfor n in [2]:\n    print(n)  # 2\n"),
]


@pytest.mark.parametrize(("language", "body"), WRONG)
def test_block_that_does_not_do_what_it_says_is_found(
    language: str, body: str, tmp_path: Path
) -> None:
    """The rule above is alive. Method: blocks that lie, each in its way."""
    with pytest.raises(AssertionError):
        run_block(Block(1, language, body), Shell(tmp_path), where="planted")


@pytest.mark.parametrize(("language", "body"), RIGHT)
def test_block_that_does_what_it_says_passes(language: str, body: str, tmp_path: Path) -> None:
    """The rule above refuses nothing that is true."""
    run_block(Block(1, language, body), Shell(tmp_path), where="planted")


def test_exports_reach_the_blocks_that_follow_and_a_fresh_directory_has_none(
    tmp_path: Path,
) -> None:
    """A reader who types on in one shell has what it has. Method: a document of four blocks."""
    (tmp_path / "d.md").write_text(
        "```sh\nexport A='b\nc'\ntouch file\n```\n\n"
        '```console\n$ echo "$A"; ls\nb\nc\nfile\n```\n'
        "<!-- test: fresh -->\n<!-- test: before: touch other -->\n"
        '```console\n$ echo "${A-none}"; ls\nnone\nother\n```\n'
        "<!-- test: elsewhere: d.md -->\n```\nfalse\n```\n```json\n{}\n```\n",
        encoding="utf-8",
    )
    check_equal(run_document(tmp_path / "d.md", scratch=tmp_path, top=tmp_path), 3, "blocks run")
    found = [block.line for block in blocks((tmp_path / "d.md").read_text(encoding="utf-8"))]
    check_equal(found, [1, 7, 15, 21, 24], "lines")
    (tmp_path / "f.md").write_text(
        "<!-- test: file: a.py -->\n```python\nA = 1 / 0\n```\n```sh\ngrep -q A a.py\n```\n",
        "utf-8",
    )
    check_equal(run_document(tmp_path / "f.md", scratch=tmp_path, top=tmp_path), 1, "blocks run")
    (tmp_path / "e.md").write_text("<!-- test: elsewhere: gone.py -->\n```\n```\n", "utf-8")
    with pytest.raises(AssertionError):
        run_document(tmp_path / "e.md", scratch=tmp_path, top=tmp_path)
