"""Code blocks of a document, and how they are run.

A document is run from top to bottom in one fresh directory, with ``.venv/bin`` first on PATH:

* ```` ```sh ```` as one script; it must exit 0. What it exports, later blocks see.
* ```` ```console ```` command by command: a line ``$ command`` (``> `` continues it), then what it
  prints, standard output and error together. ``…`` stands for anything, on a line of its own for
  any lines. A command must exit 0; one that does not shows it: ``$ command; echo $?``.
* ```` ```python ```` as one program; ``print(…)  # text`` says what is printed, up to a colon.
* ```` ```json ````, ```` ```text ```` and the like are not run. A block must say what it is.

A comment before a block changes how it is run:

* ``<!-- test: fresh -->``: in a fresh directory, with a fresh environment.
* ``<!-- test: before: COMMAND -->``: after that command, which the reader need not see.
* ``<!-- test: elsewhere: FILE -->``: not here; that test file runs it.
* ``<!-- test: file: NAME -->``: not run, but kept as that file for the blocks behind it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.support.check import check, check_equal

BIN: Final = Path(sys.executable).parent
SHOWN_ONLY: Final = frozenset({"json", "text", "toml", "yaml"})
_FENCE: Final = re.compile(
    r"(?P<orders>(?:^<!-- test: [^\n]* -->\n+)*)"
    r"^(?P<ticks>```+)(?P<language>[^\n`]*)\n(?P<body>.*?)^(?P=ticks)\s*?$",
    re.MULTILINE | re.DOTALL,
)
_ORDER: Final = re.compile(r"<!-- test: (fresh|before|elsewhere|file)(?:: ([^\n]*))? -->")
_PRINTED: Final = re.compile(r"^\s*print\(.*\)  # (.*)$", re.MULTILINE)
_TIMEOUT_S: Final = 100


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block.

    Attributes:
        line: Where it begins.
        language: What it says it is.
        body: Its text.
        orders: The comments before it: what, and its argument.
    """

    line: int
    language: str
    body: str
    orders: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Shell:
    """A directory and an environment in which blocks are run one after the other."""

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        home = self._beside(".home")
        home.mkdir(mode=0o700)
        self.environment = {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TMPDIR": str(self.folder),
        }

    def sh(self, script: str) -> tuple[int, str]:
        """Run a script; returns its exit code and what it printed; keeps what it exported."""
        kept = self._beside(".environment")
        whole = f"{script}\n_code=$?\nenv -0 >'{kept}'\nexit $_code\n"
        done = self._run(["/bin/sh", "-c", whole])
        if kept.exists():
            pairs = (pair.partition("=") for pair in kept.read_text("utf-8").split("\0") if pair)
            self.environment = {name: value for name, _, value in pairs}
        return done

    def python(self, program: str) -> tuple[int, str]:
        """Run a program; returns its exit code and what it printed."""
        return self._run([sys.executable, "-c", program])

    def _beside(self, suffix: str) -> Path:
        return self.folder.with_name(self.folder.name + suffix)

    def _run(self, command: list[str]) -> tuple[int, str]:
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT_S,
            check=False,
        )
        return done.returncode, done.stdout.decode("utf-8")


def blocks(text: str) -> Iterator[Block]:
    """Every fenced block of a document."""
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start("ticks")) + 1
        orders = tuple((what, argument) for what, argument in _ORDER.findall(found["orders"]))
        yield Block(line, found["language"].strip(), found["body"], orders)


def run_document(path: Path, *, scratch: Path, top: Path, python_path: str = "") -> int:
    """Run every block of a document; returns how many were run.

    Args:
        path: The document.
        scratch: Directories are made here.
        top: Of the clone.
        python_path: Where Python finds what is not installed.

    Raises:
        AssertionError: A block does not do what it says, with its line.
    """
    shell = _fresh(scratch, python_path)
    count = 0
    for block in blocks(path.read_text(encoding="utf-8")):
        where = f"{path.name}:{block.line}"
        orders = dict(block.orders)
        if "elsewhere" in orders:
            check((top / orders["elsewhere"]).is_file(), f"{where}: {orders['elsewhere']} is gone")
            continue
        if "fresh" in orders:
            shell = _fresh(scratch, python_path)
        if "before" in orders:
            check_equal(shell.sh(orders["before"])[0], 0, f"{where}: what comes before it")
        if "file" in orders:
            (shell.folder / orders["file"]).write_text(block.body, encoding="utf-8")
            continue
        if block.language not in SHOWN_ONLY:
            run_block(block, shell, where=where)
            count += 1
    return count


def run_block(block: Block, shell: Shell, *, where: str) -> None:
    """Run one block, by its language."""
    if block.language == "sh":
        code, said = shell.sh("set -eu\n" + block.body)
        check_equal(code, 0, f"{where}: {said}")
    elif block.language == "console":
        for command, expected in _commands(block.body, where=where):
            code, said = shell.sh(command)
            check(
                _matches(said, expected), f"{where}: $ {command}\nprints\n{said}\nnot\n{expected}"
            )
            check_equal(code, 0, f"{where}: $ {command}")
    elif block.language == "python":
        code, said = shell.python(block.body)
        check_equal(code, 0, f"{where}: {said}")
        _check_printed(said, _PRINTED.findall(block.body), where=where)
    else:
        raise AssertionError(f"{where}: a block that does not say what it is: {block.language!r}")


def _fresh(scratch: Path, python_path: str) -> Shell:
    shell = Shell(Path(tempfile.mkdtemp(dir=scratch)))
    if python_path:
        shell.environment["PYTHONPATH"] = python_path
    return shell


def _commands(body: str, *, where: str) -> Iterator[tuple[str, str]]:
    """Each command with what it is said to print."""
    command, expected = "", ""
    for line in body.split("\n")[:-1]:
        if line.startswith("$ "):
            if command:
                yield command, expected
            command, expected = line[2:], ""
        elif line.startswith("> ") and command and not expected:
            command += "\n" + line[2:]
        else:
            check(command, f"{where}: output without a command")
            expected += line + "\n"
    check(command, f"{where}: no command")
    yield command, expected


def _matches(said: str, expected: str) -> bool:
    pattern = re.escape(expected)
    pattern = re.sub(r"^…\\\n", r"(?:.*\\n)*", pattern, flags=re.MULTILINE)
    return re.fullmatch(pattern.replace("…", ".*"), said) is not None


def _check_printed(said: str, expected: list[str], *, where: str) -> None:
    if not expected:
        return
    lines = said.split("\n")[:-1]
    check_equal(len(lines), len(expected), f"{where}: lines printed, {lines}")
    for line, comment in zip(lines, expected, strict=True):
        says_so = comment == line or comment.startswith(line + ":")
        check(says_so, f"{where}: prints {line!r}, not {comment!r}")
