"""The offline answerer: scores how well a sentence answers a question, without a model server.

A sentence is scored by a dozen features (which of the question's words it holds, weighted by
rarity; what its neighbours and its title add; whether it offers the kind of thing asked for)
and a linear model over them. The weights were fitted on development splits only by
``benchmarks/extractive.py``, which also reports the quality on held-out articles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..core import value_hash
from ._analysis import Analyzer, detect_language, words
from ._options import AnalyzerOptions
from ._questions import AnswerKind, answer_kind, focus, insists, names, offers
from ._seams import Reranker

_UNRANKED = "unranked"
_MARK = "\x1f"
"""Separates a sentence from its context; normalised text holds no control characters."""

FEATURES = (
    "coverage",
    "relative",
    "bm25",
    "pairs",
    "before",
    "chunk_relative",
    "heading",
    "absent",
    "names_missing",
    "numbers_missing",
    "focus",
    "time",
    "number",
    "reason",
    "name",
    "no_kind",
    "no_date",
    "no_person",
    "definition",
    "length",
    "question",
    "rank",
    "bias",
)
"""Columns of the feature matrix, in order; ``ExtractiveReranker.columns`` for others."""

_WEIGHTS = {
    "coverage": 1.64,
    "relative": 1.54,
    "bm25": 1.23,
    "pairs": 0.69,
    "before": 2.23,
    "chunk_relative": -0.68,
    "heading": 1.72,
    "absent": 0.78,
    "names_missing": -2.71,
    "numbers_missing": -2.23,
    "focus": -0.46,
    "time": 1.19,
    "number": 0.68,
    "reason": 0.87,
    "name": -0.2,
    "no_kind": -0.39,
    "no_date": -1.17,
    "no_person": -0.73,
    "definition": 0.8,
    "length": 0.61,
    "question": -1.12,
    "rank": 2.84,
    "bias": -6.52,
}
"""Fitted by ``benchmarks/extractive.py --fit``; ``definition`` alone is set by hand, since the
development splits hold only 25 questions that ask for one."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """A sentence: its tokens, those of its heading, and its chunk."""

    text: str
    tokens: tuple[str, ...]
    held: frozenset[str]
    heading: frozenset[str]
    chunk: str
    ranked: bool = True


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question: its terms with their weights, names, numbers, kind of answer."""

    terms: tuple[str, ...]
    weights: NDArray[np.float64]
    named: list[int]
    numeric: list[int]
    focus: list[int]
    kind: AnswerKind
    insists: bool
    words: frozenset[str]


def pack_sentence(sentence: str, *, heading: str = "", chunk: str = "", ranked: bool = True) -> str:
    """A passage for :class:`ExtractiveReranker`: one sentence, its heading, its chunk's name.

    Passages of one chunk must be adjacent and in text order, so that a sentence is read with its
    neighbours; chunks come best first. If they are not ranked, ``ranked`` is off, and each counts
    as the best one. Text without this packing is scored as a chunk of one sentence.
    """
    parts = (sentence, heading, chunk)
    return _MARK.join(parts if ranked else (*parts, _UNRANKED))


class ExtractiveReranker(Reranker):
    """Scores sentences by how likely each answers the question; deterministic, no files."""

    name = "extractive"

    identity = f"extractive/{value_hash(_WEIGHTS)[:8]}"
    columns = FEATURES
    scale = "0-1, logistic; fitted so that 0.5 separates answering sentences from the rest"

    def __init__(self) -> None:
        self._analyzers: dict[str, Analyzer] = {}

    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """One score per passage, 0 to 1, rounded to 6 digits."""
        if not passages:
            return []
        weights = np.array([_WEIGHTS[name] for name in FEATURES])
        logits = self.features(query, passages) @ weights
        return [round(float(s), 6) for s in 1 / (1 + np.exp(-logits))]

    def features(self, query: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Feature matrix, shape (passages, len(FEATURES)); all values within about -2..2."""
        analyzer = self._analyzer(query, passages)
        units = [_unit(analyzer, p, number) for number, p in enumerate(passages)]
        asked = _asked(analyzer, query, units)
        columns = {**_overlap(units, asked), **_shape(units, asked)}
        columns["bias"] = np.ones(len(units))
        return np.column_stack([columns[name] for name in FEATURES])

    def _analyzer(self, query: str, passages: Sequence[str]) -> Analyzer:
        """The analyzer for the language of a request, detected from its passages."""
        sample = [query, *(p.partition(_MARK)[0] for p in passages[:12])]
        language = detect_language(sample, least=5)
        if language not in self._analyzers:
            self._analyzers[language] = Analyzer(AnalyzerOptions(language=language))
        return self._analyzers[language]


def _unit(analyzer: Analyzer, passage: str, number: int) -> _Unit:
    text, heading, chunk, order = (*passage.split(_MARK), "", "", "")[:4]
    tokens = tuple(analyzer.tokens(text))
    held, above = frozenset(tokens), frozenset(analyzer.tokens(heading))
    return _Unit(text, tokens, held, above, chunk or f"#{number}", order != _UNRANKED)


def _asked(analyzer: Analyzer, query: str, units: Sequence[_Unit]) -> _Asked:
    kind = answer_kind(query)
    terms = tuple(dict.fromkeys(analyzer.query_tokens(query)))
    # German capitalises every noun, so capitals do not show names.
    found = [] if analyzer.options.language == "de" else names(query)
    wanted = {t for n in found for t in analyzer.tokens(n)}
    about = set(analyzer.tokens(focus(query)))
    return _Asked(
        terms,
        _rarity(terms, units),
        [i for i, t in enumerate(terms) if t in wanted],
        [i for i, t in enumerate(terms) if t[:1].isdigit()],
        [i for i, t in enumerate(terms) if t in about],
        kind,
        insists(kind, query),
        frozenset(w.casefold() for w in words(query)),
    )


def _overlap(units: Sequence[_Unit], asked: _Asked) -> dict[str, NDArray[np.float64]]:
    """Features of the positions of the question's words."""
    shape = (len(units), len(asked.terms))
    total = float(asked.weights.sum()) or 1.0
    share = asked.weights / total
    held = np.array([[_holds(u.held, t) for t in asked.terms] for u in units]).reshape(shape)
    head = np.array([[float(t in u.heading) for t in asked.terms] for u in units]).reshape(shape)
    names_of = [u.chunk for u in units]
    order = {name: i for i, name in enumerate(dict.fromkeys(names_of))}
    group = np.array([order[name] for name in names_of])
    before = np.zeros(shape)
    same = (group[1:] == group[:-1])[:, None]
    before[1:] = held[:-1] * same
    chunk = np.zeros((len(order), shape[1]))
    np.maximum.at(chunk, group, np.maximum(held, head))
    around = chunk[group]
    coverage, whole = held @ share, around @ share
    anywhere = around.max(axis=0, initial=0.0)
    return {
        "coverage": coverage,
        "relative": coverage / (coverage.max() or 1.0),
        "before": np.maximum(before - held, 0) @ share,
        "chunk_relative": whole / (whole.max() or 1.0),
        "heading": np.maximum(head - held, 0) @ share,
        "absent": np.full(len(units), float((1 - anywhere) @ share)),
        "names_missing": _missing(around, asked.weights, asked.named),
        "numbers_missing": _missing(around, asked.weights, asked.numeric),
        "focus": 1 - _missing(held, asked.weights, asked.focus) if asked.focus else coverage * 0,
        "rank": 1.0 / (1.0 + group * np.array([u.ranked for u in units])),
    }


def _shape(units: Sequence[_Unit], asked: _Asked) -> dict[str, NDArray[np.float64]]:
    """Features of the kind of sentence and of the kind of answer it could hold."""
    kind = asked.kind
    strict = kind not in {"manner", "other"}
    offered = np.array([strict and offers(kind, u.text, asked.words) for u in units], float)
    columns = {name: offered * (kind == name) for name in ("time", "number", "reason", "name")}
    defines = np.zeros(len(units))
    if kind == "definition":
        opens = np.array([_opens_with(u.tokens, asked.terms) for u in units], float)
        defines = np.maximum(offered * opens, _leads(units, asked.terms))
    return columns | {
        "no_kind": strict - offered,
        "no_date": (strict - offered) * (kind == "time" and asked.insists),
        "no_person": (strict - offered) * (kind == "person" and asked.insists),
        "definition": defines,
        "pairs": np.array([_pairs(u.tokens, asked.terms) for u in units]),
        "bm25": _bm25(units, asked.terms, asked.weights),
        "length": np.array([min(len(u.tokens), 40) / 40 for u in units]),
        "question": np.array([float(u.text.rstrip("»\"' ").endswith("?")) for u in units]),
    }


def _rarity(terms: Sequence[str], units: Sequence[_Unit]) -> NDArray[np.float64]:
    """Weight of each question term: rare among the passages, long, or a code."""
    count = len(units)
    found = np.array([sum(t in u.held for u in units) for t in terms], dtype=np.float64)
    idf = np.log((count + 4.0) / (found + 1.0)) + 0.5
    codes = np.array([1.3 if any(c.isdigit() for c in t) else 1.0 for t in terms])
    rarity: NDArray[np.float64] = idf * codes
    return rarity


def _holds(held: frozenset[str], term: str) -> float:
    """1 for the term itself, 0.6 for a word that shares its first letters, else 0."""
    if term in held:
        return 1.0
    if len(term) < 5 or not term.isalpha():
        return 0.0
    stem = term[: max(5, len(term) - 2)]
    return 0.6 if any(h.startswith(stem) and abs(len(h) - len(term)) < 5 for h in held) else 0.0


def _missing(
    around: NDArray[np.float64], weights: NDArray[np.float64], which: list[int]
) -> NDArray[np.float64]:
    """Share of the weight of some terms that neither sentence nor context holds."""
    if not which:
        return np.zeros(len(around))
    share: NDArray[np.float64] = (1 - around[:, which]) @ weights[which] / weights[which].sum()
    return share


def _pairs(tokens: Sequence[str], terms: Sequence[str]) -> float:
    """Share of neighbouring question terms that are within three words of each other."""
    if len(terms) < 2:
        return 0.0
    where = {t: [i for i, token in enumerate(tokens) if token == t] for t in terms}
    near = sum(any(abs(i - j) <= 3 for i in where[a] for j in where[b]) for a, b in pairwise(terms))
    return near / (len(terms) - 1)


def _leads(units: Sequence[_Unit], terms: Sequence[str]) -> NDArray[np.float64]:
    """1 for the first sentence under a heading that holds all that a question asks about."""
    marks = np.zeros(len(units))
    for i, unit in enumerate(units):
        last = units[i - 1] if i else None
        new = last is None or (last.chunk, last.heading) != (unit.chunk, unit.heading)
        marks[i] = float(new and bool(terms) and unit.heading.issuperset(terms))
    return marks


def _opens_with(tokens: Sequence[str], terms: Sequence[str]) -> bool:
    """True where a sentence opens with the thing a question asks to define."""
    return any(t in tokens[: len(terms) + 2] for t in terms)


def _bm25(
    units: Sequence[_Unit], terms: Sequence[str], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """BM25 (k1 1.2, b 0.75) of the sentences, as a share of the best one's."""
    mean = sum(len(u.tokens) for u in units) / len(units) or 1.0
    scores = np.zeros(len(units))
    for i, unit in enumerate(units):
        norm = 1.2 * (0.25 + 0.75 * len(unit.tokens) / mean)
        for term, weight in zip(terms, weights, strict=True):
            frequency = unit.tokens.count(term) if term in unit.held else 0
            scores[i] += weight * frequency * 2.2 / (frequency + norm)
    return scores / (scores.max() or 1.0)
