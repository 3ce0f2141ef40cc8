"""C3: order, clocks, generations, and what is published when."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

import pytest

from lastgood import Checkpoint, CheckpointStore, Retention
from lastgood.errors import UsageError
from lastgood.storage.posix import PosixRoot
from tests.cases.harness import SESSION, inside, latest, stops, writer
from tests.crash.seam import Seam, system
from tests.security import races, rules
from tests.support import trees
from tests.support.check import check, check_equal
from tests.support.trees import SteadyClock


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The store of three saves."""
    return trees.plant(trees.final(), tmp_path / "store")


@pytest.mark.parametrize(
    "sequences",
    [(99, 100, 101), (9_999, 10_000), (99_999, 100_000), (999_999, 1_000_000, 9_999_999),
     (2**31 - 1, 2**31), (10**15 - 1, 10**15)],
    ids=str,
)  # fmt: skip
def test_c03_01_newest_is_the_highest_number_at_every_change_of_width(
    sequences: tuple[int, ...],
) -> None:
    """C3-01: load, list, rows and prune order by the integer, never by the text.

    Method: a session whose revisions cross 999999, saved at sequences that cross widths.
    """
    rules.order_is_numeric(sequences)


@pytest.mark.parametrize("order", [(2, 10), (10, 2)], ids=str)
def test_c03_01_two_and_ten_in_both_orders_leave_ten(
    tmp_path: Path, order: tuple[int, int]
) -> None:
    """C3-01, I5: of 2 and 10 the current one is 10, in whichever order they are saved.

    Method: both saved; the lower one afterwards is superseded and writes nothing.
    """
    with writer(tmp_path / "store") as store:
        said = [store.save(Checkpoint(number, {"at": number})).status for number in order]
    check_equal(said, ["saved", "saved" if order == (2, 10) else "superseded"], "what was told")
    found = latest(tmp_path / "store")
    check_equal(found.sequence if found else 0, 10, "the newest")


@pytest.mark.parametrize("name", ["checkpoint-31.json", "checkpoint-0000031.json", "checkpoint-9"])
def test_c03_01_other_widths_of_a_number_are_no_generations(place: Path, name: str) -> None:
    """C3-01: one number, one name: another padding is foreign, and not the newest.

    Method: a copy of the newest checkpoint under names of other widths.
    """
    rules.foreign_names_are_ignored([name])


class _Clock(SteadyClock):
    """A wall clock that says what it was given, again and again the last one."""

    def __init__(self, *times: datetime.datetime) -> None:
        super().__init__()
        self._times = list(times)

    def now(self) -> datetime.datetime:
        """The next time."""
        return self._times.pop(0) if len(self._times) > 1 else self._times[0]


def _at(year: int, day: int = 1) -> datetime.datetime:
    return datetime.datetime(year, 1, day, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    "times",
    [[_at(2026, 9), *(_at(2026, 9 - n) for n in range(1, 9))], [_at(2026)], [_at(1970)],
     [_at(2100), _at(1970)], [_at(1), _at(9999)]],
    ids=["a day back each time", "constant", "1970", "2100, then 1970", "1, then 9999"],
)  # fmt: skip
def test_c03_02_clocks_decide_nothing(tmp_path: Path, times: list[datetime.datetime]) -> None:
    """C3-02: order is the sequence's; a clock that stands or steps back raises no error.

    Method: three saves and reopenings under each clock; then the mtimes of all files reversed.
    """
    place = tmp_path / "store"
    clock = _Clock(*times)
    for time in (1, 2, 3):
        with CheckpointStore(PosixRoot(place), SESSION, keys=trees.KEYS, clock=clock) as store:
            store.save(trees.checkpoint(SESSION, time))
    listed = sorted(inside(place).iterdir())
    for age, path in enumerate(listed):
        os.utime(path, (2_000_000_000 - age * 1000,) * 2)
    check_equal(trees.read(place).says(), "sequence 30; check says 0", "with reversed mtimes")
    with writer(place) as store:
        check_equal(store.save(trees.checkpoint(SESSION, 4)).status, "saved", "the next save")


def test_c03_03_damaged_generation_is_never_counted_as_good(tmp_path: Path) -> None:
    """C3-03, I4: pruning never leaves fewer than two verified generations, nor fails a save.

    Method: 30 is flipped after its save; 40, 50 and 60 are saved by the same owner; what verifies
    is counted after each.
    """
    place = tmp_path / "store"
    with writer(place) as store:
        for time in (1, 2, 3):
            store.save(trees.checkpoint(SESSION, time))
        damaged = inside(place) / trees.CURRENT
        data = bytearray(damaged.read_bytes())
        data[-20] ^= 1
        damaged.write_bytes(data)
        for time in (4, 5, 6):
            receipt = store.save(trees.checkpoint(SESSION, time))
            check_equal(receipt.status, "saved", f"save {time}")
            stand = races.verified_generations(place)
            check(len(stand) >= 2 and time * 10 in stand, f"after {time}: {stand} verify")
            warned = any("Pruning stopped" in text for text in receipt.warnings)
            check_equal(warned, time == 4, f"after {time}: {receipt.warnings}")
            check(time > 4 or damaged.exists(), "the damaged one is kept while it is named")
    check_equal(trees.read(place).says(), "sequence 60; check says 0", "in the end")


@pytest.mark.parametrize("keep", [0, -1, 1, 1.5, "2", None, "", "ALL", True])
def test_c03_03_what_is_no_retention_is_refused_before_anything_is_opened(
    tmp_path: Path, keep: object
) -> None:
    """C3-03: an illegal retention is refused at construction; fewer than two cannot be said."""
    with pytest.raises(UsageError):
        Retention(archive=keep)  # type: ignore[arg-type]
    check(not any(tmp_path.iterdir()), "something was made")


@pytest.mark.parametrize("what", ["missing", "empty", "of another sequence"])
def test_c03_05_manifest_that_names_what_is_not_whole_stops(place: Path, what: str) -> None:
    """C3-05: no crash leaves a manifest before its checkpoint, so it stops.

    Method: the file that the newest manifest names is missing, empty, or another one.
    """
    named = inside(place) / trees.CURRENT
    if what == "missing":
        named.unlink()
    else:
        older = (inside(place) / trees.PREVIOUS).read_bytes()
        named.write_bytes(b"" if what == "empty" else older)
    stops(place, naming=trees.CURRENT)


def test_c03_05_data_is_durable_before_its_name_and_the_manifest_comes_last(place: Path) -> None:
    """C3-05, S4 to S7: write, fsync, name, fsync of the directory; then the manifest alike.

    Method: the calls of one save, in order; and no name leads to bytes that were not fsynced.
    """
    seam = Seam()
    with CheckpointStore(PosixRoot(place, filesystem=system(seam)), SESSION, keys=trees.KEYS) as s:
        seam.begin()
        s.save(trees.checkpoint(SESSION, 4))
        made = [call.split()[0] + " " + call.split()[-1] for call in seam.made if call]
    steps = ("writev", "fsync", "link checkpoint-000040.json", "fsync", "writev", "fsync",
             "link manifest-000006.json", "rename manifest.json", "fsync", "unlink")  # fmt: skip
    at = -1
    for step in steps:
        found = [i for i, call in enumerate(made) if i > at and call.startswith(step)]
        check(found, f"{step} does not follow call {at}: {made}")
        at = found[0]
    check_equal(sum(call.startswith("fsync") for call in made), 4, "fsyncs of a save")


def test_c03_05_nothing_is_published_before_its_fsync(tmp_path: Path) -> None:
    """C3-05, I1: whatever is published was fsynced first, from the first file of a store on.

    Method: a file system that knows which inodes hold bytes that were not fsynced.
    """
    races.nothing_is_published_before_its_fsync(tmp_path)


def test_c03_03_every_verified_pair_stands_at_every_instant(tmp_path: Path) -> None:
    """C3-03, I4: two verified generations stand before every single call of a save."""
    races.two_generations_stand_at_every_instant(tmp_path)
