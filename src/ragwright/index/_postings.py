"""Position lists: the rows of each token, for scores, and of each value of a field, for filters."""

from __future__ import annotations

import json
import math
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..core import Chunk, Document, Metadata, StoreError, Term
from ..models import Analyzer, AnalyzerOptions, is_code
from ._arrays import Array, Arrays, Blob, Packer, unpack

AnalyzerFactory: TypeAlias = Callable[[str], Analyzer]
"""Makes the analyzer whose ``spec`` is the given text (:attr:`IndexSpec.analyzer`)."""

Terms: TypeAlias = tuple[NDArray[np.uint64], NDArray[np.uint32]]

_WIDTHS: dict[int, np.dtype[Any]] = {n: np.dtype(f"<u{n}") for n in (1, 2, 4)}


@lru_cache(maxsize=200_000)
def _token_number(token: str) -> bytes:
    """The number of a token, little-endian: bytes are joined faster than numbers."""
    return blake2b(token.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def token_numbers(tokens: Iterable[str]) -> NDArray[np.uint64]:
    """64-bit numbers of tokens, in order."""
    return np.frombuffer(b"".join(map(_token_number, tokens)), "<u8").astype(np.uint64)


def pack_terms(tokens: Sequence[str]) -> bytes:
    """Distinct tokens with their counts: bytes per count, then the numbers, then the counts."""
    counts = Counter(tokens)
    return pack_numbers(token_numbers(counts), np.fromiter(counts.values(), np.uint32, len(counts)))


def pack_numbers(numbers: NDArray[Any], counts: NDArray[np.uint32]) -> bytes:
    """Pack terms as :func:`pack_terms` does, from their numbers and counts."""
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
    extension to multiple weighted fields", CIKM 2004). The other pieces of a head count once.
    """

    def __init__(self, source: Analyzer, title: str) -> None:
        self._source = source
        self._weight = source.title_weight
        self._title = source.tokens(title) * self._weight if title and self._weight else []
        self._headings: dict[tuple[str, ...], list[str]] = {}

    def of(self, chunk: Chunk) -> list[str]:
        """Tokens of one chunk."""
        text, head = self._source.tokens(chunk.text), chunk.head
        if head is None:
            return [*text, *self._title, *self._heading_tokens(chunk.headings)]
        further = "\n".join(filter(None, (head.table, head.context)))
        return [
            *text,
            *(self._title if head.title else ()),
            *self._heading_tokens(head.headings),
            *(self._source.tokens(further) if further else ()),
        ]

    def _heading_tokens(self, headings: tuple[str, ...]) -> Sequence[str]:
        if not headings or not self._weight:
            return ()
        if headings not in self._headings:
            self._headings[headings] = self._source.tokens("\n".join(headings)) * self._weight
        return self._headings[headings]


def default_analyzer(spec: str) -> Analyzer:
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


Impacts = NDArray[np.float32]
Scores = NDArray[np.float64]

CODE_BONUS = 0.5
"""Bonus of a chunk that holds a code, times its idf. Chosen while looking at the C++
error codes of benchmarks/codes.py; SciFact's training claims and PIAF are indifferent from 0 to 1
(docs/decisions/0005-fusion.md)."""


_BLOCK = 200_000
"""Postings processed at once: about 10 MB."""


class PostingsBuilder:
    """Makes the posting lists of a segment from the terms of its rows, added in row order."""

    def __init__(self) -> None:
        self._lengths = array("i")
        self._sizes = array("i")
        self._numbers = bytearray()
        self._counts = bytearray()

    def add(self, terms: Terms) -> None:
        """The terms of the next row."""
        numbers, counts = terms
        self._lengths.append(int(counts.sum()))
        self._sizes.append(len(numbers))
        self._numbers += numbers.tobytes()
        self._counts += counts.tobytes()

    def finish(self) -> dict[str, Array]:
        """The posting lists, each in row order."""
        numbers = np.frombuffer(self._numbers, np.uint64)
        counts = np.frombuffer(self._counts, np.uint32)
        order = np.argsort(numbers, kind="stable").astype(np.int32)
        terms, sizes = np.unique(numbers, return_counts=True)
        rows = np.repeat(np.arange(len(self._sizes), dtype=np.int32), self._sizes)
        return {
            "terms": terms,
            "terms.bounds": np.concatenate([[0], np.cumsum(sizes)]),
            "terms.rows": rows[order],
            "terms.counts": counts.astype(np.min_scalar_type(int(counts.max(initial=0))))[order],
            "lengths": np.frombuffer(self._lengths, np.int32),
        }


def length_norms(lengths: Array, average: float, k1: float, b: float) -> Scores:
    """The length term of BM25's denominator, per row; ``average`` is the mean length."""
    if not average:
        return np.full(len(lengths), k1)
    return np.asarray(k1 * (1.0 - b + b * lengths / average), np.float64)


@dataclass(frozen=True, slots=True)
class Postings:
    """Posting lists of one segment: sorted terms, and per term its rows and counts."""

    terms: NDArray[np.uint64]
    bounds: NDArray[np.int64]
    rows: NDArray[np.int32]
    counts: Array
    lengths: NDArray[np.int32]

    @classmethod
    def open(cls, arrays: Arrays) -> Postings:
        """The posting lists of a segment's arrays."""
        return cls(
            arrays["terms"],
            arrays["terms.bounds"],
            arrays["terms.rows"],
            arrays["terms.counts"],
            arrays["lengths"],
        )

    def impacts(self, average: float, k1: float, b: float, live: Array) -> Impacts:
        """Impact of every posting, 0 in dead rows; ``average`` is the mean length of live rows."""
        lengths = self.lengths.astype(np.float64)
        norms = length_norms(lengths, average, k1, b)
        impacts = np.empty(len(self.rows), np.float32)
        for start in range(0, len(impacts), _BLOCK):
            part = slice(start, start + _BLOCK)
            counts = self.counts[part].astype(np.float64)
            rows = self.rows[part]
            impacts[part] = live[rows] * counts / (counts + norms[rows])
        return impacts

    def find(self, numbers: NDArray[np.uint64]) -> list[tuple[int, int]]:
        """Bounds of the posting list of each term; equal bounds where there is none."""
        if not len(self.terms):
            return [(0, 0)] * len(numbers)
        at = np.minimum(np.searchsorted(self.terms, numbers), len(self.terms) - 1)
        matches = self.terms[at] == numbers
        starts, ends = self.bounds[at].tolist(), self.bounds[at + 1].tolist()
        present = matches.tolist()
        return [(s, e) if ok else (0, 0) for s, e, ok in zip(starts, ends, present, strict=True)]


@dataclass(frozen=True, slots=True)
class Ranked:
    """BM25 scores of a query.

    Attributes:
        scores: Scores of all rows, one array per segment.
        terms: Tokens of the query, each with the number of allowed rows that hold it.
    """

    scores: list[Scores]
    terms: tuple[Term, ...]


def bonus(token: str) -> float:
    """The bonus added to the impact of a token: codes have one."""
    return CODE_BONUS if is_code(token) else 0.0


def bm25(
    parts: Sequence[tuple[Postings, Impacts]],
    query: Mapping[str, int],
    live: int,
    masks: Sequence[NDArray[np.bool_]] | None,
) -> Ranked:
    """Scores of all rows of all segments.

    Args:
        parts: Posting lists and impacts per segment.
        query: Distinct tokens of the query, and how often each occurs in it.
        live: Number of live rows over all segments (N).
        masks: Rows that meet the hard filters, one mask per segment: ``terms`` count only these.
            None for all live rows. Scores are always those of the whole corpus.
    """
    numbers = token_numbers(query)
    bonuses = [bonus(token) for token in query]
    spans = [postings.find(numbers) for postings, _ in parts]
    frequency = np.zeros(len(numbers))
    for (_, impacts), spans_of in zip(parts, spans, strict=True):
        frequency += [np.count_nonzero(impacts[start:end]) for start, end in spans_of]
    allowed = frequency
    if masks is not None:
        allowed = np.zeros(len(numbers))
        for (postings, _), spans_of, mask in zip(parts, spans, masks, strict=True):
            allowed += [np.count_nonzero(mask[postings.rows[s:e]]) for s, e in spans_of]
    factors, terms = weigh_tokens(query, frequency, live, allowed)
    scores: list[Scores] = []
    for (postings, impacts), spans_of in zip(parts, spans, strict=True):
        lists = [(s, e, factors[t], bonuses[t]) for t, (s, e) in enumerate(spans_of) if e > s]
        size = len(postings.lengths)
        if not lists:
            scores.append(np.zeros(size))
            continue
        rows = np.concatenate([postings.rows[s:e] for s, e, _, _ in lists])
        added = np.concatenate(
            [(impacts[s:e] + np.float64(more) * (impacts[s:e] > 0)) * f for s, e, f, more in lists]
        )
        scores.append(np.asarray(np.bincount(rows, added, size), np.float64))
    return Ranked(scores, terms)


def weigh_tokens(
    query: Mapping[str, int], frequency: Scores, live: int, shown: Scores
) -> tuple[list[float], tuple[Term, ...]]:
    """The factor of each token's scores, and what users see of it.

    Args:
        query: Distinct tokens of the query, and how often each occurs in it.
        frequency: Number of live rows with each term, for scores.
        live: Number of live rows.
        shown: Number of allowed rows with each term, for explanations. A token in none of them is
            reported like an unknown one, its idf included.
    """
    times = np.fromiter(query.values(), np.float64, len(query))
    holders = np.stack([frequency, np.where(shown > 0, frequency, 0.0)])
    weights, shown_idf = np.log1p((live - holders + 0.5) / (holders + 0.5))
    weights *= times
    most = shown_idf * times * (1.0 + np.array([bonus(token) for token in query]))
    columns = (shown.astype(np.int64).tolist(), shown_idf.round(6).tolist(), most.round(6).tolist())
    return weights.tolist(), tuple(map(Term, query, *columns))


if TYPE_CHECKING:
    Ints = array[int]

Rows = NDArray[np.integer]
"""Numbers of rows of a segment."""

ALWAYS = ("document_id", "source", "title", "language", "page", "section", "created", "modified")
"""Fields that every index knows, even if no chunk has them."""


def spelling(value: str | int | float | bool) -> str:
    """The normalised spelling under which a value is stored and looked up.

    ``2020``, ``2020.0`` and ``"2020"`` are one value, so that a typed filter matches a number read
    from a table.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _value_hash(text: str) -> int:
    return int.from_bytes(
        blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
    )


_BUILT_IN = ("source", "title", "language", "created", "modified")


def chunk_fields(
    document: Document, metadata: Metadata, headings: Sequence[str], page: int | None
) -> dict[str, tuple[str, ...]]:
    """The fields of a chunk and their values as filters compare them.

    A chunk's own value replaces its document's; ``section`` are its headings unless the metadata
    have a field of that name.

    Args:
        document: The document.
        metadata: The chunk's own.
        headings: Those above the chunk.
        page: Number of its page.
    """
    built_in = {"document_id": document.id, **{name: getattr(document, name) for name in _BUILT_IN}}
    present = {name: value for name, value in built_in.items() if value != ""}
    own = {"section": tuple(headings), **document.metadata, **metadata, **present}
    fields = {}
    for name, value in own.items():
        values = value if isinstance(value, tuple) else () if value in (None, "") else (value,)
        if values:
            fields[name] = tuple(dict.fromkeys(map(spelling, values)))
    if page is not None:
        fields["page"] = tuple(dict.fromkeys((*fields.get("page", ()), spelling(page))))
    return fields


class FieldsBuilder:
    """Collects the fields of a segment's rows, row by row."""

    def __init__(self) -> None:
        self._values: dict[str, dict[str, int]] = {}
        self._places: dict[str, tuple[Ints, Ints]] = {}

    def add(self, row: int, fields: Mapping[str, Sequence[str]]) -> None:
        """Record the fields of a row."""
        for name, spelled in fields.items():
            values = self._values.setdefault(name, {})
            numbers, rows = self._places.setdefault(name, (array("i"), array("i")))
            for value in spelled:
                numbers.append(values.setdefault(value, len(values)))
                rows.append(row)

    def finish(self) -> tuple[list[str], dict[str, Array]]:
        """Names of the fields, and their arrays."""
        names = sorted(self._values)
        arrays: dict[str, Array] = {}
        for index, name in enumerate(names):
            arrays |= self._field_arrays(f"field/{index}", name)
        return names, arrays

    def _field_arrays(self, prefix: str, name: str) -> dict[str, Array]:
        values = list(self._values[name])
        owner, rows = (np.frombuffer(part, np.int32) for part in self._places[name])
        hashes = np.array([_value_hash(value) for value in values], np.uint64)
        by_hash = np.argsort(hashes, kind="stable")
        place = np.empty_like(by_hash)
        place[by_hash] = np.arange(len(by_hash))
        order = np.argsort(place[owner], kind="stable")
        sizes = np.bincount(place[owner], minlength=len(values))
        spelled = (values[i].encode("utf-8", "surrogatepass") for i in by_hash.tolist())
        return {
            f"{prefix}.hashes": hashes[by_hash],
            f"{prefix}.bounds": np.concatenate([[0], np.cumsum(sizes)]),
            f"{prefix}.rows": rows[order],
            **Packer(spelled).packed(f"{prefix}.values"),
        }


@dataclass(frozen=True, slots=True)
class FieldIndex:
    """Position lists of one field of one segment."""

    hashes: NDArray[np.uint64]
    bounds: NDArray[np.int64]
    rows: Rows
    values: Blob

    def rows_with(self, value: str | int | float | bool) -> Rows:
        """Rows with a value, ascending; empty if there is none."""
        number = np.uint64(_value_hash(spelling(value)))
        at = int(np.searchsorted(self.hashes, number))
        if at == len(self.hashes) or self.hashes[at] != number:
            return self.rows[:0]
        return self.rows_at(at)

    def rows_at(self, index: int) -> Rows:
        """Rows with the value at this index."""
        return self.rows[self.bounds[index] : self.bounds[index + 1]]

    def spellings(self) -> list[str]:
        """All values, in the order of their indexes."""
        return self.values.texts(np.arange(len(self.values)))


def open_fields(arrays: Arrays) -> dict[str, FieldIndex]:
    """The position lists of a segment, by field."""
    fields = {}
    for index, name in enumerate(arrays.meta["fields"]):
        prefix = f"field/{index}"
        fields[name] = FieldIndex(
            arrays[f"{prefix}.hashes"],
            arrays[f"{prefix}.bounds"],
            arrays[f"{prefix}.rows"],
            unpack(arrays, f"{prefix}.values"),
        )
    return fields


def find_in_range(values: list[str], low: Any, high: Any) -> list[int]:
    """Indexes of the values within inclusive bounds (None: open).

    Bounds that are numbers hold numbers, and dates hold dates, of a field that has any; what is
    neither is not within them. Other bounds are compared as text. ``high`` includes all texts and
    dates that begin with it: ``2021`` holds ``2021-05-04``.
    """
    keys, read, _ = comparison_keys(values, low, high)
    lowest, highest = (None if bound is None else read(spelling(bound)) for bound in (low, high))
    indexes = []
    for index, key in enumerate(keys):
        if key is None or (lowest is not None and key < lowest):
            continue
        start = key[: len(highest)] if isinstance(highest, str) else key
        if highest is None or start <= highest:
            indexes.append(index)
    return indexes


def comparison_keys(
    values: list[str], low: Any, high: Any
) -> tuple[list[Any], Callable[[str], Any], str]:
    """What values are compared by with bounds (None if they cannot be), the reader, its name."""
    bounds = [spelling(bound) for bound in (low, high) if bound is not None]
    if all(map(date_of, bounds)) and any(map(_DASHED.match, (*bounds, *values))):
        return [date_of(value) for value in values], date_of, "date"
    if all(number_of(bound) is not None for bound in bounds):
        return [number_of(value) for value in values], number_of, "number"
    return list(values), str, "text"


_DASHED = re.compile(r"\d{4}-\d\d(?:-\d\d)?(?:[T ]\d.*)?\Z")


def date_of(text: str) -> str | None:
    """A value as a date of ISO 8601, or its beginning; None if it is none."""
    if re.fullmatch(r"\d{4}(?:(?:0\d|1[0-2])[0-3]\d)?", text):
        return text if len(text) == 4 else f"{text[:4]}-{text[4:6]}-{text[6:]}"
    return text.replace(" ", "T", 1) if _DASHED.match(text) else None


def number_of(text: str) -> float | None:
    """A value as a finite number, None if it is none."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
