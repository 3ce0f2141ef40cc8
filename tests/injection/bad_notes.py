"""The example's store of notes, each time with one mistake."""

from __future__ import annotations

from typing import Final

from fault_injection.examples.notes import Job, Notes


class ForgetfulNotes(Notes):
    """Makes the note durable, and forgets its name."""

    def make_durable(self, file: int) -> None:
        self._system.fsync(file)


class DeafNotes(Notes):
    """Goes on when it is told that nothing was written."""

    def make_durable(self, file: int) -> None:
        try:
            super().make_durable(file)
        except OSError:
            pass


FORGETFUL: Final = Job(ForgetfulNotes)
DEAF: Final = Job(DeafNotes)
