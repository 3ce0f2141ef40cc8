"""Mistakes of an opening: R1 and R4, which stand between one owner and the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fault_injection.planted_bugs.mutant import Kill, Mutant, Patch, Plant, all_of, nothing
from lastgood import binding, claim, taking
from lastgood.formats.manifest import Manifest
from lastgood.storage import revisions
from lastgood.storage.posix import PosixStorage


def claim_before_finish(plant: Plant) -> Patch:
    """R4 claims first, and then finishes what is left to finish."""
    right = claim.swap
    waiting: list[Callable[[Manifest], object]] = []

    def finish(scope: Any, storage: Any, chosen: Any, newest: Manifest) -> None:
        def late(claimed: Manifest) -> None:
            if chosen.rolled_forward and chosen.current is not None:
                taking._adopt(storage, chosen.current.name, scope)
            storage.settle(claimed.revision, number_missing=False, pointer_behind=False)

        waiting[:] = [late]

    def swap(following: Manifest, scope: Any, storage: Any) -> Manifest:
        claimed = right(following, scope, storage)
        while waiting:
            waiting.pop()(claimed)
        return claimed

    return all_of(
        plant.over(taking, "_finish", finish),
        plant.uncounted(claim, "swap", swap),
        # Else the claim itself asks for the number that was to be linked before it.
        plant.uncounted(revisions, "_check_base", nothing),
    )


def number_not_linked(plant: Plant) -> Patch:
    """R4 leaves the pointer's missing number missing."""
    return all_of(
        plant.over(revisions, "_name_pointer", nothing),
        plant.uncounted(revisions, "_check_base", nothing),
    )


def nothing_synced_in_r1(plant: Plant) -> Patch:
    """R1 takes what is visible for durable."""
    return all_of(
        plant.over(PosixStorage, "persist", nothing), plant.over(binding, "persist", nothing)
    )


MUTANTS: Final = (
    Mutant(
        "claim before finish in R4",
        "R4 claims first, and then finishes what is left to finish",
        claim_before_finish,
        (Kill("L3", ("O1",), ("saves",)),),
    ),
    Mutant(
        "finish without linking the missing number",
        "R4 leaves the missing number of the pointer missing",
        number_not_linked,
        (Kill("L3", ("O1",), ("saves",)),),
    ),
    Mutant(
        "no fsync in R1",
        "R1 takes what is visible for durable",
        nothing_synced_in_r1,
        (Kill("L3", ("O1",), ("saves",)),),
    ),
)
"""Mistakes of an opening."""
