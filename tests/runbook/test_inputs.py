"""Inputs: exactly the files that a pattern means, each by its content, and no surprise outside."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from lastgood.errors import PlanError, StorageError
from lastgood.runbook.inputs import find
from tests.support.check import check, check_equal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files in directories, hidden ones, and links that lead out of it."""
    inside = tmp_path / "plan"
    for name in ("a.csv", "b.csv", "c.txt", ".hidden.csv", "sub/d.csv", "sub/deep/e.csv",
                 ".git/f.csv", "sub/.g.csv"):  # fmt: skip
        (inside / name).parent.mkdir(parents=True, exist_ok=True)
        (inside / name).write_text(name)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "x.csv").write_text("x")
    (inside / "elsewhere").symlink_to(tmp_path / "outside")
    (inside / "round").symlink_to(inside)
    (inside / "link.csv").symlink_to(tmp_path / "outside" / "x.csv")
    return inside


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("a.csv", "a.csv"), ("./sub//d.csv", "sub/d.csv"), ("missing", ""), ("missing/a", ""),
        ("*.csv", "a.csv b.csv link.csv"), ("?.csv", "a.csv b.csv"), ("[!a].csv", "b.csv"),
        (".*.csv", ".hidden.csv"), ("*", "a.csv b.csv c.txt link.csv"),
        ("*/d.csv", "sub/d.csv"), ("sub/*", "sub/d.csv"), ("elsewhere/*", "elsewhere/x.csv"),
        ("**", "a.csv b.csv c.txt link.csv sub/d.csv sub/deep/e.csv"),
        ("**/*.csv", "a.csv b.csv link.csv sub/d.csv sub/deep/e.csv"),
        ("sub/**/e.csv", "sub/deep/e.csv"), ("**/deep/**", "sub/deep/e.csv"),
        ("a.csv/b", ""), ("*.csv/b", ""), ("A.csv", ""),
    ],
)  # fmt: skip
def test_pattern_matches_what_it_says(folder: Path, pattern: str, expected: str) -> None:
    """Files alone, hidden ones only where the dot is said, no directory through a link."""
    found = find([pattern], folder=str(folder))
    check_equal(list(found.files), expected.split(), pattern)
    check_equal(found.unmatched, () if expected else (pattern,), "unmatched")


def test_paths_outside_are_found_where_they_are_named(folder: Path) -> None:
    """Who writes an absolute path, or two dots, means it."""
    outside = folder.parent / "outside"
    check_equal(list(find([f"{outside}/*"], folder=str(folder)).files), [f"{outside}/x.csv"], "abs")
    check_equal(list(find(["../outside/*"], folder=str(folder)).files), ["../outside/x.csv"], "..")


def test_each_file_is_known_by_its_content(folder: Path) -> None:
    """The same names with other content are other inputs; a link is what it leads to."""
    found = find(["*.csv", "a.csv"], folder=str(folder)).files
    expected = {"a.csv": b"a.csv", "b.csv": b"b.csv", "link.csv": b"x"}
    check_equal(found, {k: hashlib.sha256(v).hexdigest() for k, v in expected.items()}, "files")


def test_large_file_is_read_piece_by_piece(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory does not grow with an input. Method: every read is looked at."""
    sizes: list[int] = []
    real = os.read

    def read(fd: int, size: int) -> bytes:
        sizes.append(size)
        return real(fd, size)

    with (folder / "large.bin").open("wb") as file:
        file.truncate(20 << 20)
    monkeypatch.setattr(os, "read", read)
    found = find(["large.bin"], folder=str(folder)).files
    check_equal(found["large.bin"], hashlib.sha256(bytes(20 << 20)).hexdigest(), "hash")
    check(len(sizes) > 10 and max(sizes) <= 1 << 20, f"read in {len(sizes)} pieces")


def test_names_that_are_no_text_stay_apart(folder: Path) -> None:
    """Any name can be an input; two names never become one."""
    names = [b"n\xff", b"n\xfe", b"n\\xff", b"n\n", "n\u202e".encode()]
    for name in names:
        (folder / os.fsdecode(name)).write_text("n")
    found = find(["n*"], folder=str(folder)).files
    check_equal(len(found), len(names), f"names: {list(found)}")
    check(all(name.isprintable() for name in found), "what acts on a terminal is escaped")


@pytest.mark.parametrize("name", ["sub", "fifo", "round"])
def test_what_is_no_file_is_refused(folder: Path, name: str) -> None:
    """A directory or a FIFO in place of a file neither hangs nor counts as empty."""
    os.mkfifo(folder / "fifo")
    with pytest.raises(PlanError, match="is no file"):
        find([name], folder=str(folder))


def test_what_cannot_be_read_is_never_taken_for_missing(folder: Path) -> None:
    """A link to nothing, a link that leads to itself: an error, not an empty set."""
    (folder / "dangling").symlink_to("nowhere")
    (folder / "itself").symlink_to("itself")
    for name in ("dangling", "itself"):
        with pytest.raises(StorageError):
            find([name], folder=str(folder))
