"""What the cases share: a store on a disk to damage, and what each refusal must be like (K1 to K8).

The store is that of ``tests.support.trees``: two sessions of three saves.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

from lastgood import Checkpoint, CheckpointStore, LastgoodError
from lastgood.storage.filesystem import FileSystem
from lastgood.storage.posix import PosixRoot
from tests.support import trees
from tests.support.check import check, check_equal
from tests.support.require import REPOSITORY, require_unshare

SESSION = "nightly"


def inside(place: Path) -> Path:
    """The directory of the session in the store at ``place``."""
    return place / trees.directory(SESSION)


def writer(place: Path, filesystem: FileSystem | None = None) -> CheckpointStore:
    """The session, opened for writing."""
    return CheckpointStore(PosixRoot(place, filesystem=filesystem), SESSION, keys=trees.KEYS)


def latest(place: Path) -> Checkpoint | None:
    """What a fresh reader loads."""
    with CheckpointStore(place, SESSION, keys=trees.KEYS, mode="read") as store:
        return store.load_latest()


def said_well(error: LastgoodError, naming: str = "") -> None:
    """K8: one error of three sentences, that names the file and the one command that goes on."""
    text = str(error)
    check(naming in text, f"{naming} is not named: {text}")
    named = "lastgood verify SESSION", "lastgood repair SESSION --"
    check(any(command in text for command in named), f"no next command: {text}")
    check(text.count("\n") == 0 and text.count(". ") >= 2, f"not three sentences: {text}")


def stops(place: Path, *, naming: str, exit_code: int = 2) -> trees.Outcome:
    """K1, K4, K6, K8: reader and writer refuse, say why, and leave every byte and mtime."""
    before = trees.picture(place)
    outcome = trees.read(place)
    if outcome.error is None:
        raise AssertionError(f"it loads: {outcome.says()}")
    check_equal(outcome.error.exit_code, exit_code, outcome.says())
    check_equal(outcome.reported, exit_code, outcome.says())
    said_well(outcome.error, naming)
    refused = refusal(lambda: writer(place).close())
    check_equal(str(refused), str(outcome.error), "the writer says the same")
    trees.check_untouched(place, before, "nothing was touched")
    return outcome


def contents(place: Path) -> dict[str, object]:
    """Every name in the store with its bytes; what a failed save may have done to mtimes is not."""
    found = trees.picture(place)
    return {name: held for name, held in found.items() if name.endswith(" holds")}


def refusal(call: Callable[[], object]) -> LastgoodError:
    """The typed error that ``call`` raises."""
    try:
        result = call()
    except LastgoodError as error:
        return error
    raise AssertionError(f"it returned {result!r}")


def temporaries(place: Path) -> list[str]:
    """Unpublished names anywhere in the store."""
    return [path.name for path in place.rglob(".*.tmp")]


_PRELUDE = """
import errno, os, subprocess, sys
from pathlib import Path
from lastgood import Checkpoint
from lastgood.errors import DurabilityUnknownError, StorageError
from tests.cases.harness import contents, inside, latest, refusal, temporaries, writer
from tests.support import trees
from tests.support.check import check, check_equal

place = Path(sys.argv[1])
"""


def in_a_process(script: str, place: Path, *, before: list[str] | None = None) -> None:
    """Run ``script`` in a process of its own; fail unless it comes to its end."""
    options = ["-O"] if sys.flags.optimize else []
    text = _PRELUDE + textwrap.dedent(script) + "\nprint('to the end')\n"
    ran = subprocess.run(
        [*(before or []), sys.executable, *options, "-c", text, str(place)],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    check_equal(ran.stdout, "to the end\n", f"exit {ran.returncode}, {ran.stderr}")


def in_mount_namespace(shell: str, script: str, place: Path) -> None:
    """The same after ``shell`` has mounted something, in a name space that goes with it."""
    command = [require_unshare(), "--mount", "sh", "-ec", f'{shell}\nexec "$@"', "sh"]
    in_a_process(script, place, before=command)
