"""Errors: one tree, named by what the operator must do."""

from __future__ import annotations

import copy
import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood import errors
from lastgood.errors import LastgoodError, printable
from tests.support import records
from tests.support.check import check, check_equal

EXIT_CODES = {
    1: "UsageError UnknownSessionError InvalidIdError StateError ReducerError FingerprintError "
    "FingerprintLossError LimitError PlanError StepFailedError ConfigurationError",
    2: "DamagedError SplicedError LogGapError DomainInvariantError DivergenceError",
    3: "RollbackDetectedError ForkDetectedError",
    4: "UnknownSchemaError UnknownFormatError MigrationError ProgramMismatchError",
    5: "KeyMissingError KeyMismatchError KeyFileError KeyRevokedError",
    7: "ConflictError SequenceConflictError LockedError BusyError FencedError EffectConflictError",
    8: "StorageError NotStoredError DurabilityUnknownError",
    9: "PolicyError",
    10: "EffectUndecidedError",
}
"""The table of exit codes, as promised; NotStoredError is a StorageError of its own name."""

COMMANDS = {"keys new", "save", "load", "list", "sessions", "show", "verify", "effects"}


def classes() -> list[type[LastgoodError]]:
    """Every class of the tree but its root."""
    found = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, LastgoodError)
    ]
    return [one for one in found if one is not LastgoodError]


def test_exit_codes_are_those_of_the_table() -> None:
    """A script tells what to do from the exit code (design table, K8).

    Method: the table stands here a second time; nothing is missing on either side.
    """
    expected = {name: code for code, names in EXIT_CODES.items() for name in names.split()}
    check_equal({one.__name__: one.exit_code for one in classes()}, expected, "exit codes")


def test_codes_are_unique_and_stable_words() -> None:
    """A program tells errors apart by ``code``. Method: all of them, compared."""
    codes = [one.code for one in classes()]
    check_equal(len(set(codes)), len(codes), f"different codes among {codes}")
    for code in codes:
        check(re.fullmatch(r"[a-z]+(-[a-z]+)*", code), f"not a word: {code!r}")


@pytest.mark.parametrize("kind", classes())
def test_message_has_three_sentences(kind: type[LastgoodError]) -> None:
    """What happened, what is safe, what to do: each error says all three (K8)."""
    error = kind("It broke")
    check(error.safe and error.do, "an empty sentence")
    check_equal(str(error), f"{error.happened}. {error.safe}. {error.do}.", "the message")
    check("It broke" in error.happened, error.happened)
    for sentence in (error.happened, error.safe, error.do):
        check(sentence[0].isupper(), f"no sentence: {sentence!r}")
        check(not sentence.endswith((".", " ")), f"ends twice: {sentence!r}")


@pytest.mark.parametrize("kind", classes())
def test_copied_error_says_the_same(kind: type[LastgoodError]) -> None:
    """An error that crosses a process, or is copied, loses and repeats nothing.

    Method: copying uses the protocol by which a process pool carries errors.
    """
    error = kind("It broke")
    again = copy.copy(error)
    check_equal(str(again), str(error), "message of the copy")
    check_equal(vars(again), vars(error), "attributes of the copy")
    check_equal(type(again), kind, "class of the copy")


@pytest.mark.parametrize("kind", [LastgoodError, *classes()])
def test_default_text_names_only_commands_that_exist(kind: type[LastgoodError]) -> None:
    """Who does what a message says never meets an unknown command (K8)."""
    text = f"{kind.default_safe}. {kind.default_do}."
    named = re.findall(r"\blastgood ((?:keys )?[a-z]+)", text)
    check(set(named) <= COMMANDS, f"names {named}: {text}")


def test_commands_named_by_default_are_found_by_the_test_above() -> None:
    """The test above is alive. Method: the commands that are named now are seen."""
    texts = " ".join(kind.default_do for kind in classes())
    named = set(re.findall(r"\blastgood ((?:keys )?[a-z]+)", texts))
    check_equal(named, {"keys new", "sessions", "verify", "effects"}, "commands in default texts")


def test_damaged_error_names_file_line_and_offset() -> None:
    """Damage is located: file, line and offset stand in the text and in attributes (G3)."""
    error = errors.DamagedError("torn", name="a\x1b[2Jb", line=3, offset=77)
    check_equal(error.happened, r"Damaged: a\x1b[2Jb: line 3: offset 77: torn", "text")
    check_equal((error.line, error.offset), (3, 77), "attributes")
    check_equal(errors.DamagedError("torn", line=0).line, 0, "a zero is a place, too")


def test_errno_is_named() -> None:
    """The operator reads ENOSPC, not 28 (exit 8)."""
    check("ENOSPC" in str(errors.StorageError("Writing a", errno=28)), "no name of the errno")
    check("errno 9999" in str(errors.StorageError("Writing a", errno=9999)), "unknown errno")
    check_equal(errors.StorageError("Writing a").happened, "Writing a: refused", "no errno")


@pytest.mark.parametrize("kind", ["session", "checkpoint", "manifest"])
def test_message_about_a_damaged_record_holds_nothing_of_it(kind: str) -> None:
    """A message never holds payload bytes (T1, T12).

    Method: flip each byte in turn; no 12 characters of the payload stand in the message.
    """
    data = records.record(kind)
    payload = data.split(b"\n")[2].decode()
    pieces = {payload[i : i + 12] for i in range(len(payload) - 12)}
    for place in range(0, len(data), 7):
        damaged = data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]
        with pytest.raises(LastgoodError) as caught:
            records.read(kind, damaged)
        found = {piece for piece in pieces if piece in str(caught.value)}
        check_equal(found, set(), f"payload in the message for byte {place}")


# --- printable ------------------------------------------------------------------------------

HOSTILE = {
    "NUL": "\x00", "bell": "\x07", "backspace": "\x08", "line feed": "\n", "return": "\r",
    "escape": "\x1b", "DEL": "\x7f", "C1 CSI": "\x9b", "NEL": "\x85", "no-break space": "\xa0",
    "soft hyphen": "\xad", "Arabic letter mark": "\u061c", "zero width space": "\u200b",
    "joiner": "\u200d", "RLM": "\u200f", "LS": "\u2028", "PS": "\u2029", "LRE": "\u202a",
    "RLO": "\u202e", "word joiner": "\u2060", "LRI": "\u2066", "PDI": "\u2069",
    "variation selector": "\ufe0f", "BOM": "\ufeff", "annotation": "\ufff9",
    "high surrogate": "\ud800", "low surrogate": "\udfff", "tag": "\U000e0041",
    "selector 256": "\U000e01ef", "private": "\ue000", "unassigned": "\U000e0fff",
    "Hangul filler": "\u3164", "ideographic space": "\u3000", "en space": "\u2002",
    "Mongolian separator": "\u180e", "grapheme joiner": "\u034f", "Braille blank": "\u2800",
    "musical format": "\U0001d173", "not a character": "\uffff",
}  # fmt: skip


@pytest.mark.parametrize("character", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_character_is_escaped(character: str) -> None:
    """What repaints, reorders, hides or breaks a line is shown as its number (T12)."""
    shown = printable(f"a{character}b")
    check(shown.isascii(), f"not escaped: {shown!r}")
    check_equal(shown.encode().decode("unicode_escape"), f"a{character}b", "the escape's meaning")


def test_every_control_and_format_character_is_escaped() -> None:
    """No control, format, surrogate, private or separating character passes (T12).

    Method: all 1,114,112 code points, judged by the Unicode data base of this Python.
    """
    hidden = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"}
    hostile = [chr(n) for n in range(0x110000) if unicodedata.category(chr(n)) in hidden]
    hostile.remove(" ")
    passed = [char for char in hostile if not printable(char).isascii()]
    check_equal(passed, [], "characters that pass unescaped")
    check("\u202e" in hostile, "the test looked at nothing")


def test_harmless_text_stays_readable() -> None:
    """A person still reads names in their own script."""
    for text in ("plain text {}[]\"'", "naïve", "日本語", "😀", "Ελληνικά", "e\u0301"):
        check_equal(printable(text), text, "harmless text")


def test_backslash_is_doubled() -> None:
    """An escape can only come from us: a stored backslash never looks like one (T12)."""
    check_equal(printable(r"\x1b"), r"\\x1b", "a literal backslash")


def unescaped(shown: str) -> str:
    """The text that ``printable`` was given; the inverse, written apart."""
    pattern = r"\\(?:\\|x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8})"
    return re.sub(pattern, lambda m: "\\" if m[0] == "\\\\" else chr(int(m[0][2:], 16)), shown)


@given(st.text(alphabet=st.characters() | st.sampled_from(list(HOSTILE.values())), max_size=60))
def test_escaping_is_injective(text: str) -> None:
    """Two different texts never look the same (T12). Method: what is shown can be read back."""
    check_equal(unescaped(printable(text)), text, "read back from what is shown")


def test_long_text_is_cut_visibly() -> None:
    """A hostile text cannot flood the screen: it ends in an ellipsis (T8, T12)."""
    check_equal(printable("x" * 200), "x" * 200, "just within the limit")
    check_equal(printable("x" * 201), "x" * 200 + "…", "over the limit")
    check_equal(printable("\x1b" * 10**6, limit_chars=2), r"\x1b\x1b…", "escapes counted as one")


def test_stored_name_is_escaped_in_every_refusal_of_a_record() -> None:
    """The name of a file never paints a message (T12).

    Method: each refusal that names the file, provoked with a name that holds an escape.
    """
    from lastgood.formats import seal, store
    from lastgood.formats.limits import Limits

    honest = records.draft("store")
    bad = [
        b"no seal\n",
        records.forge(b"{}", b"{}", kind="store", version="2"),
        records.forge(b"{}", b"{}", kind="store"),
        honest.edited("header.encryption", "A256GCM").record(),
        honest.edited("header.extra", 1).record(),
        honest.edited("header.writer", 5).record(),
        honest.edited("payload.extra", 5).record(),
    ]
    for data in bad:
        with pytest.raises(LastgoodError) as caught:
            store.decode(
                data,
                store_id=records.STORE,
                sealer=records.keys("store"),
                limits=Limits(),
                name="\x1b[2J\u202e",
            )
        check(str(caught.value).isascii(), f"unescaped: {str(caught.value)!r}")
        check(r"\x1b[2J\u202e" in str(caught.value), f"unnamed: {caught.value}")
    check_equal(seal.FORMAT, 1, "the version that the second record is above")
