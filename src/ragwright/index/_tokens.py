"""From tokens to the numbers that postings hold.

A token is represented by 64 bits of its hash, so that processes, stores and segments share no
vocabulary. Two of ten million different tokens have the same number with a probability under 3 in a
million; they would then count as one word.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..core import Chunk, StoreError
from ..models import Analyzer, AnalyzerOptions, TokenSource
from ._store import IndexSpec

AnalyzerFactory: TypeAlias = Callable[[str], TokenSource]
"""Makes the analyzer whose ``spec`` is the given text (:attr:`IndexSpec.analyzer`)."""

Terms: TypeAlias = tuple[NDArray[np.uint64], NDArray[np.uint32]]

_REMEMBERED = 500_000
_WIDTHS: dict[int, np.dtype[Any]] = {n: np.dtype(f"<u{n}") for n in (1, 2, 4)}


class _Numbers(dict[str, bytes]):
    """Token -> its number, little-endian, cached up to a limit: memory stays bounded.

    As bytes, since joining those is ten times as fast as turning Python's numbers into an array.
    """

    def __missing__(self, token: str) -> bytes:
        if len(self) >= _REMEMBERED:
            self.clear()
        raw = token.encode("utf-8", "surrogatepass")
        number = self[token] = blake2b(raw, digest_size=8).digest()
        return number


_numbers = _Numbers()


def token_numbers(tokens: Iterable[str]) -> NDArray[np.uint64]:
    """64-bit numbers of tokens, in order."""
    joined = b"".join(map(_numbers.__getitem__, tokens))
    return np.frombuffer(joined, "<u8").astype(np.uint64)


def pack_terms(tokens: Sequence[str]) -> bytes:
    """Distinct tokens with their counts: bytes per count, then the numbers, then the counts."""
    counts = Counter(tokens)
    largest = max(counts.values(), default=0)
    width = 1 if largest < 2**8 else 2 if largest < 2**16 else 4
    amounts = counts.values()
    packed = bytes(amounts) if width == 1 else np.array([*amounts], _WIDTHS[width]).tobytes()
    return b"".join((bytes((width,)), *map(_numbers.__getitem__, counts), packed))


def repack_terms(numbers: NDArray[np.int64], counts: NDArray[np.uint32]) -> bytes:
    """Pack terms as :func:`pack_terms` does, from their numbers (as signed) and counts."""
    largest = int(counts.max(initial=0))
    width = 1 if largest < 2**8 else 2 if largest < 2**16 else 4
    return bytes((width,)) + numbers.tobytes() + counts.astype(_WIDTHS[width]).tobytes()


def words_of(numbers: Iterable[int], counts: Iterable[int]) -> str:
    """Tokens for engines that split at spaces: each number (unsigned) as often as it occurs."""
    return " ".join(
        f"{n:x}" for n, count in zip(numbers, counts, strict=True) for _ in range(count)
    )


def unpack_terms(blob: bytes) -> Terms:
    """Numbers and counts that :func:`pack_terms` wrote."""
    width = blob[0]
    size = (len(blob) - 1) // (8 + width)
    numbers = np.frombuffer(blob, "<u8", size, 1)
    return numbers, np.frombuffer(blob, _WIDTHS[width], size, 1 + 8 * size).astype(np.uint32)


class ChunkTokens:
    """Tokens of a document's chunks: those of the text, of the title, of the headings.

    Title and headings count in each chunk, so that a chunk deep in a manual is found by the
    manual's name, and ``title_weight`` times each: a chunk is a text with fields, and a field
    of weight w counts as if it occurred there w times (Robertson, Zaragoza, Taylor: "Simple BM25
    extension to multiple weighted fields", CIKM 2004).
    """

    def __init__(self, source: TokenSource, title: str) -> None:
        self._source = source
        self._weight = source.title_weight
        self._title = source.tokens(title) * self._weight if title and self._weight else []
        self._headings: dict[tuple[str, ...], list[str]] = {}

    def of(self, chunk: Chunk, text: Sequence[str]) -> list[str]:
        """Tokens of one chunk, given those of its text."""
        tokens = [*text, *self._title]
        if chunk.headings and self._weight:
            if chunk.headings not in self._headings:
                text = "\n".join(chunk.headings)
                self._headings[chunk.headings] = self._source.tokens(text) * self._weight
            tokens += self._headings[chunk.headings]
        return tokens


def default_analyzer(spec: str) -> TokenSource:
    """The analyzer of the models room with the settings in a spec.

    Raises:
        StoreError: The spec is unknown; a plug-in's analyzer needs its own factory.
    """
    _, _, settings = spec.partition(" ")
    try:
        analyzer = Analyzer(AnalyzerOptions(**json.loads(settings)))
    except (ValueError, TypeError):
        analyzer = Analyzer()
    if analyzer.spec != spec:
        raise StoreError(
            f"no analyzer is known for {spec!r}",
            hint="ingest again, or open the store with the factory of that analyzer",
        )
    return analyzer


class Analyzers:
    """Analyzers of pairs, each made once.

    Args:
        factory: Makes an analyzer from its spec; the built-in ones if None.
    """

    def __init__(self, factory: AnalyzerFactory | None) -> None:
        self._factory = factory or default_analyzer
        self._made: dict[str, TokenSource] = {}

    def of(self, pair: IndexSpec) -> TokenSource:
        """The analyzer of a pair."""
        if pair.analyzer not in self._made:
            self._made[pair.analyzer] = self._factory(pair.analyzer)
        return self._made[pair.analyzer]
