"""The contract of ``OwnedStorage``: manifests, the lock, and what only an owner does."""

from __future__ import annotations

from functools import partial

from lastgood.errors import (
    ConflictError,
    FencedError,
    LockedError,
    NotStoredError,
    UsageError,
)
from lastgood.formats import names
from lastgood.storage.interface import OwnedStorage
from lastgood.testing.checks import SESSION, ContractCase, content, refuses, require

_TOKEN = bytes(range(names.TOKEN_BYTES))
_CHECKPOINT = names.checkpoint(1)
_TEMPORARY = names.temporary(_CHECKPOINT, _TOKEN)
_FENCED = names.fenced(_CHECKPOINT, _TOKEN)


class SwapContract(ContractCase):
    """The compare-and-swap of manifests, by one caller at a time."""

    def test_a_swap_on_the_newest_revision_moves_the_manifest(self) -> None:
        """P1, P5: each swap makes the next revision, and the pointer holds it."""
        session = self.make_session()
        for expected in range(4):
            data = b"manifest of revision %d" % (expected + 1)
            revision = session.swap([data[:5], data[5:]], expected=expected)
            require(revision == expected + 1, f"it returned {revision}")
            require(content(session, names.POINTER) == data, "the pointer holds another")

    def test_a_swap_on_a_stale_revision_is_a_conflict(self) -> None:
        """P4: whoever stands below the newest revision changes nothing."""
        session = self.make_session()
        _swap_up_to(session, 3)
        before = set(session.list())
        for expected in range(3):
            what = f"swap on revision {expected} of 3"
            refuses(
                partial(session.swap, [b"late"], expected=expected),
                ConflictError,
                what=what,
            )
        require(content(session, names.POINTER) == b"3", "a stale swap moved the pointer")
        require(set(session.list()) == before, "a stale swap left something")

    def test_a_swap_on_a_revision_that_is_not_there_is_a_conflict(self) -> None:
        """P4: a base that nobody wrote, in an empty session or above the newest, is refused."""
        session = self.make_session()
        refuses(lambda: session.swap([b"x"], expected=1), ConflictError, what="on nothing")
        _swap_up_to(session, 2)
        before = set(session.list())
        for expected in (3, 7, 999_999):
            refuses(
                partial(session.swap, [b"x"], expected=expected),
                ConflictError,
                what=f"swap on revision {expected} of 2",
            )
        require(content(session, names.POINTER) == b"2", "a foreign swap moved the pointer")
        require(set(session.list()) == before, "a foreign swap left something")

    def test_equal_bytes_are_not_the_same_revision(self) -> None:
        """P4: a manifest that looks again as it did is another revision (ABA)."""
        session = self.make_session()
        for expected, data in enumerate((b"A", b"B", b"A")):
            session.swap([data], expected=expected)
        refuses(lambda: session.swap([b"C"], expected=1), ConflictError, what="swap on the first A")
        require(session.swap([b"C"], expected=3) == 4, "swap on the second A")

    def test_the_newest_owner_is_confirmed_and_nobody_else(self) -> None:
        """T11: who made the newest revision knows it, and who was overtaken is told."""
        root = self.make_root()
        one = root.session(SESSION, access="write")
        two = root.session(SESSION, access="write")
        one.swap([b"1"], expected=0)
        for expected, (newer, older) in enumerate([(one, two), (two, one), (one, two)], start=1):
            newer.swap([b"%d" % (expected + 1)], expected=expected)
            for _ in range(3):
                newer.confirm_newest(expected + 1)
                if expected > 1:
                    confirm = partial(older.confirm_newest, expected)
                    refuses(confirm, FencedError, what=f"the owner of revision {expected}")

    def test_a_revision_of_another_looks_never_like_ones_own(self) -> None:
        """T11: not with the same bytes (ABA), not when the pointer is gone or came back."""
        root = self.make_root()
        one = root.session(SESSION, access="write")
        two = root.session(SESSION, access="write")
        same = b"the same bytes"
        one.swap([same], expected=0)
        two.swap([b"other"], expected=1)
        two.swap([same], expected=2)
        two.delete(names.manifest(1))
        refuses(lambda: one.confirm_newest(1), FencedError, what="the same bytes")
        two.confirm_newest(3)
        two.delete(names.POINTER)
        refuses(lambda: two.confirm_newest(3), FencedError, what="no pointer")
        two.create(names.POINTER, [same])
        refuses(lambda: two.confirm_newest(3), FencedError, what="a pointer that came back")

    def test_only_a_swap_that_returned_is_confirmed(self) -> None:
        """T11: not before the first, nor for another revision, nor after one that was lost."""
        root = self.make_root()
        session = root.session(SESSION, access="write")
        other = root.session(SESSION, access="write")
        for revision in (0, 1):
            confirm = partial(session.confirm_newest, revision)
            refuses(confirm, UsageError, what=f"revision {revision} before the first swap")
        _swap_up_to(session, 2)
        for revision in (0, 1, 3):
            confirm = partial(session.confirm_newest, revision)
            refuses(confirm, UsageError, what=f"revision {revision} instead of 2")
        refuses(lambda: other.confirm_newest(2), UsageError, what="another's revision")
        other.swap([b"3"], expected=2)
        refuses(lambda: session.swap([b"x"], expected=2), ConflictError, what="a late swap")
        for revision in (2, 3):
            confirm = partial(session.confirm_newest, revision)
            refuses(confirm, FencedError, what=f"revision {revision} after a lost swap")
        session.swap([b"4"], expected=3)
        session.confirm_newest(4)
        session.close()
        refuses(lambda: session.confirm_newest(4), UsageError, what="a closed handle")


class OwnerContract(ContractCase):
    """Lock, settling, archive."""

    def test_the_lock_excludes_every_other_handle(self) -> None:
        """R1: one handle owns a session, in one process too; the other is told who."""
        root = self.make_root()
        owner = root.session(SESSION, access="write")
        other = root.session(SESSION, access="write")
        owner.acquire(timeout_s=0)
        owner.confirm_held()
        owner.note_holder("pid 4711")
        owner.note_holder("pid 42")
        error = refuses(lambda: other.acquire(timeout_s=0.02), LockedError, what="second owner")
        require("pid 42" in str(error) and "4711" not in str(error), f"who holds it: {error}")
        refuses(other.confirm_held, FencedError, what="confirm without the lock")
        owner.release()
        owner.release()
        refuses(owner.confirm_held, FencedError, what="confirm after release")
        other.acquire(timeout_s=1)
        other.close()
        owner.acquire(timeout_s=1)
        owner.close()

    def test_a_reader_changes_nothing(self) -> None:
        """G8: a handle for reading refuses every change, and reads while another owns."""
        root = self.make_root()
        owner = root.session(SESSION, access="write")
        owner.acquire(timeout_s=1)
        owner.create("name", [b"x"])
        reader = root.session(SESSION, access="read")
        for what, change in (
            ("create", lambda: reader.create("other", [b""])),
            ("swap", lambda: reader.swap([b""], expected=0)),
            ("confirm_newest", lambda: reader.confirm_newest(1)),
            ("begin", lambda: reader.begin("other", size_bytes=1)),
            ("append", lambda: reader.append("name", b"y")),
            ("finish", lambda: reader.finish("name")),
            ("delete", lambda: reader.delete("name")),
            ("acquire", lambda: reader.acquire(timeout_s=0)),
            ("persist", reader.persist),
            ("rewrite", lambda: reader.rewrite("name", b"x")),
            ("archive", lambda: reader.archive("name")),
            (
                "supersede",
                lambda: reader.supersede("name", [b"y"], fenced=b"x", as_name=_FENCED, revision=0),
            ),
            ("settle", lambda: reader.settle(0, number_missing=False, pointer_behind=False)),
        ):
            refuses(change, UsageError, what=what)
        require(content(reader, "name") == b"x", "a reader changed something")

    def test_settling_sweeps_temporaries_and_nothing_else(self) -> None:
        """R4: unpublished names of ours go, foreign ones that look alike stay."""
        session = self.make_session()
        foreign = {".x.tmp", "checkpoint-000001.json.tmp", _TEMPORARY + "~", _TEMPORARY.upper()}
        for name in (_TEMPORARY, *sorted(foreign)):
            session.create(name, [b"x"])
        session.settle(0, number_missing=False, pointer_behind=False)
        left = set(session.list())
        require(_TEMPORARY not in left, "the temporary stayed")
        require(foreign <= left, f"foreign names went: {foreign - left}")

    def test_settling_names_the_pointer_where_its_number_is_missing(self) -> None:
        """R4: a revision that only the pointer holds gets its number; the next swap works."""
        session = self.make_session()
        _swap_up_to(session, 2)
        session.delete(names.manifest(2))
        session.settle(2, number_missing=True, pointer_behind=False)
        require(content(session, names.manifest(2)) == b"2", "the number holds another record")
        require(session.swap([b"3"], expected=2) == 3, "the next swap")

    def test_settling_moves_the_pointer_up(self) -> None:
        """R4: a claim whose pointer was not moved gets it moved, also where there is none."""
        for lost in (True, False):
            session = self.make_session()
            _swap_up_to(session, 1)
            session.create(names.manifest(2), [b"2"])  # claimed; the pointer still holds revision 1
            if lost:
                session.delete(names.POINTER)
            for _ in range(2):
                session.settle(2, number_missing=False, pointer_behind=True)
                require(content(session, names.POINTER) == b"2", "the pointer was not moved")
            odd = set(session.list()) - {
                names.LOCK,
                names.POINTER,
                names.manifest(1),
                names.manifest(2),
            }
            require(not odd, f"settling left {odd}")

    def test_settling_a_stale_view_is_a_conflict(self) -> None:
        """R4: where something newer is there, the pointer is not moved and nothing is swept."""
        session = self.make_session()
        _swap_up_to(session, 3)
        session.create(_TEMPORARY, [b"x"])
        refuses(
            lambda: session.settle(2, number_missing=False, pointer_behind=True),
            ConflictError,
            what="settling revision 2 of 3",
        )
        require(content(session, names.POINTER) == b"3", "the pointer moved down")
        require(_TEMPORARY in session.list(), "a paused writer was swept by a stale view")

    def test_rewriting_keeps_the_bytes(self) -> None:
        """R1: the same bytes are written again, others never."""
        session = self.make_session()
        session.persist()
        session.create("name", [b"bytes"])
        session.rewrite("name", b"bytes")
        for other in (b"BYTES", b"byte", b"bytes!", b""):
            refuses(partial(session.rewrite, "name", other), ConflictError, what="other")
        require(content(session, "name") == b"bytes", "a rewrite changed the content")
        refuses(lambda: session.rewrite("none", b""), NotStoredError, what="rewrite of nothing")

    def test_archiving_moves_and_may_be_repeated(self) -> None:
        """G3: a record is in the archive before it leaves, and nothing there is overwritten."""
        session = self.make_session()
        session.create(_CHECKPOINT, [b"one"])
        session.archive(_CHECKPOINT)
        session.archive(_CHECKPOINT)
        archived = names.archived(_CHECKPOINT)
        require(session.list("archive/") == (archived,), "the archive's list")
        require(session.list("archive/checkpoint-9") == (), "a prefix in the archive")
        require(_CHECKPOINT not in session.list(), "the record did not leave")
        require(not [name for name in session.list() if "archive" in name], "list has the archive")
        require(content(session, archived) == b"one", "the archive holds something else")
        session.create(_CHECKPOINT, [b"one"])
        session.archive(_CHECKPOINT)  # as after a kill in between, of a copied store
        require(_CHECKPOINT not in session.list(), "a half-finished move was not finished")
        session.create(_CHECKPOINT, [b"two"])
        refuses(lambda: session.archive(_CHECKPOINT), ConflictError, what="another record")
        require(content(session, _CHECKPOINT) == b"two", "the refused record is gone")
        require(content(session, archived) == b"one", "the archive was overwritten")
        refuses(lambda: session.archive("none"), NotStoredError, what="archive of nothing")

    def test_a_record_may_be_archived_under_another_name(self) -> None:
        """G3: what may not stay under its own name is kept under one that nothing believes."""
        session = self.make_session()
        session.create(_CHECKPOINT, [b"damaged"])
        session.archive(_CHECKPOINT, as_name=_FENCED)
        require(_CHECKPOINT not in session.list(), "it is still in the way")
        require(content(session, f"archive/{_FENCED}") == b"damaged", "it was not kept")
        session.create(_CHECKPOINT, [b"other"])
        refuses(
            lambda: session.archive(_CHECKPOINT, as_name=_FENCED),
            ConflictError,
            what="a taken name",
        )
        require(content(session, f"archive/{_FENCED}") == b"damaged", "it was overwritten")

    def test_a_fenced_record_is_superseded_only_if_it_is_still_that_one(self) -> None:
        """S4, G3: replaced and kept; another record, or one of a moved session, is not touched."""
        session = self.make_session()
        session.swap([b"1"], expected=0)
        session.create(_CHECKPOINT, [b"fenced"])

        def supersede(fenced: bytes, revision: int) -> None:
            session.supersede(
                _CHECKPOINT, [b"ou", b"rs"], fenced=fenced, as_name=_FENCED, revision=revision
            )

        refuses(lambda: supersede(b"another", 1), ConflictError, what="another record")
        refuses(lambda: supersede(b"fenced", 0), ConflictError, what="a session that moved on")
        require(content(session, _CHECKPOINT) == b"fenced", "it was replaced")
        supersede(b"fenced", 1)
        require(content(session, _CHECKPOINT) == b"ours", "it was not replaced")
        require(content(session, f"archive/{_FENCED}") == b"fenced", "it was not kept")
        refuses(lambda: supersede(b"fenced", 1), ConflictError, what="the same again")
        require(content(session, _CHECKPOINT) == b"ours", "ours was replaced")


def _swap_up_to(session: OwnedStorage, revision: int) -> None:
    for expected in range(revision):
        session.swap([b"%d" % (expected + 1)], expected=expected)
