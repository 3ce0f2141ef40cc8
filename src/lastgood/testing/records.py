"""The contract of ``Storage``: P2 to P7, seen by one caller."""

from __future__ import annotations

from functools import partial

from lastgood.errors import (
    ConflictError,
    DamagedError,
    DurabilityUnknownError,
    NotStoredError,
    UsageError,
)
from lastgood.testing.checks import (
    MAX_BYTES,
    OTHER_SESSION,
    SESSION,
    ContractCase,
    content,
    refuses,
    require,
)

_SIZES_BYTES = (0, 1, 4095, 4096, 4097, 65_536, 1_048_577, 20 * 1024 * 1024)

_ODD_NAMES = (
    "a", "-", "-rf", "~", ".hidden", "a b", "a\nb", "%2e%2e", "checkpoint-5 (1).json", "\u00fc",
    "\u202e.json", "\U0001f600", "manifest-1.json", "checkpoint-000001.json.bak", "C:x", "n" * 200,
)  # fmt: skip

_NOT_NAMES = ("", ".", "..", "a/b", "../a", "/a", "a/", "a\0b")


class RecordsContract(ContractCase):
    """Create, read, stream, list and delete."""

    def test_created_bytes_of_every_size_are_read_back(self) -> None:
        """P2: a name holds all bytes of its write, of 0 bytes to 20 MiB, read whole or streamed."""
        session = self.make_session()
        for size_bytes in _SIZES_BYTES:
            name = f"size-{size_bytes}"
            data = (b"0123456789abcdef" * (size_bytes // 16 + 1))[:size_bytes]
            session.create(name, [data[:7], b"", data[7:]])
            require(content(session, name) == data, f"{size_bytes} bytes read otherwise")
            chunks = list(session.stream(name, max_bytes=MAX_BYTES))
            require(b"".join(chunks) == data, f"{size_bytes} bytes stream otherwise")
            require(all(0 < len(chunk) <= 256 * 1024 for chunk in chunks), "a chunk's size")
            session.delete(name)

    def test_many_pieces_are_written_in_order(self) -> None:
        """P2: thousands of pieces become one record, as given."""
        session = self.make_session()
        pieces = [b"%d\n" % number for number in range(5_000)]
        session.create("pieces", pieces)
        require(content(session, "pieces") == b"".join(pieces), "the pieces were mixed")

    def test_a_second_create_is_a_conflict_and_changes_nothing(self) -> None:
        """P3, P4: an existing name is never overwritten, whoever created it."""
        session = self.make_session()
        session.create("name", [b"first"])
        what = "create of an existing name"
        refuses(lambda: session.create("name", [b"other"]), ConflictError, what=what)
        # Of the same bytes nobody may be able to tell whether they are ours.
        refuses(
            lambda: session.create("name", [b"first"]),
            ConflictError,
            DurabilityUnknownError,
            what=what,
        )
        require(content(session, "name") == b"first", "the first content was lost")
        require(session.list("name") == ("name",), "a refused create left something")

    def test_odd_names_are_data(self) -> None:
        """P5: what a person or a tool may call a file is stored, listed and deleted as it is."""
        session = self.make_session()
        for name in _ODD_NAMES:
            session.create(name, [name.encode()])
        for name in _ODD_NAMES:
            require(content(session, name) == name.encode(), f"{name!r} holds something else")
        missing = set(_ODD_NAMES) - set(session.list())
        require(not missing, f"not listed: {missing!r}")

    def test_a_name_never_leads_out_of_its_directory(self) -> None:
        """T7: a name is one component; anything else is refused before storage is asked."""
        session = self.make_session()
        for name in _NOT_NAMES:
            what = f"name {name!r}"
            refuses(partial(session.create, name, [b""]), UsageError, what=what)
            refuses(partial(session.read, name, max_bytes=1), UsageError, what=what)
            refuses(partial(session.begin, name, size_bytes=1), UsageError, what=what)
            refuses(partial(session.append, name, b""), UsageError, what=what)
            refuses(partial(session.finish, name), UsageError, what=what)
            refuses(partial(session.delete, name), UsageError, what=what)
            if name:
                archived = f"archive/{name}"
                refuses(partial(session.delete, archived), UsageError, what=archived)

    def test_a_missing_name_is_not_stored(self) -> None:
        """P5: what was never created, or was deleted, is known not to be there."""
        session = self.make_session()
        session.create("deleted", [b"x"])
        session.delete("deleted")
        for name in ("never", "deleted", "archive/never"):
            what = f"read of {name}"
            refuses(partial(session.read, name, max_bytes=9), NotStoredError, what=what)
            streamed = session.stream(name, max_bytes=9)
            refuses(partial(list, streamed), NotStoredError, what=what)

    def test_reads_are_bounded(self) -> None:
        """P7: an object of the limit is read, one byte more is refused with nothing yielded."""
        session = self.make_session()
        session.create("ten", [b"0123456789"])
        require(session.read("ten", max_bytes=10) == b"0123456789", "a read of exactly the limit")
        require(b"".join(session.stream("ten", max_bytes=10)) == b"0123456789", "a stream of it")
        refuses(lambda: session.read("ten", max_bytes=9), DamagedError, what="an oversized read")
        refuses(
            lambda: next(session.stream("ten", max_bytes=9)), DamagedError, what="oversized stream"
        )

    def test_a_stream_may_be_left_early(self) -> None:
        """P7: the first chunk holds at least 16 KiB, and whoever closes a stream owes nothing."""
        session = self.make_session()
        session.create("long", [bytes(600 * 1024)])
        for _ in range(3):
            stream = session.stream("long", max_bytes=MAX_BYTES)
            require(len(next(stream)) >= 16 * 1024, "the first chunk is short")
            stream.close()

    def test_delete_is_idempotent_and_frees_the_name(self) -> None:
        """P6: deleting what is gone succeeds; the name can be created again."""
        session = self.make_session()
        for content_now in (b"one", b"two"):
            session.create("name", [content_now])
            require(content(session, "name") == content_now, "an earlier content came back")
            session.delete("name")
            session.delete("name")
            require("name" not in session.list(), "a deleted name is listed")
        session.delete("archive/never")

    def test_list_follows_every_write(self) -> None:
        """P5: a list has every name that a returned call made, none that one removed."""
        session = self.make_session()
        before = set(session.list())
        session.create("checkpoint-000001.json", [b"1"])
        session.create("checkpoint-000002.json", [b"2"])
        session.create(".DS_Store", [b"foreign"])
        session.delete("checkpoint-000001.json")
        made = set(session.list()) - before
        require(made == {"checkpoint-000002.json", ".DS_Store"}, f"listed: {made}")
        require(session.list("checkpoint-") == ("checkpoint-000002.json",), "a prefix")
        require(session.list("nothing") == (), "a prefix of nothing")
        require(session.list("archive/") == (), "an archive that is not there")

    def test_another_handle_sees_what_returned(self) -> None:
        """P5: a write that has returned is seen by every handle, for reading and for writing."""
        root = self.make_root()
        writer = root.session(SESSION, access="write")
        others = [root.session(SESSION, access="read"), root.session(SESSION, access="write")]
        writer.create("name", [b"bytes"])
        for other in others:
            require(content(other, "name") == b"bytes", "another handle reads otherwise")
            require("name" in other.list(), "another handle does not list it")
        writer.delete("name")
        for other in others:
            refuses(partial(content, other, "name"), NotStoredError, what="deleted")

    def test_sessions_and_the_root_share_no_names(self) -> None:
        """T5: a name is that of one session, or of the store."""
        root = self.make_root()
        places = [
            root.records(),
            root.session(SESSION, access="write"),
            root.session(OTHER_SESSION, access="write"),
        ]
        for number, place in enumerate(places):
            place.create("store.json", [b"%d" % number])
        for number, place in enumerate(places):
            read = place.read("store.json", max_bytes=9)
            require(read == b"%d" % number, f"place {number} holds {read!r}")
        found = set(root.directories())
        require({SESSION, OTHER_SESSION} <= found, f"directories: {found}")

    def test_an_empty_store_is_empty(self) -> None:
        """P5: where nothing was written nothing is found, and looking changes that not."""
        root = self.make_root()
        for _ in range(2):
            refuses(
                lambda: root.records().read("store.json", max_bytes=9), NotStoredError, what="root"
            )
            refuses(lambda: root.session(SESSION, access="read"), NotStoredError, what="session")
            require(list(root.directories()) == [], "a directory in an empty store")
            require(root.records().list() == (), "a name in an empty store")
        require(bool(root.location()), "a store that is nowhere")

    def test_a_closed_handle_is_of_no_use(self) -> None:
        """T7: after ``close``, which may be repeated, a handle reads and writes nothing."""
        root = self.make_root()
        session = root.session(SESSION, access="write")
        session.create("name", [b""])
        session.close()
        session.close()
        refuses(session.list, UsageError, what="list")
        refuses(lambda: session.read("name", max_bytes=1), UsageError, what="read")
        refuses(lambda: session.create("other", [b""]), UsageError, what="create")
        refuses(lambda: session.swap([b""], expected=0), UsageError, what="swap")
        root.close()
        root.close()
