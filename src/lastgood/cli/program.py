"""``MODULE:OBJECT``: a program's side of a session, imported because a person named it.

What a session stores is data; what its events mean is code, and code never comes from a store.
So a verb that needs a reducer is told where it is. Importing runs code, therefore:

* Which module comes from which file is said before it is run, for each package on the way too.
* Nothing is imported from inside the store, nor while the search path leads there (T1).
* What the program prints goes to standard error: standard output is the answer's.
* Whatever it raises, also ``SystemExit``, is one error without a traceback.

``OBJECT`` is a mapping of the keyword arguments of ``Store.session``::

    PROGRAM = {"reducer": apply, "initial": {"paid": []}, "schema_version": 2, "migrations": {1: f}}
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Final

from lastgood.cli.output import say
from lastgood.errors import ConfigurationError, StorageError, UsageError, printable
from lastgood.storage.filesystem import FileSystem, OsFileSystem
from lastgood.store import Store

_FORM_DO: Final = "Write it as MODULE:OBJECT, as in app.jobs:PROGRAM"
_ONLY_WRITING: Final = ("policy", "retention", "on_resume", "verify")
_NOT_ARGUMENTS: Final = ("self", "session")


def load_program(spec: str, *, store: str = "") -> dict[str, Any]:
    """The keyword arguments of ``Store.session`` that ``spec`` names.

    Args:
        spec: ``MODULE:OBJECT``; the current directory can be imported from, as with
            ``python -m``.
        store: Where the store lies, from which nothing is imported; empty: none is known.

    Raises:
        UsageError: ``spec`` names nothing, or not such a mapping.
        ConfigurationError: The import failed, or would take code from the store.
    """
    module_name, _, object_name = spec.partition(":")
    parts = module_name.split(".")
    if not all(part.isidentifier() for part in (*parts, *object_name.split("."))):
        raise UsageError(f"{printable(spec)} names no object of a module", do=_FORM_DO)
    _find_here()
    for entry in sys.path:
        _refuse_inside(entry or os.curdir, store, what="The search path for modules")
    for count in range(1, len(parts) + 1):
        module = _import(".".join(parts[:count]), store=store)
    found: Any = module
    for name in object_name.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            raise UsageError(
                f"Module {printable(module_name)} has no {printable(object_name)}", do=_FORM_DO
            ) from None
    return _arguments(found, spec=spec)


def rehearsed(program: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of ``Store.rehearse`` in those of ``Store.session``."""
    return {name: value for name, value in program.items() if name not in _ONLY_WRITING}


@contextlib.contextmanager
def running_program() -> Iterator[None]:
    """Run code of a program: what it prints is no answer, and it does not end the command.

    Raises:
        ConfigurationError: It tried to leave.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except SystemExit as error:
        raise ConfigurationError(
            "The program left with SystemExit instead of returning",
            safe="What was acknowledged before is durable",
            do="Take the exit out of the program and run the command again",
        ) from error


def _find_here() -> None:
    """Let modules be found in the current directory first, unless Python was told not to."""
    here = os.getcwd()
    if not sys.flags.safe_path and here not in sys.path:
        sys.path.insert(0, here)


def _import(name: str, *, store: str) -> ModuleType:
    """Say where module ``name`` comes from, then import it."""
    with _failing_as(name):
        spec = importlib.util.find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"No module named '{name}'")
    places = _places(spec)
    for place in places:
        _refuse_inside(place, store, what=f"Module {printable(name)}")
    said = ", ".join(map(printable, places)) or "the interpreter itself"
    say(f"Importing {printable(name)} from {said}")
    with _failing_as(name):
        return importlib.import_module(name)


@contextlib.contextmanager
def _failing_as(name: str) -> Iterator[None]:
    """Let whatever an import raises be one error; what it prints goes to standard error."""
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as error:
        where = _line_of(error)
        at = f" at {where}" if where else ""
        raise ConfigurationError(
            f"Importing {printable(name)} failed{at} with {type(error).__name__}: "
            f"{printable(error)}",
            do="Run the command where that module can be imported, or mend it",
        ) from error


def _places(spec: ModuleSpec) -> list[str]:
    """The file of a module, or the directories of a package without one."""
    if spec.has_location and spec.origin:
        return [spec.origin]
    return list(spec.submodule_search_locations or ())


def _line_of(error: BaseException) -> str:
    """File and line in the program where ``error`` was raised; empty if it was not there."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{printable(error.filename)} line {error.lineno}"
    where, trace = "", error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file != __file__ and not file.startswith("<frozen ") and "importlib" not in file:
            where = f"{printable(file)} line {trace.tb_lineno}"
        trace = trace.tb_next
    return where


def _refuse_inside(path: str, store: str, *, what: str) -> None:
    """Return only if neither ``path`` nor a directory above it is the store, by whatever name."""
    if store and _is_inside(path, store, filesystem=OsFileSystem()):
        raise ConfigurationError(
            f"{what} leads into the store, to {printable(path)}: code is never taken from there",
            do="Keep the program outside of the store, and run the command from there",
        )


def _is_inside(path: str, store: str, *, filesystem: FileSystem) -> bool:
    try:
        root = _identity(store, filesystem=filesystem)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR):
            return False  # what does not exist holds no code
        raise StorageError(f"Looking at {printable(store)}", errno=error.errno or 0) from error
    above, step = "", filesystem.realpath(path)
    while step != above:
        # What cannot be looked at, such as a member of an archive, is not the root, which can.
        with contextlib.suppress(OSError):
            if _identity(step, filesystem=filesystem) == root:
                return True
        above, step = step, os.path.dirname(step)
    return False


def _identity(path: str, *, filesystem: FileSystem) -> tuple[int, int]:
    """Device and inode."""
    status = filesystem.stat(filesystem.realpath(path))
    return status.st_dev, status.st_ino


def _arguments(found: object, *, spec: str) -> dict[str, Any]:
    """``found``, if it holds what ``Store.session`` takes beside the session's id."""
    shown = printable(spec)
    if not isinstance(found, Mapping):
        raise UsageError(
            f"{shown} is a {type(found).__name__}, not a mapping of arguments",
            do='Make it one, such as {"reducer": apply, "initial": {}}',
        )
    parameters = inspect.signature(Store.session).parameters
    known = {name: p for name, p in parameters.items() if name not in _NOT_ARGUMENTS}
    unknown = sorted(printable(key) for key in found if key not in known)
    needed = [n for n, p in known.items() if p.default is p.empty and n not in found]
    if unknown or needed:
        wrong = [f"holds unknown {', '.join(unknown)}"] if unknown else []
        wrong += [f"lacks {', '.join(needed)}"] if needed else []
        raise UsageError(f"{shown} {' and '.join(wrong)}", do=f"It may hold {', '.join(known)}")
    return dict(found)
