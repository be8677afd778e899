"""The ROUGE family of Lin 2004 over lists of words: F1 (beta = 1), recall or precision."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ._edit import common_subsequence

Words = Sequence[str]
Overlap: TypeAlias = tuple[float, int, int]
"""What is common, and how much of it there is in the response and in the reference."""

RUN_POWER = 1.2
"""ROUGE-W's weight of runs: a run of n words counts n ** 1.2 (``-w 1.2`` of ROUGE 1.5.5)."""

_FEW_STARTS = 40
_CELLS = 1 << 20
"""Counts of word pairs in memory at once: 8 MB per text."""


def rouge(parameter: str, response: Words, reference: Words) -> float | str:
    """ROUGE of a kind (``L``, ``W``, ``S``, ``SU`` or the length of N-grams), 0 to 1.

    F1, or with ``,recall`` or ``,precision`` behind the kind: the share of the reference, or of
    the response, that is found in the other. Returns the reason if the reference is too short for
    the kind.
    """
    kind, _, part = parameter.partition(",")
    least = {"L": 1, "W": 1, "S": 2, "SU": 1}.get(kind) or int(kind)
    if len(reference) < least:
        return f"the reference has {len(reference)} words; ROUGE({kind}) needs {least}"
    if len(response) < least:
        return 0.0
    overlap_of = _KINDS.get(kind)
    overlap = (
        overlap_of(response, reference) if overlap_of else ngrams(int(kind), response, reference)
    )
    return min(1.0, _PARTS[part](*overlap))


def ngrams(n: int, response: Words, reference: Words) -> Overlap:
    """Overlap of N-grams, each counted at most as often as in the other text."""
    response_grams, reference_grams = _count_ngrams(n, response), _count_ngrams(n, reference)
    return (
        (response_grams & reference_grams).total(),
        response_grams.total(),
        reference_grams.total(),
    )


def subsequence(response: Words, reference: Words) -> Overlap:
    """ROUGE-L: longest common subsequence of the whole texts."""
    return common_subsequence(response, reference), len(response), len(reference)


def rouge_w_overlap(response: Words, reference: Words, power: float = RUN_POWER) -> Overlap:
    """ROUGE-W: longest common subsequence that favours runs of words.

    O(words x words) in numpy, one row of the table (one word of the response) at a time.
    """
    places = _positions(reference)
    nowhere = np.zeros(0, np.int64)
    weights = np.arange(min(len(response), len(reference)) + 2, dtype=np.float64) ** power
    gain = np.diff(weights)
    best, runs = np.zeros(len(reference) + 1), np.zeros(len(reference) + 1, np.int64)
    for word in response:
        at = places.get(word, nowhere)
        run = runs[at]
        met = best[at] + gain[run]
        best, runs = best.copy(), np.zeros_like(runs)
        best[at + 1], runs[at + 1] = met, run + 1
        _fill_maximum(best, at + 1)
    common = float(best[-1] ** (1 / power))
    # Rounding may take the root of equal texts past their length, and a score past 1.
    return min(common, len(response), len(reference)), len(response), len(reference)


def _positions(words: Words) -> dict[str, NDArray[np.int64]]:
    """Word -> its positions, ascending."""
    positions: dict[str, list[int]] = {}
    for at, word in enumerate(words):
        positions.setdefault(word, []).append(at)
    return {word: np.array(at, np.int64) for word, at in positions.items()}


def _fill_maximum(row: NDArray[np.float64], starts: NDArray[np.int64]) -> None:
    """The running maximum of a row, in place, restarted at each of the starts."""
    ends = [0, *starts.tolist(), len(row)]
    if len(starts) <= _FEW_STARTS:
        for start, end in pairwise(ends):
            np.maximum.accumulate(row[start:end], out=row[start:end])
        return
    run_starts = np.zeros(len(row), np.int64)
    run_starts[starts] = starts
    into = np.arange(len(row)) - np.maximum.accumulate(run_starts)
    step, longest = 1, int(into.max())
    while step <= longest:  # each round doubles the distance covered
        at = np.flatnonzero(into >= step)
        row[at] = np.maximum(row[at], row[at - step])
        step *= 2


def skips(response: Words, reference: Words, *, words: bool = False) -> Overlap:
    """ROUGE-S: pairs of words in order, however far apart; ``words`` adds single ones (SU)."""
    number = {word: at for at, word in enumerate(sorted(set(response) & set(reference)))}
    response_numbers, reference_numbers = (
        [number[w] for w in text if w in number] for text in (response, reference)
    )
    rows = min(len(number), max(1, _CELLS // max(1, len(number)))) or 1
    common = sum(
        int(
            np.minimum(
                *(
                    _skip_pairs(text, at, rows, len(number))
                    for text in (response_numbers, reference_numbers)
                )
            ).sum()
        )
        for at in range(0, len(number), rows)
    )
    sizes = [len(text) * (len(text) - 1) // 2 for text in (response, reference)]
    if words:
        common += (Counter(response) & Counter(reference)).total()
        sizes = [size + len(text) for size, text in zip(sizes, (response, reference), strict=True)]
    return common, sizes[0], sizes[1]


def recall(common: float, of_response: int, of_reference: int) -> float:
    """Share of the reference that the response has."""
    return common / of_reference if common else 0.0


def precision(common: float, of_response: int, of_reference: int) -> float:
    """Share of the response that the reference has."""
    return common / of_response if common else 0.0


def f1(common: float, response_size: int, reference_size: int) -> float:
    """Harmonic mean of ``common / ours`` and ``common / theirs``, 0 if nothing is common."""
    if not common:
        return 0.0
    of_response, of_reference = common / response_size, common / reference_size
    return 2 * of_response * of_reference / (of_response + of_reference)


def _count_ngrams(n: int, words: Words) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[at:] for at in range(n)), strict=False))


def _skip_pairs(words: Sequence[int], first: int, rows: int, size: int) -> NDArray[np.int64]:
    """Counts of some words before each word: shape (rows, size).

    The words are numbers below ``size``; the rows are those of the words from ``first`` on, since
    the whole table would be too large for long texts.
    """
    counts, after = np.zeros((rows, size), np.int64), np.zeros(size, np.int64)
    for word in reversed(words):
        if first <= word < first + rows:
            counts[word - first] += after
        after[word] += 1
    return counts


_KINDS: dict[str, Callable[[Words, Words], Overlap]] = {
    "L": subsequence,
    "W": rouge_w_overlap,
    "S": skips,
    "SU": lambda response, reference: skips(response, reference, words=True),
}

_PARTS: dict[str, Callable[[float, int, int], float]] = {
    "": f1,
    "precision": precision,
    "recall": recall,
}
