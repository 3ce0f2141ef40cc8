"""Damaged bytes are evidence: a prune keeps them, aside, and never deletes them (G3, S9)."""

from __future__ import annotations

import pytest

from lastgood import Retention
from lastgood.formats import names
from lastgood.pruning import MOST_SET_ASIDE
from tests.store.world import World, at
from tests.support.check import check, check_equal

ARCHIVE = names.archived("")


def flipped(data: bytes, place: int = -20) -> bytes:
    """``data`` with one bit of one byte changed."""
    changed = bytearray(data)
    changed[place] ^= 1
    return bytes(changed)


def kept_aside(world: World) -> list[str]:
    """What the archive holds of damage, without where it stood before."""
    every = world.listed(prefix=f"{ARCHIVE}damaged-")
    return [name.removeprefix(ARCHIVE)[len("damaged-") + 17 :] for name in every]


@pytest.mark.parametrize("archive", ["none", "all"])
def test_a_damaged_generation_leaves_lineage_with_its_bytes(world: World, archive: str) -> None:
    """G3: a generation that went bad is never deleted, and said; the next saves are clean.

    Method: 30 is flipped; 40 names it, so nothing is pruned; 50 retires it; 60 warns no more.
    """
    with world.open(retention=Retention(archive=archive)) as handle:  # type: ignore[arg-type]
        for sequence in (10, 20, 30):
            handle.save(at(sequence))
        name = names.checkpoint(30)
        bad = flipped(world.files()[name])
        world.put(name, bad)
        warnings = [handle.save(at(sequence)).warnings for sequence in (40, 50, 60)]
    check(any("Pruning stopped" in text for text in warnings[0]), f"40: {warnings[0]}")
    check(any("damaged" in text for text in warnings[1]), f"50: {warnings[1]}")
    check_equal(warnings[2], (), "60")
    check_equal(kept_aside(world), [name], "what is kept aside")
    check_equal([data for n, data in world.files().items() if "/damaged-" in n], [bad], "its bytes")
    report = world.report()
    check_equal((report.verdict, report.findings), ("good", ()), "the verdict is of what is named")
    check(any("/damaged-" in name for name in report.leftovers), f"shown: {report.leftovers}")
    if archive == "all":
        remaining = {names.parse(n.removeprefix(ARCHIVE)) for n in world.listed(prefix=ARCHIVE)}
        numbers = sorted(found.number for found in remaining if found is not None)
        check(40 in numbers, f"good generations go on into the archive: {numbers}")
        check(
            any("-checkpoint-000020" in n or n.endswith("000020.json") for n in world.files()),
            "what cannot be told to be lineage is kept as well",
        )


def test_a_damaged_older_revision_is_kept_aside(world: World) -> None:
    """G3: a numbered manifest below the newest two that does not verify is never deleted."""
    with world.open() as handle:
        handle.save(at(1))
        first = world.files()[names.manifest(1)]
        handle.save(at(2))
        handle.save(at(3))
        bad = flipped(first)
        world.put(names.manifest(1), bad)
        warnings = handle.save(at(4)).warnings
    check(any(names.manifest(1) in text for text in warnings), f"said: {warnings}")
    check_equal(kept_aside(world), [names.manifest(1)], "what is kept aside")
    check(bad in world.files().values(), "its bytes")
    check_equal(world.report().verdict, "good", "the verdict is of what is named")


def test_what_cannot_even_be_read_stays_and_stops_the_prune(disk: World) -> None:
    """S9: a prune that meets a thing it cannot read warns, and fails no save."""
    with disk.open() as handle:
        for sequence in (10, 20, 30):
            handle.save(at(sequence))
        disk.damaged = True
        planted = disk.directory() / names.checkpoint(5)
        planted.mkdir()
        receipts = [handle.save(at(sequence)) for sequence in (40, 50, 60)]
    for receipt in receipts:
        check_equal(receipt.status, "saved", "the save")
        warned = any("Pruning stopped" in text for text in receipt.warnings)
        check(warned, f"said: {receipt.warnings}")
    check(planted.is_dir(), "it was removed")
    revisions = disk.listed(prefix="manifest-")
    check_equal(len(revisions), 2, "revisions do not pile up behind it")


def test_a_directory_full_of_damage_is_moved_a_few_files_at_a_time(world: World) -> None:
    """T8: how long a save holds the session, and how much it says, is bounded; none is lost.

    Method: 40 older checkpoints are planted; three saves move them, each says so in a few lines.
    """
    world.saved(100, 200, 300)
    planted = {names.checkpoint(sequence): b"planted\n" for sequence in range(1, 41)}
    for name, data in planted.items():
        world.put(name, data)
    moved, lines = [], []
    with world.open() as handle:
        for sequence in (400, 500, 600, 700):
            lines.append(len(handle.save(at(sequence)).warnings))
            moved.append(len(kept_aside(world)))
    check_equal(moved, [MOST_SET_ASIDE, 2 * MOST_SET_ASIDE, 40, 40], "moved so far")
    check_equal(lines, [MOST_SET_ASIDE + 1, MOST_SET_ASIDE + 1, 8, 0], "warnings of each save")
    generations = [name for name in world.listed() if name.startswith("checkpoint-")]
    check_equal(generations, [names.checkpoint(600), names.checkpoint(700)], "generations")
