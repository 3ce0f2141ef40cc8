"""Planted bugs beside those of ``fault_injection/planted_bugs``, for the oracles of this room.

Each is a small patch of the product, never a switch in it. ``MUTANTS`` names for each the oracle,
a function that the real tests call as well, which must fail with the patch and pass without.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest import mock

from lastgood import reading, saving
from lastgood.formats import names
from lastgood.reading import Reading
from lastgood.rules import selection
from lastgood.storage import publish, revisions
from lastgood.storage.directory import Directory
from lastgood.storage.posix import PosixStorage
from tests.security import oracles, races, rules, test_deletion, test_double_pause

Patch = AbstractContextManager[object]
Oracle = Callable[[Path], object]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug.

    Attributes:
        mistake: What it does wrong.
        planted: Plants it for the length of a block.
        oracle: What must fail while it is planted.
    """

    mistake: str
    planted: Callable[[], Patch]
    oracle: Oracle


# --- what is read -------------------------------------------------------------------------


def _by_substring() -> Patch:
    right = names.parse

    def wrong(name: str) -> names.Parsed | None:
        found = re.search(r"(checkpoint|manifest)-([0-9]+)\.json", name)
        if found is None:
            return right(name)
        return names.Parsed(names.Kind(found[1]), int(found[2]))

    return mock.patch.object(names, "parse", wrong)


def _session_not_read() -> Patch:
    """Takes ``session.json`` for information."""
    return mock.patch.object(
        selection, "_has_session", lambda e: e.pointer is not None or bool(e.numbers)
    )


def _revision_before_not_read() -> Patch:
    return mock.patch.object(selection, "_check_revision_before", return_value=None)


# --- what is saved ------------------------------------------------------------------------


def _renaming_over() -> Patch:
    """Publishes a checkpoint by a rename, which replaces."""
    right = publish.link_new

    def wrong(directory: Directory, temporary: str, name: str, data: Sequence[bytes]) -> None:
        if name.startswith("checkpoint"):
            with suppress(FileNotFoundError):
                directory.filesystem.unlink(name, dir_fd=directory.fd)
        right(directory, temporary, name, data)

    return mock.patch.object(publish, "link_new", wrong)


def _deleted_before_verified() -> Patch:
    right = reading.verify_checkpoint

    def wrong(scope: Any, storage: Any, sequence: int, **others: Any) -> object:
        storage.delete(names.checkpoint(sequence - 20))
        return right(scope, storage, sequence, **others)

    return mock.patch.object(saving, "verify_checkpoint", wrong)


def _not_read_back() -> Patch:
    def wrong(scope: Any, storage: Any, sequence: int) -> object:
        return Reading(scope, storage).checkpoint_header(sequence)

    return mock.patch.object(saving, "verify_checkpoint", wrong)


# --- who may ------------------------------------------------------------------------------


def _not_swept() -> Patch:
    """Leaves a paused writer the temporary that it renames over the pointer."""
    return mock.patch.object(revisions, "_sweep", lambda directory, name: name)


def _not_swept_again() -> Patch:
    """Sweeps before the claim only, which may be too early."""
    right = PosixStorage.settle

    def wrong(self: PosixStorage, revision: int, **what: bool) -> None:
        if any(what.values()):
            right(self, revision, **what)

    return mock.patch.object(PosixStorage, "settle", wrong)


def _not_confirmed() -> Patch:
    """Claims without looking whether something newer exists."""
    right = revisions._numbers
    return mock.patch.object(
        revisions,
        "_numbers",
        lambda directory, room=0: right(directory, room=room) if room else set(),
    )


# --- the matrix ---------------------------------------------------------------------------


def _session_misread(base: Path) -> object:
    return oracles.every_change_of_bytes_is_refused("nightly/session.json", kinds=("misreadings",))


def _alone(oracle: Callable[[], object]) -> Oracle:
    return lambda base: oracle()


_deleted = _alone(test_deletion.test_every_subset_of_files_deleted_has_the_outcome_of_the_table)
_foreign = _alone(rules.foreign_names_are_ignored)
_paused = races.paused_save_undoes_nothing
_bad_write = races.write_that_went_wrong_costs_no_generation

MUTANTS: Final = (
    Mutant("substring instead of the full name", _by_substring, _foreign),
    Mutant("session.json not verified", _session_not_read, _session_misread),
    Mutant("revision before the newest not compared", _revision_before_not_read, _deleted),
    Mutant("final file overwritten", _renaming_over, _paused),
    Mutant("old deleted before the new is verified", _deleted_before_verified, _bad_write),
    Mutant("not read back before the claim", _not_read_back, _bad_write),
    Mutant("claim not confirmed", _not_confirmed, _paused),
    Mutant("temporaries not swept", _not_swept, _paused),
    Mutant(
        "temporaries not swept again after the claim",
        _not_swept_again,
        test_double_pause.test_pointer_is_not_moved_down_by_who_was_paused_after_its_confirmation,
    ),
)
