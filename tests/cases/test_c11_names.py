"""C11: names, paths, foreign files, as far as names alone decide."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from lastgood.errors import DamagedError, InvalidIdError, LastgoodError
from lastgood.formats import names
from tests.support import records
from tests.support.check import check, check_equal

ILLEGAL: list[Any] = ["", "a\0b", "a\n", "x" * 4096, 5, None, b"nightly", "\ud800", "\x9b"]
PATHS = [
    "../x", "x/../../P", "/abs", "..", ".", "a/b", "a\\b", "C:\\x", "~", "%2e%2e%2f", "a:b", " a",
]  # fmt: skip
FILE_CALLS = {"open", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.link", "os.scandir"}


class FileCalls:
    """Notes audit events of file calls while it is entered; a hook cannot be taken out again."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._active = False
        sys.addaudithook(self._note)

    def _note(self, event: str, _: Any) -> None:
        if self._active and event in FILE_CALLS:
            self.seen.append(event)

    def __enter__(self) -> FileCalls:
        self._active = True
        return self

    def __exit__(self, *_: object) -> None:
        self._active = False


@pytest.fixture(scope="module")
def file_calls() -> FileCalls:
    return FileCalls()


def test_c11_01_the_spy_sees_file_calls(file_calls: FileCalls) -> None:
    """The tests below are alive. Method: this file is opened under the spy."""
    with file_calls, open(__file__, "rb"):
        pass
    check("open" in file_calls.seen, "the spy saw nothing")
    file_calls.seen.clear()


@pytest.mark.parametrize("text", ILLEGAL, ids=lambda value: ascii(value)[:12])
def test_c11_01_illegal_id_is_refused_before_any_file_call(
    text: Any, file_calls: FileCalls
) -> None:
    """C11-01: an id that is none never reaches a file system."""
    with file_calls:
        try:
            names.session_id(text)
        except InvalidIdError as error:
            refused: InvalidIdError | None = error
        else:
            refused = None
    check(refused is not None, f"accepted: {text!a}")
    check_equal(file_calls.seen, [], "file calls")


@pytest.mark.parametrize("text", PATHS)
def test_c11_01_id_that_looks_like_a_path_names_a_digest(text: str, file_calls: FileCalls) -> None:
    """C11-01: ids are data, so nothing outside the root can be named by one."""
    with file_calls:
        folder = names.directory(names.session_id(text))
    check(names.is_directory(folder), f"not a digest: {folder}")
    check_equal(file_calls.seen, [], "file calls")


@pytest.mark.parametrize("kind", ["session", "checkpoint", "manifest"])
@pytest.mark.parametrize(
    "text", ["../../x", "", "a\0b", "x" * 4096, 5, None, ["nightly"]], ids=ascii
)
def test_c11_01_hostile_id_inside_a_sealed_record_is_refused(kind: str, text: Any) -> None:
    """C11-01: ids from stored metadata are checked on reading, in every kind of record."""
    data = records.draft(kind).edited("header.session", text).record()
    with pytest.raises(DamagedError):
        records.read(kind, data)


@pytest.mark.parametrize(
    "name", ["../checkpoint-000110.json", "/etc/passwd", "", "a/b", "lock", None, 5]
)
def test_c11_01_hostile_file_name_inside_a_sealed_manifest_is_refused(name: Any) -> None:
    """C11-01: a name from a manifest is the one its sequence gives, or damage."""
    for entry in ("current", "previous", "milestones.0"):
        data = records.draft("manifest").edited(f"payload.{entry}.name", name).record()
        with pytest.raises(LastgoodError) as caught:
            records.read("manifest", data)
        check_equal(caught.value.exit_code, 2, "exit code")


@pytest.mark.parametrize("unit", ["a", "字", "😀", "é"])
def test_c11_05_every_accepted_id_fits_every_file_name(unit: str) -> None:
    """C11-05: names are digests, so no id meets ENAMETOOLONG at the first save.

    Method: every length up to the limit of 512 bytes and just beyond.
    """
    size = len(unit.encode())
    for count in range(1, 512 // size + 3):
        text = unit * count
        if count * size > 512:
            with pytest.raises(InvalidIdError):
                names.session_id(text)
            continue
        folder = names.directory(names.session_id(text))
        check_equal(len(folder), 40, f"bytes of the directory of {count} x {unit}")
    longest = names.temporary(names.fenced(names.segment(10**15, 10**15), bytes(8)), bytes(8))
    check(len(longest) <= 255, f"{len(longest)} bytes in the longest name there is")
    check(names.is_temporary(longest), "the longest temporary is not known as one")


FOREIGN = [
    ".DS_Store", "._x", "._checkpoint-000005.json", "checkpoint-000005 (conflicted copy).json",
    "checkpoint-000005 (1).json", "checkpoint-5 (1).json", "tmpabcd1234", "Thumbs.db",
    "desktop.ini", ".checkpoint-000005.json.swp", "checkpoint-000005.json~",
    "#checkpoint-000005.json#", "checkpoint-000005.json.orig", "checkpoint-000005.json.part",
    "Copy of checkpoint-000005.json", "checkpoint-000005.json.icloud", "lost+found", ".nfs000000",
    ".fuse_hidden0001", ".Trash-1000", ".~lock.checkpoint-000005.json#", "core", "nohup.out",
]  # fmt: skip


@pytest.mark.parametrize("name", FOREIGN)
def test_c11_06_file_of_somebody_else_is_never_ours(name: str) -> None:
    """C11-06: a second copy of a generation, an editor's file, a desktop's file: foreign."""
    check_equal(names.parse(name), None, "what it stands for")
    check(not names.is_temporary(name), "it would be swept")
