r"""``session.json``: what a session is, written once when it is made.

Example::

    {"lastgood":1,"kind":"session","alg":"HS256","kid":"…","mac":"…"}
    {"format":1,"store":"…","session":"nightly","created":"2026-12-01T07:00:00.000000Z",
     "writer":"lastgood 0.1.0","length":140,"sha256":"…","encryption":null}
    {"program":{"name":"invoices","version":"3"},"salt":"…64 hex","log":null}

===============  =========  =============  ==============================================
field            type       authenticated  meaning, limit
===============  =========  =============  ==============================================
format           int        yes            1
store            hex        yes            store id
session          text       yes            session id; must hash to the directory's name
created          time       yes            information
writer           text       yes            at most 100 characters
length, sha256   int, hex   yes            of the payload
encryption       null       yes            reserved
program.name     text       by sha256      program that made the session, at most 200
                                           characters, may be empty
program.version  text       by sha256      at most 200 characters, may be empty
salt             hex        by sha256      32 bytes, keys the fingerprints of this session
log              null/text  by sha256      null: checkpoints only, for good; ``events``: an
                                           event log is the source of truth
===============  =========  =============  ==============================================

Context: (session, store id, directory name), because it is read before an id is
known. Versions: 1. Golden file: ``tests/golden/session-v1.json``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from lastgood.errors import DamagedError, InvalidIdError, SplicedError
from lastgood.formats import canonical, names, seal
from lastgood.formats.canonical import JSON
from lastgood.formats.fields import Fields, check_given
from lastgood.formats.limits import Limits

KIND: Final = "session"
MAX_BYTES: Final = 16 * 1024
MAX_PROGRAM_CHARS: Final = 200
_HEADER: Final = (
    "format", "store", "session", "created", "writer", "length", "sha256", "encryption",
)  # fmt: skip
_PAYLOAD: Final = ("program", "salt", "log")

LogKind = Literal["events"] | None


@dataclass(frozen=True, slots=True)
class Program:
    """The program that makes and resumes a session; empty texts where nobody said.

    Raises:
        UsageError: A text is not one, or longer than 200 characters.
    """

    name: str = ""
    version: str = ""

    def __post_init__(self) -> None:
        """Refuse what no reader would take."""
        check_given(self.name, limit_chars=MAX_PROGRAM_CHARS, what="program name")
        check_given(self.version, limit_chars=MAX_PROGRAM_CHARS, what="program version")


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """What ``session.json`` says.

    Attributes:
        store: The store id.
        session: The session id.
        created: When, for people.
        writer: By what, for people.
        program: Who made it.
        salt: 64 hex characters that key this session's fingerprints.
        log: None for a session of checkpoints only.
    """

    store: str
    session: names.SessionId
    created: str
    writer: str
    program: Program
    salt: str = field(repr=False)
    log: LogKind


def context(store_id: str, directory: str) -> seal.Context:
    """The only context in which the session record in ``directory`` is legal."""
    return seal.Context(KIND, store_id, directory)


def encode(record: SessionRecord, *, sealer: seal.Sealer) -> list[bytes]:
    """Seal ``record``; inverse of ``decode``."""
    header = {
        "store": record.store,
        "session": record.session,
        "created": record.created,
        "writer": record.writer,
    }
    payload = {
        "program": {"name": record.program.name, "version": record.program.version},
        "salt": record.salt,
        "log": record.log,
    }
    where = context(record.store, names.directory(record.session))
    return seal.seal(header, canonical.encode(payload), context=where, sealer=sealer)


def decode(
    data: bytes, *, store_id: str, directory: str, sealer: seal.Sealer, limits: Limits, name: str
) -> SessionRecord:
    """Authenticate and read the session record found in ``directory``.

    Raises:
        SplicedError: Intact, but of another store, or its id does not hash to ``directory``.
        LastgoodError: Whatever ``seal.unseal`` and ``Fields`` raise.
    """
    whole = seal.unseal(
        data, context=context(store_id, directory), sealer=sealer, limits=limits, name=name
    )
    header = Fields(whole.header, _HEADER, what="header", name=name)
    if header.hex("store", digits=32) != store_id:
        raise SplicedError("it is of another store", name=name)
    session = _session_id(header.raw("session"), directory=directory, name=name)
    payload = Fields(
        canonical.decode(whole.payload, name=name), _PAYLOAD, what="payload", name=name
    )
    program = Fields(payload.raw("program"), ("name", "version"), what="program", name=name)
    return SessionRecord(
        store_id,
        session,
        header.time("created"),
        header.text("writer", limit_chars=seal.MAX_WRITER_CHARS),
        Program(
            program.text("name", limit_chars=MAX_PROGRAM_CHARS),
            program.text("version", limit_chars=MAX_PROGRAM_CHARS),
        ),
        payload.hex("salt", digits=64),
        _log_kind(payload.raw("log"), name=name),
    )


def _session_id(value: JSON, *, directory: str, name: str) -> names.SessionId:
    """An id from stored metadata is validated again (C11-01), then bound to its directory."""
    try:
        session = names.session_id(value)
    except InvalidIdError as error:
        raise DamagedError("its session id is not legal", name=name) from error
    if names.directory(session) != directory:
        raise SplicedError("its session id belongs into another directory", name=name)
    return session


def _log_kind(value: JSON, *, name: str) -> LogKind:
    if value is None:
        return None
    if value == "events" and type(value) is str:
        return "events"
    raise DamagedError("the field log of its payload is not legal", name=name)
