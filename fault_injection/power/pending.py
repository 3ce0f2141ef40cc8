"""What was asked of a disk and need not be on it yet, change by change."""

from __future__ import annotations

from dataclasses import dataclass

from fault_injection.memory.operations import Entry, Mode, Removal, Rename, Truncate, Write
from fault_injection.power.rules import Model
from fault_injection.power.tearing import WHOLE_OR_NOT, Fate

Lost = tuple[tuple[int, int], ...]
"""One disk of those that may be left: of each change that is not ``persisted`` its number and
which of its fates it had; sorted by number."""

EVERYTHING: Lost = ()
"""Nothing was lost."""

NameChange = tuple[int, str, int]
"""A directory, a name of it, and the inode it leads to from now on; 0: nowhere."""


@dataclass(frozen=True, slots=True)
class Pending:
    """One change that is lost or kept as a whole, or torn.

    Attributes:
        number: From 0, in the order in which changes were made.
        call: Number of the call that made it.
        fates: What may become of it, first ``LOST``, last ``persisted``.
        has_all_fates: Whether those are all: of a write of many pieces they are some.
        names: The names it changes, all of them or none.
        inode: Whose bytes, size or mode it changes; 0: it changes names.
        change: What it changes of that.
    """

    number: int
    call: int
    fates: tuple[Fate, ...] = WHOLE_OR_NOT
    has_all_fates: bool = True
    names: tuple[NameChange, ...] = ()
    inode: int = 0
    change: Write | Truncate | Mode | None = None

    @property
    def is_metadata(self) -> bool:
        """Whether a file system that orders metadata orders this."""
        return not isinstance(self.change, Write)

    @property
    def touched(self) -> list[tuple[int, str]]:
        """What it changes: names of directories, or an inode."""
        if self.inode:
            return [(self.inode, "")]
        return [(directory, name) for directory, name, _ in self.names]


def name_changes(
    operation: Entry | Removal | Rename, model: Model, *, replaces: bool
) -> list[tuple[NameChange, ...]]:
    """What ``operation`` does to names, in the parts that persist independently of each other.

    Args:
        operation: The change.
        model: Decides on the parts of a rename.
        replaces: Whether a rename's target led to something before.
    """
    match operation:
        case Entry(directory, name, inode):
            return [((directory, name, inode),)]
        case Removal(directory, name):
            return [((directory, name, 0),)]
        case Rename(from_directory, from_name, to_directory, to_name, inode):
            goes, comes = (from_directory, from_name, 0), (to_directory, to_name, inode)
            if model.rename_parts == 1:
                return [(goes, comes)]
            if model.rename_parts == 3 and replaces:
                return [((to_directory, to_name, 0),), (comes,), (goes,)]
            return [(comes,), (goes,)]
