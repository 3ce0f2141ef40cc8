"""What a stranger sees in a session's directory: parsed here, by nothing of the product."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.check import check, check_equal

OFFICIAL: Final = re.compile(
    r"(checkpoint|manifest)-([0-9]{6,16})\.json|(manifest|session)\.json", re.ASCII
)
SEGMENT: Final = re.compile(r"events-([0-9]{6,16})-([0-9]{4,16})\.jsonl", re.ASCII)
_SEAL: Final = re.compile(
    rb'\{"lastgood":1,"kind":"[a-z]+","alg":"HS256","kid":"[0-9a-f]{32}","mac":"[0-9a-f]{64}"\}'
)


@dataclass(frozen=True, slots=True)
class Record:
    """A record, whole."""

    name: str
    header: dict[str, Any]
    payload: dict[str, Any]
    digest: str


def record(path: Path) -> Record:
    """Three lines: a seal, a header, and a payload of the length and hash that the header says."""
    lines = path.read_bytes().split(b"\n")
    check_equal(len(lines), 4, f"{path.name}: lines, with the empty one at the end")
    seal, header, payload, rest = lines
    check(_SEAL.fullmatch(seal) is not None and rest == b"", f"{path.name}: {seal[:200]!r}")
    said = json.loads(header)
    check_equal(len(payload), said["length"], f"{path.name}: length of its payload")
    check_equal(hashlib.sha256(payload).hexdigest(), said["sha256"], f"{path.name}: its payload")
    digest = hashlib.sha256(header).hexdigest()
    return Record(path.name, said, json.loads(payload), digest)


def official(folder: Path, kind: str = "") -> Iterator[Path]:
    """The files under official names, of a kind."""
    for path in sorted(folder.iterdir()):
        if OFFICIAL.fullmatch(path.name) and path.name.startswith(kind):
            yield path


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the log, and where it ends."""

    event: dict[str, Any]
    mac: str
    segment: str
    end: int


def log_lines(folder: Path) -> dict[str, Line]:
    """Every whole line of every segment, by its MAC."""
    found: dict[str, Line] = {}
    for path in folder.iterdir():
        if SEGMENT.fullmatch(path.name):
            at = 0
            for text in path.read_bytes().rstrip(b"\0").split(b"\n"):
                at += len(text) + 1
                try:
                    line = json.loads(text)
                    found[line["mac"]] = Line(line["e"], line["mac"], path.name, at)
                except ValueError:
                    continue  # empty behind the last line feed, or torn
    return found


def chain(lines: dict[str, Line], head: str) -> list[Line]:
    """The log up to the line of this MAC, from its first event on."""
    found: list[Line] = []
    while head != "0" * 64:
        check(head in lines, f"the line before event {found[-1].event['seq'] if found else '?'}")
        found.append(lines[head])
        head = lines[head].event["prev"]
    found.reverse()
    check_equal([line.event["seq"] for line in found], list(range(1, len(found) + 1)), "the chain")
    return found
