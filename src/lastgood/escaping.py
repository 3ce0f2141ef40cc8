"""Escaping: what a text may do to a terminal or to a line of output, once it is shown (T12)."""

from __future__ import annotations

_UNSEEN = frozenset(
    map(
        chr,
        (
            0x034F,  # combining grapheme joiner
            0x115F, 0x1160, 0x3164, 0xFFA0,  # Hangul fillers
            0x17B4, 0x17B5,  # Khmer inherent vowels
            0x2800,  # Braille blank
            *range(0x180B, 0x1810), *range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0),  # variants
        ),
    )
)  # fmt: skip
"""What ``str.isprintable`` lets pass although nothing, or a blank, is seen of it."""


def printable(text: object, *, limit_chars: int = 200) -> str:
    r"""Escape ``text`` so that it cannot repaint, reorder or forge a line of output (T12).

    Control, escape, bidi, zero-width, private and surrogate characters, every blank but the
    space, and the backslash become ``\xNN``, ``\uNNNN`` or ``\UNNNNNNNN``; two texts never become
    the same one. Longer texts end in ``…``.
    """
    whole = str(text)
    if whole.isascii() and whole.isprintable() and "\\" not in whole and len(whole) <= limit_chars:
        return whole  # nearly every text, and most messages are never shown
    shown = "".join(map(_escaped, whole[:limit_chars]))
    return shown + "…" if len(whole) > limit_chars else shown


def _escaped(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if character.isprintable() and character not in _UNSEEN:
        return character
    point = ord(character)
    if point < 0x100:
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point < 0x10000 else f"\\U{point:08x}"
