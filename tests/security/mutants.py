"""Planted bugs: each a small patch of the product, never a switch in it.

A mutant puts one known mistake of such stores in place of the right code. ``MUTANTS`` names for
each the oracle, a function that the real tests call as well, which must fail with the patch and
pass without. ``EQUIVALENT`` lists mistakes that change nothing here, with the reason.
"""

from __future__ import annotations

import contextlib
import hmac
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

from lastgood import CheckpointStore, LastgoodError, claim, lease, pruning, reading, saving
from lastgood.errors import ConflictError
from lastgood.formats import canonical, checkpoint, names, seal
from lastgood.formats.checkpoint import Checkpoint
from lastgood.reading import Reading
from lastgood.rules import reconciliation, selection
from lastgood.storage import publish, revisions
from lastgood.storage.directory import Directory
from lastgood.storage.filesystem import CREATE_NEW
from lastgood.storage.posix import PosixStorage
from tests.security import oracles, races, rules, test_deletion, test_double_pause

Patch = AbstractContextManager[object]
Oracle = Callable[[Path], object]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One planted bug.

    Attributes:
        mistake: What it does wrong, as the list of crash testing calls it.
        planted: Plants it for the length of a block.
        oracle: What must fail while it is planted.
    """

    mistake: str
    planted: Callable[[], Patch]
    oracle: Oracle


def _patched(place: Any, name: str, wrong: object) -> Callable[[], Patch]:
    return lambda: mock.patch.object(place, name, wrong)


@contextmanager
def _all_of(*patches: Callable[[], Patch]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for patch in patches:
            stack.enter_context(patch())
        yield


# --- what is read -------------------------------------------------------------------------


def _in_text_order() -> Patch:
    right = reading._numbers
    return mock.patch.object(reading, "_numbers", lambda *args: sorted(right(*args), key=str))


def _by_substring() -> Patch:
    right = names.parse

    def wrong(name: str) -> names.Parsed | None:
        found = re.search(r"(checkpoint|manifest)-([0-9]+)\.json", name)
        if found is None:
            return right(name)
        return names.Parsed(names.Kind(found[1]), int(found[2]))

    return mock.patch.object(names, "parse", wrong)


def _any_schema() -> Patch:
    return _all_of(
        _patched(selection, "_check_schema", lambda *args: None),
        _patched(CheckpointStore, "_believed", lambda self, found, name: found),
    )


def _falls_back() -> Patch:
    right = CheckpointStore.load_latest

    def wrong(self: Any) -> Checkpoint | None:
        try:
            return right(self)
        except LastgoodError:
            found = Reading(self._scope, self._reading_storage())
            for sequence in reading._numbers(found._list(), names.Kind.CHECKPOINT)[::-1]:
                if not isinstance(found.checkpoint(sequence), LastgoodError):
                    return found.bodies[sequence].checkpoint
            raise

    return mock.patch.object(CheckpointStore, "load_latest", wrong)


def _comparing(kind: type) -> Callable[[], Patch]:
    """A seal that does not compare values of this type: MACs are bytes, hashes text."""
    wrong = SimpleNamespace(
        digest=hmac.digest,
        compare_digest=lambda a, b: isinstance(a, kind) or hmac.compare_digest(a, b),
    )
    return _patched(seal, "hmac", wrong)


@contextmanager
def _any_name() -> Iterator[None]:
    """Compares the name with neither header nor payload."""
    right_header, right_body = checkpoint.decode_header, checkpoint.decode_body

    def header(record: seal.Unsealed, *, sequence: int, **others: Any) -> Any:
        return right_header(record, sequence=record.header["sequence"], **others)

    def body(payload: bytes, *, sequence: int, **others: Any) -> Any:
        return right_body(payload, sequence=canonical.decode(payload)["sequence"], **others)

    with (
        mock.patch.object(checkpoint, "decode_header", header),
        mock.patch.object(checkpoint, "decode_body", body),
    ):
        yield


def _session_not_read() -> Patch:
    """Takes ``session.json`` for information."""
    return mock.patch.object(
        selection, "_has_session", lambda e: e.pointer is not None or bool(e.numbers)
    )


def _revision_before_not_read() -> Patch:
    return mock.patch.object(selection, "_check_revision_before", return_value=None)


# --- what is saved ------------------------------------------------------------------------


def _arrays_not_copied() -> Patch:
    def wrong(self: Checkpoint) -> None:
        object.__setattr__(self, "known", frozenset(self.fingerprints))

    return mock.patch.object(Checkpoint, "__post_init__", wrong)


def _empty_fingerprint() -> Patch:
    return _all_of(
        _patched(checkpoint, "fingerprints", tuple),
        _patched(reconciliation, "fingerprint", lambda text: text),
    )


def _renaming_over(prefix: str) -> Callable[[], Patch]:
    """Publishes by a rename, which replaces, where the name begins with ``prefix``."""
    right = publish.link_new

    def wrong(directory: Directory, temporary: str, name: str, data: Sequence[bytes]) -> None:
        if name.startswith(prefix):
            filesystem, fd = directory.filesystem, directory.fd
            with contextlib.suppress(FileNotFoundError):
                filesystem.unlink(name, dir_fd=fd)
        right(directory, temporary, name, data)

    return _patched(publish, "link_new", wrong)


def _not_synced(sync_after: str) -> Callable[[], Patch]:
    """Publishes a temporary before its fsync: ``sync_after`` says whether it comes at all."""

    def wrong(directory: Directory, name: str, data: Sequence[bytes], *, random: bytes) -> str:
        filesystem = directory.filesystem
        temporary = names.temporary(name, random)
        fd = filesystem.open(temporary, CREATE_NEW, dir_fd=directory.fd)
        publish.write_all(filesystem, fd, data)
        filesystem.close(fd)
        return temporary

    right = publish.link_new

    def late(directory: Directory, temporary: str, name: str, data: Sequence[bytes]) -> None:
        right(directory, temporary, name, data)
        fd, _ = directory.open_file(name)
        directory.filesystem.fsync(fd)
        directory.give_back(fd)

    patches = [_patched(publish, "prepare", wrong)]
    if sync_after == "link":
        patches.append(_patched(publish, "link_new", late))
    return lambda: _all_of(*patches)


def _deleted_before_verified() -> Patch:
    right = reading.verify_checkpoint

    def wrong(scope: Any, storage: Any, sequence: int, **others: Any) -> object:
        storage.delete(names.checkpoint(sequence - 20))
        return right(scope, storage, sequence, **others)

    return mock.patch.object(saving, "verify_checkpoint", wrong)


def _pruning(keeps: Callable[[int, Any], bool]) -> Callable[[], Patch]:
    def wrong(newest: Any, sequences: Sequence[int]) -> tuple[int, ...]:
        return tuple(s for s in sequences if not keeps(s, newest))

    return _patched(pruning, "prunable_sequences", wrong)


def _not_read_back() -> Patch:
    def wrong(scope: Any, storage: Any, sequence: int) -> object:
        return Reading(scope, storage).checkpoint_header(sequence)

    return mock.patch.object(saving, "verify_checkpoint", wrong)


# --- who may ------------------------------------------------------------------------------


def _revision_read_again() -> Patch:
    right = claim.swap

    def wrong(following: Any, scope: Any, storage: Any) -> Any:
        newest = max(claim.revisions(storage), default=0)
        base = Reading(scope, storage).manifest(names.manifest(newest))
        if newest and not isinstance(base, LastgoodError) and base is not None:
            following = replace(following, revision=newest + 1, previous_manifest=base.digest)
        return right(following, scope, storage)

    return mock.patch.object(claim, "swap", wrong)


def _claim_withdrawn() -> Patch:
    right = revisions.swap

    def wrong(
        directory: Directory, data: Sequence[bytes], *, expected: int, random: bytes
    ) -> revisions.OwnRevision:
        try:
            return right(directory, data, expected=expected, random=random)
        except ConflictError:
            if directory.holds(names.manifest(expected + 1), data):
                directory.filesystem.unlink(names.manifest(expected + 1), dir_fd=directory.fd)
            raise

    return mock.patch.object(revisions, "swap", wrong)


def _published_withdrawn() -> Patch:
    right = lease.Lease.resolve_lost_claim

    def wrong(self: lease.Lease, digest: seal.Digest) -> object:
        for parsed in map(names.parse, self.storage.list("checkpoint-")):
            number = parsed.number if parsed is not None else 0
            found = Reading(self.scope, self.storage).checkpoint_header(number)
            if not isinstance(found, LastgoodError) and found and found.digest == digest:
                self.storage.delete(names.checkpoint(number))
        return right(self, digest)

    return mock.patch.object(lease.Lease, "resolve_lost_claim", wrong)


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


def _pointer_from_a_stale_view() -> Patch:
    """Settles what was chosen, without reading the numbers again."""
    return mock.patch.object(revisions, "_refuse_newer", return_value=None)


# --- the matrix ---------------------------------------------------------------------------


_FEW: Final = tuple(oracles.SAMPLES)


def _current_flipped(base: Path) -> object:
    return oracles.every_change_of_bytes_is_refused("nightly/checkpoint-000030.json", kinds=_FEW)


def _current_misread(base: Path) -> object:
    return oracles.every_change_of_bytes_is_refused(
        "nightly/checkpoint-000030.json", kinds=("misreadings",)
    )


def _pointer_flipped(base: Path) -> object:
    return oracles.both_names_of_the_pointer_changed_alike_are_refused(kinds=_FEW)


def _session_misread(base: Path) -> object:
    return oracles.every_change_of_bytes_is_refused("nightly/session.json", kinds=("misreadings",))


def _alone(oracle: Callable[[], object]) -> Oracle:
    return lambda base: oracle()


_deleted = _alone(test_deletion.test_every_subset_of_files_deleted_has_the_outcome_of_the_table)
_foreign = _alone(rules.foreign_names_are_ignored)
_named = _alone(rules.name_is_compared_with_content)
_ordered = _alone(rules.order_is_numeric)
_schema = _alone(rules.unknown_schema_stops)
_copied = _alone(rules.callers_objects_are_copied)
_fingerprints = _alone(rules.malformed_fingerprints_are_refused)
_paused = races.paused_save_undoes_nothing
_generations = races.two_generations_stand_at_every_instant
_synced = races.nothing_is_published_before_its_fsync
_bad_write = races.write_that_went_wrong_costs_no_generation

MUTANTS: Final = (
    Mutant("text order instead of numbers", _in_text_order, _ordered),
    Mutant("substring instead of the full name", _by_substring, _foreign),
    Mutant("unknown schema accepted", _any_schema, _schema),
    Mutant("damaged newest falls back silently", _falls_back, _current_misread),
    Mutant("MAC skipped", _comparing(bytes), _pointer_flipped),
    Mutant("checksum skipped", _comparing(str), _current_flipped),
    Mutant("name not compared with content", _any_name, _named),
    Mutant("session.json not verified", _session_not_read, _session_misread),
    Mutant("revision before the newest not compared", _revision_before_not_read, _deleted),
    Mutant("caller's arrays not copied", _arrays_not_copied, _copied),
    Mutant("empty fingerprint accepted", _empty_fingerprint, _fingerprints),
    Mutant("final file overwritten", _renaming_over("checkpoint"), _paused),
    Mutant("compare-and-swap without exclusivity", _renaming_over("manifest"), _paused),
    Mutant("no file fsync", _not_synced("never"), _synced),
    Mutant("published before fsync", _not_synced("link"), _synced),
    Mutant("old deleted before the new is verified", _deleted_before_verified, _bad_write),
    Mutant("not read back before the claim", _not_read_back, _bad_write),
    Mutant("one generation kept", _pruning(lambda s, m: s >= m.current.sequence), _generations),
    Mutant("prune above the current", _pruning(lambda s, m: s in m.kept_sequences()), _paused),
    Mutant("S6 re-reads its revision", _revision_read_again, _paused),
    Mutant("claim withdrawn", _claim_withdrawn, _paused),
    Mutant("published checkpoint withdrawn", _published_withdrawn, _paused),
    Mutant("claim not confirmed", _not_confirmed, _paused),
    Mutant("temporaries not swept", _not_swept, _paused),
    Mutant(
        "temporaries not swept again after the claim",
        _not_swept_again,
        test_double_pause.test_pointer_is_not_moved_down_by_who_was_paused_after_its_confirmation,
    ),
    Mutant(
        "pointer moved down from a stale view",
        _pointer_from_a_stale_view,
        races.paused_opening_undoes_nothing,
    ),
)

EQUIVALENT: Final = {
    "temporaries swept before the second read": (
        "settle reads the numbers and sweeps from one listing; swept first, a paused writer fails "
        "earlier, at its link, and a sweep that finds something newer starts again with nothing "
        "changed but a temporary that its owner could not have used either"
    ),
}
