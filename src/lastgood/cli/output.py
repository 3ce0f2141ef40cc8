"""Printing: the answer on standard output, what people should know on standard error.

Nothing that came from a store, a file or the command line reaches a terminal unescaped (T12),
and no locale can make printing fail: JSON is UTF-8 whatever the locale, and of everything else
what the locale lacks is escaped.
"""

from __future__ import annotations

import contextlib
import errno as errnos
import sys
from collections.abc import Iterator
from typing import Any, Final, Literal

from lastgood.cli.answer import Answer, Piece, Streamed, Table, envelope
from lastgood.cli.wording import harmless, harmless_json
from lastgood.errors import LastgoodError, StorageError

_GAP: Final = "  "
_CLEAR: Final = "\r\x1b[K"
"""Back to the beginning of the line, and nothing on it."""
_UNBOUNDED_CHARS: Final = 100_000
_AT_ONCE_BYTES: Final = 1 << 16


def show(answer: Answer, *, verb: str, machine: Literal["yes", "no"]) -> None:
    """Print an answer; on return the system has taken all of it.

    Raises:
        StorageError: It has not.
        BrokenPipeError: Nobody reads it any more.
    """
    if machine == "yes":
        _write(_json(envelope(verb, answer)))
    elif answer.data is not None:
        _write(harmless_json(answer.data) + b"\n")
    elif answer.text:
        parts = (table_text(part) if isinstance(part, Table) else part for part in answer.text)
        text = "".join(f"{part}\n" for part in parts)
        _write(text.encode(_encoding(), "backslashreplace"))
    for remark in answer.remarks:
        say(remark)
    if answer.error is not None:
        say(str(answer.error))


def pour(streamed: Streamed, *, machine: Literal["yes", "no"]) -> Answer:
    """Print a long answer as it comes, and return its rest, which ``show`` prints.

    Raises:
        StorageError, BrokenPipeError: As ``show``.
        LastgoodError: What the answer ended with; what came before it was printed.
    """
    waiting = bytearray()
    is_shown = machine == "no" and sys.stdout is not None and sys.stdout.isatty()
    clear = _CLEAR if is_shown and streamed.pace == "live" else ""
    with contextlib.closing(streamed.pieces) as pieces, _cleared(clear):
        try:
            while True:
                piece = next(pieces)
                if machine == "yes":
                    waiting += _json(piece.document)
                else:
                    waiting += _line(piece, clear).encode(_encoding(), "backslashreplace")
                if len(waiting) >= _AT_ONCE_BYTES or streamed.pace == "live":
                    _write(bytes(waiting))
                    waiting.clear()
        except StopIteration as end:
            rest: Answer = end.value
        except LastgoodError:
            if sys.stdout is not None:  # else it is what could not be written
                _write(bytes(waiting))
            raise
    _write(bytes(waiting))
    return rest


def _line(piece: Piece, clear: str) -> str:
    """A piece for people; with ``clear``, in place of one that was passing."""
    if piece.is_passing:
        return clear + piece.text if clear else ""
    return f"{clear}{piece.text}\n"


@contextlib.contextmanager
def _cleared(clear: str) -> Iterator[None]:
    """Leave no passing line behind, also where a signal ends it."""
    try:
        yield
    finally:
        if clear and sys.stdout is not None:
            _write(clear.encode())


def show_error(error: LastgoodError, *, verb: str, machine: Literal["yes", "no"]) -> None:
    """Print an error that left no answer; errors as in ``show``."""
    say(str(error))
    if machine == "yes":
        _write(_json(envelope(verb, Answer(document={}, exit_code=error.exit_code, error=error))))


def say(text: str) -> None:
    """Tell people something, as one line on standard error; never fails."""
    try:
        if sys.stderr is not None:
            sys.stderr.write("lastgood: " + harmless(text) + "\n")
            sys.stderr.flush()
    except (OSError, ValueError):
        sys.stderr = None  # the exit code still says it; nothing is tried again at exit


def _json(document: dict[str, Any]) -> bytes:
    import orjson  # noqa: PLC0415  # not before it is needed: `lastgood --version` starts fast

    return harmless_json(orjson.dumps(document)) + b"\n"


def table_text(table: Table) -> str:
    """A table as rich draws it on a terminal, else as aligned text."""
    drawn = _drawn(table)
    return _aligned(table) if drawn is None else drawn


def _aligned(table: Table) -> str:
    lines = [tuple(heading.upper() for heading in table.headings), *table.rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        _GAP.join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _drawn(table: Table) -> str | None:
    """The table as rich draws it; None where there is no terminal, or no rich."""
    if sys.stdout is None or not sys.stdout.isatty():
        return None
    try:
        from rich.console import Console  # noqa: PLC0415  # an extra, and slow to load
        from rich.table import Table as RichTable  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415
    except ImportError:
        return None
    console = Console(file=sys.stdout, highlight=False)
    grid = RichTable(*table.headings)
    for row in table.rows:
        grid.add_row(*map(Text, row))  # as texts, so that nothing in them is markup
    unbounded = console.options.update(width=_UNBOUNDED_CHARS)
    if console.measure(grid, options=unbounded).maximum > console.width:
        # Too wide: one line a value, so that a digest stays in one piece.
        grid = RichTable(show_header=False)
        for row in table.rows:
            for heading, text in zip(table.headings, row, strict=True):
                grid.add_row(heading, Text(text), end_section=heading == table.headings[-1])
    with console.capture() as captured:
        console.print(grid)
    return captured.get().rstrip("\n")


def _encoding() -> str:
    return "utf-8" if sys.stdout is None else sys.stdout.encoding or "utf-8"


def _write(data: bytes) -> None:
    stream = sys.stdout
    try:
        if stream is None:
            raise OSError(errnos.EBADF, "closed")
        stream.buffer.write(data)
        stream.buffer.flush()
    except OSError as error:
        # What is left in the buffer is not tried again at exit, where it would fail untyped.
        sys.stdout = None
        if isinstance(error, BrokenPipeError):
            raise
        raise StorageError(
            "The answer could not be written to standard output",
            errno=error.errno or 0,
            safe="The command itself was carried out",
            do="See what is stored with: lastgood sessions",
        ) from error
