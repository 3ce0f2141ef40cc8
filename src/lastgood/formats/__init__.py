"""Records: every byte that is stored, defined and documented in one module a record.

Index: ``canonical`` (bytes that authentication is taken over) · ``names`` (every file
name) · ``limits`` · ``state`` (what may be stored) · ``seal`` (the three lines, the MAC) ·
``store`` · ``session`` · ``checkpoint`` · ``manifest`` · ``keyfile``.

Nothing here does input or output, reads a clock or makes randomness.
"""
