"""Strictness: every field of every record, with every wrong type, properly sealed (C13-02, G6).

Method: the field tables of the formats stand here a second time, as paths and types. Each field
of an honest record gets each value that its type does not take; the record is sealed again with
the right key, so that nothing but the reading of fields can refuse it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import pytest

from lastgood.errors import LastgoodError
from tests.support import records
from tests.support.check import check, check_equal

HEX64 = "0f" * 32
ALL: list[Any] = [
    None, True, False, 0, 1, -1, 1.0, 0.0, -0.5, 2**53, 10**15, 10**15 + 1, 2**64 - 1, -(2**63),
    1e300, "", "0", "1", "x", "x" * 1_001, "x" * 100_001, "\x00", "null", HEX64, HEX64.upper(),
    HEX64[1:], HEX64 + "0", "g" * 64, "٠" * 64, "0f" * 16, "0F" * 16, "2026-12-01T07:00:00.000000Z",
    "2026-12-01", "fx:v1:" + HEX64, "FX:v1:" + HEX64, "manual", "MANUAL", "events", [], [None],
    [[]], [0], [""], {}, {"a": 1}, [{}], ["fx:v1:" + HEX64] * 2, ["fx:v1:" + HEX64.upper()],
]  # fmt: skip
"""Values of every type, near to and far from what some field takes."""


def whole(value: Any) -> bool:
    return type(value) is int and 0 <= value <= 10**15


def text(value: Any, limit_chars: int) -> bool:
    return type(value) is str and len(value) <= limit_chars


def hexadecimal(value: Any, digits: int) -> bool:
    return type(value) is str and re.fullmatch(f"[0-9a-f]{{{digits}}}", value) is not None


TAKES: dict[str, Callable[[Any], bool]] = {
    "count": whole,
    "number": lambda value: whole(value) and value >= 1,
    "time": lambda value: text(value, 27) and value.startswith("2026-12-01T"),
    "text 100": lambda value: text(value, 100),
    "text 200": lambda value: text(value, 200),
    "text 1000": lambda value: text(value, 1_000),
    "hex 32": lambda value: hexadecimal(value, 32),
    "hex 64": lambda value: hexadecimal(value, 64),
    "hex 64 or null": lambda value: value is None or hexadecimal(value, 64),
    "fingerprint": lambda value: text(value, 70) and value.startswith("fx:v1:"),
    "class": lambda value: text(value, 10) and value in {"idempotent", "probe", "manual"},
    "events or null": lambda value: value is None or (text(value, 6) and value == "events"),
    "null": lambda value: value is None,
    "empty list": lambda value: value == [],
    "anything": lambda value: True,
    "itself": lambda value: False,
}
"""Which of ``ALL`` a type takes; ``itself`` stands for fields that another one determines."""

_HEADER = {
    "header.format": "itself",
    "header.store": "itself",
    "header.created": "time",
    "header.writer": "text 100",
    "header.length": "itself",
    "header.sha256": "itself",
    "header.encryption": "null",
}


def anchor_at(path: str) -> dict[str, str]:
    """The fields of a log anchor; a segment must be the name of one."""
    return {
        path: "null",
        f"{path}.count": "number",
        f"{path}.segment": "itself",
        f"{path}.offset": "count",
        f"{path}.head": "hex 64",
    }


def entry_at(path: str) -> dict[str, str]:
    """The fields of an entry; name and sequence determine each other."""
    return {
        f"{path}.name": "itself",
        f"{path}.sequence": "itself",
        f"{path}.digest": "hex 64",
        f"{path}.schemaVersion": "number",
        f"{path}.length": "count",
    }


TABLES: dict[str, dict[str, str]] = {
    "store": _HEADER | {"payload": "itself"},
    "session": _HEADER
    | {
        "header.session": "itself",
        "payload": "itself",
        "payload.program": "itself",
        "payload.program.name": "text 200",
        "payload.program.version": "text 200",
        "payload.salt": "hex 64",
        "payload.log": "events or null",
    },
    "checkpoint": _HEADER
    | {
        "header.session": "itself",
        "header.epoch": "number",
        "header.sequence": "itself",
        "header.previous": "hex 64 or null",
        "payload": "itself",
        "payload.schemaVersion": "number",
        "payload.sequence": "itself",
        "payload.state": "anything",
        "payload.sideEffectFingerprints": "empty list",
        "payload.sideEffectFingerprints.0": "fingerprint",
        "payload.sideEffectFingerprints.1": "fingerprint",
        "payload.fingerprintSegments": "empty list",
        "payload.openEffects": "empty list",
        "payload.openEffects.0": "itself",
        "payload.openEffects.0.fingerprint": "fingerprint",
        "payload.openEffects.0.key": "hex 64",
        "payload.openEffects.0.class": "class",
        "payload.openEffects.0.sequence": "number",
        "payload.blobs": "empty list",
        **anchor_at("payload.log"),
    },
    "manifest": _HEADER
    | {
        "header.session": "itself",
        "header.epoch": "number",
        "header.revision": "number",
        "header.previousManifest": "hex 64",
        **anchor_at("header.floor"),
        "payload": "itself",
        "payload.current": "itself",
        **entry_at("payload.current"),
        "payload.previous": "null",
        **entry_at("payload.previous"),
        "payload.milestones": "empty list",
        "payload.milestones.0": "itself",
        **entry_at("payload.milestones.0"),
        "payload.milestones.0.label": "text 200",
        "payload.milestones.1.label": "text 200",
        **anchor_at("payload.log"),
        "payload.operations": "empty list",
        "payload.operations.0": "hex 32",
        "payload.operations.1": "hex 32",
        "payload.notes": "empty list",
        "payload.notes.0": "itself",
        "payload.notes.0.at": "time",
        "payload.notes.0.type": "text 1000",
        "payload.notes.0.actor": "text 1000",
        "payload.notes.0.reason": "text 1000",
        "payload.notes.0.data": "text 1000",
    },
}
"""Every field, by its path, and what it takes."""

FIRST_REVISION = ("manifest", "header.revision", 1)
"""Legal in itself, but revision 1 has no predecessor, and the honest record names one."""

FIELDS = [(kind, path, takes) for kind, fields in TABLES.items() for path, takes in fields.items()]


@pytest.mark.parametrize(("kind", "path", "takes"), FIELDS, ids=[f"{k}-{p}" for k, p, _ in FIELDS])
def test_field_takes_exactly_what_its_type_says(kind: str, path: str, takes: str) -> None:
    """A wrong type or a value beyond a limit is exit 2 or 4, a right one is read (C13-02)."""
    honest = records.draft(kind)
    if path == "payload":
        drafts = [(value, dataclasses.replace(honest, payload=value)) for value in ALL]
        drafts = [(value, draft) for value, draft in drafts if value != honest.payload]
    else:
        present = at(honest, path)
        drafts = [
            (value, honest.edited(path, value))
            for value in ALL
            if type(value) is not type(present) or value != present
        ]
    check(len(drafts) > len(ALL) - 3, "too few values")
    for value, draft in drafts:
        legal = TAKES[takes](value) and (kind, path, value) != FIRST_REVISION
        found = exit_code(kind, draft.record())
        expected = {0} if legal else {2, 4}
        check(found in expected, f"{kind} {path} = {str(value)[:60]!a}: exit {found}")


def at(draft: records.Draft, path: str) -> Any:
    """The value of the field at ``path``."""
    place: Any = {"header": draft.header, "payload": draft.payload}
    for step in path.split("."):
        place = place[int(step) if step.isdigit() else step]
    return place


def exit_code(kind: str, data: bytes) -> int:
    """0 if ``data`` is read, else the exit code of its refusal; no other exception passes."""
    try:
        records.read(kind, data)
    except LastgoodError as error:
        return error.exit_code
    return 0


@pytest.mark.parametrize("kind", records.KINDS)
def test_table_above_knows_every_field_there_is(kind: str) -> None:
    """No field escapes the test above. Method: the honest record's own fields, walked."""
    found: set[str] = set()
    honest = records.draft(kind)
    pending: list[tuple[str, Any]] = [("header", honest.header), ("payload", honest.payload)]
    while pending:
        path, value = pending.pop()
        if path not in {"header", "payload"}:
            found.add(path)
        if type(value) is dict and path != "payload.state":
            pending += [(f"{path}.{key}", item) for key, item in value.items()]
        if type(value) is list and value and path != "payload.milestones":
            pending += [(f"{path}.{index}", item) for index, item in enumerate(value)]
        if path == "payload.milestones":
            pending.append((f"{path}.0", value[0]))
    missing = found - set(TABLES[kind])
    check_equal(missing, set(), "fields that no table names")


@pytest.mark.parametrize("kind", records.KINDS)
def test_each_nested_object_has_exactly_its_fields(kind: str) -> None:
    """Nothing inside is ignored, nothing gets a default (C13-02): exit 4.

    Method: in each object of header and payload one field more, and each field less.
    """
    honest = records.draft(kind)
    paths = [
        path
        for path in ["header", *TABLES[kind]]
        if path not in {"payload", "payload.state"} and type(at(honest, path)) is dict
    ]
    for path in paths:
        check_equal(exit_code(kind, honest.edited(f"{path}.x", 1).record()), 4, f"{path}.x")
        for field in at(honest, path):
            absent = honest.edited(f"{path}.{field}", records.ABSENT).record()
            check_equal(exit_code(kind, absent) in {2, 4}, True, f"{path} without {field}")
