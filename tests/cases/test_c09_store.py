"""C9: state fidelity through a store: refused before anything is written, or the same again."""

from __future__ import annotations

import collections
import datetime
import decimal
import enum
import math
import pathlib
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from lastgood import Checkpoint, CheckpointStore
from lastgood.errors import DomainInvariantError, StateError
from tests.cases.harness import SESSION, latest, refusal, writer
from tests.cli.commands import Place, new_place
from tests.support import trees
from tests.support.check import check, check_equal
from tests.support.values import same, values


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """The store of three saves."""
    return trees.plant(trees.final(), tmp_path / "store")


class Colour(enum.IntEnum):
    """A number of another type."""

    RED = 1


class Text(str):
    """A text of another type."""

    __slots__ = ()


def refused(place: Path, state: Any, path: str) -> None:
    """Fail unless a save of ``state`` is a StateError at ``path``, and touches nothing."""
    with writer(place) as store:
        before = trees.picture(place)
        given = Checkpoint(40, state, trees.checkpoint(SESSION, 3).fingerprints)
        error = refusal(lambda: store.save(given))
        check(isinstance(error, StateError) and error.exit_code == 1, repr(error))
        found = error.path if isinstance(error, StateError) else ""
        check(found.startswith(path), f"path {found}, not {path}")
        trees.check_untouched(place, before, "a refused save")
        check_equal(store.save(trees.checkpoint(SESSION, 4)).status, "saved", "the next save")


@pytest.mark.parametrize("key", [1, True, None, 1.5, ("a",), Colour.RED, Text("a"), b"a"], ids=repr)
def test_c09_01_key_that_is_no_str_is_refused_before_anything_is_written(
    place: Path, key: Any
) -> None:
    """C9-01: a key is never turned into a text, beside which its twin would vanish.

    Method: each key beside the text that it would become.
    """
    refused(place, {"table": [{key: "one", str(key): "two"}]}, "$.table[0]")


@pytest.mark.parametrize("text", ["\ud800", chr(0xDCB2), "a\udc88b"], ids=ascii)
@pytest.mark.parametrize("where", ["value", "key"])
def test_c09_02_half_a_surrogate_pair_is_refused_before_anything_is_written(
    place: Path, text: str, where: str
) -> None:
    """C9-02: what no reader could read back is refused with its path.

    Method: lone surrogates as value and as key, two levels deep.
    """
    refused(place, {"out": [{text: 1} if where == "key" else text]}, "$.out[0]")


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["ascii", "utf-8", "latin-1"])
def test_c09_02_whole_characters_come_back_through_save_load_and_print(
    tmp_path: Path, locale: str
) -> None:
    """C9-02: characters of every plane round-trip, also where the terminal has none of them.

    Method: the command line, with PYTHONIOENCODING; a pair as two escapes is one character.
    """
    commands = new_place(tmp_path)
    commands.run(
        "save", SESSION, "--sequence", "1",
        stdin=b'{"pair":"\\ud83d\\ude00","last":"\\udbff\\udfff","text":"na\\u00efve \\u2603"}',
    ).left(0)  # fmt: skip
    loaded = commands.run("load", SESSION, environment={"PYTHONIOENCODING": locale}).left(0)
    expected = {"pair": "😀", "last": "\U0010ffff", "text": "naïve ☃"}
    check_equal(loaded.document, expected, "the state")


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf], ids=str)
@pytest.mark.parametrize("depth", [0, 5])
def test_c09_03_number_that_json_lacks_is_refused_before_anything_is_written(
    place: Path, number: float, depth: int
) -> None:
    """C9-03: NaN and infinities are never null.

    Method: at depths 0 and 5.
    """
    state: Any = number
    for _ in range(depth):
        state = [state]
    refused(place, state, "$" + "[0]" * depth)


@pytest.mark.slow
@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_c09_03_token_that_json_lacks_is_refused_by_the_command_line(
    tmp_path: Path, token: str
) -> None:
    """C9-03: a file with such a token is a StateError (exit 1), and makes no store.

    Method: saved from standard input.
    """
    commands: Place = new_place(tmp_path)
    stdin = f'{{"rate": [{token}]}}'.encode()
    commands.run("save", SESSION, "--sequence", "1", stdin=stdin).left(1)
    check(not commands.root.exists(), "a store was made")


@pytest.mark.parametrize(
    "value",
    [
        datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), decimal.Decimal("1.5"), b"x", {1}, (1,),
        Colour.RED, pathlib.PurePath("x"), uuid.UUID(int=1), collections.defaultdict(list),
        collections.Counter("a"), range(3), Text("a"), bytearray(b"x"),
        collections.OrderedDict(a=1), 2**64, -(2**63) - 1, 1j, object(), int, lambda: 1,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_c09_04_value_of_another_type_is_refused_before_anything_is_written(
    place: Path, value: Any
) -> None:
    """C9-04: what would come back as something else, or not at all, is refused with its path.

    Method: each, two levels deep.
    """
    refused(place, {"a": {"b": value}}, "$.a.b")


@pytest.mark.slow
@given(values())
@settings(max_examples=300)
def test_c09_08_whatever_is_acknowledged_loads_the_same(state: Any) -> None:
    """C9-08, K2: everything that a save acknowledges loads, equal, of the same types.

    Method: generated states through a store; what is refused is a StateError and changes nothing.
    """
    root = trees.in_memory({})
    with CheckpointStore(root, SESSION, keys=trees.KEYS) as store:
        store.save(Checkpoint(1, state))
        found = store.load_latest()
        check(found is not None and same(found.state, state), f"{found} is not {state!r}")


def _paid_only(state: Any) -> bool:
    return isinstance(state, dict) and "paid" in state


def _raises(state: Any) -> None:
    if not _paid_only(state):
        raise KeyError("paid")


@pytest.mark.parametrize("validate", [_paid_only, _raises], ids=["returns False", "raises"])
def test_c09_08_validator_runs_before_publishing_and_the_old_stays_current(
    place: Path, validate: Any
) -> None:
    """C9-08: a state that the caller's own rule refuses is never published.

    Method: a validator that refuses the state of the next save; 30 stays current and loads.
    """
    done = trees.checkpoint(SESSION, 3).fingerprints
    with CheckpointStore(place, SESSION, keys=trees.KEYS, validate=validate) as store:
        before = trees.picture(place)
        error = refusal(lambda: store.save(Checkpoint(40, {"hollow": 1}, done)))
        check(isinstance(error, StateError), repr(error))
        trees.check_untouched(place, before, "a refused save")
        found = store.load_latest()
        check_equal(found.sequence if found else 0, 30, "what is current")


def test_c09_08_validator_refuses_what_another_program_stored(place: Path) -> None:
    """C9-08: a stored state that the rule refuses is DomainInvariantError (exit 2), not guessed.

    Method: a reader whose validator refuses the stored state; others still load it.
    """
    reading = {"keys": trees.KEYS, "mode": "read"}
    with CheckpointStore(place, SESSION, validate=lambda state: False, **reading) as store:  # type: ignore[arg-type]
        error = refusal(store.load_latest)
    check(isinstance(error, DomainInvariantError) and error.exit_code == 2, repr(error))
    found = latest(place)
    check_equal(found.sequence if found else 0, 30, "without the validator")
