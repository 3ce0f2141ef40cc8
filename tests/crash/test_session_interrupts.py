"""A signal's exception, KeyboardInterrupt, arrives anywhere in a call of a session.

CPython hands a signal to its handler where a function begins, a call has come back, or a loop
turns. A tracer raises at each such point of the session's own code, at one after the other. What
was acknowledged stays, the handle goes on, and nobody waits for ever.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, Final

import pytest

from lastgood import Session, event_log, following, handle, lease, session
from lastgood.errors import LastgoodError
from tests.crash.sessions import (
    LARGE,
    Sessions,
    State,
    Told,
    check_goes_on,
    check_recovers,
    given,
    looks_of,
    opened,
)
from tests.support.check import check, check_equal
from tests.support.records import fingerprint

pytestmark = [
    pytest.mark.slow,
    pytest.mark.normal_only,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

MODULES: Final = tuple(module.__file__ for module in (session, following, handle, event_log, lease))
_BEGINS: Final = {"RESUME", "JUMP_BACKWARD"}
_ENDS: Final = {"CALL", "CALL_FUNCTION_EX", "CALL_KW"}


class Interrupting:
    """Raises KeyboardInterrupt at point ``at`` of what it runs; counts the points.

    Attributes:
        points: How many it met.
        where: Module and line of the one at which it raised.
    """

    def __init__(self, at: int) -> None:
        self.points = 0
        self.where = ""
        self._at = at
        self._before: dict[FrameType, str] = {}

    def run(self, ask: Callable[[], object]) -> object:
        """Run ``ask``; what it returned, or raised."""
        sys.settrace(self._enter)
        try:
            return ask()
        except (KeyboardInterrupt, LastgoodError) as error:
            return error
        finally:
            sys.settrace(None)

    def _enter(self, frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code.co_filename not in MODULES:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return self._look

    def _look(self, frame: FrameType, event: str, argument: object) -> Any:
        if event == "opcode":
            name = dis.opname[frame.f_code.co_code[frame.f_lasti]]
            before, self._before[frame] = self._before.get(frame, ""), name
            if name in _BEGINS or before in _ENDS:
                self.points += 1
                if self.points - 1 == self._at:
                    self.where = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                    raise KeyboardInterrupt
        return self._look


ASKS: Final[dict[str, Callable[[Session[State]], object]]] = {
    "append": lambda session: session.append(*given("y")),
    "roll": lambda session: session.append(*given("y", pad_bytes=LARGE)),
    "save": lambda session: session.save(fingerprints=[fingerprint(7)]),
    "state": lambda session: session.state,
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ASKS)
def test_an_interrupt_anywhere_leaves_a_handle_that_goes_on(sessions: Sessions, name: str) -> None:
    """C7-03, G1: acknowledged is kept, state and log are one, and the next call works at once.

    Method: KeyboardInterrupt at each point at which it may come; then append, save, recover.
    """
    seen: set[tuple[str, str]] = set()
    at = 0
    while True:
        with sessions.copy("begun") as place:
            asked, told = opened(place, lock_wait_s=0.01), sessions.told("begun")
            told.append(asked, "x")
            interrupting = Interrupting(at)
            came = interrupting.run(lambda: ASKS[name](asked))  # noqa: B023 - called at once
            if not interrupting.where:
                asked.close()
                break
            context = f"{name} interrupted at point {at}, {interrupting.where}, told {came!r}"
            del came
            _check_after(asked, told, context)
            looks = (looks_of(place), repr(told))
            if looks not in seen:
                seen.add(looks)
                check_recovers(place, told, context, name="later")
        at += 1
    print(f"{name}: {at} points, {len(seen)} states")
    check(at > 10, f"{at} points")


def _check_after(asked: Session[State], told: Told, context: str) -> None:
    """Nobody was told of item y: it is there or not, and from here on it stays so."""
    try:
        state: list[str] = asked.state["items"]
    except LastgoodError as error:
        raise AssertionError(f"{context}: afterwards {error!r}") from error
    check(state[:5] == told.acknowledged, f"{context}: {state}")
    check(state[5:] in ([], ["y"]), f"{context}: {state}")
    told.acknowledged = state
    check_goes_on(asked, told, "next", context)
    asked.close()
    check_equal(asked.notices, (), f"{context}: notices")
