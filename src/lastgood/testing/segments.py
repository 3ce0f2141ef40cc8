"""The contract of log segments: reserved once, appended to by the handle that began them."""

from __future__ import annotations

from functools import partial

from lastgood.errors import ConflictError, NotStoredError, UsageError
from lastgood.formats import names
from lastgood.storage.interface import OwnedStorage
from lastgood.testing.checks import MAX_BYTES, SESSION, ContractCase, content, refuses, require

_SEGMENT = names.segment(1, epoch=1)
_OTHER_SEGMENT = names.segment(9, epoch=1)
_SIZES_BYTES = (1, 2, 511, 4096, 65_537, 1_048_577)


class SegmentContract(ContractCase):
    """Begin, append, finish, and the rewriting of a segment's end."""

    def test_a_begun_segment_holds_its_reserved_zeros(self) -> None:
        """P1, P2, P5: of every size, listed, and read by any handle; none of no size."""
        root = self.make_root()
        session = root.session(SESSION, access="write")
        for size_bytes in _SIZES_BYTES:
            name = names.segment(size_bytes, epoch=1)
            session.begin(name, size_bytes=size_bytes)
            _holds(root.session(SESSION, access="read"), name, b"", size_bytes)
            require(name in session.list("events-"), "a begun segment is not listed")
        for size_bytes in (0, -1):
            begin = partial(session.begin, _OTHER_SEGMENT, size_bytes=size_bytes)
            refuses(begin, UsageError, what=f"a segment of {size_bytes} bytes")
        require(_OTHER_SEGMENT not in session.list(), "a refused segment was made")

    def test_a_segment_is_begun_once(self) -> None:
        """P3, P4: whatever has the name keeps it and its bytes, whoever begins it again."""
        root = self.make_root()
        session = root.session(SESSION, access="write")
        other = root.session(SESSION, access="write")
        session.begin(_SEGMENT, size_bytes=64)
        session.append(_SEGMENT, b"line\n")
        session.create("record", [bytes(64)])
        before = set(session.list())
        for handle in (session, other):
            for name in (_SEGMENT, "record"):
                for size_bytes in (64, 128):
                    begin = partial(handle.begin, name, size_bytes=size_bytes)
                    refuses(begin, ConflictError, what=f"begin of {name} again")
        require(set(session.list()) == before, "a refused begin left something")
        _holds(session, _SEGMENT, b"line\n", 64)
        require(content(session, "record") == bytes(64), "a refused begin changed a record")
        session.append(_SEGMENT, b"more\n")
        _holds(session, _SEGMENT, b"line\nmore\n", 64)
        session.delete(_SEGMENT)
        begin = partial(session.begin, _SEGMENT, size_bytes=64)
        refuses(begin, ConflictError, what="begin of what this handle still appends to")

    def test_appends_follow_each_other(self) -> None:
        """P1, P5: each is there when it returns, behind the one before, and zeros follow."""
        root = self.make_root()
        session = root.session(SESSION, access="write")
        reader = root.session(SESSION, access="read")
        session.begin(_SEGMENT, size_bytes=200_000)
        written = b""
        for piece in (b"first\n", b"", b"\0\xff\n", b"0123456789" * 10_000, b"x", b"last\n"):
            session.append(_SEGMENT, piece)
            written += piece
            _holds(session, _SEGMENT, written, 200_000)
            _holds(reader, _SEGMENT, written, 200_000)

    def test_segments_do_not_disturb_each_other(self) -> None:
        """P5: one handle may have several; each holds its own, also when another is finished."""
        session = self.make_session()
        for name in (_SEGMENT, _OTHER_SEGMENT):
            session.begin(name, size_bytes=64)
        for number in (b"1", b"2"):
            session.append(_SEGMENT, b"one " + number)
            session.append(_OTHER_SEGMENT, b"other " + number)
        session.finish(_SEGMENT)
        session.append(_OTHER_SEGMENT, b"other 3")
        _holds(session, _SEGMENT, b"one 1one 2", 10)
        _holds(session, _OTHER_SEGMENT, b"other 1other 2other 3", 64)

    def test_what_does_not_fit_is_refused_whole(self) -> None:
        """P2: an open segment ends in a reserved byte; a refused append writes none of its own."""
        session = self.make_session()
        session.begin(_SEGMENT, size_bytes=10)
        session.append(_SEGMENT, b"1234")
        for length in (6, 7, 100_000):
            append = partial(session.append, _SEGMENT, b"x" * length)
            refuses(append, UsageError, what=f"{length} bytes into 6")
            _holds(session, _SEGMENT, b"1234", 10)
        session.append(_SEGMENT, b"56789")
        refuses(lambda: session.append(_SEGMENT, b"x"), UsageError, what="a full segment")
        session.append(_SEGMENT, b"")
        _holds(session, _SEGMENT, b"123456789", 10)

    def test_only_what_this_handle_began_is_appended_to(self) -> None:
        """P4: not what was created, nor what another handle began, nor what is not there."""
        root = self.make_root()
        session = root.session(SESSION, access="write")
        other = root.session(SESSION, access="write")
        other.begin(_SEGMENT, size_bytes=64)
        other.append(_SEGMENT, b"theirs")
        session.create("record", [b"bytes"])
        for name in (_SEGMENT, "record", "never"):
            refuses(partial(session.append, name, b"x"), NotStoredError, what=f"append to {name}")
            refuses(partial(session.finish, name), NotStoredError, what=f"finish of {name}")
        require("never" not in session.list(), "a refused append made a name")
        require(content(session, "record") == b"bytes", "a refused append changed a record")
        other.append(_SEGMENT, b"!")
        _holds(session, _SEGMENT, b"theirs!", 64)

    def test_finishing_cuts_what_was_not_used(self) -> None:
        """P5: a finished segment ends in the last byte appended, and takes no more."""
        root = self.make_root()
        session = root.session(SESSION, access="write")
        for name, data in ((_SEGMENT, b"line\nline\n"), (_OTHER_SEGMENT, b"")):
            session.begin(name, size_bytes=70_000)
            session.append(name, data)
            session.finish(name)
            for handle in (session, root.session(SESSION, access="read")):
                _holds(handle, name, data, len(data))
            refuses(partial(session.append, name, b"x"), NotStoredError, what="append to it")
            refuses(partial(session.finish, name), NotStoredError, what="finish it again")
            begin = partial(session.begin, name, size_bytes=70_000)
            refuses(begin, ConflictError, what="begin it again")
            _holds(session, name, data, len(data))

    def test_closing_cuts_nothing_and_nobody_goes_on(self) -> None:
        """P4: a segment that was not finished keeps its zeros; no later handle appends to it."""
        root = self.make_root()
        session = root.session(SESSION, access="write")
        session.begin(_SEGMENT, size_bytes=64)
        session.append(_SEGMENT, b"line\n")
        session.close()
        for what, work in (
            ("append", lambda: session.append(_SEGMENT, b"x")),
            ("finish", lambda: session.finish(_SEGMENT)),
            ("begin", lambda: session.begin(_OTHER_SEGMENT, size_bytes=64)),
        ):
            refuses(work, UsageError, what=f"{what} by a closed handle")
        again = root.session(SESSION, access="write")
        refuses(lambda: again.append(_SEGMENT, b"x"), NotStoredError, what="append by the next")
        refuses(lambda: again.finish(_SEGMENT), NotStoredError, what="finish by the next")
        _holds(again, _SEGMENT, b"line\n", 64)
        again.begin(_OTHER_SEGMENT, size_bytes=64)
        again.append(_OTHER_SEGMENT, b"goes on")
        _holds(again, _OTHER_SEGMENT, b"goes on", 64)

    def test_a_segments_end_is_rewritten_as_it_is(self) -> None:
        """R1: by another handle than its writer's, from any byte on; other bytes never."""
        root = self.make_root()
        writer = root.session(SESSION, access="write")
        writer.begin(_SEGMENT, size_bytes=16)
        writer.append(_SEGMENT, b"abcdef")
        session = root.session(SESSION, access="write")
        held = b"abcdef" + bytes(10)
        for offset in range(17):
            for end in range(offset, 17):
                session.rewrite(_SEGMENT, held[offset:end], offset=offset)
                require(content(session, _SEGMENT) == held, f"rewriting {offset} to {end}")
        session.rewrite(_SEGMENT, held)
        for data, offset in (
            (b"abcdeX", 0), (b"bcdef", 0), (b"Xcdef", 1), (b"f\0X", 5), (b"\0\0", 15), (b"\0", 16),
            (b"a", 99), (held + b"\0", 0),
        ):  # fmt: skip
            rewrite = partial(session.rewrite, _SEGMENT, data, offset=offset)
            refuses(rewrite, ConflictError, what=f"rewriting {data!r} at {offset}")
        refuses(lambda: session.rewrite(_SEGMENT, b"", offset=-1), UsageError, what="byte -1")
        refuses(lambda: session.rewrite("none", b"", offset=0), NotStoredError, what="nothing")
        require(content(session, _SEGMENT) == held, "a refused rewrite changed the segment")
        writer.append(_SEGMENT, b"ghi")
        _holds(session, _SEGMENT, b"abcdefghi", 16)


def _holds(session: OwnedStorage, name: str, data: bytes, size_bytes: int) -> None:
    """Fail unless ``name`` has ``data`` and then zeros, ``size_bytes`` in all."""
    expected = data.ljust(size_bytes, b"\0")
    read = content(session, name)
    require(len(read) == size_bytes, f"{name} has {len(read)} bytes instead of {size_bytes}")
    require(read == expected, f"{name} begins with {read[:40]!r} instead of {expected[:40]!r}")
    streamed = b"".join(session.stream(name, max_bytes=MAX_BYTES))
    require(streamed == expected, f"{name} streams otherwise than it reads")
