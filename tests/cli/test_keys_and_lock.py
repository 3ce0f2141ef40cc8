"""Where keys come from, and what a command does while another one holds the session."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable

import pytest

from lastgood.checkpoints import CheckpointStore
from lastgood.keyring import Keyring
from tests.cli.commands import LASTGOOD, Place
from tests.support.check import check, check_equal
from tests.support.trees import picture


def test_new_key_file_is_private_whole_and_never_replaced(place: Place) -> None:
    """``keys new`` makes a 0600 file of a new store, once, and shows no secret.

    Method: whatever the umask is; then again onto the same name.
    """
    ran = place.run("keys", "new", "other.json", "--json", umask=0).left(0)
    path = place.top / "other.json"
    check_equal(stat.S_IMODE(path.stat().st_mode), 0o600, "mode")
    keys = Keyring.from_file(path)
    check_equal(ran.document["store"], keys.store_id, "store id")
    check_equal(ran.document["kid"], keys.primary_kid, "kid")
    secret = next(word for word in path.read_text("ascii").split('"') if len(word) == 64)
    check(secret.encode() not in ran.out + ran.err, "the secret was printed")
    before = path.read_bytes()
    place.run("keys", "new", "other.json").left(5)
    place.run("keys", "new", "missing/keys.json").left(5)
    check_equal(path.read_bytes(), before, "the key file")
    found = {each.name for each in place.top.iterdir()}
    check_equal(found, {"keys.json", "other.json"}, "names")


SOURCES: list[tuple[str, Callable[[Place], dict[str, str]]]] = [
    ("path", lambda place: {"LASTGOOD_KEYS": str(place.keys)}),
    ("relative path", lambda _: {"LASTGOOD_KEYS": "keys.json"}),
    ("env", lambda place: {"LASTGOOD_KEYS": "env:MINE", "MINE": place.keys.read_text("ascii")}),
    ("exec", lambda place: {"LASTGOOD_KEYS": f"exec:/bin/cat '{place.keys}'"}),
    ("home", lambda place: {"LASTGOOD_KEYS": "~/keys.json", "HOME": str(place.top)}),
]


@pytest.mark.parametrize(("name", "source"), SOURCES, ids=[name for name, _ in SOURCES])
def test_keys_come_from_each_source(
    name: str, source: Callable[[Place], dict[str, str]], kept: Place
) -> None:
    """A path, ``env:``, ``exec:``: all give the same keys; a weak source is pointed out."""
    ran = kept.run("load", "nightly", "-v", environment=source(kept)).left(0)
    check_equal(ran.out, b'{"n":2}\n', "the state")
    check(name != "env" or b"MINE" in ran.err, "the notice is missing")


def test_keys_come_from_a_descriptor(kept: Place) -> None:
    """``fd:N`` reads a descriptor that the shell opened; ``fd:0`` is standard input."""
    with kept.keys.open("rb") as file:
        number = file.fileno()
        keys = {"LASTGOOD_KEYS": f"fd:{number}"}
        kept.run("load", "nightly", environment=keys, pass_fds=[number]).left(0)
    data = kept.keys.read_bytes()
    kept.run("load", "nightly", "--keys", "fd:0", stdin=data).left(0)
    words = ["save", "nightly", "--sequence", "3", "--keys", "fd:0"]
    kept.run(*words, stdin=data).left(1)
    (kept.top / "s.json").write_text("{}", encoding="ascii")
    kept.run(*words, "--state", "s.json", stdin=data).left(0)


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ("", 5),
        ("missing.json", 5),
        ("state", 5),
        ("env:", 1),
        ("env:NOT_SET", 5),
        ("env:a=b", 1),
        ("fd:", 1),
        ("fd:-1", 1),
        ("fd:1_0", 1),
        ("fd:99", 5),
        ("exec:", 1),
        ("exec:cat keys.json", 1),
        ("exec:/bin/false", 5),
        ("exec:/bin/echo hello", 5),
        ("exec:/bin/cat 'keys.json", 1),
        ("exec:/nowhere/at/all", 5),
    ],
)
def test_keys_that_cannot_be_had_are_refused_in_one_line(keys: str, code: int, kept: Place) -> None:
    """No key, no reading: the source is named, its arguments are not, nothing is changed."""
    before = picture(kept.root)
    ran = kept.run("load", "nightly", environment={"LASTGOOD_KEYS": keys}).left(code)
    check_equal((ran.out, ran.err.count(b"\n")), (b"", 1), "what was printed")
    check(b"hello" not in ran.err and b"'keys.json" not in ran.err, ran.said)
    check_equal(picture(kept.root), before, "the tree")


def test_store_that_is_not_named_or_lives_in_memory_is_refused(place: Place) -> None:
    """A store is named by --root or LASTGOOD_ROOT; one that ends with the command is none."""
    ran = place.run("sessions", environment={"LASTGOOD_ROOT": ""}).left(1)
    check("--root" in ran.said, ran.said)
    for root in ("memory:x", "s3://bucket"):
        words = ("save", "s", "--sequence", "1", "--root", root)
        place.run(*words, stdin=b"{}").left(1)
    check("no sessions" in place.run("sessions").left(0).said, "an empty place")


def test_keys_inside_the_store_are_refused(kept: Place) -> None:
    """T1, T2: who gets the store must not get its keys."""
    inside = kept.root / "keys.json"
    inside.write_bytes(kept.keys.read_bytes())
    inside.chmod(0o600)
    kept.run("load", "nightly", "--keys", str(inside)).left(5)


@pytest.mark.parametrize("name", ["state/keys.json", "link/keys.json", "state/below/keys.json"])
def test_no_keys_are_made_inside_the_store(name: str, kept: Place) -> None:
    """T1: refused before anything is made, also by another name of the store's directory."""
    (kept.top / "link").symlink_to("state")
    (kept.root / "below").mkdir()
    before = picture(kept.top)
    said = kept.run("keys", "new", name).left(5).said
    check("outside of the store" in said, said)
    check_equal(picture(kept.top), before, "the tree")
    for root in ("other", ""):
        kept.run("keys", "new", f"new-{root}.json", environment={"LASTGOOD_ROOT": root}).left(0)


def test_held_session_is_waited_for_and_its_holder_named(kept: Place) -> None:
    """``--lock-timeout`` bounds the wait; the error says who holds it. Reading needs no lock.

    Method: this process holds the session.
    """
    words = ["save", "nightly", "--sequence", "3", "--lock-timeout", "0.1", "--json"]
    with CheckpointStore(kept.root, "nightly", keys=Keyring.from_file(kept.keys)):
        ran = kept.run(*words, stdin=b"{}").left(7)
        check_equal(kept.run("load", "nightly").left(0).out, b'{"n":2}\n', "the state")
    error = ran.document["error"]
    check_equal(error["code"], "locked", "code")
    check(str(os.getpid()) in error["details"]["holder"], error)
    kept.run(*words, stdin=b"{}").left(0)


def test_two_savers_at_once_both_succeed_in_turn(place: Place) -> None:
    """One waits for the other, and neither is lost: the higher sequence is current.

    Method: eight processes at once; each exits 0, or 7 where it was superseded.
    """
    running = [
        place.start("save", "s", "--sequence", str(number), stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for number in range(1, 9)
    ]  # fmt: skip
    for number, process in enumerate(running, 1):
        _, err = process.communicate(b"%d" % number, timeout=100)
        check(process.returncode in (0, 7), f"{number}: {err!r}")
    check_equal(running[-1].returncode, 0, "the highest")
    check_equal(place.run("load", "s").left(0).out, b"8\n", "the state")
    place.run("verify", "s").left(0)


def test_command_from_another_directory_reads_the_same_store(kept: Place) -> None:
    """Absolute names mean the same everywhere; the working directory is no part of the store."""
    done = subprocess.run(
        [LASTGOOD, "load", "nightly"], env=kept.names, cwd="/", capture_output=True, check=False
    )
    check_equal((done.returncode, done.stdout), (0, b'{"n":2}\n'), "answer")
