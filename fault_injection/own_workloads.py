"""Somebody's own workloads, from a module of theirs; what is wrong there in one line."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from fault_injection.failure import one_line
from fault_injection.state_id import is_part
from fault_injection.words import UsageError
from fault_injection.workload import Workload

_VALUES: Final = ("name", "unread")
_METHODS: Final = ("prepare", "run", "go_on", "judge")


def taken_from(place: str) -> tuple[Workload, ...]:
    """The workloads at ``MODULE:NAME``: one, or several in a tuple or list.

    The module is looked for in the current directory first.

    Raises:
        UsageError: There are none, or one is no workload; the message says what to mend.
    """
    module, _, name = place.partition(":")
    if not module or not name:
        raise UsageError(f"--from takes MODULE:NAME, as mine:JOB for JOB in mine.py, not {place!r}")
    found = _named(_imported(module), name)
    workloads = _several(found)
    for at, one in enumerate(workloads):
        why = lack(one)
        if why:
            where = place if one is found else f"{place}[{at}]"
            raise UsageError(f"{where} is no workload: {why}")
    names = [one.name for one in workloads]
    if not names:
        raise UsageError(f"{place} holds no workload")
    for at, one in enumerate(names):
        if one in names[:at]:
            raise UsageError(f"{place} holds two workloads of the name {one!r}")
    return workloads


def lack(found: Any) -> str:
    """What an object lacks to be a workload; empty: nothing."""
    if isinstance(found, type):
        return f"it is the class {found.__name__}; name an object of it, JOB = {found.__name__}()"
    missing = [value for value in _VALUES if not hasattr(found, value)]
    missing += [method for method in _METHODS if not callable(getattr(found, method, None))]
    if missing:
        return f"{type(found).__name__} lacks {', '.join(missing)}"
    if not isinstance(found.name, str) or not is_part(found.name):
        return f"its name is letters, digits, and -_+@, not {found.name!r}"
    return ""


def _several(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, tuple | list) else (found,)


def _imported(module: str) -> ModuleType:
    if module.endswith(".py") or "/" in module:
        better = module.removesuffix(".py").strip("./").replace("/", ".")
        raise UsageError(
            f"--from takes the name of a module, not of a file: {better}, not {module}"
        )
    sys.path.insert(0, os.getcwd())  # as `python -m` does; a console script does not
    try:
        return importlib.import_module(module)
    except SyntaxError as error:
        place = f"{Path(error.filename or module).name}:{error.lineno}"
        raise UsageError(f"{place} is not Python: {error.msg}") from error
    except ModuleNotFoundError as error:
        if error.name and f"{module}.".startswith(f"{error.name}."):
            where = "it is neither in the current directory nor installed"
            raise UsageError(f"there is no module {error.name}: {where}") from error
        raise UsageError(_raised(module, error)) from error
    except (Exception, SystemExit) as error:
        raise UsageError(_raised(module, error)) from error


def _raised(module: str, error: BaseException) -> str:
    """Where their own code raised."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if "importlib" not in frame.filename]
    where = f"{Path(theirs[-1].filename).name}:{theirs[-1].lineno}"
    return f"{module} cannot be imported: {where}: {one_line(error)}"


def _named(module: ModuleType, name: str) -> Any:
    try:
        return getattr(module, name)
    except AttributeError as error:
        there = [
            one
            for one, held in vars(module).items()
            if _several(held) and not any(map(lack, _several(held)))
        ]
        hint = f"it has {', '.join(there)}" if there else "nor any workload"
        raise UsageError(f"{module.__name__} has no {name}; {hint}") from error
