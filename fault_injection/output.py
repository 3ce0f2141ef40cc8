"""Where a command writes: text for people, documents for programs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from fault_injection.words import UsageError

_STANDARD: Final = "-"


class Output:
    """Text on standard output, each document in its file.

    A document may take standard output, ``-``; then the text is on standard error.

    Args:
        documents: The files, as they were given; None: not asked for.

    Attributes:
        people: Where the text goes, and what jobs print in this process.

    Raises:
        UsageError: One cannot be written, or two are the same: at once, not after all the work.
    """

    def __init__(self, *documents: str | None) -> None:
        self._documents = [place for place in documents if place is not None]
        if len(set(self._documents)) < len(self._documents):
            raise UsageError(f"two reports cannot both be {self._documents[0]!r}")
        for path in self._files():
            if path.is_dir() or not os.access(path.parent, os.W_OK):
                raise UsageError(f"cannot write {path}: it is a directory, or in none that can be")
        self.people = sys.stderr if _STANDARD in self._documents else sys.stdout

    def forget(self) -> None:
        """Remove the files of an older run: whoever reads behind an interrupt finds none."""
        for path in self._files():
            if path.is_file() and not path.is_symlink():
                path.unlink()

    def say(self, text: str) -> None:
        """Text for people, at once."""
        print(text, end="", file=self.people, flush=True)

    def write(self, place: str | None, document: str) -> None:
        """Write a document, if it was asked for.

        Raises:
            UsageError: It cannot be written.
        """
        if place == _STANDARD:
            print(document, end="", flush=True)
        elif place is not None:
            try:
                Path(place).write_text(document, encoding="utf-8")
            except OSError as error:
                raise UsageError(f"cannot write {place}: {error.strerror}") from error

    def _files(self) -> list[Path]:
        return [Path(place) for place in self._documents if place != _STANDARD]
