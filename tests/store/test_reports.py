"""check and verify: every row, every finding, what stops a load first, and nothing raised."""

from __future__ import annotations

import hashlib

import pytest

from lastgood import CheckpointStore, Limits, Report, Retention
from lastgood.errors import DamagedError, LastgoodError, StorageError
from lastgood.formats import names
from tests.store.world import World, at
from tests.support.check import check, check_equal


def payload_of(record: bytes) -> bytes:
    return record.split(b"\n", 2)[2][:-1]


def test_a_row_says_what_the_file_holds(world: World) -> None:
    """Sequence, role, schema, bytes, SHA-256, kid and time, as stored."""
    with world.open(schema_version=3) as handle:
        handle.save(at(10), milestone="first")
        handle.save(at(20))
    files = world.files()
    for row, role, label in zip(
        world.report().rows, ("previous", "current"), ("first", ""), strict=True
    ):
        data = files[row.name]
        check_equal((row.role, row.label, row.schema_version), (role, label, 3), row.name)
        check_equal(row.size_bytes, len(data), "bytes of the file")
        check_equal(row.sha256, hashlib.sha256(payload_of(data)).hexdigest(), "payload's hash")
        check_equal(row.kid, world.keys.primary_kid, "the key")
        check(row.created is not None and row.created.encode() in data, "when it was made")
        check_equal((row.is_verified, row.problem), (True, ""), "verified")


def test_a_good_report_says_what_was_not_checked(world: World) -> None:
    """Coverage is limited without a witness, and every report says so (G7)."""
    world.saved(10)
    report = world.report()
    check_equal((report.verdict, report.exit_code, report.error), ("good", 0, None), "verdict")
    check_equal(report.assurance, "L0", "the level")
    check(any("witness" in line for line in report.skipped), f"skipped: {report.skipped}")
    check(report.record is not None and report.record.session == "nightly", "its own record")


def test_a_report_without_a_verdict_is_never_good() -> None:
    """Closed by default: where nothing was found out, nothing is said to be good."""
    report = Report(session="nightly")
    check_equal((report.verdict, report.exit_code), ("stopped", 2), "verdict and exit code")


def test_every_damage_is_found_and_every_row_is_shown(world: World) -> None:
    """Damage is shown, not hidden: one bad file does not end the report."""
    with world.open(retention=Retention(archive="all")) as handle:
        for sequence in (10, 20, 30, 40):
            handle.save(at(sequence), milestone="kept" if sequence == 10 else None)
    files = world.files()
    for name in (names.checkpoint(10), names.checkpoint(40), names.manifest(4)):
        world.put(name, files[name][:-1] + b" ")
    world.put(names.SESSION, b"")
    report = world.report()
    check_equal(report.exit_code, 2, "the exit code")
    shown = [(row.sequence, row.role, row.is_verified) for row in report.rows]
    expected = [
        (10, "milestone", False),
        (30, "previous", True),
        (40, "current", False),
        (20, "archived", True),
    ]
    check_equal(shown, expected, "rows")
    check(all(row.problem for row in report.rows if not row.is_verified), "each has its reason")
    for name in (names.checkpoint(10), names.checkpoint(40)):
        check(any(name in finding for finding in report.findings), f"{name}: {report.findings}")
    with world.reader() as reader, pytest.raises(LastgoodError) as raised:
        reader.verify()
    check_equal(str(raised.value), report.findings[0], "verify raises the first finding")


@pytest.mark.parametrize("sequence", [20, 30])
def test_a_generation_that_is_gone_has_a_row_that_says_so(world: World, sequence: int) -> None:
    """On damage every row is still printed, also that of a file which is not there."""
    world.saved(10, 20, 30)
    world.drop(names.checkpoint(sequence))
    report = world.report()
    check_equal([row.sequence for row in report.rows], [20, 30], "rows")
    row = next(row for row in report.rows if row.sequence == sequence)
    check(not row.is_verified and "missing" in row.problem, f"its row: {row}")
    check_equal(len(report.findings), 1, f"one finding: {report.findings}")


def test_a_previous_generation_with_a_damaged_payload_is_found_by_check_only(
    world: World,
) -> None:
    """Row 7: load does not need it, verify finds it."""
    world.saved(10, 20, 30)
    name = names.checkpoint(20)
    world.put(name, world.files()[name].replace(b'"n":20', b'"n":21'))
    with world.reader() as reader:
        loaded = reader.load_latest()
        check_equal(loaded and loaded.sequence, 30, "what is loaded")
        with pytest.raises(DamagedError) as raised:
            reader.verify()
        check(name in str(raised.value), f"it names the file: {raised.value}")
        with pytest.raises(DamagedError):
            reader.load(20)


def test_an_old_manifest_that_does_not_verify_is_found_by_check(world: World) -> None:
    """T2: all that is there is read, also what no verdict needs."""
    world.saved(10, 20)
    old = names.manifest(1)
    world.put(old, b"not a record")
    with world.reader() as reader:
        loaded = reader.load_latest()
        check_equal(loaded and loaded.sequence, 20, "what is loaded")
        report = reader.check()
    check(report.exit_code == 2 and old in report.findings[0], f"findings: {report.findings}")


def test_too_many_entries_are_a_limit_and_not_damage(disk: World) -> None:
    """T8: a directory with more entries than the limit is refused, with exit 1."""
    disk.saved(10)
    for number in range(60):
        (disk.directory() / f"planted {number}").write_bytes(b"")
    options = {"keys": disk.keys, "limits": Limits(directory_entries=50)}
    with CheckpointStore(disk.path, "nightly", mode="read", **options) as reader:  # type: ignore[arg-type]
        with pytest.raises(LastgoodError) as raised:
            reader.load_latest()
        check_equal((raised.value.code, raised.value.exit_code), ("limit", 1), "the error")
        report = reader.check()
        check_equal((report.verdict, report.exit_code), ("stopped", 1), "the report")


def test_a_directory_in_the_place_of_a_record_is_reported_and_not_read(disk: World) -> None:
    """T7: what is not a file stops; check says which one."""
    disk.saved(10, 20)
    path = disk.directory() / names.checkpoint(20)
    path.unlink()
    path.mkdir()
    disk.damaged = True
    report = disk.report()
    check_equal(report.exit_code, 2, "the exit code")
    check(any(path.name in finding for finding in report.findings), f"{report.findings}")
    check(not isinstance(report.error, StorageError), "it is damage, not an error of the system")
