"""G8: looking changes nothing, needs no right to write, and raises no false alarm."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final

import pytest

from lastgood.checkpoints import CheckpointStore
from lastgood.cli.main import main
from lastgood.formats.checkpoint import Checkpoint
from lastgood.keyring import Keyring
from tests.cli.commands import LASTGOOD, Place, new_place
from tests.cli.log_sessions import log_files, logged
from tests.storage.places import in_child
from tests.support.check import check, check_equal
from tests.support.require import require_unprivileged_user, require_unshare
from tests.support.trees import picture

# Loaded before a child changes its user, who may not read where the interpreter lies.
VERBS: Final = [
    import_module(f"lastgood.cli.verbs.{n}")
    for n in ("checkpoints", "events", "inspect", "migrate", "verify")
]
LOGGED: Final = (
    ["load", "logged"],
    ["list", "logged"],
    ["show", "logged", "--state"],
    ["show", "logged", "--events", "--data"],
    ["verify", "logged", "--full"],
)
READING: Final = (
    ["load", "nightly"],
    ["load", "nightly", "--sequence", "1"],
    ["list", "nightly"],
    ["sessions"],
    ["show", "nightly", "--state"],
    ["verify", "nightly"],
    ["verify", "--all"],
)


@pytest.mark.parametrize("words", LOGGED, ids=" ".join)
def test_reading_verb_changes_nothing_of_a_session_with_a_log(
    words: list[str], kept: Place
) -> None:
    """G8, C2-07: as below, and five times the same answer.

    Method: a sound log; one with half an event at its end; one with a damaged line; a damaged
    checkpoint.
    """
    logged(kept, "logged")
    log = log_files(kept)[-1]
    sound = log.read_bytes()
    lines = sound.rstrip(b"\0").split(b"\n")
    torn = b"\n".join([*lines[:-2], b'{"mac":"half']) + bytes(4096)
    damaged = sound.replace(b"refunded", b"refundeD", 1)
    newest = sorted(log.parent.glob("checkpoint-*.json"))[-1]
    for data in (sound, torn, damaged, None):
        if data is None:
            kept.flip(newest)
        log.write_bytes(data or sound)
        before = picture(kept.top)
        runs = {(ran.code, ran.out, ran.err) for ran in (kept.run(*words) for _ in range(5))}
        check_equal(len(runs), 1, f"outcomes of {words}")
        check_equal(picture(kept.top), before, f"the tree after {words}")


@pytest.mark.parametrize("words", READING, ids=" ".join)
def test_reading_verb_changes_no_name_byte_mode_or_mtime(words: list[str], kept: Place) -> None:
    """G8: a picture of the whole tree is the same before and after, sound or damaged.

    Method: a sound store, one that a crash left unfinished, and a damaged one.
    """
    for spoil in (None, "manifest.json", "checkpoint-000001.json"):
        if spoil == "manifest.json":
            kept.file(spoil).unlink()
        elif spoil:
            kept.flip(kept.file(spoil))
        before = picture(kept.top)
        kept.run(*words)
        check_equal(picture(kept.top), before, f"the tree after {words}, with {spoil}")


@pytest.mark.needs_unshare
def test_reading_verbs_work_on_a_read_only_mount_and_saving_is_refused(kept: Place) -> None:
    """G8: a read-only mount is enough to read; a save there is an I/O error and leaves nothing.

    Method: a name space of its own, in which the place is mounted again, read-only.
    """
    logged(kept, "logged")
    answers = {tuple(words): kept.run(*words).left(0).out for words in (*READING, *LOGGED)}
    before = picture(kept.top)
    script = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && cd "$1" && shift && "$@"'
    names = kept.names | {"PYTHONDONTWRITEBYTECODE": "1"}
    for words, expected in [*answers.items(), (("save", "nightly", "--sequence", "3"), b"")]:
        done = subprocess.run(
            [require_unshare(), "--mount", "sh", "-c", script, "sh", kept.top, LASTGOOD, *words],
            env=names, input=b"{}", capture_output=True, timeout=60, check=False,
        )  # fmt: skip
        check_equal(done.returncode, 8 if words[0] == "save" else 0, f"{words}: {done.stderr!r}")
        check_equal(done.stdout, expected, f"what {words} answers")
        check(b"Traceback" not in done.stderr, repr(done.stderr))
    check_equal(picture(kept.top), before, "the tree")


@pytest.mark.needs_unprivileged_user
def test_owner_without_the_right_to_write_reads_and_cannot_save() -> None:
    """G8: the owner of a store whose directories are 0500 reads it; a save is an I/O error.

    Method: in a child of a user whom modes bind, which they do not bind root.
    """
    user = require_unprivileged_user()
    home = Path(tempfile.mkdtemp(prefix="lastgood-"))
    try:
        place = new_place(home)
        with CheckpointStore(place.root, "nightly", keys=Keyring.from_file(place.keys)) as store:
            for number in (1, 2):
                store.save(Checkpoint(number, {"n": number}))
        for path in [home, *home.rglob("*")]:
            path.chmod(0o500 if path.is_dir() else 0o600)
            os.chown(path, user.pw_uid, user.pw_gid)
        before = picture(home)
        check_equal(in_child(partial(read_and_try_to_save, place, user)), "returned", "the child")
        check_equal(picture(home), before, "the tree")
    finally:
        shutil.rmtree(home)


def read_and_try_to_save(place: Place, user: pwd.struct_passwd) -> None:
    """What the unprivileged owner does; every verb is loaded already."""
    os.setgroups([])
    os.setresgid(user.pw_gid, user.pw_gid, user.pw_gid)
    os.setresuid(user.pw_uid, user.pw_uid, user.pw_uid)
    paths = ["--root", str(place.root), "--keys", str(place.keys)]
    for words in READING:
        check_equal(main([*words, *paths]), 0, f"exit code of {words}")
    save = ["save", "nightly", "--sequence", "3", "--state", "/dev/null"]
    check_equal(main([*save, *paths]), 1, "an empty state")
    save[-1] = str(place.keys)
    check_equal(main([*save, *paths]), 8, "exit code of save")


def test_readers_of_a_store_at_work_raise_no_alarm(kept: Place) -> None:
    """G8: while a writer saves and prunes, every reading verb exits 0 or 6.

    Method: a thread-free writer in this process, between whose saves the readers run.
    """
    keys = Keyring.from_file(kept.keys)
    with CheckpointStore(kept.root, "nightly", keys=keys) as store:
        running = [kept.start(*words, stdout=subprocess.DEVNULL) for words in READING[2:]]
        number = 3
        while any(process.poll() is None for process in running):
            store.save(Checkpoint(number, {"n": number}))
            number += 1
    codes = {process.wait() for process in running}
    check(codes <= {0, 6}, f"exit codes {codes} in {number} saves")
