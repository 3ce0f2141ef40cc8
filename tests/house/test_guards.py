"""The linter's bans and the import contracts are alive: planted breaches are found."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.check import check

TOP = Path(__file__).resolve().parents[2]


def lint(source: str, *, name: str) -> str:
    """Lint ``source`` as if it were the file ``name`` of the product; return the findings."""
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--output-format=concise",
            "--stdin-filename",
            name,
        ],
        cwd=TOP,
        input=source,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout


@pytest.mark.parametrize(
    ("source", "rule"),
    [
        ("import os\n\nos.rename('a', 'b')\n", "TID251"),
        ("from os import fsync\n\nfsync(3)\n", "TID251"),
        ("import os\n\nos.path.exists('a')\n", "TID251"),
        ("from pathlib import Path\n\nPath('a')\n", "TID251"),
        ("import time\n\ntime.time()\n", "TID251"),
        ("from datetime import UTC, datetime\n\ndatetime.now(UTC)\n", "TID251"),
        ("import secrets\n\nsecrets.token_bytes(32)\n", "TID251"),
        ("import os\n\nos.urandom(32)\n", "TID251"),
        ("import pickle\n\npickle.loads(b'')\n", "TID251"),
        ("eval('1')\n", "S307"),
        ("exec('1')\n", "S102"),
        ("assert 1 == 2\n", "S101"),
        ("try:\n    x = 1\nexcept Exception:\n    x = 2\n", "BLE001"),
        ("x = 1  # TODO later\n", "FIX002"),
    ],
)
def test_banned_call_in_the_product_is_found(source: str, rule: str) -> None:
    """Files, clock and randomness have one seam each, and nothing revives code.

    Method: lint a planted source under the project's own configuration.
    """
    found = lint(source, name="src/lastgood/store.py")
    check(f" {rule} " in found, f"{rule} did not find {source!r}:\n{found}")


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("src/lastgood/storage/filesystem.py", "import os\n\nos.rename('a', 'b')\n"),
        ("src/lastgood/clock.py", "import time\n\ntime.time()\n"),
        ("src/lastgood/entropy.py", "import os\n\nos.urandom(32)\n"),
    ],
)
def test_seam_may_call_what_it_wraps(name: str, source: str) -> None:
    """The bans name the seams they leave open. Method: the same lint under the seam's name."""
    check("TID251" not in lint(source, name=name), f"{name} is not open")


@pytest.mark.parametrize(
    ("module", "planted", "contract"),
    [
        ("formats/planted.py", "from lastgood import storage", "Floors"),
        ("formats/planted.py", "import os", "Formats and rules"),
        ("rules/planted.py", "import time", "Formats and rules"),
        ("storage/memory.py", "from lastgood.storage import posix", "Storage"),
        ("errors.py", "import tests.support", "The product"),
        ("errors.py", "import fault_injection.memory.disk", "The product"),
        ("../../fault_injection/memory/disk.py", "from fault_injection import runner", "Harness"),
        ("survey.py", "import rich", "Only the command line"),
        ("unheard_of.py", "", "Floors"),
    ],
)
def test_import_against_a_floor_is_found(
    tmp_path: Path, module: str, planted: str, contract: str
) -> None:
    """Imports go downward only, and formats and rules never see the machine.

    Method: plant one import in a copy of the source and run the contracts on it.
    """
    for name in ("src", "fault_injection"):
        shutil.copytree(TOP / name, tmp_path / name)
    shutil.copy(TOP / "pyproject.toml", tmp_path)
    target = tmp_path / "src" / "lastgood" / module
    with target.open("a", encoding="utf-8") as file:
        file.write(f"\n{planted}\n")
    program = "import importlinter.cli as c; raise SystemExit(c.lint_imports(no_cache=True))"
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    broken = re.search(rf"^{contract}.* BROKEN", ran.stdout, re.MULTILINE)
    check(broken and ran.returncode == 1, ran.stdout + ran.stderr)
