"""Every exit code that can be reached, by a real process: code, one line, nothing touched."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from lastgood.checkpoints import CheckpointStore
from lastgood.cli.main import main
from lastgood.cli.verbs import checkpoints
from lastgood.formats import names
from lastgood.keyring import Keyring
from tests.cli.commands import LASTGOOD, Place, Ran
from tests.cli.log_sessions import logged
from tests.support.check import check, check_equal
from tests.support.trees import picture

Spoil = Callable[[Place], None]


def flipped(place: Place) -> None:
    place.flip(place.file("checkpoint-000002.json"))


def rolled_back(place: Place) -> None:
    """What was there at an earlier time, beside a checkpoint of a newer owner."""
    folder = place.file("session.json").parent
    aside = place.top / "aside"
    aside.mkdir()
    for path in (*folder.glob("manifest*"), *folder.glob("checkpoint*")):
        shutil.copy2(path, aside)
    place.save("nightly", 3, {"n": 3})
    for path in folder.glob("manifest*"):
        path.unlink()
    for path in aside.iterdir():
        shutil.copy2(path, folder)


def other_keys(place: Place) -> None:
    place.keys.unlink()
    Keyring.generate().write_new(place.keys)


def no_keys(place: Place) -> None:
    place.keys.unlink()


def open_keys(place: Place) -> None:
    place.keys.chmod(0o644)


def pointer_gone(place: Place) -> None:
    place.file("manifest.json").unlink()


def nothing(_place: Place) -> None:
    """Leave it as it is."""


LOAD = ["load", "nightly"]
SAVE = ["save", "nightly", "--sequence", "2"]
CODES: list[tuple[int, str, Spoil, list[str]]] = [
    (0, "", nothing, LOAD),
    (1, "usage", nothing, ["load", "nightly", "--sequence", "7"]),
    (1, "state", nothing, ["save", "nightly", "--sequence", "3"]),
    (2, "damaged", flipped, LOAD),
    (3, "rollback", rolled_back, LOAD),
    (4, "unknown-schema", nothing, ["load", "nightly", "--schema-version", "2"]),
    (5, "key-mismatch", other_keys, LOAD),
    (5, "key-missing", no_keys, LOAD),
    (5, "key-file", open_keys, LOAD),
    (6, "", pointer_gone, ["verify", "nightly"]),
    (6, "", nothing, ["verify", "nightly", "--require", "L1"]),
    (7, "sequence-conflict", nothing, SAVE),
    (8, "storage", nothing, ["save", "nightly", "--sequence", "3", "--state", "loop"]),
]


@pytest.mark.parametrize(
    ("code", "name", "spoil", "words"),
    CODES,
    ids=[f"{code}-{name or spoil.__name__}" for code, name, spoil, _ in CODES],
)
def test_exit_code_is_the_one_of_what_must_be_done(
    code: int, name: str, spoil: Spoil, words: list[str], kept: Place
) -> None:
    """C2-07, C13-05: the same code and the same single line each time, and no file changes.

    Method: spoil a sound store, run the command three times, compare outcome and tree.
    """
    (kept.top / "loop").symlink_to("loop")
    spoil(kept)
    stdin = b"[1, 1]" if name == "sequence-conflict" else b"{"
    before = picture(kept.root) if name != "sequence-conflict" else None
    runs = [kept.run(*words, "--json", stdin=stdin).left(code) for _ in range(3)]
    check_equal(len({(ran.out, ran.err) for ran in runs[1:]}), 1, "different outcomes")
    error = runs[0].document["error"]
    check_equal("" if error is None else error["code"], name, "code")
    if name:
        check_equal(runs[0].err.count(b"\n"), 1, "lines on standard error")
    if before is not None:
        check_equal(picture(kept.root), before, "the tree")


@pytest.mark.parametrize("verb", ["load", "show", "list", "verify"])
def test_damage_is_named_with_file_and_next_command(verb: str, kept: Place) -> None:
    """C2-07: file, what is wrong, and the exact next command, with the session filled in."""
    flipped(kept)
    said = kept.run(verb, "nightly").left(2).said
    then = "lastgood repair nightly --accept-older --sequence 1 --reason TEXT"
    for word in ("checkpoint-000002.json", then, "Nothing was changed"):
        check(word in said, f"{word} is missing: {said}")
    check("SESSION" not in said, said)


def test_named_command_is_about_the_store_that_was_given(kept: Place) -> None:
    """The advice about one store, pasted, never acts on another.

    Method: the environment names a good store, ``--root`` a damaged copy; the command that the
    error names is run by a shell: it mends the copy, and the good store is not touched.
    """
    copy = kept.top / "a copy"
    shutil.copytree(kept.root, copy)
    damaged = Place(kept.top)
    damaged.flip(next(copy.rglob("checkpoint-000002.json")))
    said = kept.run("load", "nightly", "--root", str(copy)).left(2).said
    command = said.rsplit("with: ", 1)[1].removesuffix(".\n")
    script = command.replace("lastgood", LASTGOOD, 1)
    before = picture(kept.root)
    done = subprocess.run(
        ["/bin/sh", "-c", script], env=kept.names, check=False, capture_output=True
    )
    check_equal(done.returncode, 0, command)
    check_equal(picture(kept.root), before, "the good store")
    kept.run("verify", "nightly", "--root", str(copy)).left(0)


@pytest.mark.parametrize("verb", ["load", "verify", "save"])
def test_store_that_is_a_file_is_said_to_be_none(verb: str, kept: Place) -> None:
    """Not damage to be looked at with ``verify``, which would stop there as well."""
    file = kept.top / "file"
    file.touch()
    words = [verb, "nightly", *(["--sequence", "3"] if verb == "save" else [])]
    said = kept.run(*words, "--root", str(file), stdin=b"{}").left(2).said
    check(said.endswith("Name the directory of the store.\n"), said)
    check_equal(file.read_bytes(), b"", "the file")


def test_place_without_sessions_is_never_verified_as_good(place: Place) -> None:
    """A misspelt or lost store exits 1, so that a watching program notices."""
    ran = place.run("verify", "--all").left(1)
    check_equal(ran.out, b"", "the answer")
    check("There are no sessions" in ran.said and "--root" in ran.said, ran.said)


def test_damaged_session_is_not_replaced_by_a_fresh_one(kept: Place) -> None:
    """C13-05: a save to a damaged session stops, and no other session appears.

    Method: damage in the current checkpoint; in the session's record; then one unknown schema.
    """
    for spoiled in ("checkpoint-000002.json", "session.json"):
        kept.flip(kept.file(spoiled))
        before = picture(kept.root)
        kept.run("save", "nightly", "--sequence", "3", stdin=b"{}").left(2)
        after = picture(kept.root)
        check_equal(set(after), set(before), "names")
        kept.flip(kept.file(spoiled))
    kept.save("nightly", 3, {}, "--schema-version", "9")
    kept.run("save", "nightly", "--sequence", "4", stdin=b"{}").left(4)
    check_equal(len(kept.run("sessions", "--json").document["sessions"]), 1, "sessions")


def test_session_with_an_event_log_is_not_moved_by_checkpoints_alone(place: Place) -> None:
    """A rule of the session itself forbids it: exit 9, and nothing is changed."""
    _, last = logged(place)
    before = picture(place.root)
    place.run("save", "nightly", "--sequence", str(last + 1), stdin=b"{}").left(9)
    check_equal(picture(place.root), before, "the tree")


def test_full_output_device_exits_8_and_the_save_itself_stands(place: Place) -> None:
    """An answer that could not be given is an I/O error, and says that the save was done."""
    with Path("/dev/full").open("wb") as full:
        process = place.start(
            "save", "s", "--sequence", "1", stdin=subprocess.PIPE, stdout=full,
            stderr=subprocess.PIPE,
        )  # fmt: skip
        _, err = process.communicate(b"{}", timeout=60)
    check_equal(process.returncode, 8, "exit code")
    check(b"ENOSPC" in err and b"was carried out" in err and err.count(b"\n") == 1, repr(err))
    check("unchanged" in place.save("s", 1, {}).text, "the save was done")


def test_interrupted_save_exits_130_and_the_store_stays_whole(kept: Place) -> None:
    """SIGINT ends a waiting save with one line and no traceback; the last good state loads.

    Method: hold the session, start a save that waits for it, interrupt that.
    """
    (kept.top / "state.json").write_text("{}", encoding="ascii")
    with CheckpointStore(kept.root, "nightly", keys=Keyring.from_file(kept.keys)):
        process = kept.start(
            "save", "nightly", "--sequence", "3", "--lock-timeout", "60", "--json",
            "--state", "state.json", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            wait_for_the_session(process)
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    ran = Ran(("save",), process.returncode, out, err).left(130)
    check_equal(ran.document["error"]["code"], "interrupted", "code")
    check_equal(ran.err.count(b"\n"), 1, "lines on standard error")
    check_equal(kept.run("load", "nightly").left(0).out, b'{"n":2}\n', "the state")


def wait_for_the_session(process: subprocess.Popen[bytes]) -> None:
    """Return when ``process`` has the session's directory open, as it does while it waits."""
    fds = Path(f"/proc/{process.pid}/fd")
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        for fd in fds.iterdir():
            try:
                if names.is_directory(fd.readlink().name):
                    return
            except OSError:
                continue  # closed meanwhile
        time.sleep(0.02)
    raise AssertionError("the save never came to the session")


def test_defect_is_one_line_and_its_trace_only_on_demand(
    kept: Place, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """An unexpected exception exits 1 without traceback or its text, which may hold state.

    Method: a verb that raises, in this process.
    """

    def broken(_command: object) -> None:
        raise ValueError("secret")

    monkeypatch.setattr(checkpoints, "load", broken)
    paths = ["--root", str(kept.root), "--keys", str(kept.keys)]
    check_equal(main([*LOAD, *paths]), 1, "exit code")
    said = capfd.readouterr().err
    check("ValueError" in said and "secret" not in said and said.count("\n") == 1, said)
    monkeypatch.setenv("LASTGOOD_DEBUG", "1")
    with pytest.raises(ValueError, match="secret"):
        main([*LOAD, *paths])


def test_want_of_memory_is_the_machine_s_no_and_no_defect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit 8, wherever the memory ran out; what to do is said, and nothing is called damage."""

    def starved(_: object) -> NoReturn:
        raise MemoryError

    monkeypatch.setattr("lastgood.cli.main._verb", lambda _: starved)
    check_equal(main(["load", "invoices"]), 8, "exit code")
    told = capsys.readouterr()
    check_equal(told.out, "", "standard output")
    check("ENOMEM" in told.err and "more memory" in told.err, told.err)
