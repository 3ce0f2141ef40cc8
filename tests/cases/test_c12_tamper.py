"""C12: bit rot and code in state, as far as records alone decide."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from lastgood.errors import DamagedError, LastgoodError
from lastgood.formats import checkpoint
from lastgood.formats.limits import Limits
from tests.support import damage, records
from tests.support.check import check, check_equal
from tests.support.values import same


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["checkpoint", "manifest"])
def test_c12_08_every_single_change_of_a_byte_is_detected(kind: str) -> None:
    """C12-08: no bit flip, no lost and no doubled byte yields a value; the file is named.

    Method: all of them, through the whole reading of the record.
    """
    data = records.record(kind)
    changes = [*damage.flips(data), *damage.deletions(data), *damage.duplicates(data)]
    check_equal(len(changes), 10 * len(data), "changes")
    for what, changed in changes:
        try:
            records.read(kind, changed)
        except LastgoodError as error:
            check(2 <= error.exit_code <= 5, f"{what}: exit {error.exit_code}")
            named = records.file_name(kind) in str(error) or error.exit_code == 5
            check(named, f"{what}: the file is not named: {error}")
        else:
            raise AssertionError(f"accepted: {what}")


REVIVED: list[Any] = [
    {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "true"}},
    {"py/object": "os.system"}, {"py/reduce": [{"py/type": "os.system"}, {"py/tuple": ["true"]}]},
    {"__reduce__": ["os.system", ["true"]]}, {"__class__": "subprocess.Popen", "args": ["true"]},
    {"$type": "System.Diagnostics.Process"}, {"@type": "java.lang.Runtime"},
    {"__proto__": {"a": 1}},
    {"__type__": "eval", "code": "1"}, "!!python/object/apply:os.system ['true']", "${jndi:x}",
    {"_type": "datetime", "value": "2026-01-01"}, {"__complex__": True, "real": 1, "imag": 2},
    {"$ref": "file:///etc/passwd"}, {"$oid": "0" * 24}, "cos\nsystem\n(S'true'\ntR.",
]  # fmt: skip

HARMFUL = {
    "exec",
    "compile",
    "import",
    "open",
    "os.system",
    "subprocess.Popen",
    "pickle.find_class",
}


class Spy:
    """Notes harmful audit events while it is active; a hook cannot be taken out again."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.active = False
        sys.addaudithook(self._note)

    def _note(self, event: str, args: tuple[Any, ...]) -> None:
        if self.active and event in HARMFUL:
            self.seen.append((event, ascii(args)[:80]))


@pytest.fixture(scope="module")
def spy() -> Spy:
    return Spy()


def test_c12_10_the_spy_sees_code_that_is_run(spy: Spy) -> None:
    """The test below is alive. Method: compile and run a harmless text under the spy."""
    spy.active = True
    eval(compile("1", "<test>", "eval"))  # noqa: S307 (it is what the spy must see)
    spy.active = False
    check({"compile", "exec"} <= {event for event, _ in spy.seen}, f"it saw {spy.seen}")
    spy.seen.clear()


@pytest.mark.parametrize("state", REVIVED, ids=lambda value: ascii(value)[:30])
def test_c12_10_state_that_asks_for_code_comes_back_as_plain_data(state: Any, spy: Spy) -> None:
    """C12-10: loading imports, compiles, opens and constructs nothing; data stays data.

    Method: audit events of the interpreter while each state is loaded from a sealed record.
    """
    payload = checkpoint.encode_payload(
        checkpoint.Checkpoint(110, [state]), schema_version=1, limits=Limits()
    )
    data = b"".join(records.checkpoint_record(payload=payload))
    records.read("checkpoint", data)  # lazy imports of a first call are none of the state's doing
    spy.active = True
    _, body = records.read("checkpoint", data)
    spy.active = False
    check_equal(spy.seen, [], "what loading did")
    check(same(body.checkpoint.state, [state]), "another state")


PICKLES = [
    b"\x80\x04\x95\x1d\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x94\x8c\x06system\x94\x93\x94"
    b"\x8c\x04true\x94\x85\x94R\x94.",
    b"cos\nsystem\n(S'true'\ntR.",
    b"\x80\x02}q\x00.",
    b"(dp0\n.",
]


@pytest.mark.parametrize("data", PICKLES, ids=range(len(PICKLES)))
@pytest.mark.parametrize("kind", records.KINDS)
def test_c12_10_pickle_in_place_of_a_record_is_damage(kind: str, data: bytes, spy: Spy) -> None:
    """C12-10: a pickle is refused by its first bytes, and sealed as a payload refused as JSON."""
    line = records.header_line(data, kind=kind)
    sealed = records.forge(line, data, kind=kind)
    spy.active = True
    for hostile in (data, sealed):
        with pytest.raises(DamagedError):
            records.read(kind, hostile)
    spy.active = False
    check_equal([event for event in spy.seen if event[0] != "import"], [], "what reading did")
    spy.seen.clear()
