"""The ROUGE family of Lin 2004 over lists of words; F1 of each (beta = 1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from ._edit import common_subsequence

Words = Sequence[str]
RUN_POWER = 1.2
"""How ROUGE-W favours runs: a run of n words counts n ** 1.2 (``-w 1.2`` of ROUGE 1.5.5)."""


def rouge(kind: str, response: Words, reference: Words) -> float | str:
    """ROUGE of a kind (``L``, ``W``, ``S``, ``SU`` or the length of N-grams), 0 to 1.

    Returns the reason where the reference is too short for the kind.
    """
    least = {"L": 1, "W": 1, "S": 2, "SU": 1}.get(kind) or int(kind)
    if len(reference) < least:
        return f"the reference has {len(reference)} words, ROUGE({kind}) needs {least}"
    if len(response) < least:
        return 0.0
    made = _KINDS.get(kind)
    if made is not None:
        return made(response, reference)
    return ngram_f1(int(kind), response, reference)


def ngram_f1(n: int, response: Words, reference: Words) -> float:
    """Overlap of N-grams, each counted at most as often as in the other text."""
    ours, theirs = _ngrams(n, response), _ngrams(n, reference)
    return f1((ours & theirs).total(), ours.total(), theirs.total())


def subsequence_f1(response: Words, reference: Words) -> float:
    """ROUGE-L: longest common subsequence of the whole texts."""
    return f1(common_subsequence(response, reference), len(response), len(reference))


def weighted_f1(response: Words, reference: Words, power: float = RUN_POWER) -> float:
    """ROUGE-W: longest common subsequence that favours runs of words, O(words x words)."""
    weight = [n**power for n in range(min(len(response), len(reference)) + 2)]
    best, runs = [0.0] * (len(reference) + 1), [0] * (len(reference) + 1)
    for word in response:
        left, left_run, above, above_runs = 0.0, 0, best, runs
        best, runs = [left], [left_run]
        for place, other in enumerate(reference):
            if word == other:
                run = above_runs[place]
                left = above[place] + weight[run + 1] - weight[run]
                left_run = run + 1
            else:
                left, left_run = max(left, above[place + 1]), 0
            best.append(left)
            runs.append(left_run)
    found = best[-1] ** (1 / power)
    return f1(found, len(response), len(reference))


def skip_f1(response: Words, reference: Words, *, words: bool = False) -> float:
    """ROUGE-S: pairs of words in order, however far apart; ``words`` adds single ones (SU)."""
    common = sorted(set(response) & set(reference))
    ours, theirs = _pairs(response, common), _pairs(reference, common)
    found = int(np.minimum(ours, theirs).sum())
    sizes = [len(text) * (len(text) - 1) // 2 for text in (response, reference)]
    if words:
        found += (Counter(response) & Counter(reference)).total()
        sizes = [size + len(text) for size, text in zip(sizes, (response, reference), strict=True)]
    return f1(found, *sizes)


def f1(common: float, ours: int, theirs: int) -> float:
    """Harmonic mean of ``common / ours`` and ``common / theirs``, 0 where nothing is common."""
    if not common:
        return 0.0
    precision, recall = common / ours, common / theirs
    return 2 * precision * recall / (precision + recall)


def _ngrams(n: int, words: Words) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(words[at:] for at in range(n)), strict=False))


def _pairs(words: Words, known: Words) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """How often each word of ``known`` stands before each other one: shape (known, known)."""
    number = {word: at for at, word in enumerate(known)}
    counts = np.zeros((len(known), len(known)), np.int64)
    after = np.zeros(len(known), np.int64)
    for word in reversed(words):
        at = number.get(word)
        if at is not None:
            counts[at] += after
            after[at] += 1
    return counts


_KINDS: dict[str, Callable[[Words, Words], float]] = {
    "L": subsequence_f1,
    "W": weighted_f1,
    "S": skip_f1,
    "SU": lambda response, reference: skip_f1(response, reference, words=True),
}
