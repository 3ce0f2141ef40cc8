"""Storage above the disk in memory keeps the contract that storage above a real one keeps."""

from __future__ import annotations

import itertools

import pytest

from fault_injection.machine import MemoryMachine
from lastgood.storage.interface import StorageRoot
from lastgood.storage.posix import PosixRoot
from lastgood.testing import StorageContract


class TestMemoryDisk(StorageContract):
    """The disk in memory is one to put a store on, missing directories and all."""

    @pytest.fixture(autouse=True)
    def _machine(self) -> None:
        self.machine = MemoryMachine()
        self.places = (f"/disk/not/yet/store-{number}" for number in itertools.count())

    def make_root(self) -> StorageRoot:
        return PosixRoot(next(self.places), filesystem=self.machine.process())
