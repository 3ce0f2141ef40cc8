"""What comes between two steps of an effect: other calls, and interrupts (G5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from lastgood.errors import EffectConflictError
from tests.effects.bench import Ledger, leave_open, opened, pay
from tests.support.check import check_equal


def test_key_that_was_taken_while_it_was_looked_up_conflicts(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was looked up before the state was read again is looked up again (G5).

    Method: right behind the look-up another call does an action with that key, and the state is
    read again from a checkpoint that does not list it any more.
    """
    with opened(tmp_path) as session:
        right, waiting = session._acting.holder_of, [1]

        def late(_: object, key: str) -> object:
            found = right(key)
            if waiting:
                waiting.pop()
                pay(session, ledger, args={"amount": 13})
                session.save()
                session._following._stale = True
            return found

        monkeypatch.setattr(type(session._acting), "holder_of", late)
        with pytest.raises(EffectConflictError, match="other arguments"):
            pay(session, ledger)
    check_equal(ledger.lines, ["7"], "ledger")


def test_owed_event_is_applied_once_whatever_interrupts(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted behind it, and asked for again in the same session: the state has it once.

    Method: a done that a person said, below a checkpoint; an interrupt in the automatic save.
    """
    leave_open(tmp_path, ledger)
    with opened(tmp_path) as session:
        one = session.open_effects[0].fingerprint
        session.resolve(one, "done", result="by hand", actor="clerk", reason="booked")
        session.save()
    with opened(tmp_path) as session:

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        session._acting.save_if_due = interrupted
        with pytest.raises(KeyboardInterrupt):
            pay(session, ledger)
        session._acting.save_if_due = lambda _: None
        check_equal(pay(session, ledger), "by hand", "result")
        check_equal(session.state, {"paid": ["by hand"]}, "state")
