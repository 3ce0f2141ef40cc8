"""The ways in which a passage comes about before power is lost, and their names.

``weak``               the job runs, and power is lost under that persistence model
``nested-weak@81+3f…``   power was lost after 81 calls and left the disk ``3f…``; its recovery is
                       struck (F10)
``killed-weak@57``     the job was killed after 57 calls, another process went on (F11);
                       ``57+half``: the next call was a write and did half of it
``failed-weak@31``     call 31 failed with EIO, once; the job, or a fresh process, went on (F12)
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, replace
from typing import Final, Literal

from fault_injection.judgement import violation_of
from fault_injection.limit import Overdue
from fault_injection.memory.calls import WRITES, Call, Fail, Injection
from fault_injection.memory.disk import Tree
from fault_injection.memory.operations import Write
from fault_injection.power import passage, rules
from fault_injection.power.loss import Power
from fault_injection.power.passage import Passage
from fault_injection.power.rules import Model
from fault_injection.recording import Recording, prepared, record_on
from fault_injection.state_id import BadStateIdError
from fault_injection.workload import Workload
from fault_injection.world import Told

Kind = Literal["plain", "nested", "killed", "failed"]
_FAILING: Final = ("fsync", "fdatasync", "writev", "pwrite", "link", "rename", "unlink", "close")
_HALF: Final = "+half"


@dataclass(frozen=True, slots=True)
class Variant:
    """How a passage comes about.

    Attributes:
        kind: What strikes before power is lost.
        model: The persistence model.
        at: Where it strikes; empty: nowhere, or at all places.
    """

    kind: Kind
    model: Model
    at: str = ""

    def __str__(self) -> str:
        """The name that ``parse`` reads."""
        name = self.model.name if self.kind == "plain" else f"{self.kind}-{self.model.name}"
        return f"{name}@{self.at}" if self.at else name

    @classmethod
    def parse(cls, text: str) -> Variant:
        """Read a name.

        Raises:
            BadStateIdError: It is none.
        """
        name, _, at = text.partition("@")
        found = cls.of_tally(name)
        if (found.kind == "plain") != (not at):
            raise BadStateIdError(f"{text!r} does not say where it strikes, or says too much")
        return replace(found, at=at)

    @classmethod
    def of_tally(cls, text: str) -> Variant:
        """Read the name of a tally, which strikes at many places.

        Raises:
            BadStateIdError: It is none.
        """
        word, _, rest = text.partition("-")
        model = rules.find(rest or word)
        kinds: tuple[Kind, ...] = ("nested", "killed", "failed") if rest else ("plain",)
        for kind in kinds:
            if model is not None and kind in ("plain", word):
                return cls(kind, model)
        raise BadStateIdError(f"{text!r} is no way to lose power")


class Passages:
    """What passages one workload has.

    Args:
        workload: The job.
    """

    def __init__(self, workload: Workload) -> None:
        self.workload: Final = workload
        self._base, self._told = prepared(workload)
        self._recording: Recording | None = None

    @property
    def recording(self) -> Recording:
        """The job without a fault."""
        if self._recording is None:
            self._recording = record_on(self._base, self._told, self.workload.run, seed="run")
        return self._recording

    def plain(self) -> Passage:
        """The job, from its beginning to its end."""
        return passage.of(self.recording)

    def nested(self, tree: Tree, told: Told) -> Passage:
        """A recovery of ``tree``, and what is done after it.

        Raises:
            Violation: Who recovered and went on did not come to an end, or found one.
        """
        try:
            made = record_on(tree, told, self.workload.go_on, seed="after")
            return passage.of(passage.undisturbed(made))
        except (Exception, Overdue) as error:
            raise violation_of(error) from error

    def killed(self, at: str) -> Passage:
        """The job up to a call, and who goes on.

        Raises:
            BadStateIdError: There is no such call.
            Violation: Who recovered and went on did not come to an end, or found one.
        """
        cut = _number(at.removesuffix(_HALF), len(self.recording.calls))
        halved = at.endswith(_HALF)
        if halved and not _is_long_write(self.recording.calls[cut : cut + 1]):
            raise BadStateIdError(f"call {cut} is no write that could do half of its work")
        try:
            return passage.followed(self.recording, self.workload.go_on, cut=cut, halved=halved)
        except (Exception, Overdue) as error:
            raise violation_of(error) from error

    def failed(self, at: str) -> Passage:
        """The job with one call that fails, and who goes on if that ended it.

        Raises:
            BadStateIdError: There is no such call.
            Violation: Who recovered and went on did not come to an end, or found one.
        """
        number = _number(at, len(self.recording.calls) - 1)

        def hook(call: Call) -> Injection | None:
            return Fail(errno.EIO) if call.number == number else None

        try:
            run = record_on(self._base, self._told, self.workload.run, hook=hook, seed="run")
            if run.error is None:
                return Passage(run.base, run.calls, ((0, run),), first=number)
            whole = passage.followed(run, self.workload.go_on, cut=len(run.calls))
        except (Exception, Overdue) as error:
            raise violation_of(error) from error
        return Passage(whole.base, whole.calls, whole.parts, first=number)

    def cuts(self, power: Power) -> list[str]:
        """Where a kill leaves something visible that need not be durable."""
        whole, found = self.plain(), list[str]()
        for moment in passage.moments(whole, power.cache(whole, self.workload)):
            if not moment.cache.unsettled(moment.cache.changes):
                continue
            point = moment.point
            is_changing = point < len(whole.calls) and whole.calls[point].alters
            if is_changing and _is_long_write(whole.calls[point : point + 1]):
                found.append(f"{point}{_HALF}")
            found.append(str(point + 1 if is_changing else point))
        return list(dict.fromkeys(found))

    def failing(self) -> list[str]:
        """Calls whose failure may leave something undone, or half done."""
        written = {
            operation.inode
            for _, operation in self.recording.operations()
            if isinstance(operation, Write)
        }
        return [
            str(call.number)
            for call in self.recording.calls
            if call.name in _FAILING and (call.name != "close" or call.inode in written)
        ]


def _is_long_write(calls: list[Call]) -> bool:
    return any(
        isinstance(operation, Write) and len(operation.data) > 1
        for call in calls
        if call.name in WRITES
        for operation in call.operations
    )


def _number(text: str, most: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > most:
        raise BadStateIdError(f"there is no call {text}; the job makes {most} calls")
    return int(text)
