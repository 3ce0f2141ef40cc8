"""A plan: the steps of a runbook, as its author wrote them in a TOML file.

::

    name = "move the shop"          # the session's id, unless another is given
    version = "2026-12"             # optional, for people

    [[step]]
    id = "copy"
    run = ["rsync", "-a", "old/", "new/"]   # a program and its arguments, never a shell
    effect = "idempotent"

===============  ===============================================================================
key of a step    meaning; default
===============  ===============================================================================
id               its name, 1 to 200 characters; the identity of what it does
run              the program, found on PATH, and its arguments
cwd              where it runs, relative to the plan's directory; that directory
env              variables beside those of the caller; their values are never stored
inputs           patterns of files, relative to the plan's directory: ``*``, ``?``, ``[…]``, ``**``
needs            ids of steps that are done before it
effect           what is done if nobody knows whether it was done: idempotent, probe; manual
probe            a program that tells: it exits with 0, it was done
not_done_exit    its exit codes that say that it definitely was not done; ``[20]``
timeout_s        seconds after which it is stopped; none
output           whether the end of what it prints is kept; true
===============  ===============================================================================

Whatever else stands in it, or has another type, is refused with the path of the value.
"""

from __future__ import annotations

import heapq
import os
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from lastgood.errors import InvalidIdError, PlanError, StorageError, printable
from lastgood.formats import names
from lastgood.formats.canonical import JSON
from lastgood.formats.effect import CLASSES, EffectClass
from lastgood.storage.filesystem import OsFileSystem

MAX_PLAN_BYTES: Final = 1 << 20
MAX_STEPS: Final = 10_000
MAX_ID_CHARS: Final = 200
LONGEST_S: Final = 10.0**9
GIVEN: Final = ("LASTGOOD_STEP", "LASTGOOD_IDEMPOTENCY_KEY")
"""Variables that each step is given, and no plan may set."""

_MAX_EXIT: Final = 255
_TOP: Final = ("name", "version", "step")
_KINDS: Final = {
    bool: "a truth value", int: "an integer", float: "a float", str: "a text", list: "an array",
    dict: "a table",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step; fields as in the table."""

    id: str
    run: tuple[str, ...]
    cwd: str = "."
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    inputs: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    effect: EffectClass = "manual"
    probe: tuple[str, ...] = ()
    not_done_exit: tuple[int, ...] = (20,)
    timeout_s: float | None = None
    output: bool = True

    def document(self, seal: Callable[[str, str], str]) -> dict[str, JSON]:
        """What is stored of it; ``seal`` gives the keyed digest of a variable's name and value."""
        return {
            "id": self.id,
            "run": list(self.run),
            "cwd": self.cwd,
            "env": {name: seal(name, value) for name, value in sorted(self.env.items())},
            "inputs": list(self.inputs),
            "needs": list(self.needs),
            "effect": self.effect,
            "probe": list(self.probe),
            "not_done_exit": list(self.not_done_exit),
            "timeout_s": self.timeout_s,
            "output": self.output,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A plan that can be carried out.

    Attributes:
        name: What it is called.
        version: Which one, for people.
        steps: In the order of the file.
        folder: The directory that it lies in.
    """

    name: str
    version: str | None
    steps: tuple[Step, ...]
    folder: str = "."

    def order(self) -> tuple[Step, ...]:
        """The steps as they are carried out: in the order of the file, each behind its needs."""
        at = {step.id: number for number, step in enumerate(self.steps)}
        waiting = [len(step.needs) for step in self.steps]
        behind: list[list[int]] = [[] for _ in self.steps]
        for number, step in enumerate(self.steps):
            for need in step.needs:
                behind[at[need]].append(number)
        ready = [number for number, count in enumerate(waiting) if not count]
        ordered: list[Step] = []
        while ready:
            number = heapq.heappop(ready)
            ordered.append(self.steps[number])
            for later in behind[number]:
                waiting[later] -= 1
                if not waiting[later]:
                    heapq.heappush(ready, later)
        return tuple(ordered)


@dataclass(frozen=True, slots=True)
class Change:
    """One difference between two plans.

    Attributes:
        step: Its step; None: it is about the plan itself.
        what: What became of that.
        keys: Which of its keys, of a change.
    """

    step: str | None
    what: Literal["added", "removed", "changed"]
    keys: tuple[str, ...] = ()


def read(path: str) -> Plan:
    """The plan in a file.

    Raises:
        PlanError: It is none; has the path of the value.
        StorageError: The file cannot be read.
    """
    filesystem = OsFileSystem()
    data = b""
    try:
        fd = filesystem.open(filesystem.realpath(path), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            while len(data) <= MAX_PLAN_BYTES and (more := filesystem.read(fd, MAX_PLAN_BYTES)):
                data += more
        finally:
            filesystem.close(fd)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise PlanError(f"There is no plan {printable(path)}") from None
    except OSError as error:
        raise StorageError(f"Reading the plan {printable(path)}", errno=error.errno or 0) from error
    return parse(data, name=path, folder=os.path.dirname(filesystem.realpath(path)))


def parse(data: bytes, *, name: str = "plan", folder: str = ".") -> Plan:
    """The plan that ``data`` holds.

    Args:
        data: TOML.
        name: What it is called in messages.
        folder: The directory that it lies in.

    Raises:
        PlanError: It is none; has the path of the value.
    """
    try:
        if len(data) > MAX_PLAN_BYTES:
            raise PlanError(f"it is larger than {MAX_PLAN_BYTES} bytes")
        try:
            found = tomllib.loads(data.decode())
        except UnicodeDecodeError as error:
            raise PlanError(f"byte {error.start} is not UTF-8") from None
        except RecursionError:
            raise PlanError("it is nested too deep") from None
        except ValueError as error:  # TOMLDecodeError, and integers of thousands of digits
            raise PlanError(f"it is no TOML: {printable(error)}") from None
        return _plan(found, folder=folder)
    except PlanError as error:
        error.happened = f"{printable(name)}: {error.happened}"
        raise


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Change, ...]:
    """What ``new`` changes of ``old``, both as ``Step.document`` and the plan's event have them."""
    top = tuple(key for key in ("name", "version") if old[key] != new[key])
    before = {step["id"]: step for step in old["steps"]}
    after = {step["id"]: step for step in new["steps"]}
    common = [step for step in before if step in after]
    if common != [step for step in after if step in before]:
        top += ("order",)
    changes = [Change(None, "changed", top)] if top else []
    changes += [Change(step, "removed") for step in before if step not in after]
    changes += [Change(step, "added") for step in after if step not in before]
    for step in common:
        keys = tuple(key for key, value in after[step].items() if before[step].get(key) != value)
        changes += [Change(step, "changed", keys)] if keys else []
    return tuple(changes)


# --- reading it strictly -----------------------------------------------------------------------


def _plan(found: dict[str, Any], *, folder: str) -> Plan:
    _known(found, _TOP, "")
    name = _text(_needed(found, "name", ""), "name")
    try:
        names.session_id(name)
    except InvalidIdError as error:
        raise PlanError(f"it cannot be a session's id: {error.happened}", path="name") from None
    version = _text(found["version"], "version") if "version" in found else None
    steps = _typed(_needed(found, "step", ""), list, "step")
    if not 0 < len(steps) <= MAX_STEPS:
        raise PlanError(f"a plan has 1 to {MAX_STEPS} steps", path="step")
    plan = Plan(
        name=name,
        version=version,
        steps=tuple(_step(one, f"step[{at}]") for at, one in enumerate(steps)),
        folder=folder,
    )
    _check_needs(plan)
    return plan


def _check_needs(plan: Plan) -> None:
    """Refuse ids that stand twice, needs that nobody is, and needs that go round."""
    at: dict[str, int] = {}
    for number, step in enumerate(plan.steps):
        if step.id in at:
            told = f"{_shown(step.id)} is the id of step[{at[step.id]}] already"
            raise PlanError(told, path=f"step[{number}].id")
        at[step.id] = number
    for number, step in enumerate(plan.steps):
        for which, need in enumerate(step.needs):
            path = f"step[{number}].needs[{which}]"
            if need not in at:
                raise PlanError(f"there is no step {_shown(need)}", path=path)
            if need in step.needs[:which]:
                raise PlanError(f"{_shown(need)} stands there twice", path=path)
    ordered = {step.id for step in plan.order()}
    if len(ordered) < len(plan.steps):
        cycle = _cycle({step.id: step for step in plan.steps if step.id not in ordered})
        told = " needs ".join(map(_shown, (*cycle, cycle[0])))
        raise PlanError(f"it goes round: {told}", path=f"step[{at[cycle[0]]}].needs")


def _cycle(left: Mapping[str, Step]) -> list[str]:
    """A cycle among steps each of which needs another one of them."""
    way: dict[str, int] = {}
    step = next(iter(left))
    while step not in way:
        way[step] = len(way)
        step = next(need for need in left[step].needs if need in left)
    return list(way)[way[step] :]


def _step(found: object, path: str) -> Step:
    table = _typed(found, dict, path)
    _known(table, tuple(Step.__dataclass_fields__), f"{path}.")
    given: dict[str, Any] = dict(_fields(table, f"{path}."))
    step = Step(**given)
    if (step.effect == "probe") is not bool(step.probe):
        told = 'a probe stands beside effect = "probe", and only there'
        raise PlanError(told, path=f"{path}.probe" if step.probe else f"{path}.effect")
    if "not_done_exit" in given and not step.probe:
        raise PlanError("it is the answer of a probe", path=f"{path}.not_done_exit")
    return step


def _fields(table: Mapping[str, Any], path: str) -> Iterator[tuple[str, object]]:
    """Each key that is given, checked."""
    readers: dict[str, Callable[[object, str], object]] = {
        "id": _text, "run": _argv, "cwd": _word, "env": _env, "inputs": _words, "needs": _texts,
        "effect": _effect, "probe": _argv, "not_done_exit": _exits, "timeout_s": _seconds,
        "output": lambda value, at: _typed(value, bool, at),
    }  # fmt: skip
    for key in ("id", "run"):
        _needed(table, key, path)
    for key, value in table.items():
        yield key, readers[key](value, path + key)


def _known(table: Mapping[str, Any], known: Sequence[str], path: str) -> None:
    for key in table:
        if key not in known:
            told = f"there is no such key; known are {', '.join(known)}"
            raise PlanError(told, path=path + printable(key, limit_chars=60))


def _needed(table: Mapping[str, Any], key: str, path: str) -> object:
    if key not in table:
        raise PlanError("it is missing", path=path + key)
    return table[key]


def _typed(value: object, kind: type, path: str) -> Any:
    if type(value) is not kind:
        found = _KINDS.get(type(value), "a date or a time")
        raise PlanError(f"{_KINDS[kind]} is wanted, not {found}", path=path)
    return value


def _text(value: object, path: str) -> str:
    """A text that can be shown to people and stored."""
    text: str = _typed(value, str, path)
    if not 0 < len(text) <= MAX_ID_CHARS or not names.is_text(text):
        told = f"it is a text of 1 to {MAX_ID_CHARS} characters, none of them control"
        raise PlanError(told, path=path)
    return text


def _word(value: object, path: str) -> str:
    """A text that can be given to the operating system."""
    word: str = _typed(value, str, path)
    if not word or "\0" in word:
        raise PlanError("it is empty, or holds a NUL character", path=path)
    return word


def _texts(value: object, path: str) -> tuple[str, ...]:
    return tuple(_text(one, f"{path}[{at}]") for at, one in enumerate(_typed(value, list, path)))


def _words(value: object, path: str) -> tuple[str, ...]:
    return tuple(_word(one, f"{path}[{at}]") for at, one in enumerate(_typed(value, list, path)))


def _argv(value: object, path: str) -> tuple[str, ...]:
    """A program and its arguments; an argument may be empty, a program may not."""
    found = _typed(value, list, path)
    if not found:
        raise PlanError("it is a list of words, the program first", path=path)
    program = _word(found[0], f"{path}[0]")
    rest = [_typed(one, str, f"{path}[{at}]") for at, one in enumerate(found)][1:]
    for at, word in enumerate(rest, start=1):
        if "\0" in word:
            raise PlanError("it holds a NUL character", path=f"{path}[{at}]")
    return (program, *rest)


def _env(value: object, path: str) -> dict[str, str]:
    table: dict[str, object] = _typed(value, dict, path)
    for name, given in table.items():
        at = f"{path}.{printable(name, limit_chars=60)}"
        if "\0" in _typed(given, str, at) or "\0" in name or "=" in name or not name:
            raise PlanError("it is no variable: an empty name, = in it, or a NUL", path=at)
        if name in GIVEN:
            raise PlanError("this variable is given to each step", path=at)
    return {name: str(given) for name, given in table.items()}


def _effect(value: object, path: str) -> EffectClass:
    for known in CLASSES:
        if value == known:
            return known
    _typed(value, str, path)
    raise PlanError(f"it is one of {', '.join(CLASSES)}", path=path)


def _exits(value: object, path: str) -> tuple[int, ...]:
    found = _typed(value, list, path)
    for at, code in enumerate(found):
        if not 0 < _typed(code, int, f"{path}[{at}]") <= _MAX_EXIT:
            raise PlanError(f"it is from 1 to {_MAX_EXIT}", path=f"{path}[{at}]")
    return tuple(_typed(code, int, path) for code in found)


def _seconds(value: object, path: str) -> float:
    seconds = value if type(value) is int else _typed(value, float, path)
    if not 0 < seconds <= LONGEST_S:  # neither is NaN, nor an infinity
        raise PlanError("it is a number of seconds, above 0", path=path)
    return float(seconds)


def _shown(text: str) -> str:
    return printable(text, limit_chars=60)
