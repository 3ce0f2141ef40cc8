"""No secret is shown: in no text, comparison, copy or pickle, by no class and by no error."""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import pickle
import pprint
import traceback
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood import key_sources, private_file
from lastgood.errors import KeyFileError
from lastgood.formats import keyfile
from lastgood.formats.keyfile import Secret
from lastgood.keyring import Keyring
from lastgood.storage.filesystem import OsFileSystem
from tests.keys.samples import (
    DIRECTORY,
    MASTER,
    as_bytes,
    check_hides,
    entry,
    key_file,
    pae,
    rfc5869,
    texts_of,
    write,
)
from tests.support.check import check, check_equal

# Random enough that no part of them stands in a text by chance.
SECRETS = st.binary(min_size=32, max_size=32).map(lambda seed: rfc5869(seed, b"secret of a test"))


def derived_from(secret: bytes, store: str) -> tuple[bytes, ...]:
    root = rfc5869(secret, pae(b"session", store.encode(), DIRECTORY.encode()))
    return (
        secret,
        root,
        rfc5869(root, pae(b"mac", b"checkpoint")),
        rfc5869(secret, pae(b"kid"))[16:],
    )


def objects_of(secret: bytes) -> list[Any]:
    """Everything that holds or held ``secret``."""
    data = as_bytes(key_file(entry(secret)))
    file = keyfile.decode(data)
    keyring = Keyring.from_bytes(data)
    sealer = keyring.sealer(DIRECTORY)
    sealer.key(sealer.kid, "mac", "checkpoint")
    location = private_file.Location("/keys.json", frozenset())
    return [
        file,
        file.keys[0],
        Secret(secret),
        keyring,
        sealer,
        keyring.states(),
        keyring.notices,
        key_sources.KeySource(data, "a test", location),
        private_file.PrivateFile(data, location, ()),
    ]


@given(SECRETS)
def test_no_text_of_an_object_shows_a_secret(secret: bytes) -> None:
    """repr, str, format, pprint, log lines, and the attributes behind them hide every key.

    Method: search them for master, root, record key and the unused half of the kid's bytes.
    """
    hidden = derived_from(secret, key_file()["store"])
    for thing in objects_of(secret):
        record = logging.LogRecord("test", logging.INFO, "", 0, "%r %s", (thing, thing), None)
        texts = [repr(thing), str(thing), f"{thing}", pprint.pformat(thing), record.getMessage()]
        if not isinstance(thing, (key_sources.KeySource, private_file.PrivateFile, Secret)):
            slots = getattr(type(thing), "__slots__", ())
            texts += [repr(getattr(thing, slot)) for slot in slots if hasattr(thing, slot)]
        for text in texts:
            check_hides(text, *hidden)


def test_a_refused_keyring_can_be_shown_and_hides_its_secret() -> None:
    """A traceback with locals calls repr on what was half made; that works, and shows no key.

    Method: a key file whose kid is another key's; repr of every Keyring in the frames.
    """
    altered = key_file(entry(MASTER) | {"kid": "0" * 32})
    with pytest.raises(KeyFileError) as caught:
        Keyring.from_bytes(as_bytes(altered))
    frames = [frame.f_locals for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    refused = [value for f in frames for value in f.values() if type(value) is Keyring]
    check(refused != [], "the refused keyring is in the traceback")
    for keyring in refused:
        check_hides(repr(keyring), *derived_from(MASTER, key_file()["store"]))


@given(SECRETS, st.integers(0, 10**6), st.sampled_from(["cut", "flip", "insert", "twice", "swap"]))
def test_no_error_about_a_bad_key_file_shows_a_secret(secret: bytes, place: int, how: str) -> None:
    """Whatever is wrong with a key file, neither the error nor one chained to it shows a key.

    Method: damage at a random place, of five kinds; texts, arguments, attributes, traceback.
    """
    data = as_bytes(key_file(entry(secret)))
    place %= len(data)
    damaged = {
        "cut": data[:place],
        "flip": data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :],
        "insert": data[:place] + b'"' + data[place:],
        "twice": data[:place] + data,
        "swap": data.replace(b"kid", b"tmp").replace(b"secret", b"kid").replace(b"tmp", b"secret"),
    }[how]
    try:
        Keyring.from_bytes(damaged)
    except KeyFileError as error:
        texts = [*texts_of(error), "".join(traceback.format_exception(error))]
        for text in texts:
            check_hides(text, secret)
    else:
        check(how in ("cut", "flip"), f"{how} was not refused")


def test_secret_refuses_pickle_copy_and_dictionaries() -> None:
    """Keys do not travel unseen. Method: every object that holds some, by each way to copy it."""
    holders = [thing for thing in objects_of(MASTER) if not isinstance(thing, tuple)][:5]
    for holder in holders:
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(TypeError):
                pickle.dumps(holder, protocol)
        with pytest.raises(TypeError):
            copy.deepcopy(holder)
    with pytest.raises(TypeError):
        copy.copy(Secret(MASTER))
    with pytest.raises(TypeError):
        dataclasses.asdict(keyfile.decode(as_bytes(key_file())))
    with pytest.raises(TypeError):
        json.dumps({"secret": Secret(MASTER)})


def test_equality_tells_nothing_about_secrets() -> None:
    """``==`` is no oracle: equal bytes do not make two secrets equal, other bytes no two files."""
    one, two = Secret(MASTER), Secret(MASTER)
    plain: object = MASTER
    check(one != two, "two secrets were compared by their bytes")
    check(one != plain and hash(one) != hash(plain), "a secret was compared with bytes")
    keys = [keyfile.KeyEntry("0" * 32, "primary", "", Secret(bytes([n]) * 32)) for n in (1, 2)]
    check_equal(keys[0], keys[1], "entries that differ in nothing but the secret")
    first, second = (Keyring.from_bytes(as_bytes(key_file())) for _ in range(2))
    check(first != second, "keyrings were compared by what they hold")


@pytest.mark.parametrize("size_bytes", [0, 31, 33, 64])
def test_secret_of_another_length_is_refused_unseen(size_bytes: int) -> None:
    """32 bytes, always; the message tells the length alone."""
    value = (MASTER * 2)[:size_bytes]
    with pytest.raises(KeyFileError, match=f"has {size_bytes}") as caught:
        Secret(value)
    for text in texts_of(caught.value):
        check_hides(text, MASTER)


def test_error_after_reading_a_file_shows_no_content(tmp_path: Path) -> None:
    """A key file with a comment or a stray word is refused by line and column, not by excerpt."""
    data = as_bytes(key_file()).replace(b'"secret": "', b'"secret": x"')
    path = write(tmp_path / "keys.json", data)
    with pytest.raises(KeyFileError, match="line 9, column 17") as caught:
        Keyring.from_file(path, filesystem=OsFileSystem())
    for text in texts_of(caught.value):
        check_hides(text, MASTER)


def test_search_for_secrets_finds_each_way_of_writing_them() -> None:
    """The oracle of these tests is alive. Method: plant hex, upper case, repr and numbers."""
    planted = (
        MASTER.hex(), MASTER.hex().upper(), repr(MASTER), str(list(MASTER)), MASTER[:8].hex(),
        f"x{MASTER[-8:]!r}y",
    )  # fmt: skip
    for text in planted:
        with pytest.raises(AssertionError):
            check_hides(f"before {text} after", MASTER)
    check_hides("nothing to see", MASTER)
