"""Paths on a disk: names between slashes, from its root."""


def leaf(path: str) -> str:
    """The last name of a path."""
    return path.rpartition("/")[2]
