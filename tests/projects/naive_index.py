"""What an index answers, worked out chunk by chunk: written for reading and not for speed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pytest

from ragwright.core import Chunk, Document, Filter, Relaxation
from ragwright.index import IndexedDocument, View
from ragwright.models import Analyzer, is_code

Meets: TypeAlias = Callable[[Any, Chunk], bool]
Ranking: TypeAlias = Sequence[tuple[str, float]]
K1, B, CODE_BONUS = 1.2, 0.75, 0.5


def rank_best(pairs: Iterable[tuple[str, float]], k: int) -> list[tuple[str, float]]:
    """The k best of (id, score), scores rounded to 6 digits, ties by id."""
    rounded = [(key, round(score, 6)) for key, score in pairs]
    return sorted(rounded, key=lambda pair: (-pair[1], pair[0]))[:k]


def fact(document: Document, field: str) -> Any:
    return document.metadata.get(field, ())


def has(field: str, *wanted: Any) -> Meets:
    """Whether a document's metadata, if it has that field, holds one of these."""

    def meets(document: Document, chunk: Chunk) -> bool:
        held = fact(document, field)
        return bool({*wanted} & ({*held} if isinstance(held, tuple) else {held}))

    return meets


DEMANDED: tuple[tuple[Filter, Meets], ...] = (
    (Filter("client", ("client 1",)), has("client", "client 1")),
    (Filter("client", ("client 2", "nobody")), has("client", "client 2")),
    (Filter("topics", ("t0", "t5")), has("topics", "t0", "t5")),
    (Filter("topics", ("t4",)), has("topics", "t4")),
    (Filter("year", ("2003", 2004.0)), has("year", 2003, 2004)),
    (Filter("year", low=2003, high=2010), has("year", *range(2003, 2011))),
    (Filter("score", low=2.5), lambda d, c: (fact(d, "score") or 0) >= 2.5),
    (Filter("public", (True,)), has("public", True)),
    (Filter("language", ("en", "de")), lambda d, c: d.language in ("en", "de")),
    (Filter("document_id", ("doc/0004", "absent")), lambda d, c: d.id == "doc/0004"),
    (Filter("created", low="2003", high="2005"), lambda d, c: "2003" <= d.created < "2006"),
    (Filter("created", high="2004-05-05"), lambda d, c: d.created <= "2004-05-05"),
    (Filter("half", ("first",)), lambda d, c: c.ordinal == 0),
    (Filter("page", (1,)), lambda d, c: c.page == 1),
    (Filter("section", ("Part 2",)), lambda d, c: "Part 2" in c.headings),
    (Filter("year", low=3000), lambda d, c: False),
)
"""Filters on ``make_document``'s documents, each with what it asks of a document and a chunk."""


def opposite(meets: Meets) -> Meets:
    return lambda document, chunk: not meets(document, chunk)


CONDITIONS = (
    *DEMANDED,
    *((replace(one, exclude=True), opposite(meets)) for one, meets in DEMANDED),
    (Filter("client", ("nobody",), exclude=True), lambda d, c: True),
)
"""The same, and what excludes: 2 x 16 + 1."""


def slow_keyword(items: Sequence[IndexedDocument], query: str, k: int) -> Ranking:
    """BM25 in Lucene's variant with weighted fields and codes."""
    analyzer, tokens = Analyzer(), {}
    for item in items:
        for chunk in item.chunks:
            head = [item.document.title, *chunk.headings] * analyzer.title_weight
            text = "\n".join([chunk.text, *head])
            tokens[chunk.id] = [t for line in text.split("\n") for t in analyzer.tokens(line)]
    counts = {key: Counter(words) for key, words in tokens.items()}
    average = sum(len(words) for words in tokens.values()) / len(tokens)
    scores = dict.fromkeys(tokens, 0.0)
    for word in analyzer.tokens(query):
        df = sum(1 for count in counts.values() if word in count)
        idf = math.log(1 + (len(tokens) - df + 0.5) / (df + 0.5))
        for key, count in counts.items():
            tf, length = count[word], len(tokens[key])
            if tf:
                impact = tf / (tf + K1 * (1 - B + B * length / average))
                scores[key] += idf * (impact + (CODE_BONUS if is_code(word) else 0.0))
    return rank_best([(key, score) for key, score in scores.items() if score > 0], k)


def slow_dense(items: Sequence[IndexedDocument], query: Any, k: int) -> Ranking:
    return rank_best(
        [
            (chunk.id, float(np.dot(vector.astype(np.float64), query.astype(np.float64))))
            for item in items
            if item.vectors is not None
            for chunk, vector in zip(item.chunks, item.vectors, strict=True)
        ],
        k,
    )


def assert_same(ranking: Ranking, expected: Ranking) -> None:
    """Same ids and scores to 4 places; the order may differ where scores are nearly equal."""
    assert [score for _, score in ranking] == pytest.approx([s for _, s in expected], abs=5e-5)
    scores = dict(expected)
    for key, score in ranking:
        assert score == pytest.approx(scores.get(key, expected[-1][1]), abs=5e-5)
    assert list(ranking) == rank_best(ranking, len(ranking))


Chosen: TypeAlias = Sequence[tuple[int, str]]
"""Numbers of conditions, each with its weight as it is written."""


def weight_of(chosen: Chosen, rung: int) -> Fraction:
    """Exact weight of a rung: of equal conditions the heaviest counts."""
    weights: dict[int, Fraction] = {}
    for at, weight in chosen:
        weights[at] = max(weights.get(at, Fraction(0)), Fraction(weight))
    met = {at for place, (at, _) in enumerate(chosen) if rung >> place & 1}
    return sum((weights[at] for at in met), Fraction(0))


def slow_relaxed(
    view: View,
    items: Sequence[IndexedDocument],
    query: Any,
    chosen: Chosen,
    hard: Sequence[int],
    relax: Relaxation,
) -> list[tuple[str, float, int]]:
    """(chunk id, score, rung) of all, in order, by the definition and exact sums of weights."""
    if isinstance(query, str):
        scores = dict(view.keyword(query, 10_000))
    else:
        scores = dict(view.dense(query[None, :], 10_000)[0])
    rows = []
    for document, chunk in rows_of(items):
        score = scores.get(chunk.id)
        if score is None or not all(CONDITIONS[at][1](document, chunk) for at in hard):
            continue
        met = [bool(CONDITIONS[at][1](document, chunk)) for at, _ in chosen]
        rung = sum(1 << place for place, yes in enumerate(met) if yes)
        if chosen and not rung and not relax.unfiltered:
            continue
        if relax.threshold is None or score >= relax.threshold:
            rows.append((-weight_of(chosen, rung), -score, chunk.id, rung))
    return [(key, -score, rung) for _, score, key, rung in sorted(rows)]


def rows_of(items: Sequence[IndexedDocument]) -> list[tuple[Document, Chunk]]:
    return [(item.document, chunk) for item in items for chunk in item.chunks]


def names_what_is_hidden(
    items: Sequence[IndexedDocument], hard: Sequence[int], soft: Sequence[int]
) -> bool:
    """True where a condition names values that no chunk holds which those before it leave."""
    left = rows_of(items)
    for place, at in enumerate((*hard, *soft)):
        condition, meets = CONDITIONS[at]
        met = [row for row in left if meets(*row)]
        if condition.values and not condition.exclude and left and not met:
            return True
        if place < len(hard):
            left = met
    return False
