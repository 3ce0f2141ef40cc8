"""``session.json``: what a session is, bound to its directory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lastgood.errors import DamagedError, InvalidIdError, SplicedError, UsageError
from lastgood.formats import names, seal, session
from lastgood.formats.limits import Limits
from tests.support import records
from tests.support.check import check, check_equal

IDS = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=1, max_size=120)


def decode(data: bytes, directory: str) -> session.SessionRecord:
    sealer = records.keyring().sealer(directory)
    return session.decode(
        data, store_id=records.STORE, directory=directory, sealer=sealer, limits=Limits(), name="t"
    )


@given(
    IDS,
    st.text(max_size=session.MAX_PROGRAM_CHARS),
    st.text(max_size=session.MAX_PROGRAM_CHARS),
    st.sampled_from([None, "events"]),
    st.binary(min_size=32, max_size=32),
)
def test_session_record_that_is_encoded_is_decoded(
    text: str, name: str, version: str, log: Any, salt: bytes
) -> None:
    """decode(encode(x)) == x, whatever the id and the program are called."""
    value = session.SessionRecord(
        store=records.STORE,
        session=names.session_id(text),
        created=records.CREATED,
        writer=records.WRITER,
        program=session.Program(name, version),
        salt=salt.hex(),
        log=log,
    )
    directory = names.directory(value.session)
    parts = session.encode(value, sealer=records.keyring().sealer(directory))
    check_equal(decode(b"".join(parts), directory), value, "session record")


@pytest.mark.parametrize(
    "text",
    ["", "../../x\n", "a\x00b", "x" * 513, "\x1b[2J", "\x9b", 5, None, True, ["nightly"], {}],
    ids=ascii,
)
def test_illegal_id_inside_a_sealed_record_is_damage(text: object) -> None:
    """An id from stored metadata is validated again (C11-01): exit 2, by an authentic record."""
    data = records.draft("session").edited("header.session", text).record()
    with pytest.raises(DamagedError, match="session id is not legal") as caught:
        records.read("session", data)
    check_equal(type(caught.value.__cause__), InvalidIdError, "cause")


@pytest.mark.parametrize("text", ["weekly", "Nightly", "nightly ", "../../x", "/etc/passwd"])
def test_legal_id_of_another_directory_is_spliced(text: str) -> None:
    """The id must hash to the directory that the record lies in (T5)."""
    data = records.draft("session").edited("header.session", text).record()
    with pytest.raises(SplicedError, match="another directory"):
        records.read("session", data)


def test_record_of_another_store_inside_is_spliced() -> None:
    """The store id inside is compared with the caller's (T5)."""
    data = records.draft("session").edited("header.store", records.OTHER_STORE).record()
    with pytest.raises(SplicedError, match="another store"):
        records.read("session", data)


def test_record_moved_to_another_directory_is_refused() -> None:
    """A session's directory cannot be renamed into another session (T5)."""
    data = records.record("session")
    with pytest.raises(DamagedError):
        decode(data, names.directory(records.OTHER_SESSION))


@pytest.mark.parametrize("text", ["x" * 201, "\ud800", None, 5, b"a"], ids=ascii)
def test_program_that_no_reader_would_take_is_refused_before_writing(text: Any) -> None:
    """What was created can be opened (C9-08)."""
    for wrong in ({"name": text}, {"version": text}):
        with pytest.raises(UsageError):
            session.Program(**wrong)


def test_salt_is_not_shown() -> None:
    """The salt keys fingerprints: it stands in no repr (T1)."""
    check(records.SALT not in repr(records.session_record()), "the salt is shown")


def test_session_record_fits_its_own_limit() -> None:
    """A bounded read takes every legal session record (T8). Method: the longest of each text."""
    widest = "\U0010ffff"
    value = session.SessionRecord(
        store=records.STORE,
        session=names.session_id('"' * 512),
        created=records.CREATED,
        writer=widest * seal.MAX_WRITER_CHARS,
        program=session.Program("\x01" * 200, "\x01" * 200),
        salt=records.SALT,
        log="events",
    )
    directory = names.directory(value.session)
    data = b"".join(session.encode(value, sealer=records.keyring().sealer(directory)))
    check(len(data) <= session.MAX_BYTES, f"{len(data)} bytes")
    check_equal(decode(data, directory), value, "the longest record")
