"""Mistakes of what is believed: seals, names, order, schemas, damage, a caller's own objects."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final
from unittest import mock

from fault_injection.planted_bugs.mutant import Kill, Mutant, Patch, Plant, all_of, nothing
from lastgood import inspection, reading, survey
from lastgood.checkpoints import CheckpointStore
from lastgood.errors import LastgoodError
from lastgood.formats import canonical, checkpoint, event, seal
from lastgood.formats.checkpoint import Checkpoint
from lastgood.formats.names import Kind
from lastgood.reading import Reading
from lastgood.rules import reconciliation, selection

_RULES: Final = (
    "tests/security/test_rules.py::test_what_must_hold_of_names_order_schema_and_snapshots_holds"
)
_READER: Final = (
    "tests/crash/test_reading_pauses.py::test_a_reader_paused_anywhere_never_alarms_and_never_falls"
)


def _comparing(plant: Plant, kind: type) -> SimpleNamespace:
    """An ``hmac`` that finds everything of this type equal: MACs are bytes, hashes text."""

    def compare(one: Any, other: Any) -> bool:
        return isinstance(one, kind) or hmac.compare_digest(one, other)

    return SimpleNamespace(digest=hmac.digest, compare_digest=plant.counting(compare))


def mac_skipped(plant: Plant) -> Patch:
    """The MAC of a record, or of an event, is not compared."""
    wrong = _comparing(plant, bytes)
    return all_of(mock.patch.object(seal, "hmac", wrong), mock.patch.object(event, "hmac", wrong))


def checksum_skipped(plant: Plant) -> Patch:
    """The hash of a payload is not compared."""
    return mock.patch.object(seal, "hmac", _comparing(plant, str))


def name_not_compared(plant: Plant) -> Patch:
    """A checkpoint's name is compared with neither header nor payload."""
    right_header, right_body = checkpoint.decode_header, checkpoint.decode_body

    def header(record: seal.Unsealed, *, sequence: int, **others: Any) -> object:
        return right_header(record, sequence=record.header["sequence"], **others)

    def body(payload: bytes, *, sequence: int, **others: Any) -> object:
        own: Any = canonical.decode(payload)
        return right_body(payload, sequence=own["sequence"], **others)

    return all_of(
        plant.over(checkpoint, "decode_header", header), plant.over(checkpoint, "decode_body", body)
    )


def text_order(plant: Plant) -> Patch:
    """Numbers in names are sorted as text."""
    right = reading._numbers

    def numbers(listed: Any, kind: Kind) -> list[int]:
        return sorted(right(listed, kind), key=str)

    return plant.over(reading, "_numbers", numbers)


def any_schema(plant: Plant) -> Patch:
    """A state of a version that the program does not know is handed to it."""

    def believed(self: CheckpointStore, found: Checkpoint, name: str) -> Checkpoint:
        return found

    return all_of(
        plant.over(selection, "_check_schema", nothing),
        plant.uncounted(CheckpointStore, "_believed", believed),
    )


def falls_back(plant: Plant) -> Patch:
    """Where the newest cannot be believed, the newest that can is loaded, and nothing is said."""
    right = CheckpointStore.load_latest

    def load(self: Any) -> Checkpoint | None:
        try:
            return right(self)
        except LastgoodError:
            found = Reading(self._scope, self._reading_storage())
            for sequence in reading._numbers(found._list(), Kind.CHECKPOINT)[::-1]:
                if not isinstance(found.checkpoint(sequence), LastgoodError):
                    return found.bodies[sequence].checkpoint
            raise

    return plant.over(CheckpointStore, "load_latest", load)


def rebuilds(plant: Plant) -> Patch:
    """In a session with a log a damaged newest checkpoint is passed over, and nothing is said."""
    right = selection.select

    def select(evidence: Any) -> Any:
        return right(replace(evidence, waived=(*evidence.waived, "damage")))

    return plant.over(selection, "select", select)


def arrays_not_copied(plant: Plant) -> Patch:
    """A checkpoint keeps the caller's own list of fingerprints."""

    def init(self: Checkpoint) -> None:
        object.__setattr__(self, "known", frozenset(self.fingerprints))

    return plant.over(Checkpoint, "__post_init__", init)


def empty_fingerprint(plant: Plant) -> Patch:
    """Any text is a fingerprint."""

    def itself(text: str) -> str:
        return text

    return all_of(
        plant.over(checkpoint, "fingerprints", tuple),
        plant.uncounted(reconciliation, "fingerprint", itself),
    )


def one_reading_is_trusted(plant: Plant) -> Patch:
    """Whatever a reader's first reading finds stands."""

    def until_settled(read: Callable[[], Any], **others: Any) -> object:
        attempt = read()
        if isinstance(attempt.finding, LastgoodError):
            raise attempt.finding
        return attempt.finding

    return all_of(
        plant.over(survey, "until_settled", until_settled),
        plant.uncounted(inspection, "until_settled", until_settled),
    )


MUTANTS: Final = (
    Mutant(
        "MAC skipped",
        "the MAC of a record, or of an event, is not compared",
        mac_skipped,
        (Kill("L5", ("O3", "O4", "O6", "O12"), ("saves",)),),
    ),
    Mutant(
        "checksum skipped",
        "the hash of a payload is not compared",
        checksum_skipped,
        (Kill("L5", ("O3", "O4", "O6", "O12"), ("saves",)),),
    ),
    Mutant(
        "name not compared with content",
        "the name of a checkpoint is compared with neither header nor payload",
        name_not_compared,
        (Kill("L5", ("O3", "O4", "O6", "O12"), ("saves",)),),
    ),
    Mutant(
        "text order instead of numbers",
        "numbers in names are sorted as text",
        text_order,
        (
            Kill("L1", ("O9",), ("saves",)),
            Kill("T", (), (f"{_RULES}[order_is_numeric]",)),
        ),
    ),
    Mutant(
        "unknown schema accepted",
        "a state of a version that the program does not know is handed to it",
        any_schema,
        (Kill("L5", ("O3", "O4", "O6", "O12"), ("saves",)),),
    ),
    Mutant(
        "damaged newest falls back silently",
        "where the newest cannot be believed, the newest that can is loaded",
        falls_back,
        (Kill("L5", ("O3", "O4", "O6", "O12"), ("saves",)),),
    ),
    Mutant(
        "damaged newest falls back silently in a session with a log",
        "where the newest checkpoint is damaged, an older one and the log are gone on from",
        rebuilds,
        (Kill("L5", ("O3", "O4", "O6", "O12"), ("resumes",)),),
    ),
    Mutant(
        "caller's arrays not copied",
        "a checkpoint keeps the list of fingerprints that its caller may change",
        arrays_not_copied,
        (
            Kill(
                "T",
                (),
                (f"{_RULES}[callers_objects_are_copied]",),
            ),
        ),
    ),
    Mutant(
        "empty fingerprint accepted",
        "any text is a fingerprint",
        empty_fingerprint,
        (
            Kill(
                "T",
                (),
                (f"{_RULES}[malformed_fingerprints_are_refused]",),
            ),
        ),
    ),
    Mutant(
        "a reader trusts one reading",
        "whatever the first reading of a reader finds stands",
        one_reading_is_trusted,
        (
            Kill(
                "T",
                (),
                (f"{_READER}[published-loaded-2]",),
            ),
        ),
    ),
)
"""Mistakes of what is believed."""
