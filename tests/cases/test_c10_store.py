"""C10: format and parser ambiguity, through a whole store and the command line."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from lastgood import Checkpoint, CheckpointStore
from lastgood.errors import DamagedError
from tests.cases.harness import SESSION, inside, stops
from tests.cli.commands import new_place
from tests.support import records, trees
from tests.support.check import check, check_equal
from tests.support.require import require_corpora
from tests.support.values import same

SEPARATORS = [
    "\u2028",
    "\u2029",
    "\x85",
    "\x0b",
    "\x0c",
    "\x1c",
    "\x1d",
    "\x1e",
    "\r",
    "\r\n",
    "\n",
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The store of three saves."""
    return trees.plant(trees.final(), tmp_path / "store")


@pytest.mark.slow
def test_c10_01_separators_never_split_a_record_on_disk_or_a_line_of_output(
    tmp_path: Path,
) -> None:
    """C10-01: a record stays three lines, the state one line of output, whatever is in it.

    Method: all separators as values and keys, saved, loaded, listed and verified by the command
    line; records are cut at byte 0x0A only.
    """
    commands = new_place(tmp_path)
    state = {f"a{mark}b": [f"{mark}{mark}", f"x{mark}"] for mark in SEPARATORS}
    commands.save(SESSION, 1, state, "--milestone", "a\u2028b\u2029c")
    loaded = commands.run("load", SESSION).left(0)
    check_equal(loaded.document, state, "the state")
    check_equal(loaded.out.count(b"\n"), 1, "lines of the state")
    for path in commands.root.rglob("*.json"):
        check_equal(path.read_bytes().count(b"\n"), 3, f"lines of {path.name}")
    listed = commands.run("list", SESSION).left(0)
    check_equal(len(listed.text.splitlines()), len(listed.text.split("\n")) - 1, "lines listed")
    commands.run("verify", SESSION).left(0)


def _forged(path: str, old: bytes, new: bytes) -> bytes:
    """A record of the store with ``old`` replaced in its payload, sealed rightly again."""
    seal, header, payload, _ = trees.final()[path].split(b"\n")
    check(old in payload, f"{old!r} is not in {path}")
    changed = payload.replace(old, new, 1)
    fields = json.loads(header)
    fields |= {"length": len(changed), "sha256": hashlib.sha256(changed).hexdigest()}
    kind = json.loads(seal)["kind"]
    line = json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()
    return records.forge(line, changed, kind=kind)


DUPLICATES = [
    ("checkpoint-000030.json", b'{"schemaVersion":1,', b'{"schemaVersion":1,"schemaVersion":1,'),
    ("checkpoint-000030.json", b'"state":', b'"state":{},"state":'),
    ("checkpoint-000030.json", b'"paid":', b'"paid":[],"paid":'),
    ("checkpoint-000030.json", b'"sequence":30', b'"sequence":30,"sequence":30'),
    ("manifest.json", b'"previous":', b'"previous":null,"previous":'),
    ("manifest.json", b'"sequence":30', b'"sequence":30,"sequence":30'),
    ("manifest.json", b'"current":', b'"current":null,"current":'),
    ("session.json", b'"log":null', b'"log":null,"log":null'),
]


@pytest.mark.parametrize(("name", "old", "new"), DUPLICATES, ids=str)
def test_c10_02_duplicate_key_under_a_right_seal_stops(
    place: Path, name: str, old: bytes, new: bytes
) -> None:
    """C10-02: two readings of one key are none: even where the seal is right, it stops.

    Method: a second key put into the payload of a record, sealed again with the right key, in
    the store (the pointer with its number); the reader stops and touches nothing.
    """
    data = _forged(f"nightly/{name}", old, new)
    (inside(place) / name).write_bytes(data)  # one inode with its number
    stops(place, naming="manifest" if name == "manifest.json" else name)


@pytest.mark.slow
def test_c10_05_every_naughty_string_comes_back_from_a_store_and_is_printed_harmlessly(
    tmp_path: Path,
) -> None:
    """C10-05: 515 strings as values and keys, exactly; nothing printed controls a terminal.

    Method: one state of all of them through the library and through the command line.
    """
    encoded = json.loads((require_corpora("blns") / "blns.base64.json").read_bytes())
    strings = [base64.b64decode(text).decode() for text in encoded]
    state: Any = {"values": strings, "keys": {text: n for n, text in enumerate(strings)}}
    with CheckpointStore(trees.in_memory({}), SESSION, keys=trees.KEYS) as store:
        store.save(Checkpoint(1, state))
        found = store.load_latest()
        check(found is not None and same(found.state, state), "another state")
    commands = new_place(tmp_path)
    commands.save(SESSION, 1, state)
    loaded = commands.run("load", SESSION).left(0)
    check(same(loaded.document, state), "another state by the command line")
    shown = commands.run("show", SESSION, "--state").left(0)
    check(all(c.isprintable() or c == "\n" for c in shown.text), "a control character is printed")


@pytest.mark.parametrize("bad", [b"\xff", b"\xc0\xaf", b"\x80", b"\x00", b"\xed\xa0\x80"])
@pytest.mark.parametrize("name", ["checkpoint-000030.json", "manifest.json", "session.json"])
@pytest.mark.parametrize("sealed", ["poked", "sealed again"])
def test_c10_06_invalid_utf_8_is_damage_and_never_replaced(
    place: Path, bad: bytes, name: str, sealed: str
) -> None:
    """C10-06: a byte that is no UTF-8, or NUL within a text, is DamagedError; nothing is replaced.

    Method: put into a text of each record, as an accident, and under a right seal.
    """
    within = {"checkpoint-000030.json": b"nightly", "manifest.json": b"checkpoint-",
              "session.json": b'"name":"'}[name]  # fmt: skip
    if sealed == "poked":
        data = trees.final()[f"nightly/{name}"].replace(within, within + bad)
    else:
        data = _forged(f"nightly/{name}", within, within + bad)
    (inside(place) / name).write_bytes(data)
    outcome = stops(place, naming="manifest" if name == "manifest.json" else name)
    check(isinstance(outcome.error, DamagedError), outcome.says())
