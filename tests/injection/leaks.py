"""What a test may not leave behind: descriptors and child processes of this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.check import check_equal


def descriptors() -> dict[str, str]:
    """What this process holds open, by number."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # that of the listing
    return found


def children() -> list[str]:
    """Process ids of this process's children, traced ones too, zombies too."""
    return sorted(
        pid
        for task in Path("/proc/self/task").iterdir()
        for pid in (task / "children").read_text().split()
    )


@contextmanager
def nothing_left() -> Iterator[None]:
    """The block leaves no descriptor and no child of this process."""
    before = descriptors(), children()
    yield
    check_equal((descriptors(), children()), before, "descriptors and children")


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")
