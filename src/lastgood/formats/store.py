r"""``store.json``: the record that makes a directory a store.

Example (the first line is the seal, see ``formats.seal``; one line each)::

    {"lastgood":1,"kind":"store","alg":"HS256","kid":"…","mac":"…"}
    {"format":1,"store":"0f…32 hex","created":"2026-12-01T07:00:00.000000Z",
     "writer":"lastgood 0.1.0","length":2,"sha256":"…","encryption":null}
    {}

==========  ====  =============  ===================================================
header      type  authenticated  meaning, limit
==========  ====  =============  ===================================================
format      int   yes            1
store       hex   yes            store id, 32 characters; must be the keyring's, and is
                                 never the source of it
created     time  yes            information
writer      text  yes            program that wrote it, at most 100 characters
length      int   yes            bytes of the payload
sha256      hex   yes            of the payload
encryption  null  yes            reserved
payload     {}    by sha256      no fields
==========  ====  =============  ===================================================

Context: (store, store id, ""). Versions: 1. Golden file: ``tests/golden/store-v1.json``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lastgood.errors import SplicedError
from lastgood.formats import canonical, seal
from lastgood.formats.fields import Fields
from lastgood.formats.limits import Limits

KIND: Final = "store"
MAX_BYTES: Final = 16 * 1024
_HEADER: Final = ("format", "store", "created", "writer", "length", "sha256", "encryption")


@dataclass(frozen=True, slots=True)
class StoreRecord:
    """What ``store.json`` says.

    Attributes:
        store: The store id.
        created: When, for people.
        writer: By what, for people.
    """

    store: str
    created: str
    writer: str


def context(store_id: str) -> seal.Context:
    """The only context in which a store record is legal."""
    return seal.Context(KIND, store_id, "")


def encode(record: StoreRecord, *, sealer: seal.Sealer) -> list[bytes]:
    """Seal ``record``; inverse of ``decode``."""
    header = {"store": record.store, "created": record.created, "writer": record.writer}
    return seal.seal(header, b"{}", context=context(record.store), sealer=sealer)


def decode(
    data: bytes, *, store_id: str, sealer: seal.Sealer, limits: Limits, name: str
) -> StoreRecord:
    """Authenticate and read a store record.

    Raises:
        SplicedError: Intact, but of another store.
        LastgoodError: Whatever ``seal.unseal`` and ``Fields`` raise.
    """
    whole = seal.unseal(data, context=context(store_id), sealer=sealer, limits=limits, name=name)
    header = Fields(whole.header, _HEADER, what="header", name=name)
    if header.hex("store", digits=32) != store_id:
        raise SplicedError("it is of another store", name=name)
    Fields(canonical.decode(whole.payload, name=name), (), what="payload", name=name)
    return StoreRecord(
        store_id, header.time("created"), header.text("writer", limit_chars=seal.MAX_WRITER_CHARS)
    )
