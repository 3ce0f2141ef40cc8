"""Mistakes between two owners (F13): of the compare-and-swap, of what a fenced owner takes back."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from fault_injection.planted_bugs.mutant import Kill, Mutant, Patch, Plant, nothing
from lastgood import claim, pruning
from lastgood.errors import ConflictError
from lastgood.event_log import EventLog
from lastgood.formats import names
from lastgood.formats.manifest import Manifest
from lastgood.reading import Reading
from lastgood.storage import publish, revisions
from lastgood.storage.directory import Directory


def claim_withdrawn(plant: Plant) -> Patch:
    """Who finds something newer behind its claim removes the claim."""
    right = revisions.swap

    def swap(
        directory: Directory, data: Sequence[bytes], *, expected: int, random: bytes
    ) -> object:
        try:
            return right(directory, data, expected=expected, random=random)
        except ConflictError:
            own = names.manifest(expected + 1)
            if directory.holds(own, data):
                directory.filesystem.unlink(own, dir_fd=directory.fd)
            raise

    return plant.over(revisions, "swap", swap)


def pruned_above_the_current(plant: Plant) -> Patch:
    """S9 removes every checkpoint that its manifest does not name."""

    def prunable(newest: Manifest, sequences: Sequence[int]) -> tuple[int, ...]:
        return tuple(s for s in sequences if s not in newest.kept_sequences())

    return plant.over(pruning, "prunable_sequences", prunable)


def revision_read_again(plant: Plant) -> Patch:
    """S6 stands on whatever revision is the newest by then."""
    right = claim.swap

    def swap(following: Manifest, scope: Any, storage: Any) -> object:
        newest = max(claim.revisions(storage), default=0)
        base = Reading(scope, storage).manifest(names.manifest(newest)) if newest else None
        if isinstance(base, Manifest):
            following = replace(following, revision=newest + 1, previous_manifest=base.digest)
        return right(following, scope, storage)

    return plant.over(claim, "swap", swap)


def not_exclusive(plant: Plant) -> Patch:
    """A revision's number is taken from whoever has it."""
    right = publish.link_new

    def link(directory: Directory, temporary: str, name: str, data: Sequence[bytes]) -> None:
        if name.startswith("manifest-"):
            with suppress(FileNotFoundError):
                directory.filesystem.unlink(name, dir_fd=directory.fd)
        right(directory, temporary, name, data)

    return plant.over(publish, "link_new", link)


def pointer_from_a_stale_view(plant: Plant) -> Patch:
    """R4 settles what was chosen, without reading the numbers again."""
    return plant.over(revisions, "_refuse_newer", nothing)


def not_confirmed_again(plant: Plant) -> Patch:
    """Events are acknowledged without a second look at who owns the session."""
    return plant.over(EventLog, "_confirm_written", nothing)


MUTANTS: Final = (
    Mutant(
        "withdrawing a claim",
        "who finds something newer behind its claim removes the claim",
        claim_withdrawn,
        (
            Kill("L1", ("O1",), ("writers-overtaken",)),
            Kill("L2", ("O1",), ("writers-overtaken",)),
        ),
    ),
    Mutant(
        "prune above the current",
        "S9 removes every checkpoint that its manifest does not name",
        pruned_above_the_current,
        (
            Kill("L1", ("O1",), ("writers",)),
            Kill("L2", ("O1",), ("writers",)),
        ),
    ),
    Mutant(
        "S6 re-reads its revision",
        "S6 stands on whatever revision is the newest by then",
        revision_read_again,
        (
            Kill("L1", ("O2",), ("writers",)),
            Kill("L2", ("O1", "O2"), ("writers",)),
        ),
    ),
    Mutant(
        "compare-and-swap without exclusivity",
        "the number of a revision is taken from whoever has it",
        not_exclusive,
        (
            Kill("L2", ("O1",), ("writers-overtaken",)),
            Kill("L3", ("O1",), ("writers-overtaken",)),
        ),
    ),
    Mutant(
        "pointer moved down from a stale view",
        "R4 settles what was chosen, without reading the numbers again",
        pointer_from_a_stale_view,
        (Kill("L1", ("O1",), ("writers-opening",)),),
    ),
    Mutant(
        "acknowledged without the second epoch check",
        "events are acknowledged without a second look at who owns the session",
        not_confirmed_again,
        (Kill("L1", ("O1", "O2", "O8"), ("writers-log",)),),
    ),
)
"""Mistakes between two owners."""
