"""What the world was told decides what may be found: the grounds of every judgement."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fault_injection.world import Act, Outcome, Told, World
from tests.support.check import check, check_equal


def told(text: str) -> Told:
    """``a+ b- c``: acknowledged, refused, open."""
    outcomes: dict[str, Outcome] = {"+": "acknowledged", "-": "refused"}
    return Told(
        tuple(
            Act(word.rstrip("+-"), "save", outcomes.get(word[-1], "open")) for word in text.split()
        )
    )


def shown(known: Told) -> str:
    """The same, the other way round."""
    signs = {"acknowledged": "+", "refused": "-", "open": ""}
    return " ".join(f"{act.name}{signs[act.outcome]}" for act in known.acts)


@pytest.mark.parametrize(
    ("known", "found", "missing"),
    [
        ("", "", ""),
        ("a+ b+", "a b", ""),
        ("a+ b+", "b", "a"),
        ("a+ b+", "", "a b"),
        ("a+ b c-", "a", ""),
        ("a+ b c-", "", "a"),
    ],
)
def test_what_was_acknowledged_must_be_found(known: str, found: str, missing: str) -> None:
    """O1: an acknowledged act that is not found is missing; others need not be there.

    Method: a table.
    """
    check_equal(told(known).missing(found.split()), missing.split(), "missing")


@pytest.mark.parametrize(
    ("known", "found", "unasked"),
    [
        ("a+ b+ c", "a b c", ""),
        ("a+ b+ c", "a b", ""),
        ("a+ b c", "a c", ""),
        ("a+ b", "a b x", "x"),
        ("a+ b-", "a b", "b"),
        ("a+ b+", "b a", "a"),
        ("a+ b+", "a a b", "a"),
        ("a+", "", ""),
    ],
)
def test_what_is_found_was_asked_for_once_and_in_order(
    known: str, found: str, unasked: str
) -> None:
    """O2: what nobody asked for, what was refused, and what comes twice or too late.

    Method: a table; something acknowledged that is left out is O1's business.
    """
    check_equal(told(known).unasked(found.split()), unasked.split(), "unasked")


@pytest.mark.parametrize(
    ("known", "newest", "may_be"),
    [
        ("", None, [None]),
        ("a", None, [None, "a"]),
        ("a-", None, [None]),
        ("a+", "a", ["a"]),
        ("a+ b", "a", ["a", "b"]),
        ("a+ b c", "a", ["a", "b", "c"]),
        ("a+ b- c", "a", ["a", "c"]),
        ("a b+ c-", "b", ["b"]),
        ("a b", None, [None, "a", "b"]),
    ],
)
def test_the_newest_is_the_last_acknowledged_or_one_begun_behind_it(
    known: str, newest: str | None, may_be: list[str | None]
) -> None:
    """O1, O2 of acts that replace each other: old or new, never older, never refused.

    Method: a table.
    """
    check_equal(told(known).newest(), newest, "newest")
    check_equal(sorted(told(known).may_be_newest(), key=str), sorted(may_be, key=str), "may be")


@pytest.mark.parametrize(
    ("known", "found", "settled"),
    [
        ("a+ b", "a b", "a+ b+"),
        ("a+ b", "a", "a+ b-"),
        ("a+ b c", "b", "a+ b+ c-"),
        ("a- b", "a b", "a- b+"),
        ("a+", "", "a+"),
    ],
)
def test_a_recovery_settles_what_was_open(known: str, found: str, settled: str) -> None:
    """O4: what a recovery found stays found, and what it did not find never comes back.

    Method: a table; what was told before is not told anew.
    """
    check_equal(shown(told(known).settled(found.split())), settled, "settled")


@given(st.lists(st.sampled_from(["x+", "x-", "x"]), max_size=6), st.data())
def test_what_may_be_found_and_is_settled_may_be_found_again(
    outcomes: list[str], data: st.DataObject
) -> None:
    """O4: a judge that accepts a state accepts it again once it is settled, and nothing else.

    Method: any history, any newest act that it allows; settle, and ask again.
    """
    known = told(" ".join(f"{number}{text}" for number, text in enumerate(outcomes)))
    found = data.draw(st.sampled_from(known.may_be_newest()))
    settled = known.settled([found] if found else [])
    check_equal(settled.may_be_newest(), [found], f"{shown(known)}, then {shown(settled)}")


def test_kinds_of_acts_are_told_apart() -> None:
    """A judge of one kind is not led astray by another.

    Method: a save between two appends.
    """
    world = World()
    for name, kind in (("a", "append"), ("s", "save"), ("b", "append")):
        with world.act(name, kind=kind):
            pass
    check_equal(world.told.of("append").names(), ["a", "b"], "appends")
    check_equal(world.told.of("save").names("acknowledged"), ["s"], "saves")
    check_equal(world.told.of("drop").names(), [], "others")


def test_an_act_is_acknowledged_refused_or_stays_open_as_its_block_ends() -> None:
    """A definite error is a refusal; any other leaves the outcome open.

    Method: one block of each kind.
    """
    world = World()
    with world.act("a"):
        pass
    with pytest.raises(KeyError), world.act("b", definite=(KeyError,)):
        raise KeyError
    with pytest.raises(LookupError), world.act("c", definite=(KeyError,)):
        raise LookupError
    check_equal(shown(world.told), "a+ b- c", "told")
    with pytest.raises(ValueError, match="two acts"):
        world.begin("a")


def test_the_world_knows_at_each_crash_point_what_it_knew_there() -> None:
    """A crash after N calls is judged by what was known when N calls had returned.

    Method: marks between calls, and two at once.
    """
    made = [0]
    world = World(told("z+"), calls=lambda: made[0])
    made[0] = 2
    world.begin("a")
    made[0] = 5
    world.end("a", "acknowledged")
    world.begin("b")
    expected = {0: "z+", 1: "z+", 2: "z+ a", 4: "z+ a", 5: "z+ a+ b", 99: "z+ a+ b"}
    for calls, known in expected.items():
        check_equal(shown(world.at(calls)), known, f"after {calls} calls")


lines = st.lists(
    st.sampled_from(["begin", "turn", "acknowledged", "refused", "settle"]), max_size=12
)


@given(lines, st.data())
def test_what_a_job_says_is_heard_as_it_was(words: list[str], data: st.DataObject) -> None:
    """L2: the world learns from a job in another process what it would learn from one in this.

    Method: any history; say it, hear it line by line, compare all that is known.
    """
    said: list[str] = []
    speaker = World(say=said.append)
    for number, word in enumerate(words):
        names = speaker.told.names("open")
        if word == "begin":
            speaker.begin(f"act-{number}", kind=data.draw(st.sampled_from(["save", "append"])))
        elif word == "turn" and names:
            speaker.turn(names[0], kind="late")
        elif word == "settle":
            speaker.settle([name for name in names if data.draw(st.booleans())])
        elif names:
            speaker.end(data.draw(st.sampled_from(names)),
                        "acknowledged" if word == "acknowledged" else "refused")  # fmt: skip
    listener = World()
    for line in said:
        check("\n" not in line, f"{line!r} is more than one line")
        listener.hear(line)
    check_equal(listener.told, speaker.told, f"{said}")


def test_an_act_that_others_meet_is_of_another_kind_from_then_on() -> None:
    """What is asked of an act follows from what others did while it was under way.

    Method: turn one of two; an act that nobody began cannot turn.
    """
    world = World()
    world.begin("a")
    world.begin("b")
    world.turn("a", kind="late")
    world.end("a", "acknowledged")
    check_equal(world.told.acts, (Act("a", "late", "acknowledged"), Act("b", "save")), "told")
    check_equal(world.marks[2].told.of("save").names(), ["a", "b"], "told before")
    with pytest.raises(ValueError, match="no act"):
        world.turn("c", kind="late")


@pytest.mark.parametrize("line", ["", "begun a", "open a", "\x00", "acknowledge a"])
def test_what_nobody_says_is_not_understood(line: str) -> None:
    """L2: a job that says anything else is a defect of the workload, told at once.

    Method: lines that are none.
    """
    with pytest.raises(ValueError, match="said"):
        World().hear(line)
