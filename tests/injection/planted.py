"""Workloads with a defect between them and the system, for tests that a level finds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

from fault_injection.machine import Machine
from fault_injection.workload import Recovered, Workload
from fault_injection.world import Told, World
from lastgood.storage.filesystem import FileSystem


class Layer:
    """A file system that passes every call on.

    Args:
        inner: Where to.
    """

    def __init__(self, inner: FileSystem) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class _Under:
    """A machine whose processes have a layer above them."""

    def __init__(self, machine: Machine, layer: Callable[[FileSystem], Layer]) -> None:
        self.root = machine.root
        self.clock = machine.clock
        self.entropy = machine.entropy
        self._machine = machine
        self._layer = layer

    def process(self) -> FileSystem:
        return cast(FileSystem, self._layer(self._machine.process()))


class Planted:
    """A workload whose job, and nothing else, runs above a layer.

    Args:
        workload: What is right.
        layer: What is wrong.
    """

    def __init__(self, workload: Workload, layer: Callable[[FileSystem], Layer]) -> None:
        self.name = workload.name
        self.unread = workload.unread
        self._workload = workload
        self._layer = layer

    def prepare(self, machine: Machine, world: World) -> None:
        self._workload.prepare(machine, world)

    def run(self, machine: Machine, world: World) -> None:
        self._workload.run(_Under(machine, self._layer), world)

    def go_on(self, machine: Machine, world: World) -> None:
        self._workload.go_on(machine, world)

    def judge(self, machine: Machine, told: Told, *, depth: Literal["whole", "short"]) -> Recovered:
        return self._workload.judge(machine, told, depth=depth)
