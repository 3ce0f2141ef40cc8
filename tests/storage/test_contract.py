"""Both storages keep the contract, and so do the doubles that other tests look through."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lastgood.storage.interface import StorageRoot
from lastgood.storage.memory import MemoryRoot
from lastgood.storage.posix import PosixRoot
from lastgood.testing import StorageContract
from tests.crash.seam import Seam, system
from tests.store.doubles import ShuffledRoot
from tests.support.faulty import Calls, faulty


class TestMemory(StorageContract):
    """Memory keeps the contract."""

    def make_root(self) -> StorageRoot:
        return MemoryRoot("contract")


class TestPosix(StorageContract):
    """A directory keeps the contract, among processes too."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.made = 0

    def make_root(self) -> StorageRoot:
        self.made += 1
        return PosixRoot(self._path())

    def reopener(self) -> Callable[[], StorageRoot] | None:
        return partial(PosixRoot, self._path())

    def _path(self) -> Path:
        return self.tmp_path / "not" / "yet" / f"store-{self.made}"


class TestShuffledMemory(StorageContract):
    """Listings in any order change nothing."""

    def make_root(self) -> StorageRoot:
        return ShuffledRoot(MemoryRoot("contract"), seed=1)


class TestPosixWithShortWrites(StorageContract):
    """The double that fails calls does nothing else, and short writes change nothing."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.places = (tmp_path / f"store-{number}" for number in itertools.count())

    def make_root(self) -> StorageRoot:
        calls = Calls(longest_write_bytes=1 << 20)
        return PosixRoot(next(self.places), filesystem=faulty(calls))


class TestPosixThroughTheSeam(StorageContract):
    """The double that numbers the calls does nothing else."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.places = (tmp_path / f"store-{number}" for number in itertools.count())

    def make_root(self) -> StorageRoot:
        return PosixRoot(next(self.places), filesystem=system(Seam()))
