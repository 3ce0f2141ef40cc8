"""``make demo``: it shows what it says, and leaves nothing elsewhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.support.check import check, check_equal
from tests.support.trees import picture

TOP = Path(__file__).resolve().parents[2]


def demo(top: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [TOP / "scripts" / "demo.sh", *words],
        env={"PATH": os.environ["PATH"], "TMPDIR": str(top)},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.crash
def test_demo_succeeds_and_its_last_lines_can_be_pasted(tmp_path: Path) -> None:
    """The demo exits 0, kills its job, and ends with commands that work as they are printed.

    Method: run it in a directory whose name needs quoting; paste its last lines into a shell.
    """
    top = tmp_path / "it's here"
    top.mkdir(mode=0o700)
    ran = demo(top)
    check_equal(ran.returncode, 0, f"exit code: {ran.stdout[-2000:]} {ran.stderr}")
    killed = re.search(r"^(\d+) kills\. Every payment", ran.stdout, re.MULTILINE)
    check(killed and int(killed[1]) > 0, "nothing was killed")
    (made,) = top.iterdir()
    check_equal(made.stat().st_mode & 0o777, 0o700, "mode of its directory")
    check_equal(
        {path.name for path in made.iterdir()}, {"state", "keys.json", "damaged", "job"}, "files"
    )
    pasted = dict(re.findall(r"^(Load|Verify|Remove) it: +(.*)$", ran.stdout, re.MULTILINE))
    for name in ("Load", "Verify", "Remove"):
        done = subprocess.run(["/bin/sh", "-c", pasted[name]], capture_output=True, check=False)
        check_equal(done.returncode, 0, f"{pasted[name]}: {done.stderr!r}")
    check_equal(list(top.iterdir()), [], "what is left")
    check(shlex.split(pasted["Verify"])[-2:] == ["verify", "invoices"], pasted["Verify"])


def test_demo_refuses_a_directory_that_exists(tmp_path: Path) -> None:
    """Nothing of anybody else's is touched: a directory that exists is refused, unchanged."""
    (tmp_path / "mine").mkdir()
    before = picture(tmp_path)
    check(demo(tmp_path, str(tmp_path / "mine")).returncode != 0, "it was taken")
    check_equal(picture(tmp_path), before, "the tree")


def test_demo_without_an_installation_says_what_to_do(tmp_path: Path) -> None:
    """A clone that was not set up is told to run ``make demo``. Method: a copy of the script."""
    (tmp_path / "scripts").mkdir()
    copy = tmp_path / "scripts" / "demo.sh"
    copy.write_bytes((TOP / "scripts" / "demo.sh").read_bytes())
    copy.chmod(0o755)
    ran = subprocess.run([copy], capture_output=True, text=True, check=False)
    check_equal(ran.returncode, 1, "exit code")
    check("make demo" in ran.stderr, ran.stderr)
