"""A log of erasures, re-read by work that could store or show erased text again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from ..core import appending

_LINE = 65
"""Bytes of a line: a SHA-256 in hexadecimal, and its end."""


class Erasures:
    """A file to which every erasure adds lines; its size is the number of the last erasure.

    Work notes :attr:`position` before it reads text. Before it stores or shows what came of it, it
    asks :meth:`touch`. The file holds hashes, so that it does not name what was erased.

    Args:
        file: The file; made by the first erasure.
    """

    def __init__(self, file: Path) -> None:
        self.file = file

    @property
    def position(self) -> int:
        """The position of the next erasure; 0 before the first one."""
        try:
            return self.file.stat().st_size
        except FileNotFoundError:
            return 0

    def add(self, names: Iterable[str]) -> None:
        """Add names that are being erased; the caller makes sure that nobody works meanwhile.

        Raises:
            OSError: It cannot be written.
        """
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with appending(self.file, "".join(f"{_hashed(name)}\n" for name in names).encode()):
            pass

    def touch(self, since: int, names: Iterable[str]) -> bool:
        """True if one of these was erased after a position.

        Raises:
            OSError: The file cannot be read.
        """
        if self.position == since:
            return False
        with self.file.open("rb") as file:
            file.seek(since - since % _LINE)
            erased = set(file.read().decode("ascii", "replace").split())
        return any(_hashed(name) in erased for name in names)


def _hashed(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
