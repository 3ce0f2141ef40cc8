"""A process on a disk in memory: the ``FileSystem`` seam.

The semantics are those of Linux for what the seam offers: names are resolved from descriptors,
unlinked files live as long as they are open, flock belongs to the open file description, links
and exclusive creations fail where the name is taken. There are no symbolic links.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from typing import Final

from fault_injection.memory.caller import Caller
from fault_injection.memory.calls import Call
from fault_injection.memory.descriptors import (
    Description,
    Place,
    check_flags,
    check_name,
    refuse,
    shown,
)
from fault_injection.memory.disk import File, Folder
from fault_injection.memory.operations import (
    Entry,
    Make,
    Mode,
    Operation,
    Removal,
    Rename,
    Sync,
    Truncate,
    Write,
)

_UNLOCK: Final = 8
_DEVICE: Final = 1


class Process(Caller):
    """One process; the ``FileSystem`` of lastgood, made as a ``Caller`` is."""

    # --- the seam ------------------------------------------------------------------------

    def open(self, path: str, flags: int, *, mode: int = 0o600, dir_fd: int | None = None) -> int:
        """System call openat."""
        check_flags(flags)
        creates = bool(flags & os.O_CREAT)
        what = f"{path}{' O_CREAT' if creates else ''}{' O_EXCL' if flags & os.O_EXCL else ''}"
        place = self._fds.place(path, dir_fd)

        def perform(call: Call) -> int:
            return self._opened(call, place, flags, mode)

        return self._call("open", what, perform, path=place.path, creates=creates)

    def close(self, fd: int) -> None:
        """System call close."""
        held = self._fds.opened.pop(fd, None)

        def perform(call: Call) -> None:
            if held is None:
                refuse(errno.EBADF)
            call.inode = held.inode
            self._locks.give_back(held)

        self._call("close", shown(held), perform, fd=fd, held=held)

    def read(self, fd: int, size_bytes: int) -> bytes:
        """System call read."""

        def perform(call: Call) -> bytes:
            held = self._fds.held(fd)
            data = self._read(held, size_bytes, held.offset)
            held.offset += len(data)
            return data

        return self._call("read", f"{self._fds.name(fd)} {size_bytes} bytes", perform, fd=fd)

    def pread(self, fd: int, size_bytes: int, offset: int) -> bytes:
        """System call pread."""

        def perform(call: Call) -> bytes:
            if offset < 0:
                refuse(errno.EINVAL)
            return self._read(self._fds.held(fd), size_bytes, offset)

        what = f"{self._fds.name(fd)} {size_bytes} bytes at {offset}"
        return self._call("pread", what, perform, fd=fd)

    def writev(self, fd: int, buffers: Sequence[bytes | memoryview]) -> int:
        """System call writev."""
        data = b"".join(buffers)

        def perform(call: Call, size_bytes: int = len(data)) -> int:
            held = self._fds.held(fd)
            self._write(call, held, data[:size_bytes], held.offset)
            held.offset += size_bytes
            return size_bytes

        what = f"{self._fds.name(fd)} {len(data)} bytes"
        return self._call("writev", what, perform, fd=fd, size_bytes=len(data))

    def pwrite(self, fd: int, data: bytes | memoryview, offset: int) -> int:
        """System call pwrite."""
        given = bytes(data)

        def perform(call: Call, size_bytes: int = len(given)) -> int:
            self._write(call, self._fds.held(fd), given[:size_bytes], offset)
            return size_bytes

        what = f"{self._fds.name(fd)} {len(given)} bytes at {offset}"
        return self._call("pwrite", what, perform, fd=fd, size_bytes=len(given))

    def fsync(self, fd: int) -> None:
        """System call fsync."""
        self._call("fsync", self._fds.name(fd), lambda call: self._sync(call, fd), fd=fd)

    def fdatasync(self, fd: int) -> None:
        """System call fdatasync."""
        self._call("fdatasync", self._fds.name(fd), lambda call: self._sync(call, fd), fd=fd)

    def fstat(self, fd: int) -> os.stat_result:
        """System call fstat."""
        return self._call(
            "fstat", self._fds.name(fd), lambda call: self._status(self._fds.held(fd).inode), fd=fd
        )

    def stat(self, path: str, *, dir_fd: int | None = None) -> os.stat_result:
        """System call fstatat."""
        place = self._fds.place(path, dir_fd)

        def perform(call: Call) -> os.stat_result:
            call.inode = self._fds.find(place)
            return self._status(call.inode)

        return self._call("stat", path, perform, path=place.path)

    def fchmod(self, fd: int, mode: int) -> None:
        """System call fchmod."""

        def perform(call: Call) -> None:
            self._apply(call, Mode(self._fds.held(fd).inode, mode))

        self._call("fchmod", f"{self._fds.name(fd)} {mode:04o}", perform, fd=fd)

    def ftruncate(self, fd: int, size_bytes: int) -> None:
        """System call ftruncate."""

        def perform(call: Call) -> None:
            held = self._fds.held(fd)
            if not held.writes or size_bytes < 0:
                refuse(errno.EINVAL)
            self._apply(call, Truncate(held.inode, size_bytes))

        self._call("ftruncate", f"{self._fds.name(fd)} to {size_bytes} bytes", perform, fd=fd)

    def link(self, source: str, target: str, *, source_fd: int, target_fd: int) -> None:
        """System call linkat."""
        old, new = self._fds.place(source, source_fd), self._fds.place(target, target_fd)

        def perform(call: Call) -> None:
            call.inode = self._fds.find(old)
            folder, name = self._fds.parent(new)
            check_name(name)
            if name in self._disk.folder(folder).entries:
                refuse(errno.EEXIST)
            if isinstance(self._disk.nodes[call.inode], Folder):
                refuse(errno.EPERM)
            self._apply(call, Entry(folder, name, call.inode))

        self._call("link", f"{source} to {target}", perform, path=new.path)

    def rename(self, source: str, target: str, *, source_fd: int, target_fd: int) -> None:
        """System call renameat."""
        old, new = self._fds.place(source, source_fd), self._fds.place(target, target_fd)

        def perform(call: Call) -> None:
            from_folder, from_name = self._fds.parent(old)
            to_folder, to_name = self._fds.parent(new)
            call.inode = self._fds.find(old)
            check_name(to_name)
            there = self._disk.folder(to_folder).entries.get(to_name)
            if there == call.inode:
                return
            self._refuse_replacing(call.inode, there)
            self._apply(call, Rename(from_folder, from_name, to_folder, to_name, call.inode))

        self._call("rename", f"{source} to {target}", perform, path=new.path)

    def unlink(self, name: str, *, dir_fd: int) -> None:
        """System call unlinkat."""
        place = self._fds.place(name, dir_fd)

        def perform(call: Call) -> None:
            call.inode = self._fds.find(place)
            if isinstance(self._disk.nodes[call.inode], Folder):
                refuse(errno.EISDIR)
            self._apply(call, Removal(*self._fds.parent(place)))

        self._call("unlink", name, perform, path=place.path)

    def mkdir(self, name: str, *, mode: int = 0o700, dir_fd: int) -> None:
        """System call mkdirat."""
        place = self._fds.place(name, dir_fd)

        def perform(call: Call) -> None:
            folder, last = self._fds.parent(place)
            check_name(last)
            if last in self._disk.folder(folder).entries:
                refuse(errno.EEXIST)
            call.inode = self._disk.number()
            self._apply(call, Make(call.inode, is_directory=True, mode=mode))
            self._apply(call, Entry(folder, last, call.inode))

        self._call("mkdir", name, perform, path=place.path, creates=True)

    def listdir(self, fd: int) -> Iterator[tuple[str, int]]:
        """System call getdents."""

        def perform(call: Call) -> list[tuple[str, int]]:
            node = self._disk.nodes[self._fds.held(fd).inode]
            if not isinstance(node, Folder):
                refuse(errno.ENOTDIR)
            return list(node.entries.items())

        return iter(self._call("listdir", self._fds.name(fd), perform, fd=fd))

    def flock(self, fd: int, operation: int) -> None:
        """System call flock, exclusive and without waiting, or its end."""

        def perform(call: Call) -> None:
            held = self._fds.held(fd)
            if operation == _UNLOCK:
                self._locks.give_back(held)
            elif not self._locks.take(held):
                refuse(errno.EAGAIN)

        what = f"{self._fds.name(fd)} {'unlock' if operation == _UNLOCK else 'exclusive'}"
        self._call("flock", what, perform, fd=fd)

    def geteuid(self) -> int:
        """System call geteuid: whom every file here belongs to."""
        return 1000

    def getpid(self) -> int:
        """System call getpid."""
        return 4000 + self._number

    def realpath(self, path: str) -> str:
        """The path itself: there are no links here."""
        return os.path.normpath(os.path.join("/", path))

    # --- what a call does ----------------------------------------------------------------

    def _apply(self, call: Call, operation: Operation) -> None:
        self._disk.apply(operation)
        call.operations.append(operation)

    def _opened(self, call: Call, place: Place, flags: int, mode: int) -> int:
        try:
            inode = self._fds.find(place)
        except FileNotFoundError:
            if not call.creates:
                raise
            folder, name = self._fds.parent(place)
            inode = self._disk.number()
            self._apply(call, Make(inode, is_directory=False, mode=mode))
            self._apply(call, Entry(folder, name, inode))
        else:
            if flags & os.O_CREAT and flags & os.O_EXCL:
                refuse(errno.EEXIST)
        writes = bool(flags & (os.O_WRONLY | os.O_RDWR))
        node = self._disk.nodes[inode]
        if isinstance(node, Folder) and (writes or flags & os.O_CREAT):
            refuse(errno.EISDIR)
        if isinstance(node, File) and flags & os.O_DIRECTORY:
            refuse(errno.ENOTDIR)
        call.inode = inode
        held = Description(inode, place.path, reads=not flags & os.O_WRONLY, writes=writes)
        call.fd = self._fds.add(held)
        return call.fd

    def _read(self, held: Description, size_bytes: int, offset: int) -> bytes:
        if not held.reads:
            refuse(errno.EBADF)
        return bytes(self._fds.file(held).data[offset : offset + size_bytes])

    def _write(self, call: Call, held: Description, data: bytes, offset: int) -> None:
        if offset < 0:
            refuse(errno.EINVAL)
        if not held.writes:
            refuse(errno.EBADF)
        self._fds.file(held)
        if data:  # a write of nothing does not make a file longer
            self._apply(call, Write(held.inode, offset, data))

    def _refuse_replacing(self, inode: int, there: int | None) -> None:
        """What renameat says where the target is of another kind, or holds names."""
        if there is None:
            return
        moved, target = self._disk.nodes[inode], self._disk.nodes[there]
        if isinstance(target, Folder) and not isinstance(moved, Folder):
            refuse(errno.EISDIR)
        if isinstance(moved, Folder) and not isinstance(target, Folder):
            refuse(errno.ENOTDIR)
        if isinstance(target, Folder) and target.entries:
            refuse(errno.ENOTEMPTY)

    def _sync(self, call: Call, fd: int) -> None:
        self._apply(call, Sync(self._fds.held(fd).inode))

    def _status(self, inode: int) -> os.stat_result:
        node = self._disk.nodes[inode]
        is_folder = isinstance(node, Folder)
        kind = stat.S_IFDIR if is_folder else stat.S_IFREG
        size = 4096 if isinstance(node, Folder) else len(node.data)
        links = 2 if is_folder else self._disk.links(inode)
        user = self.geteuid()
        return os.stat_result((kind | node.mode, inode, _DEVICE, links, user, user, size, 0, 0, 0))
