"""Texts that can be encoded as UTF-8."""

from __future__ import annotations


def well_formed(text: str) -> str:
    r"""The text with U+FFFD for every half of a surrogate pair; two halves become one character.

    JSON can contain such a half (``"\ud83d"``), and so can a command line that is not UTF-8. It
    cannot be written to a file, database or socket.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
