"""A state has a name, from which it is built again; anything else is no name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fault_injection.state_id import LEVELS, VERSION, BadStateIdError, StateId
from tests.support.check import check, check_equal

parts = st.from_regex(r"[A-Za-z0-9_+@-]{1,12}", fullmatch=True)
ids = st.builds(StateId, st.sampled_from(LEVELS), parts, parts, st.integers(0, 999_999_999), parts)


@given(ids)
def test_every_state_has_a_name_that_leads_back_to_it(state: StateId) -> None:
    """replay and explain find the state that a report names.

    Method: any state; write its name, read it.
    """
    check_equal(StateId.parse(str(state)), state, str(state))


@given(ids, st.data())
def test_a_name_with_any_character_changed_is_another_or_none(
    state: StateId, data: st.DataObject
) -> None:
    """One state, one name: no two names lead to the same state.

    Method: replace, insert or remove one character of a name.
    """
    name = str(state)
    place = data.draw(st.integers(0, len(name) - 1))
    put = data.draw(st.text(max_size=1))
    kept = data.draw(st.sampled_from([place, place + 1]))
    changed = name[:place] + put + name[kept:]
    try:
        other = StateId.parse(changed)
    except BadStateIdError as error:
        check("\n" not in str(error), f"{error} is more than one line")
    else:
        check_equal(str(other), changed, "read and written again")
        check((other == state) == (changed == name), f"{changed} and {name} are one state")


@given(st.text(max_size=40))
def test_any_other_text_is_refused_in_one_line(text: str) -> None:
    """What people type is refused with a line that says why, never with another error.

    Method: any text.
    """
    with pytest.raises(BadStateIdError) as raised:
        StateId.parse(text)
    check(str(raised.value).isprintable(), f"{raised.value}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("v0.L1.saves.EIO-once.3.open", "version v0"),
        ("v22.L1.saves.EIO-once.3.open", "version v22"),
        ("v2", "version v2"),
        ("v1.L4.saves.ext4.3.a", "no level"),
        ("v1.L9.saves.weak.3.a", "no level"),
        ("v1.l1.saves.weak.3.a", "no level"),
        ("v1.L1.saves.weak.3", "not the name"),
        ("v1.L1.saves.weak.3.a.b", "not the name"),
        ("v1.L1.saves..3.a", "not the name"),
        ("v1.L1.saves.weak.03.a", "not the name"),
        ("v1.L1.saves.weak.-3.a", "not the name"),
        ("v1.L1.saves.weak.٣.a", "not the name"),
        ("v1.L1.saves.weak.3.ä", "not the name"),
        ("v1.L1.saves.weak.1234567890.a", "not the name"),
        ("v1.L1.saves.weak.3.a\n", "not the name"),
        (" v1.L1.saves.weak.3.a", "not the name"),
    ],
)
def test_a_refusal_says_what_is_wrong(text: str, said: str) -> None:
    """A name of another version, of another level, or of none, is told apart.

    Method: a table.
    """
    with pytest.raises(BadStateIdError) as raised:
        StateId.parse(text)
    check(said in str(raised.value), f"{raised.value}")


def test_names_of_this_version_begin_with_it() -> None:
    """A name says which harness it is of.

    Method: one name, as reports have it.
    """
    state = StateId("L3", "saves", "weak", 81, "3f9c0a12b4d5")
    check_equal(str(state), f"{VERSION}.L3.saves.weak.81.3f9c0a12b4d5", "the name")
