"""Two owners who take turns, call by call, as a schedule says.

Each works in a thread of its own, but only one moves at a time: who has the turn runs to the
call at which the schedule takes it away. So every schedule is repeated exactly.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from tests.crash.seam import Seam

_PATIENCE_S: Final = 60.0

_Result = TypeVar("_Result")


class Turn(Generic[_Result]):
    """One owner: runs ``work`` on its own seam, and stands still before call ``pause_at``.

    Args:
        work: Gets the seam to work on.
        pause_at: Number of the call before which it stands still, or how the call begins; None:
            nowhere.
    """

    def __init__(self, work: Callable[[Seam], _Result], *, pause_at: int | str | None) -> None:
        self.seam = Seam(locks="broken")
        self.is_paused = False
        self._work = work
        self._pause_at = pause_at
        self._go_on = threading.Event()
        self._stands = threading.Event()
        self._result: list[_Result] = []
        self._error: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Run to the pause, or to the end."""
        self.seam.before = self._before
        self._thread.start()
        self._wait()

    def finish(self) -> _Result:
        """Run to the end, and return or raise what came out."""
        self._stands.clear()
        self._go_on.set()
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            raise AssertionError("an owner never came to its end")
        if self._error:
            raise self._error[0]
        return self._result[0]

    def _before(self, number: int, made: str) -> None:
        at = self._pause_at
        due = made.startswith(at) if isinstance(at, str) else number == at
        if due and not self.is_paused:
            self.is_paused = True
            self._stands.set()
            if not self._go_on.wait(_PATIENCE_S):
                raise AssertionError("nobody gave an owner its turn")

    def _run(self) -> None:
        try:
            self._result.append(self._work(self.seam))
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            self._error.append(error)
        finally:
            self._stands.set()

    def _wait(self) -> None:
        if not self._stands.wait(_PATIENCE_S):
            raise AssertionError("an owner stands at no call")
