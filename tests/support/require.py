"""What a test may require of the machine, one function each.

Where it is missing the test is skipped with a reason and a remedy, both listed at the end of the
run. With ``LASTGOOD_REQUIRE_ALL=1`` it fails instead, so that a run that must cover everything
cannot pass by leaving something out.
"""

from __future__ import annotations

import functools
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def require_all() -> bool:
    """Whether this run must cover everything (``LASTGOOD_REQUIRE_ALL=1``)."""
    return os.environ.get("LASTGOOD_REQUIRE_ALL") == "1"


def missing(what: str, *, remedy: str) -> NoReturn:
    """Skip this test because ``what`` is not there, or fail it if the run must cover everything."""
    reason = f"{what}; remedy: {remedy}"
    if require_all():
        pytest.fail(f"LASTGOOD_REQUIRE_ALL=1, but {reason}", pytrace=False)
    pytest.skip(reason)


def require_root() -> None:
    """Require user id 0."""
    if os.geteuid() != 0:
        missing("not root", remedy="run the tests as root, for instance in a container")


def require_unprivileged_user() -> pwd.struct_passwd:
    """Require root and the user ``nobody`` to become, for what root may always do.

    Returns:
        The entry of the user; pass its ids to ``subprocess.run(user=…, group=…)``.
    """
    require_root()
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        missing("there is no user nobody", remedy="useradd --system nobody")


def require_command(name: str, *, remedy: str) -> str:
    """Require a command on PATH and return its path."""
    path = shutil.which(name)
    if path is None:
        missing(f"{name} is not installed", remedy=remedy)
    return path


def require_strace() -> str:
    """Require an strace that may trace its own child; returns its path."""
    path = require_command("strace", remedy="apt-get install strace")
    refusal = _refusal(path, "-o", os.devnull)
    if refusal is not None:
        missing(
            f"strace cannot trace here ({refusal})", remedy="allow ptrace (capability SYS_PTRACE)"
        )
    return path


def require_ptrace() -> None:
    """Require that this process may trace its own children."""
    from fault_injection.tracing.tracer import PtraceDriver

    refusal = PtraceDriver().refusal()
    if refusal is not None:
        missing(refusal, remedy="on Linux on x86_64, allow ptrace (capability SYS_PTRACE)")


def require_unshare() -> str:
    """Require an unshare that may make mount and network name spaces; returns its path."""
    path = require_command("unshare", remedy="apt-get install util-linux")
    refusal = _refusal(path, "--mount", "--net")
    if refusal is not None:
        missing(f"unshare is not allowed here ({refusal})", remedy="run as root with CAP_SYS_ADMIN")
    return path


def require_setpriv() -> str:
    """Require setpriv and return its path."""
    return require_command("setpriv", remedy="apt-get install util-linux")


def require_corpora(name: str) -> Path:
    """Require a folder of the public test data and return its path.

    Args:
        name: Folder, for instance ``"wycheproof"``. Looked for in ``$LASTGOOD_CORPORA``, else in
            ``shared/corpora`` beside the clone.
    """
    given = os.environ.get("LASTGOOD_CORPORA")
    top = Path(given) if given else REPOSITORY.parent / "shared" / "corpora"
    folder = top / name
    if not folder.is_dir():
        missing(
            f"the test data {name} is not in {top}",
            remedy="put it there or set LASTGOOD_CORPORA to the folder that holds it",
        )
    return folder


def require_cases() -> Path:
    """Require the list of public failure cases and return its path.

    Looked for in ``$LASTGOOD_CASES``, else in ``shared/cases`` beside the clone.
    """
    given = os.environ.get("LASTGOOD_CASES")
    path = Path(given) if given else REPOSITORY.parent / "shared" / "cases" / "cases.md"
    if not path.is_file():
        missing(
            f"the list of cases {path.name} is not in {path.parent}",
            remedy="put it there or set LASTGOOD_CASES to its path",
        )
    return path


def require_mistakes() -> Path:
    """Require the page that lists the mistakes which crash testing must find; returns its path.

    Looked for in ``$LASTGOOD_DESIGN``, else in ``shared/design`` beside the clone.
    """
    given = os.environ.get("LASTGOOD_DESIGN")
    top = Path(given) if given else REPOSITORY.parent / "shared" / "design"
    path = top / "crash-testing.md"
    if not path.is_file():
        missing(
            f"the list of mistakes {path.name} is not in {path.parent}",
            remedy="put it there or set LASTGOOD_DESIGN to the folder that holds it",
        )
    return path


@functools.cache
def _refusal(*command: str) -> str | None:
    """Why ``command`` in front of a harmless program does not work, or None if it does."""
    ran = subprocess.run(
        [*command, sys.executable, "-c", ""],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    if ran.returncode == 0:
        return None
    return (ran.stderr.strip().split("\n")[-1]) or f"exit {ran.returncode}"
