"""What a verb answers: the same content as text for people and as a document for machines."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from lastgood.errors import EXIT_GOOD, LastgoodError

DOCUMENT_VERSION: Final = 1
"""Version of the machine output; within one, fields are only ever added."""

_DETAILS: Final = ("name", "line", "offset", "path", "index", "holder", "errno")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under headings; cells are escaped already."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came out of a verb.

    Attributes:
        document: Fields of the JSON document, beside those that each document has.
        text: For people, on standard output: lines, escaped already, or tables.
        data: The answer itself where it is JSON with or without ``--json``: the state.
        exit_code: Of the process.
        error: What stopped it, where there still is an answer.
        remarks: What a person should know, on standard error.
    """

    document: dict[str, Any]
    text: tuple[str | Table, ...] = ()
    data: bytes | None = field(default=None, repr=False)
    exit_code: int = EXIT_GOOD
    error: LastgoodError | None = None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """A line of a long answer: as a document, and for people.

    Attributes:
        document: For machines.
        text: For people, escaped already.
        is_passing: People see it on a terminal only, and only until the next one comes.
    """

    document: dict[str, Any]
    text: str
    is_passing: bool = False


@dataclass(frozen=True, slots=True)
class Streamed:
    """A long answer, piece by piece, so that memory does not grow with it.

    Attributes:
        pieces: What is printed as it comes; returns the rest of the answer. What it raises comes
            behind what was printed.
        pace: ``live``: each piece is printed when it comes; ``bulk``: in larger portions.
    """

    pieces: Generator[Piece, None, Answer]
    pace: Literal["bulk", "live"] = "bulk"


def envelope(verb: str, answer: Answer) -> dict[str, Any]:
    """The whole JSON document: what each has, then what the verb adds."""
    return {
        "version": DOCUMENT_VERSION,
        "verb": verb,
        "exitCode": answer.exit_code,
        "error": problem(answer.error),
        "remarks": list(answer.remarks),
        **answer.document,
    }


def problem(error: LastgoodError | None) -> dict[str, Any] | None:
    """An error as a document."""
    if error is None:
        return None
    return {
        "code": error.code,
        "exitCode": error.exit_code,
        "happened": error.happened,
        "safe": error.safe,
        "do": error.do,
        "details": {name: getattr(error, name) for name in _DETAILS if hasattr(error, name)},
    }
