"""The exact system calls of a create and a swap: an order that a crash model was checked with."""

from __future__ import annotations

import re
from pathlib import Path

from tests.storage.places import SESSION, open_session
from tests.support.check import check, check_equal
from tests.support.faulty import Calls, faulty

CHANGING = {
    "fsync", "fdatasync", "writev", "pwrite", "link", "rename", "unlink", "mkdir", "ftruncate",
}  # fmt: skip


def _shown(calls: Calls) -> list[str]:
    return [re.sub(r"\.[0-9a-f]{16}\.tmp", ".RANDOM.tmp", call) for call in calls.subjects]


def test_a_create_writes_syncs_links_and_syncs_in_this_order(tmp_path: Path) -> None:
    """S4: the name is linked only to what is on the medium, and the directory is synced last.

    Method: record every call of one create at the seam.
    """
    calls = Calls()
    session = open_session(tmp_path, filesystem=faulty(calls))
    calls.begin()
    session.create("name", [b"one", b"two"])
    check_equal(
        _shown(calls),
        [
            "open .name.RANDOM.tmp",
            "fstat",
            "writev",
            "fsync",
            "close",
            "link .name.RANDOM.tmp name",
            "unlink .name.RANDOM.tmp",
            "fsync",
        ],
        "calls of one create",
    )
    session.close()


def test_a_swap_claims_confirms_and_points_in_this_order(tmp_path: Path) -> None:
    """S6, S7: claim the number, see that nothing is newer, move the pointer, sync.

    Method: record every call of one swap at the seam.
    """
    calls = Calls()
    session = open_session(tmp_path, filesystem=faulty(calls))
    session.swap([b"1"], expected=0)
    calls.begin()
    session.swap([b"2"], expected=1)
    check_equal(
        _shown(calls),
        [
            "listdir",
            "open .manifest.json.RANDOM.tmp",
            "fstat",
            "writev",
            "fsync",
            "close",
            "open .manifest.json.RANDOM.tmp",  # held until the next swap
            "fstat",
            "link .manifest.json.RANDOM.tmp manifest-000002.json",
            "listdir",
            "rename .manifest.json.RANDOM.tmp manifest.json",
            "fsync",
            "close",  # of what the swap before held
        ],
        "calls of one swap",
    )
    session.close()


def test_create_and_swap_cost_four_fsyncs_and_reading_none(tmp_path: Path) -> None:
    """S4 to S7: two fsyncs each; a read, a stream and a list cost none (G8).

    Method: count them at the seam.
    """
    calls = Calls()
    session = open_session(tmp_path, filesystem=faulty(calls))
    calls.begin()
    session.create("checkpoint-000001.json", [b"x"])
    session.swap([b"1"], expected=0)
    check_equal(calls.made.count("fsync"), 4, "fsyncs of a save")
    calls.begin()
    session.read("manifest.json", max_bytes=9)
    list(session.stream("manifest.json", max_bytes=9))
    session.list()
    check(not CHANGING & set(calls.made), f"reading called {calls.made}")
    session.close()


def test_settling_what_is_settled_costs_nothing(tmp_path: Path) -> None:
    """R4: without anything to finish no call changes the directory, and none syncs it.

    Method: record the calls of a settle after a clean swap, and of one with work to do.
    """
    calls = Calls()
    session = open_session(tmp_path, filesystem=faulty(calls))
    session.swap([b"1"], expected=0)
    calls.begin()
    session.settle(1, number_missing=False, pointer_behind=False)
    check_equal(calls.made, ["listdir"], "calls of a settle with nothing to do")
    (tmp_path / SESSION / ".a.0123456789abcdef.tmp").write_bytes(b"")
    calls.begin()
    session.settle(1, number_missing=False, pointer_behind=False)
    check_equal(calls.made, ["listdir", "unlink", "fsync"], "calls of a settle that sweeps")
    session.close()


def test_new_directories_are_synced_into_their_parents_from_the_top(tmp_path: Path) -> None:
    """S4: nothing is made in a directory before its own name is durable.

    Method: make a session three levels deep; each mkdir is followed by an fsync, and the
    session's own has one before it: of the store.json that stands beside it (F11).
    """
    calls = Calls()
    session = open_session(tmp_path / "a" / "b", filesystem=faulty(calls))
    made = [call for call in calls.subjects if call.split()[0] in {"mkdir", "fsync"}]
    above = ["fsync", "mkdir a", "fsync", "mkdir b", "fsync"]
    expected = [*above, "fsync", f"mkdir {SESSION}", "fsync"]
    check_equal(made, expected, "directories made and synced")
    session.close()


def test_an_append_is_one_write_and_one_fdatasync(tmp_path: Path) -> None:
    """P1: an append costs one flush.

    Method: record its calls.
    """
    calls = Calls()
    session = open_session(tmp_path, filesystem=faulty(calls))
    session.begin("log", size_bytes=99)
    for _ in range(3):
        calls.begin()
        session.append("log", b"event")
        check_equal(calls.made, ["pwrite", "fdatasync", "fstat"], "calls of one append")
    session.close()


def test_short_writes_go_on(tmp_path: Path) -> None:
    """P2: a write that takes a byte at a time ends with all of them.

    Method: cut every write to 1 and 3 bytes; pieces of every length, empty ones too.
    """
    pieces = [b"", b"abc", b"", b"d", b"efghijk", b""]
    for limit in (1, 3):
        calls = Calls(longest_write_bytes=limit)
        session = open_session(tmp_path / str(limit), filesystem=faulty(calls))
        session.create("name", pieces)
        check_equal(session.read("name", max_bytes=99), b"abcdefghijk", "what was written")
        session.close()


def test_a_record_is_durable_in_the_archive_before_it_leaves(tmp_path: Path) -> None:
    """G3: between any two calls it is in one place at least, and on the medium in one.

    Method: record the changing calls of archiving, first and second time, and of superseding.
    """
    calls = Calls()
    session = open_session(tmp_path, filesystem=faulty(calls))
    for number, first in ((1, ["mkdir archive", "fsync"]), (2, [])):
        name = f"checkpoint-{number:06d}.json"
        session.create(name, [b"x"])
        calls.begin()
        session.archive(name)
        changing = [call for call in calls.subjects if call.split()[0] in CHANGING]
        expected = [*first, f"link {name} {name}", "fsync", f"unlink {name}"]
        check_equal(changing, expected, "calls of archiving")
    session.create("checkpoint-000003.json", [b"x"])
    calls.begin()
    name = "checkpoint-000003.json"
    session.supersede(name, [b"y"], fenced=b"x", as_name="fenced", revision=0)
    changing = [call for call in calls.subjects if call.split()[0] in CHANGING]
    check_equal(changing[-4:], [f"link {name} fenced", "fsync", changing[-2], "fsync"], "calls")
    check(changing[-2].startswith("rename .") and changing[-2].endswith(name), changing[-2])
    session.close()


def test_rewriting_writes_before_it_syncs(tmp_path: Path) -> None:
    """R1: pages that a dead process failed to sync are made dirty again, then synced.

    Method: record the calls of a rewrite after its comparison.
    """
    calls = Calls()
    session = open_session(tmp_path, filesystem=faulty(calls))
    session.create("name", [b"x"])
    calls.begin()
    session.rewrite("name", b"x")
    check_equal(calls.made[-3:], ["pwrite", "fsync", "close"], "the last calls of a rewrite")
    session.close()
