"""What SECURITY.md admits that nobody can find without a memory outside the store: it is so.

Each of these leaves exactly what an honest store held at some time. Were one of them found some
day, the text would have to change with it. Deletions of everything and of the newest claim are
in ``test_deletion``.
"""

from __future__ import annotations

from pathlib import Path

from lastgood.formats import names
from tests.store.world import World, at, make_world
from tests.support.check import check, check_equal


def _made(tmp_path: Path, name: str) -> World:
    top = tmp_path / name
    top.mkdir()
    return make_world("posix", top)


def _judged(world: World) -> tuple[int, str]:
    with world.reader() as reader:
        loaded = reader.load_latest()
        return 0 if loaded is None else loaded.sequence, reader.check().verdict


def test_the_only_save_deleted_leaves_a_session_without_a_checkpoint(tmp_path: Path) -> None:
    """The claim before the first save is all that is left, and the receipt knows of more."""
    world = _made(tmp_path, "store")
    with world.open() as handle:
        receipt = handle.save(at(10))
    for name in (names.checkpoint(10), names.manifest(2), names.POINTER):
        world.drop(name)
    check_equal(_judged(world), (0, "new"), "the verdict")
    with world.storage() as storage:
        left = [p.number for n in storage.list() if (p := names.parse(n)) and p.number]
    check(receipt.revision > max(left), "the receipt remembers a higher revision")
    world.close()


def test_a_session_of_another_directory_under_the_same_key_is_believed(tmp_path: Path) -> None:
    """Two directories under one key file are one store."""
    one, other = _made(tmp_path, "one"), _made(tmp_path, "other")
    one.saved(10, 20, 30)
    other.saved(5)
    one.directory().rename(tmp_path / "gone")
    other.directory().rename(one.directory())
    check_equal(_judged(one), (5, "good"), "the verdict")
    one.close()
    other.close()
