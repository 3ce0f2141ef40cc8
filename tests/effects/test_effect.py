"""Effects: nothing is repeated without a decision, nothing that was decided is lost (G5)."""

from __future__ import annotations

import signal
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from lastgood import CheckpointPolicy, Effect
from lastgood.errors import (
    EffectConflictError,
    EffectUndecidedError,
    FingerprintError,
    LimitError,
    ReducerError,
    StateError,
    UsageError,
)
from lastgood.probes import Answer, done, not_done, unknown
from tests.crash.seam import Seam
from tests.effects.bench import Ledger, event_of, leave_open, opened, pay
from tests.support.check import check, check_equal


def test_effect_is_done_once_over_many_runs(tmp_path: Path, ledger: Ledger) -> None:
    """A done effect is skipped with its result, whatever became of log and checkpoints (C8-01)."""
    for turn in range(4):
        with opened(tmp_path) as session:
            check_equal(pay(session, ledger), "receipt of 7", f"result in run {turn}")
            check_equal(session.state, {"paid": ["receipt of 7"]}, "state")
            session.append("note", turn)
            session.save()
    check_equal(ledger.lines, ["7"], "ledger")


def test_two_flushes_make_an_effect_durable(tmp_path: Path, ledger: Ledger) -> None:
    """One for the intent, one for result and event together (G1)."""
    seam = Seam()
    with opened(tmp_path, seam) as session:
        pay(session, ledger, "first")
        seam.begin()
        pay(session, ledger, "second")
        syncs = [made for made in seam.made if made.startswith(("fsync", "fdatasync"))]
        check_equal(syncs, ["fdatasync", "fdatasync"], "flushes of an effect")
        writes = [made for made in seam.made if made.startswith(("pwrite", "writev"))]
        check_equal(len(writes), 2, "writes of an effect")


def test_effect_that_raised_is_undecided_until_somebody_decides(
    tmp_path: Path, ledger: Ledger
) -> None:
    """Nobody knows whether it was done; what is asked for is said, with the command (C8-09)."""
    leave_open(tmp_path, ledger)
    with opened(tmp_path) as session:
        (question,) = session.open_effects
        check_equal((question.kind, question.key), ("pay", "7"), "what is open")
        with pytest.raises(EffectUndecidedError, match=r"pay 7 .*event 3") as caught:
            pay(session, ledger)
        check("lastgood effects resolve" in caught.value.do, "the command")
        with pytest.raises(EffectUndecidedError):
            session.should_replay(question.fingerprint)
        check_equal(list(caught.value.undecided), [question], "undecided")
        check_equal(pay(session, ledger, "8"), "receipt of 8", "another effect")
        session.resolve(question.fingerprint, "not done", actor="clerk", reason="not booked")
        pay(session, ledger)
    check_equal(ledger.lines, ["7", "8", "7"], "ledger: again, because a person said so")


def test_decision_that_it_was_done_skips_it_and_applies_its_event(
    tmp_path: Path, ledger: Ledger
) -> None:
    """Resolved as done: skipped with the given result, and the state learns of it (C8-02)."""
    leave_open(tmp_path, ledger)
    for is_saved in (False, True):
        with opened(tmp_path) as session:
            if session.open_effects:
                one = session.open_effects[0].fingerprint
                session.resolve(one, "done", result="by hand", actor="clerk", reason="booked")
                check_equal(session.state, {"paid": []}, "before the program asks")
                session.save()
            check_equal(pay(session, ledger), "by hand", "result")
            check_equal(session.state, {"paid": ["by hand"]}, "state")
            if is_saved:
                session.save()
    with opened(tmp_path) as session:
        check_equal(pay(session, ledger), "by hand", "result, from below a checkpoint")
        check_equal(session.state, {"paid": ["by hand"]}, "applied once")
    check_equal(ledger.lines, ["7"], "ledger")


def test_three_open_effects_are_decided_one_by_one(tmp_path: Path, ledger: Ledger) -> None:
    """Done, not done, and left: each for itself, nothing else is blocked (C8-02)."""
    for key in "abc":
        leave_open(tmp_path, ledger, key)
    with opened(tmp_path) as session:
        session.save()
        a, b, c = session.open_effects
        check_equal([a.key, b.key, c.key], ["a", "b", "c"], "open, oldest first")
        session.resolve(a.fingerprint, "done", result=1, actor="clerk", reason="seen")
        session.resolve(b.fingerprint, "not done", actor="clerk", reason="not there")
        check_equal(pay(session, ledger, "a"), 1, "the given result")
        check_equal(pay(session, ledger, "b"), "receipt of b", "run once")
        with pytest.raises(EffectUndecidedError):
            pay(session, ledger, "c")
        check_equal(pay(session, ledger, "d"), "receipt of d", "a new one")
    check_equal(ledger.lines, ["a", "b", "c", "b", "d"], "ledger")


def test_intent_left_open_is_known_three_saves_and_a_prune_later(
    tmp_path: Path, ledger: Ledger
) -> None:
    """A checkpoint carries what is open; its key with other arguments still conflicts (G5)."""
    leave_open(tmp_path, ledger)
    with opened(tmp_path) as session:
        pay(session, ledger, "old")
        for turn in range(3):
            session.append("note", turn)
            session.save()
    with opened(tmp_path) as session:
        check_equal([one.key for one in session.open_effects], ["7"], "open")
        with pytest.raises(EffectConflictError, match="other arguments"):
            pay(session, ledger, args={"amount": 13})
        with pytest.raises(EffectConflictError, match="other arguments"):
            pay(session, ledger, "old", args={"amount": 13})
        check_equal(pay(session, ledger, "old"), "receipt of old", "the stored result")
    check_equal(ledger.lines, ["7", "old"], "ledger")


def test_idempotent_effect_runs_again_with_the_same_key(tmp_path: Path, ledger: Ledger) -> None:
    """The decision was made beforehand: the service is given the same idempotency key (G5)."""
    keys = []

    def act(effect: Effect) -> int:
        keys.append(effect.idempotency_key)
        return 1 // (len(keys) - 1)

    for error in (ZeroDivisionError, None):
        with opened(tmp_path) as session, pytest.raises(error) if error else nullcontext():
            session.run_once("pay", act, key="7", on_unknown="idempotent")
    check_equal(len(keys), 2, "runs")
    check_equal(keys[0], keys[1], "idempotency keys")
    with opened(tmp_path) as session:
        check_equal(session.run_once("pay", lambda _: 2, key="7"), 1, "result")


@pytest.mark.parametrize(
    ("answer", "lines"),
    [(done("by the probe"), ["7"]), (not_done("not booked"), ["7", "7"]), (unknown("?"), None)],
)
def test_probe_decides_or_leaves_it_to_a_person(
    tmp_path: Path, ledger: Ledger, answer: Answer, lines: list[str] | None
) -> None:
    """Done and not done go into the log; unknown is manual (design 8)."""
    leave_open(tmp_path, ledger, on_unknown=lambda asked: unknown())
    asked = []

    def probe(about: Any) -> Answer:
        asked.append((about.kind, about.key, about.is_done))
        return answer

    with opened(tmp_path) as session:
        if lines is None:
            with pytest.raises(EffectUndecidedError, match=r"cannot tell: \?"):
                pay(session, ledger, on_unknown=probe)
            check_equal(ledger.lines, ["7"], "ledger")
            return
        pay(session, ledger, on_unknown=probe)
        check_equal(
            session.state["paid"], ["by the probe" if lines == ["7"] else "receipt of 7"], "s"
        )
    check_equal((ledger.lines, asked), (lines, [("pay", "7", False)]), "ledger, and who was asked")


@pytest.mark.parametrize("wrong", [None, True, "done", 1 / 3])
def test_probe_that_gives_no_answer_says_nothing(
    tmp_path: Path, ledger: Ledger, wrong: object
) -> None:
    """A truth value, nothing, an exception: none of them says that it was not done (G5)."""
    leave_open(tmp_path, ledger, on_unknown=lambda asked: unknown())

    def probe(asked: object) -> Any:
        if wrong == 1 / 3:
            raise OSError("no")
        return wrong

    with opened(tmp_path) as session, pytest.raises(EffectUndecidedError, match="cannot tell"):
        pay(session, ledger, on_unknown=probe)
    check_equal(ledger.lines, ["7"], "ledger")


@pytest.mark.parametrize("then", ["manual", "idempotent", "probe"])
@pytest.mark.parametrize("now", ["manual", "idempotent", "probe"])
def test_more_careful_class_counts(tmp_path: Path, ledger: Ledger, then: str, now: str) -> None:
    """What was declared when it was intended is not weakened by who asks later (G5)."""
    wanted: dict[str, Any] = {"manual": "manual", "idempotent": "idempotent", "probe": ledger.probe}
    leave_open(tmp_path, ledger, on_unknown=wanted[then])
    with opened(tmp_path) as session:
        if "manual" in (then, now) or (then, now) == ("probe", "idempotent"):
            with pytest.raises(EffectUndecidedError):
                pay(session, ledger, on_unknown=wanted[now])
            check_equal(ledger.lines, ["7"], "ledger")
        else:
            pay(session, ledger, on_unknown=wanted[now])
            again = (then, now) == ("idempotent", "idempotent")
            check_equal(ledger.lines, ["7", "7"] if again else ["7"], "ledger")


def test_same_identity_twice_in_one_session_conflicts(tmp_path: Path, ledger: Ledger) -> None:
    """A second call that was meant is told apart by its occurrence, never swallowed (C8-05)."""
    for _ in range(2):
        with opened(tmp_path) as session:
            pay(session, ledger)
            with pytest.raises(EffectConflictError, match="asked for already"):
                pay(session, ledger)
            pay(session, ledger, occurrence=1)
    check_equal(ledger.lines, ["7", "7"], "ledger: twice, as it was meant")


def test_same_identity_by_two_threads_at_once_runs_once(tmp_path: Path, ledger: Ledger) -> None:
    """Who comes while another is inside is told so (G5)."""
    inside, go_on = threading.Event(), threading.Event()
    with opened(tmp_path) as session:

        def slow(effect: object) -> int:
            inside.set()
            check(go_on.wait(30), "the other one came")
            ledger.write("7")
            return 1

        thread = threading.Thread(target=lambda: session.run_once("pay", slow, key="7"))
        thread.start()
        check(inside.wait(30), "the first one is inside")
        with pytest.raises(EffectConflictError):
            session.run_once("pay", slow, key="7")
        known = next(iter(session._acting.following._going.effects.open))
        with pytest.raises(EffectConflictError):
            session.resolve(known, "not done", actor="clerk", reason="no")
        check_equal(session.open_effects, (), "what nobody is at")
        go_on.set()
        thread.join()
    check_equal(ledger.lines, ["7"], "ledger")


def test_other_arguments_need_supersedes(tmp_path: Path, ledger: Ledger) -> None:
    """A known key with other arguments runs only if it says what it stands in for (C8-07)."""
    with opened(tmp_path) as session:
        pay(session, ledger)
        first = session.fingerprints[0]
        session.save()
    for wrong in (None, f"fx:v1:{0:064x}"):
        with opened(tmp_path) as session, pytest.raises(EffectConflictError):
            pay(session, ledger, args={"amount": 13}, supersedes=wrong)
    with opened(tmp_path) as session:
        pay(session, ledger, args={"amount": 13}, supersedes=first)
        check_equal(session.fingerprints[0], first, "the old one stays")
    with opened(tmp_path) as session:
        check_equal(pay(session, ledger), "receipt of 7", "the old one is done as before")
        with pytest.raises(EffectConflictError):
            pay(session, ledger, args={"amount": 14}, supersedes=first)
    check_equal(len(ledger.lines), 2, "ledger")


def test_what_is_open_is_not_superseded(tmp_path: Path, ledger: Ledger) -> None:
    """Nobody knows yet whether the first was done: both might be (G5)."""
    leave_open(tmp_path, ledger)
    with opened(tmp_path) as session:
        old = session.open_effects[0].fingerprint
        with pytest.raises(EffectUndecidedError):
            pay(session, ledger, args={"amount": 13}, supersedes=old)
    check_equal(ledger.lines, ["7"], "ledger")


def test_leaving_without_a_word_is_undecided(tmp_path: Path) -> None:
    """An effect that says neither done nor not_done is open, at once and later (design 8)."""
    with opened(tmp_path) as session:
        silent = session.effect("pay", key="7")
        with pytest.raises(EffectUndecidedError, match="without done or not_done"), silent:
            pass
        check_equal([one.key for one in session.open_effects], ["7"], "open")


def test_not_done_may_be_tried_again_at_once(tmp_path: Path, ledger: Ledger) -> None:
    """A definite failure closes the intent; only the word of the body is one (design 8)."""
    with opened(tmp_path) as session:
        with session.effect("pay", key="7") as effect:
            with pytest.raises(UsageError):
                effect.not_done("")
            effect.not_done("the service refused")
        check_equal((session.open_effects, session.fingerprints), ((), ()), "nothing is open")
        session.run_once("pay", lambda _: ledger.write("7"), key="7")
    check_equal(ledger.lines, ["7"], "ledger")


def test_result_that_cannot_be_stored_may_be_given_again(tmp_path: Path) -> None:
    """It leaves the effect undecided; the next result settles it (design 8)."""
    with opened(tmp_path) as session:
        with session.effect("pay", key="7") as effect:
            for wrong in (object(), float("nan"), {1: 2}):
                with pytest.raises(StateError):
                    effect.done(wrong)
            with pytest.raises(LimitError):
                effect.done("x" * (5 << 20))
            with pytest.raises(UsageError):
                effect.done(1, event=("lastgood.done", None))
            effect.done(1, event=("paid", 1))
            effect.done(1, event=("paid", 1))
            for other in (2, True, 1.0):
                with pytest.raises(EffectConflictError, match="says otherwise"):
                    effect.done(other, event=("paid", 1))
            with pytest.raises(EffectConflictError, match="says otherwise"):
                effect.not_done("after all")
        check_equal(session.state, {"paid": [1]}, "applied once")


def test_event_that_the_reducer_refuses_is_not_stored(tmp_path: Path) -> None:
    """Result and event go together, or neither does (one record)."""

    def refusing(state: Any, event: Any) -> Any:
        raise ValueError(event.type)

    with opened(tmp_path, reducer=refusing) as session:
        pay = session.effect("pay", key="7")
        with pytest.raises(EffectUndecidedError), pay, pytest.raises(ReducerError):
            pay.done(1, event=("paid", 1))
    with opened(tmp_path) as session:
        check_equal((session.state, len(session.open_effects)), ({"paid": []}, 1), "open, no event")


def test_interrupt_in_the_body_leaves_an_intent(tmp_path: Path, ledger: Ledger) -> None:
    """Ctrl-C inside an effect: the state has not advanced, and resume asks (C7-03)."""
    with opened(tmp_path) as session, pytest.raises(KeyboardInterrupt):
        session.run_once("pay", lambda _: signal.raise_signal(signal.SIGINT), key="7")
    with opened(tmp_path) as session:
        check_equal((session.state, len(session.open_effects)), ({"paid": []}, 1), "open, no event")
        with pytest.raises(EffectUndecidedError):
            pay(session, ledger, args=None)


def test_policy_saves_after_an_effect_of_its_classes(tmp_path: Path, ledger: Ledger) -> None:
    """``after`` names the classes that are followed by a checkpoint (design 10)."""
    policy = CheckpointPolicy(events=None, seconds=None, log_bytes=None, after=("manual",))
    with opened(tmp_path, policy=policy) as session:
        pay(session, ledger, "a", on_unknown="idempotent")
        pay(session, ledger, "b", on_unknown=ledger.probe)
        check_equal(session._following.log.lease.manifest.current, None, "no checkpoint yet")
        pay(session, ledger, "c")
        current = session._following.log.lease.manifest.current
        check(current is not None and current.sequence == session.sequence, "a checkpoint")


def test_decorated_function_is_an_effect_by_its_arguments(tmp_path: Path, ledger: Ledger) -> None:
    """Each call is one action: its arguments are, its key is what the function says (G5)."""
    for _ in range(2):
        with opened(tmp_path) as session:

            @session.once("pay", key=lambda invoice, amount=1: invoice, event=event_of)
            def once(invoice: str, amount: int = 1) -> str:
                return ledger.write(f"{invoice} {amount}")

            check_equal(once("7"), "receipt of 7 1", "result")
            with pytest.raises(EffectConflictError, match="already"):
                once("7", amount=1)
            with pytest.raises(EffectConflictError, match="other arguments"):
                once("7", 2)
            check_equal(once.__name__, "once", "name")
    check_equal(ledger.lines, ["7 1"], "ledger")


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"key": ""}, UsageError), ({"key": 7}, UsageError), ({"args": object()}, StateError),
        ({"on_unknown": "retry"}, UsageError), ({"on_unknown": None}, UsageError),
        ({"occurrence": -1}, UsageError), ({"supersedes": "fx"}, FingerprintError),
        ({"supersedes": ""}, FingerprintError), ({"event": ("paid", 1)}, UsageError),
    ],
)  # fmt: skip
def test_wrong_argument_is_refused_before_anything_is_written(
    tmp_path: Path, wrong: dict[str, Any], error: type[Exception]
) -> None:
    """A misuse writes no intent."""
    with opened(tmp_path) as session:
        before = session.sequence
        with pytest.raises(error):
            session.effect("pay", **{"key": "7", **wrong})
        check_equal(session.sequence, before, "events")


def test_effect_outside_of_its_block_says_so(tmp_path: Path) -> None:
    """What is asked, or said, outside of the block has no answer."""
    with opened(tmp_path) as session:
        effect = session.effect("pay", key="7")
        with pytest.raises(UsageError):
            effect.done()
        with pytest.raises(UsageError):
            effect.not_done("no")
        with pytest.raises(UsageError):
            effect.should_run  # noqa: B018
        with effect:
            with pytest.raises(UsageError):
                effect.result  # noqa: B018
            effect.done()
        with pytest.raises(UsageError), effect:
            pass


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"text": "fx:v1:00"}, FingerprintError), ({"text": f"fx:v1:{9:064x}"}, UsageError),
        ({"verdict": "maybe"}, UsageError), ({"actor": ""}, UsageError),
        ({"reason": ""}, UsageError),
        ({"verdict": "not done", "result": 1}, UsageError),
        ({"result": object()}, StateError),
        ({"actor": "a\n"}, UsageError), ({"reason": None}, UsageError), ({"actor": 7}, UsageError),
    ],
)  # fmt: skip
def test_wrong_decision_is_refused(
    tmp_path: Path, ledger: Ledger, wrong: dict[str, Any], error: type[Exception]
) -> None:
    """A decision has an effect, a verdict, a person and a reason; else it is none."""
    leave_open(tmp_path, ledger)
    with opened(tmp_path) as session:
        good = {
            "text": session.open_effects[0].fingerprint, "verdict": "done", "actor": "clerk",
            "reason": "seen",
        }  # fmt: skip
        given = {**good, **wrong}
        with pytest.raises(error):
            session.resolve(given.pop("text"), given.pop("verdict"), **given)
        check_equal(len(session.open_effects), 1, "still open")
