"""Both storages keep the contract, and doubles that break it are caught."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lastgood.storage.interface import StorageRoot
from lastgood.storage.memory import MemoryRoot
from lastgood.storage.posix import PosixRoot
from lastgood.testing import StorageContract


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
