"""What the tests of effects share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.effects.bench import Ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)
