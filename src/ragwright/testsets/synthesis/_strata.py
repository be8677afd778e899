"""Strata of a collection (folder, format, language), and questions balanced over them."""

from __future__ import annotations

import heapq
import math
import posixpath
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from ...core import text_hash
from ...models import detect_language
from ._candidates import Candidate

_SAMPLE = 2_000
"""Number of characters of a text for detecting its language."""

_LEAST_WORDS = 12
"""Fewest function words for detecting a language."""

UNKNOWN = "unknown"
"""Language of a text with too few function words, or in a language without a list of them."""

DIMENSIONS = ("folder", "format", "language", "kind")
"""Dimensions over which questions are balanced, in the order of the report."""


@dataclass(frozen=True, slots=True)
class Stratum:
    """Group of a document.

    Attributes:
        folder: Folder that holds the file, or host and folder of a page; ``.`` if there is none.
        format: Ending of its name in lower case, without the dot; ``none`` without one.
        language: ISO 639-1 code, or ``unknown``.
    """

    folder: str = "."
    format: str = "none"
    language: str = UNKNOWN


def stratum_of(source: str, text: str, language: str = "") -> Stratum:
    """Return the group of a document, by its address and text.

    Args:
        source: Path or URL.
        text: Its text; a language is detected in the first 2,000 characters if none is given.
        language: ISO code, if known.
    """
    address = urlsplit(source) if "://" in source else None
    path = source.replace("\\", "/") if address is None else address.netloc + address.path
    folder, name = posixpath.split(path)
    ending = posixpath.splitext(name)[1].lstrip(".").casefold()
    if address is not None and not ending:
        ending = "html"
    detected = language[:2] or detect_language([text[:_SAMPLE]], least=_LEAST_WORDS)
    return Stratum(folder or ".", ending or "none", UNKNOWN if detected == "auto" else detected)


def kind_of(candidate: Candidate) -> str:
    """Return kind and form (or level) of a question: ``template definition``, ``cloze``."""
    return " ".join(filter(None, (candidate.kind, candidate.level)))


def weights_of(
    strata: Mapping[str, Stratum], chunks: Mapping[str, Sequence[object]]
) -> tuple[dict[str, float], ...]:
    """Return the weight of each folder, format and language: the square root of its chunks.

    This is the power allocation of surveys (Bankier 1988) with exponent one half: between equal
    shares, where one odd file counts as much as a thousand, and shares by size, where a large
    folder takes all.
    """
    sizes: tuple[Counter[str], ...] = (Counter(), Counter(), Counter())
    for name, group in strata.items():
        for size, value in zip(sizes, _stratum_values(group), strict=True):
            size[value] += max(1, len(chunks.get(name, ())))
    return tuple({value: math.sqrt(n) for value, n in size.items()} for size in sizes)


def balanced(
    candidates: Sequence[Candidate],
    strata: Mapping[str, Stratum],
    chunks: Mapping[str, Sequence[object]],
) -> list[Candidate]:
    """Order accepted candidates so that every beginning of the list is balanced; append rejected
    ones.

    The next candidate is of the cell that is furthest below its share, summed over folder, format,
    language and kind. Kinds have equal shares, the others shares by :func:`weights_of`. Within a
    cell it is of the document with the fewest so far, then the first. Empty cells are skipped.

    Args:
        candidates: In order of preference.
        strata: Document -> its group.
        chunks: Document -> its chunks.
    """
    accepted = [candidate for candidate in candidates if not candidate.reason]
    cells: dict[tuple[str, ...], _Cell] = {}
    for index, candidate in enumerate(accepted):
        cells.setdefault(_cell_values(candidate, strata), _Cell()).add(
            candidate.span.document_id, index
        )
    groups = {
        candidate.span.document_id: _stratum_of_candidate(candidate, strata)
        for candidate in accepted
    }
    weights = [
        *weights_of({**groups, **strata}, chunks),
        dict.fromkeys((cell[-1] for cell in cells), 1.0),
    ]
    per_weight = [
        {value: sum(weight_of.values()) / weight for value, weight in weight_of.items()}
        for weight_of in weights
    ]
    counts: list[Counter[str]] = [Counter() for _ in DIMENSIONS]
    per_document: Counter[str] = Counter()
    ordered: list[Candidate] = []

    def fill(cell: tuple[str, ...]) -> float:
        # A text in an unknown language does not affect the balance of languages.
        return sum(
            len(ordered) if value == UNKNOWN else count[value] * per_value[value]
            for count, per_value, value in zip(counts, per_weight, cell, strict=True)
        )

    while cells:
        values = min(cells, key=lambda cell: (round(fill(cell), 6), cells[cell].head(per_document)))
        chosen = accepted[cells[values].pop()]
        ordered.append(chosen)
        per_document[chosen.span.document_id] += 1
        for count, value in zip(counts, values, strict=True):
            count[value] += 1
        if not cells[values].queues:
            del cells[values]
    return [*ordered, *(candidate for candidate in candidates if candidate.reason)]


def interleaved(
    strata: Mapping[str, Stratum], chunks: Mapping[str, Sequence[object]], seed: int
) -> list[str]:
    """Order documents by a seed so that every beginning is balanced over the groups.

    A group has the square root of its chunks as weight.
    """
    order = sorted(strata, key=lambda name: text_hash(f"{seed}\x00{name}"))
    sizes: Counter[Stratum] = Counter()
    for name, group in strata.items():
        sizes[group] += max(1, len(chunks.get(name, ())))
    so_far: Counter[Stratum] = Counter()
    places: dict[str, float] = {}
    for name in order:
        group = strata[name]
        places[name] = so_far[group] / math.sqrt(sizes[group])
        so_far[group] += 1
    return sorted(order, key=places.__getitem__)


class _Cell:
    """Candidates of one folder, format, language and kind, by document."""

    def __init__(self) -> None:
        self.queues: dict[str, deque[int]] = {}
        self._heap: list[tuple[int, int, str]] = []

    def add(self, document_id: str, place: int) -> None:
        """Add the place of a candidate; places ascend."""
        if document_id not in self.queues:
            self.queues[document_id] = deque()
            self._heap.append((0, place, document_id))  # ascending, so it is a heap
        self.queues[document_id].append(place)

    def head(self, per_document: Mapping[str, int]) -> tuple[int, int]:
        """Return the number of questions of the next candidate's document, and the candidate's
        place.
        """
        while True:
            count, place, name = self._heap[0]
            if count == per_document.get(name, 0):
                return count, place
            # Another cell has used this document since.
            heapq.heapreplace(self._heap, (per_document.get(name, 0), place, name))

    def pop(self) -> int:
        """Return the place of the next candidate; :meth:`head` was called before."""
        count, place, name = heapq.heappop(self._heap)
        queue = self.queues[name]
        queue.popleft()
        if queue:
            heapq.heappush(self._heap, (count + 1, queue[0], name))
        else:
            del self.queues[name]
        return place


def shares_of(
    chosen: Iterable[Candidate], strata: Mapping[str, Stratum]
) -> dict[str, dict[str, int]]:
    """Count the questions of each value of each dimension, most first."""
    rows = [_cell_values(candidate, strata) for candidate in chosen]
    shares = {}
    for index, dimension in enumerate(DIMENSIONS):
        counts = Counter(row[index] for row in rows)
        shares[dimension] = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
    return shares


def _cell_values(candidate: Candidate, strata: Mapping[str, Stratum]) -> tuple[str, ...]:
    return (*_stratum_values(_stratum_of_candidate(candidate, strata)), kind_of(candidate))


def _stratum_of_candidate(candidate: Candidate, strata: Mapping[str, Stratum]) -> Stratum:
    return strata.get(candidate.span.document_id, Stratum())


def _stratum_values(group: Stratum) -> tuple[str, str, str]:
    return group.folder, group.format, group.language
