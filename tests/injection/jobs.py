"""Workloads by name, and how their tests are marked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import pytest

from fault_injection.levels.registry import built
from fault_injection.workload import Workload

_Test = TypeVar("_Test", bound=Callable[..., Any])


def heavy(test: _Test) -> _Test:
    """A test of some seconds."""
    return pytest.mark.slow(pytest.mark.normal_only(test))


def job(name: str) -> Workload:
    """A workload by its name."""
    found = built().workload(name)
    if found is None:
        raise LookupError(name)
    return found


FIRST: Final = job("first")
SAVES: Final = job("saves")
