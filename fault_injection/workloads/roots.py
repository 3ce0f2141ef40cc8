"""Where a store lies on a machine, opened by a process of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import lastgood
from fault_injection.machine import Machine
from lastgood.keyring import Keyring
from lastgood.storage.filesystem import FileSystem
from lastgood.storage.posix import PosixRoot
from lastgood.store import Store


@contextmanager
def root(
    machine: Machine, path: str = "", *, system: FileSystem | None = None
) -> Iterator[PosixRoot]:
    """The directory of a store.

    Args:
        machine: Where it lies.
        path: Of the directory; empty: the machine's root.
        system: What is called; None: a new process of the machine.
    """
    made = PosixRoot(
        path or machine.root,
        filesystem=machine.process() if system is None else system,
        clock=machine.clock,
        entropy=machine.entropy,
    )
    try:
        yield made
    finally:
        made.close()


@contextmanager
def store(
    machine: Machine, path: str = "", *, keys: Keyring, system: FileSystem | None = None
) -> Iterator[Store]:
    """The store there; arguments as of ``root``.

    Raises:
        LastgoodError: It cannot be opened.
    """
    with (
        root(machine, path, system=system) as place,
        lastgood.open_store(
            place, keys=keys, clock=machine.clock, entropy=machine.entropy
        ) as opened,
    ):
        yield opened
