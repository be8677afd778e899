"""The documents that are stored, as one file that workers map into memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

_WORDS = 4
"""Numbers of 64 bits a document: two of its id's hash, two of its content's."""


class KnownDocuments:
    """Ids and content hashes of stored documents: 32 bytes each, read by binary search.

    Workers open no database; this tells them which documents need not be cut again.

    Args:
        file: As :meth:`write` made it.
    """

    def __init__(self, file: Path) -> None:
        self._rows: NDArray[np.uint64] = np.load(file, mmap_mode="r")

    @staticmethod
    def write(file: Path, hashes: Mapping[str, str]) -> None:
        """Write the file, from document id -> content hash."""
        raw = b"".join(_digest_of(name) + _digest_of(content) for name, content in hashes.items())
        rows = np.frombuffer(raw, "<u8").reshape(-1, _WORDS)
        # by column: a search touches the first one alone
        np.save(file, np.ascontiguousarray(rows[np.argsort(rows[:, 0], kind="stable")].T))

    def unchanged(self, name: str, content: str) -> bool:
        """True for a document that is stored with this content."""
        return _digest_of(content) in self._content_digests(name)

    def _content_digests(self, name: str) -> Iterator[bytes]:
        wanted = np.frombuffer(_digest_of(name), "<u8")
        first = self._rows[0]
        at = int(np.searchsorted(first, wanted[0]))
        while at < len(first) and first[at] == wanted[0]:
            if self._rows[1, at] == wanted[1]:
                yield self._rows[2:, at].tobytes()
            at += 1


def _digest_of(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
