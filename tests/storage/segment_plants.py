"""Memory storages whose log segments, or whose knowledge of the newest owner, are wrong in one way.

``test_contract_controls.py`` runs the contract on each; the test named beside it must fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lastgood.errors import FencedError, LastgoodError, UsageError
from lastgood.formats import names
from lastgood.storage.memory import MemoryStorage
from lastgood.storage.memory_records import File

Plant = Callable[[MemoryStorage], None]


def set_method(session: MemoryStorage, name: str, method: Callable[..., object]) -> None:
    """Give ``session`` another method."""
    setattr(session, name, method)


def _begin_overwrites(session: MemoryStorage) -> None:
    def begin(name: str, *, size_bytes: int) -> None:
        session.delete(name)
        session._segments.pop(name, None)
        real(name, size_bytes=size_bytes)

    real = session.begin
    set_method(session, "begin", begin)


def _begin_goes_on_with_what_is_there(session: MemoryStorage) -> None:
    def begin(name: str, *, size_bytes: int) -> None:
        if name not in session.list():
            real(name, size_bytes=size_bytes)

    real = session.begin
    set_method(session, "begin", begin)


def _begin_reserves_nothing(session: MemoryStorage) -> None:
    def begin(name: str, *, size_bytes: int) -> None:
        real(name, size_bytes=size_bytes)
        session._directory.files[name].data = b""

    real = session.begin
    set_method(session, "begin", begin)


def _begin_takes_any_size(session: MemoryStorage) -> None:
    real = session.begin
    set_method(session, "begin", lambda name, *, size_bytes: real(name, size_bytes=abs(size_bytes)))


def _append_at_the_beginning(session: MemoryStorage) -> None:
    def append(name: str, data: bytes) -> None:
        if name in session._segments:
            session._segments[name].appended_bytes = 0
        real(name, data)

    real = session.append
    set_method(session, "append", append)


def _append_behind_the_reserve(session: MemoryStorage) -> None:
    def append(name: str, data: bytes) -> None:
        session._segment(name).reserved.extend(data)

    set_method(session, "append", append)


def _append_stops_at_a_nul(session: MemoryStorage) -> None:
    real = session.append
    set_method(session, "append", lambda name, data: real(name, data.split(b"\0")[0]))


def _append_leaves_no_reserve(session: MemoryStorage) -> None:
    def append(name: str, data: bytes) -> None:
        segment = session._segment(name)
        if segment.appended_bytes + len(data) == len(segment.reserved):
            segment.reserved.append(0)
            real(name, data)
            del segment.reserved[-1:]
        else:
            real(name, data)

    real = session.append
    set_method(session, "append", append)


def _append_writes_what_fits(session: MemoryStorage) -> None:
    def append(name: str, data: bytes) -> None:
        segment = session._segment(name)
        room = len(segment.reserved) - segment.appended_bytes - 1
        if room and len(data) > room:
            real(name, data[:room])
        real(name, data)

    real = session.append
    set_method(session, "append", append)


def _append_grows_the_segment(session: MemoryStorage) -> None:
    def append(name: str, data: bytes) -> None:
        segment = session._segment(name)
        segment.reserved.extend(data)
        real(name, data)

    real = session.append
    set_method(session, "append", append)


def _append_takes_any_name(session: MemoryStorage) -> None:
    """It takes up a file that somebody else made."""

    def append(name: str, data: bytes) -> None:
        held = session._directory.files.get(name)
        if held is not None and name not in session._segments:
            session._directory.files[name] = File(bytes(held.data) + data)
        else:
            real(name, data)

    real = session.append
    set_method(session, "append", append)


def _append_makes_the_name(session: MemoryStorage) -> None:
    def append(name: str, data: bytes) -> None:
        if name not in session.list():
            session.begin(name, size_bytes=len(data) + 1)
        real(name, data)

    real = session.append
    set_method(session, "append", append)


def _append_goes_elsewhere(session: MemoryStorage) -> None:
    """One position for all segments."""

    def append(name: str, data: bytes) -> None:
        segment = session._segment(name)
        segment.appended_bytes = max(s.appended_bytes for s in session._segments.values())
        real(name, data)

    real = session.append
    set_method(session, "append", append)


def _finish_cuts_nothing(session: MemoryStorage) -> None:
    def finish(name: str) -> None:
        session._segment(name)
        del session._segments[name]

    set_method(session, "finish", finish)


def _finish_cuts_the_last_byte(session: MemoryStorage) -> None:
    def finish(name: str) -> None:
        segment = session._segment(name)
        segment.appended_bytes = max(0, segment.appended_bytes - 1)
        real(name)

    real = session.finish
    set_method(session, "finish", finish)


def _finish_ends_nothing(session: MemoryStorage) -> None:
    set_method(session, "finish", lambda name: session._segment(name).cut())


def _finish_may_be_repeated(session: MemoryStorage) -> None:
    def finish(name: str) -> None:
        if name in session._segments or name not in session.list():
            real(name)

    real = session.finish
    set_method(session, "finish", finish)


def _finish_ends_all(session: MemoryStorage) -> None:
    def finish(name: str) -> None:
        session._segment(name)
        for begun in tuple(session._segments):
            real(begun)

    real = session.finish
    set_method(session, "finish", finish)


def _close_cuts(session: MemoryStorage) -> None:
    def close() -> None:
        for name in tuple(session._segments):
            session.finish(name)
        real()

    real = session.close
    set_method(session, "close", close)


def _the_next_handle_goes_on(session: MemoryStorage) -> None:
    """Takes up where the zeros begin, whoever wrote what is before them."""

    def append(name: str, data: bytes) -> None:
        held = session._directory.files.get(name)
        if name not in session._segments and held is not None and isinstance(held.data, bytearray):
            used = len(held.data.rstrip(b"\0"))
            held.data[used : used + len(data)] = data
        else:
            real(name, data)

    real = session.append
    set_method(session, "append", append)


def _rewrite_ignores_the_offset(session: MemoryStorage) -> None:
    def rewrite(name: str, data: bytes, *, offset: int | None = None) -> None:
        real(name, data)

    real = session.rewrite
    set_method(session, "rewrite", rewrite)


def _rewrite_looks_at_nothing(session: MemoryStorage) -> None:
    def rewrite(name: str, data: bytes, *, offset: int | None = None) -> None:
        if offset is None or offset < 0:
            real(name, data, offset=offset)
            return
        held = bytearray(session.read(name, max_bytes=1 << 20))
        held[offset : offset + len(data)] = data
        session._directory.files[name].data = held

    real = session.rewrite
    set_method(session, "rewrite", rewrite)


def _rewrite_cuts_the_rest(session: MemoryStorage) -> None:
    def rewrite(name: str, data: bytes, *, offset: int | None = None) -> None:
        real(name, data, offset=offset)
        if offset is not None:
            held = session._directory.files[name]
            held.data = held.data[: offset + len(data)]

    real = session.rewrite
    set_method(session, "rewrite", rewrite)


def _rewrite_takes_a_longer_end(session: MemoryStorage) -> None:
    """It compares only what both have."""

    def rewrite(name: str, data: bytes, *, offset: int | None = None) -> None:
        if offset is not None and offset >= 0:
            size_bytes = len(session.read(name, max_bytes=1 << 20))
            data = data[: max(0, size_bytes - offset)]
        real(name, data, offset=offset)

    real = session.rewrite
    set_method(session, "rewrite", rewrite)


def _newest_is_always_confirmed(session: MemoryStorage) -> None:
    set_method(session, "confirm_newest", lambda revision: None)


def _newest_after_any_own_swap(session: MemoryStorage) -> None:
    """It remembers its own swaps and looks at nothing."""

    def confirm_newest(revision: int) -> None:
        try:
            real(revision)
        except FencedError:
            if session._own is None or session._own[0] != revision:
                raise

    real = session.confirm_newest
    set_method(session, "confirm_newest", confirm_newest)


def _newest_by_its_bytes(session: MemoryStorage) -> None:
    def swap(data: Sequence[bytes], *, expected: int) -> int:
        made.append(b"".join(data))
        return real_swap(data, expected=expected)

    def confirm_newest(revision: int) -> None:
        try:
            real(revision)
        except FencedError:
            if session.read(names.POINTER, max_bytes=99) != made[-1]:
                raise

    made: list[bytes] = []
    real_swap, real = session.swap, session.confirm_newest
    set_method(session, "swap", swap)
    set_method(session, "confirm_newest", confirm_newest)


def _newest_by_the_numbers(session: MemoryStorage) -> None:
    """It asks which number is the highest, and not who made it."""

    def confirm_newest(revision: int) -> None:
        if names.manifest(revision) not in session.list("manifest-"):
            raise UsageError("never made")
        if names.manifest(revision + 1) in session.list("manifest-"):
            raise FencedError("a newer one is there")

    set_method(session, "confirm_newest", confirm_newest)


def _newest_after_a_lost_swap(session: MemoryStorage) -> None:
    """It forgets that a swap was lost."""

    def swap(data: Sequence[bytes], *, expected: int) -> int:
        try:
            return real(data, expected=expected)
        except LastgoodError:
            session._is_standing = True
            raise

    real = session.swap
    set_method(session, "swap", swap)


SEGMENT_PLANTS: dict[Plant, str] = {
    _begin_overwrites: "test_a_segment_is_begun_once",
    _begin_goes_on_with_what_is_there: "test_a_segment_is_begun_once",
    _begin_reserves_nothing: "test_a_begun_segment_holds_its_reserved_zeros",
    _begin_takes_any_size: "test_a_begun_segment_holds_its_reserved_zeros",
    _append_at_the_beginning: "test_appends_follow_each_other",
    _append_behind_the_reserve: "test_appends_follow_each_other",
    _append_stops_at_a_nul: "test_appends_follow_each_other",
    _append_leaves_no_reserve: "test_what_does_not_fit_is_refused_whole",
    _append_writes_what_fits: "test_what_does_not_fit_is_refused_whole",
    _append_grows_the_segment: "test_what_does_not_fit_is_refused_whole",
    _append_takes_any_name: "test_only_what_this_handle_began_is_appended_to",
    _append_makes_the_name: "test_only_what_this_handle_began_is_appended_to",
    _append_goes_elsewhere: "test_segments_do_not_disturb_each_other",
    _finish_ends_all: "test_segments_do_not_disturb_each_other",
    _finish_cuts_nothing: "test_finishing_cuts_what_was_not_used",
    _finish_cuts_the_last_byte: "test_finishing_cuts_what_was_not_used",
    _finish_ends_nothing: "test_finishing_cuts_what_was_not_used",
    _finish_may_be_repeated: "test_finishing_cuts_what_was_not_used",
    _close_cuts: "test_closing_cuts_nothing_and_nobody_goes_on",
    _the_next_handle_goes_on: "test_closing_cuts_nothing_and_nobody_goes_on",
    _rewrite_ignores_the_offset: "test_a_segments_end_is_rewritten_as_it_is",
    _rewrite_looks_at_nothing: "test_a_segments_end_is_rewritten_as_it_is",
    _rewrite_cuts_the_rest: "test_a_segments_end_is_rewritten_as_it_is",
    _rewrite_takes_a_longer_end: "test_a_segments_end_is_rewritten_as_it_is",
    _newest_is_always_confirmed: "test_the_newest_owner_is_confirmed_and_nobody_else",
    _newest_after_any_own_swap: "test_the_newest_owner_is_confirmed_and_nobody_else",
    _newest_by_its_bytes: "test_a_revision_of_another_looks_never_like_ones_own",
    _newest_by_the_numbers: "test_only_a_swap_that_returned_is_confirmed",
    _newest_after_a_lost_swap: "test_only_a_swap_that_returned_is_confirmed",
}
