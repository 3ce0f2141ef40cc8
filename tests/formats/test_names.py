"""Names: built and parsed in pairs, one number one name, everything else foreign."""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import UsageError
from lastgood.formats import names
from lastgood.formats.names import Kind, Parsed
from tests.support.check import check, check_equal
from tests.support.records import pae_oracle

NUMBERS = st.integers(1, 10**15) | st.sampled_from(
    [1, 9, 10, 99_999, 999_999, 1_000_000, 2**31, 10**15 - 1, 10**15]
)


# --- pairs ----------------------------------------------------------------------------------


@given(NUMBERS, NUMBERS)
def test_built_name_parses_back(number: int, epoch: int) -> None:
    """Every name that is written is found again (S4, S6, R2)."""
    check_equal(names.parse(names.manifest(number)), Parsed(Kind.MANIFEST, number), "manifest")
    check_equal(
        names.parse(names.checkpoint(number)), Parsed(Kind.CHECKPOINT, number), "checkpoint"
    )
    check_equal(
        names.parse(names.segment(number, epoch)), Parsed(Kind.SEGMENT, number, epoch), "segment"
    )


@given(NUMBERS, st.binary(min_size=8, max_size=8))
def test_built_temporary_parses_back(number: int, token: bytes) -> None:
    """A killed process's temporary is known as one, whatever it was to become (R4)."""
    digest = "ab" * 32
    finals = [
        names.STORE, names.SESSION, names.POINTER, names.manifest(number),
        names.checkpoint(number), names.segment(number, number), f"fingerprints-{digest}",
        f"blob-{digest}", names.fenced(names.checkpoint(number), token),
    ]  # fmt: skip
    for final in finals:
        built = names.temporary(final, token)
        check(names.is_temporary(built), f"not known: {built}")
        check_equal(names.parse(built), Parsed(Kind.TEMPORARY), built)
        check(len(built) <= 255, f"{len(built)} bytes are too many for a file name (C11-05)")
        check(not names.is_temporary(final), f"an official name taken for a temporary: {final}")


@given(NUMBERS)
def test_one_number_has_one_name(number: int) -> None:
    """Zero padding never makes two names of one number (C3-01)."""
    digits = names.checkpoint(number)[len("checkpoint-") : -len(".json")]
    for zeros in range(1, 4):
        padded = f"checkpoint-{'0' * zeros}{digits}.json"
        check_equal(names.parse(padded), None, padded)
    if digits.startswith("0"):
        check_equal(names.parse(f"checkpoint-{digits[1:]}.json"), None, "a zero less")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("store.json", Kind.STORE), ("session.json", Kind.SESSION), ("lock", Kind.LOCK),
        ("manifest.json", Kind.POINTER), ("archive", Kind.ARCHIVE),
        (f"fingerprints-{'0f' * 32}", Kind.FINGERPRINTS), (f"blob-{'0f' * 32}", Kind.BLOB),
    ],
)  # fmt: skip
def test_fixed_name_is_known(name: str, kind: Kind) -> None:
    """The names of the table stand for what it says."""
    check_equal(names.parse(name), Parsed(kind), name)


def test_names_are_the_documented_ones() -> None:
    """What lies on disk is called for ever what it is called today. Method: known answers."""
    check_equal(names.manifest(42), "manifest-000042.json", "manifest")
    check_equal(names.checkpoint(110), "checkpoint-000110.json", "checkpoint")
    check_equal(names.checkpoint(10**15), "checkpoint-1000000000000000.json", "the last one")
    check_equal(names.segment(1, 1), "events-000001-0001.jsonl", "segment")
    check_equal(names.segment(10**6, 10**4), "events-1000000-10000.jsonl", "wide segment")
    token = bytes(range(8))
    check_equal(names.temporary("lock", token), ".lock.0001020304050607.tmp", "temporary")
    fenced = names.fenced("checkpoint-000001.json", token)
    check_equal(fenced, "fenced-0001020304050607-checkpoint-000001.json", "fenced")
    check_equal(names.archived("x"), "archive/x", "archived")


# --- foreign names --------------------------------------------------------------------------

FOREIGN = [
    "", ".", "..", " ", "\n", "\x00", "x-checkpoint-1.json", "checkpoint-1.json.bak",
    "x-checkpoint-000001.json", "checkpoint-000001.json.bak", "checkpoint-000000.json",
    "manifest-000000.json", "checkpoint-5 (1).json", "checkpoint-000005 (1).json",
    "checkpoint-000001 .json", " checkpoint-000001.json", "checkpoint-000001.json ",
    "checkpoint-000001.json\n", "checkpoint-000001\n.json", "checkpoint-1.json",
    "checkpoint-00001.json", "checkpoint-0000001.json", "checkpoint-0900000.json",
    "checkpoint-1000000000000001.json", "checkpoint-9999999999999999.json",
    "checkpoint-10000000000000000.json", "checkpoint-+00001.json", "checkpoint--00001.json",
    "checkpoint-00_001.json", "checkpoint-1_0000.json", "checkpoint-0x0001.json",
    "checkpoint-1e0005.json", "checkpoint-٠٠٠٠٠١.json", "checkpoint-00000١.json",
    "checkpoint-00000１.json", "checkpoint-00000².json", "checkpoint-000001.JSON",
    "Checkpoint-000001.json", "CHECKPOINT-000001.json", "checkpoint_000001.json",
    "checkpoint-000001json", "checkpoint-000001xjson", "checkpoint-000001.jsonl",
    "checkpoint-000001.json\x00", "checkpoint-000001.json/", "./checkpoint-000001.json",
    "../checkpoint-000001.json", "a/checkpoint-000001.json", "archive/checkpoint-000001.json",
    "checkpoint-.json", "checkpoint-", "checkpoint", "checkpoint-000001", "manifest-.json",
    "manifest.json.", "manifest.json~", "Manifest.json", "manifest.json\n", "\ufeffmanifest.json",
    "manifеst.json", "store.json\n", "LOCK", "lock ", "Archive", "archive/",
    "events-000001.jsonl", "events-000001-1.jsonl", "events-000001-00001.jsonl",
    "events-000000-0001.jsonl", "events-000001-0000.jsonl", "events-1-0001.jsonl",
    "events-000001-0001.json", "events-000001-0001.jsonl.gz", "events-000001-٠٠٠١.jsonl",
    "events-000001-1000000000000001.jsonl", "events-1000000000000001-0001.jsonl",
    f"blob-{'A' * 64}", f"blob-{'a' * 63}", f"blob-{'a' * 65}", f"blob-{'а' * 64}",
    f"blob-{'a' * 64}\n", f"fingerprints-{'a' * 63}g", f"fingerprint-{'a' * 64}",
    f"fenced-{'0' * 16}-checkpoint-000001.json",
    "checkpoint-000001.json\ud800", "\udcffcheckpoint-000001.json", "checkpoint-00000\ud8001.json",
    ".DS_Store", "._x", "Thumbs.db", "desktop.ini", ".checkpoint-000001.json.swp",
    "checkpoint-000001 (conflicted copy).json", "tmpabcd1234", "nul", "x" * 4096,
]  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN, ids=map(ascii, FOREIGN))
def test_hostile_name_is_foreign(name: str) -> None:
    """What does not match the grammar as a whole is never parsed as ours (C3-01, C11-06)."""
    check_equal(names.parse(name), None, "what it stands for")
    check(not names.is_temporary(name), "taken for a temporary")
    check(not names.is_directory(name), "taken for a session's directory")


TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(
    "name",
    [
        f"lock.{TOKEN}.tmp", f"..{TOKEN}.tmp", f".lock.{TOKEN}.tmp\n", f".lock.{TOKEN}.TMP",
        f".lock.{TOKEN[1:]}.tmp", f".lock.{TOKEN}0.tmp.", f".lock.{TOKEN.upper()}.tmp",
        f".Lock.{TOKEN}.tmp", f".lock{TOKEN}.tmp", f".lock.{TOKEN}tmp", f".a/b.{TOKEN}.tmp",
        f".lock.{TOKEN}.tmp.swp", f"..lock.{TOKEN}.tmp", f".l\xf6ck.{TOKEN}.tmp",
        f".{'x' * 92}.{TOKEN}.tmp", f".lo ck.{TOKEN}.tmp", f".lock.{TOKEN[:-1]}g.tmp",
    ],
)  # fmt: skip
def test_other_dot_file_is_never_swept(name: str) -> None:
    """Only our own temporaries may be removed (R4): everything near to one is foreign."""
    check(not names.is_temporary(name), "taken for a temporary")
    check_equal(names.parse(name), None, "what it stands for")


@given(
    st.text(max_size=40)
    | st.from_regex(
        r"(checkpoint|manifest)-[0-9٠_ ]{5,8}\.json\n?|events-[0-9]{6}-[0-9]{3,5}\.jsonl"
    )
)
def test_any_text_is_foreign_or_rebuilt_exactly(name: str) -> None:
    """No name is parsed to a number that builds another name (C3-01)."""
    parsed = names.parse(name)
    if parsed is not None and parsed.kind is Kind.CHECKPOINT:
        check_equal(names.checkpoint(parsed.number), name, "the rebuilt name")
    if parsed is not None and parsed.kind is Kind.MANIFEST:
        check_equal(names.manifest(parsed.number), name, "the rebuilt name")
    if parsed is not None and parsed.kind is Kind.SEGMENT:
        check_equal(names.segment(parsed.number, parsed.epoch), name, "the rebuilt name")


# --- order ----------------------------------------------------------------------------------


@pytest.mark.parametrize("build", [names.checkpoint, names.manifest, lambda n: names.segment(n, 1)])
def test_order_is_numeric(build: Callable[[int], str]) -> None:
    """9 comes before 10 and 999999 before 1000000, in whatever order a listing is (C3-01).

    Method: each pair of neighbours at a change of width, shuffled; text order gets some wrong.
    """
    edges = [1, 9, 10, 99, 100, 999_999, 1_000_000, 9_999_999, 10**7, 2**31, 10**15 - 1, 10**15]
    built = [build(number) for number in edges]
    shuffled = random.Random(7).sample(built, len(built))
    ordered = sorted(shuffled, key=parsed_number)
    check_equal(ordered, built, "numeric order")
    check(sorted(built) != built, "text order is right by luck: the test shows nothing")


def parsed_number(name: str) -> int:
    parsed = names.parse(name)
    if parsed is None:
        raise AssertionError(f"foreign: {name}")
    return parsed.number


# --- numbers, operations, directories ---------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [0, -1, 10**15 + 1, 10**16, 10**5_000, -(10**5_000), True, False, 1.0, 1.5, float("nan"),
     "1", b"1", None, [], [1], {}, 1j],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_sequence_out_of_range_is_a_usage_error(value: object) -> None:
    """A sequence is exactly an int from 1 to 10^15; the message is short for any input."""
    with pytest.raises(UsageError) as caught:
        names.sequence(value)
    check(len(str(caught.value)) < 300, "a long message")


@pytest.mark.parametrize("value", [1, 2, 10**15])
def test_sequence_in_range_is_accepted(value: int) -> None:
    """The edges of the range are in it."""
    check_equal(names.sequence(value), value, "sequence")


@given(st.binary(min_size=16, max_size=16))
def test_operation_id_is_known_again(token: bytes) -> None:
    """An operation's id is 32 hex characters, and only such a text is one."""
    text = names.operation(token)
    check(names.is_operation(text), f"not known: {text}")
    if text.upper() != text:
        check(not names.is_operation(text.upper()), "upper case")
    for bad in ("", text[1:], text + "0", text + "\n", "é" + text[1:], "\ud800" + text[1:]):
        check(not names.is_operation(bad), f"taken for an id: {bad!a}")


def test_directory_is_the_digest_of_the_id() -> None:
    """An id is data and never a path (C11-01). Method: computed a second way."""
    message = pae_oracle(b"lastgood/1/session", "nightly ☃".encode())
    expected = hashlib.sha256(message).hexdigest()[:40]
    check_equal(names.directory(names.session_id("nightly ☃")), expected, "directory")
    check(names.is_directory(expected), "not known again")
    for bad in (
        expected.upper(),
        expected[1:],
        expected + "0",
        expected + "\n",
        "é" + expected[1:],
    ):
        check(not names.is_directory(bad), f"taken for a directory: {bad!r}")


def test_different_ids_never_share_a_directory() -> None:
    """Case, Unicode form and blanks tell sessions apart (C11-01)."""
    ids = [
        "Abc",
        "abc",
        "é",
        "e\u0301",
        "a",
        " a",
        "a ",
        "a/b",
        "a\\b",
        "..",
        ".",
        "ﬁ",
        "fi",
        "K",
        "\u212a",
    ]
    found = {one: names.directory(names.session_id(one)) for one in ids}
    for one, other in itertools.combinations(ids, 2):
        check(found[one] != found[other], f"{one!a} and {other!a} share a directory")
