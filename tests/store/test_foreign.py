"""Leftovers and foreign names: reported, never parsed, never deleted by who does not own them."""

from __future__ import annotations

import os

import pytest

from lastgood import open_store
from lastgood.errors import LastgoodError
from lastgood.formats import names
from tests.store.world import World, at
from tests.support.check import check, check_equal

FOREIGN = [
    ".DS_Store", "._checkpoint-000010.json", "Thumbs.db", "desktop.ini", "tmpa1b2c3",
    "checkpoint-000010 (1).json", "checkpoint-000010 (conflicted copy).json",
    ".checkpoint-000010.json.swp", "checkpoint-000010.json~", "checkpoint-000010.json.bak",
    "x-checkpoint-000010.json", "checkpoint-1.json", "checkpoint-0000030.json", "checkpoint-.json",
    "checkpoint-000000.json", "checkpoint-00003١.json", "Checkpoint-000030.json",
    "manifest-2.json", "manifest-000004.json.tmp", "manifest.json.old", "session.json.bak",
    ".manifest.json.XYZ.tmp", "4913", "core", "a name with spaces", "naïve-☃.json", "-rf", "*",
]  # fmt: skip


def copied(world: World, foreign: list[str]) -> None:
    """A good record under each of the names: a second copy is no second generation."""
    data = world.files()[names.checkpoint(30)]
    with world.storage(access="write") as directory:
        for name in foreign:
            directory.create(name, [data])


def test_foreign_names_are_listed_and_never_parsed_or_deleted(world: World) -> None:
    """C11-06: sync tools, editors and desktops; saves, prunes and openings leave them alone."""
    world.saved(10, 20, 30)
    copied(world, FOREIGN)
    report = world.report()
    check_equal(sorted(report.foreign), sorted(FOREIGN), "what is listed as foreign")
    check_equal((report.verdict, report.exit_code), ("good", 0), "the verdict")
    for sequence in (40, 50):
        with world.open() as handle:
            loaded = handle.load_latest()
            check_equal(loaded and loaded.sequence, sequence - 10, "the current sequence")
            handle.save(at(sequence))
            check_equal(handle.prune().warnings, (), "warnings of a prune")
    check(set(FOREIGN) <= set(world.listed()), "all of them are still there")


def test_foreign_directories_links_and_pipes_are_never_entered_or_opened(disk: World) -> None:
    """C11-06: whatever kind of thing it is; a name is enough to pass it over."""
    disk.saved(10, 20)
    place = disk.directory()
    (place / "checkpoint-5 (1).json").mkdir()
    (place / "backup").mkdir()
    os.symlink("/etc/passwd", place / "checkpoint-99.json")
    os.mkfifo(place / "checkpoint-pipe.json")
    (place / "unreadable").write_bytes(b"x")
    (place / "unreadable").chmod(0)
    before = sorted(path.name for path in place.iterdir())
    report = disk.report()
    check_equal(len(report.foreign), 5, f"what is listed as foreign: {report.foreign}")
    check_equal(report.verdict, "good", "the verdict")
    with disk.open() as handle:
        handle.save(at(30))
    after = sorted(path.name for path in place.iterdir())
    check({n for n in before if n in report.foreign} <= set(after), "they are still there")


def test_foreign_names_in_the_root_are_no_sessions(disk: World) -> None:
    """C11-06: only 40 hex characters can be a session's directory."""
    disk.saved(10)
    for name in (".DS_Store", "backup", "A" * 40, "0" * 39, "0" * 41, "lost+found"):
        (disk.path / name).mkdir()
    (disk.path / "store.json.bak").write_bytes(b"x")
    with open_store(disk.root, keys=disk.keys) as store:
        entries = list(store.sessions())
    check_equal([e.record and e.record.session for e in entries], ["nightly"], "sessions")


def test_a_name_that_is_no_text_is_foreign(disk: World) -> None:
    """Names are bytes: one that is not UTF-8 is listed and passed over."""
    disk.saved(10)
    with open(os.fsencode(disk.directory()) + b"/checkpoint-\xff.json", "wb") as file:
        file.write(b"x")
    report = disk.report()
    check_equal((len(report.foreign), report.verdict), (1, "good"), "foreign names and verdict")
    check(report.foreign[0].isascii() or "\udcff" in report.foreign[0], repr(report.foreign))


def test_a_temporary_is_a_leftover_that_only_the_next_owner_sweeps(world: World) -> None:
    """R4: readers report it, the owner removes it, and it is never believed."""
    world.saved(10, 20)
    temporary = names.temporary(names.checkpoint(30), bytes(8))
    data = world.files()[names.checkpoint(20)]
    with world.storage(access="write") as directory:
        directory.create(temporary, [data])
    report = world.report()
    check_equal(report.leftovers, (temporary,), "leftovers")
    check_equal(report.verdict, "good", "the verdict")
    check(temporary in world.listed(), "a reader removes nothing")
    with world.open():
        check(temporary not in world.listed(), "the owner has swept it")


def test_an_older_generation_that_a_prune_left_is_reported_and_goes_with_the_next(
    world: World,
) -> None:
    """S9 interrupted: authentic, below the newest, not named: a leftover."""
    with world.open() as handle:
        handle.save(at(10))
        handle.save(at(20))
        old = world.files()
        handle.save(at(30))
    again = [names.checkpoint(10), names.manifest(2)]
    with world.storage(access="write") as directory:
        for name in again:
            directory.create(name, [old[name]])
    report = world.report()
    check_equal(sorted(report.leftovers), sorted(again), "leftovers")
    check_equal(report.exit_code, 0, "the exit code")
    with world.open() as handle:
        handle.save(at(40))
    check(not set(again) & set(world.listed()), "the next prune removed them")


def fenced_record(disk: World) -> bytes:
    """What a writer of epoch 2 publishes at 20, after the owner of epoch 4 has claimed."""
    with disk.open() as handle:
        handle.save(at(10))
    before = disk.files()
    with disk.open() as fenced:
        fenced.save(at(20, state="a fenced writer's"))
        late = disk.files()[names.checkpoint(20)]
    for name in disk.listed():
        (disk.directory() / name).unlink()
    for name, data in before.items():
        with disk.storage(access="write") as directory:
            directory.create(name, [data])
    for _ in range(3):  # epochs 2 to 4: the second life of this directory
        disk.open().close()
    with disk.storage(access="write") as directory:
        directory.create(names.checkpoint(20), [late])
    return late


def test_a_fenced_writer_s_damaged_leftover_is_found_by_check_only(disk: World) -> None:
    """Row 4: it is never believed, so a load needs no more than its header."""
    late = fenced_record(disk)
    disk.put(names.checkpoint(20), late.replace(b"a fenced", b"a forged"))
    with disk.reader() as reader:
        loaded = reader.load_latest()
        check_equal(loaded and loaded.sequence, 10, "what is loaded")
        report = reader.check()
    shown = [(row.sequence, row.role, row.is_verified) for row in report.rows]
    check_equal(shown, [(10, "current", True), (20, "leftover", False)], "rows")
    check_equal(report.exit_code, 2, "the exit code")


def test_a_fenced_writer_s_checkpoint_under_our_name_is_moved_aside_and_reported(
    disk: World,
) -> None:
    """S4: an older epoch's record under the name of a save goes to the archive, and stays."""
    late = fenced_record(disk)
    report = disk.report()
    check_equal(
        (report.verdict, names.checkpoint(20) in report.leftovers), ("good", True), "report"
    )
    with disk.open() as handle:
        receipt = handle.save(at(20))
        check_equal((receipt.status, len(receipt.warnings)), ("saved", 1), "the receipt")
        loaded = handle.load_latest()
        check_equal(loaded and loaded.state, {"n": 20}, "what is loaded")
    aside = [n for n in disk.listed(prefix=names.archived("")) if "fenced-" in n]
    check_equal([disk.files()[name] for name in aside], [late], "what was moved aside")
    check(set(aside) <= set(disk.report().leftovers), "it is reported as a leftover")


PLANTED = [names.checkpoint(31), names.checkpoint(999_999_999), names.checkpoint(10**15)]


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize("what", ["nothing", "zeros", "text", "copy", "half"])
def test_a_planted_newer_checkpoint_stops_and_pushes_nothing_out(
    world: World, name: str, what: str
) -> None:
    """Rows 3 and 6: what no writer left above the current one stops every load and opening."""
    world.saved(10, 20, 30)
    good = world.files()
    copy = good[names.checkpoint(30)]
    half = copy[: len(copy) // 2]
    data = {"nothing": b"", "zeros": bytes(700), "text": b"{}\n", "copy": copy, "half": half}[what]
    world.put(name, data)
    before = world.files()
    with world.reader() as reader:
        for load in (reader.load_latest, lambda: reader.load(20), reader.verify):
            with pytest.raises(LastgoodError) as raised:
                load()
            check_equal(raised.value.exit_code, 2, "the exit code")
            check(name in str(raised.value), f"it names the file: {raised.value}")
        report = reader.check()
        check_equal([row.is_verified for row in report.rows], [True, True, False], "rows")
    with pytest.raises(LastgoodError):
        world.open()
    check_equal(world.files(), before, "the directory")
    world.drop(name)
    check_equal(world.report().verdict, "good", "without it all is as it was")
