"""The offline answerer: scores how well a sentence answers a question, without a model server.

A sentence is scored by a dozen features (which of the question's words it holds, weighted by
rarity; what its neighbours and its title add; whether it offers the kind of thing asked for)
and a linear model over them. The weights were fitted on development splits only by
``benchmarks/extractive.py``, which also reports the quality on held-out articles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..core import value_hash
from ._analysis import Analyzer, detect_language, is_code, words
from ._options import AnalyzerOptions
from ._questions import (
    AnswerKind,
    answer_kind,
    asks_steps,
    denies,
    focus,
    insists,
    instructs,
    names,
    offers,
    subject,
)
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
    "lead",
    "steps",
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
    "lead": 4.0,
    "steps": 2.5,
    "length": 0.61,
    "question": -1.12,
    "rank": 2.84,
    "bias": -6.52,
}
"""Fitted by ``benchmarks/extractive.py --fit``; ``definition``, ``lead`` and ``steps`` are set
by hand, since the development splits hold only 25 questions that ask for a definition, and neither
headings nor instructions."""

_DENIED = 1.5
"""Taken from the scores of a question with a negation if the best sentence holds none: what is not
so is hardly answered by what is so. Set on the development splits, by how well the best score tells
answerable questions from others. The order of the sentences stays."""


@dataclass(frozen=True, slots=True)
class _Unit:
    """A sentence: its tokens, those of its heading, its chunk, and the heading it opens."""

    text: str
    tokens: tuple[str, ...]
    held: frozenset[str]
    heading: frozenset[str]
    chunk: str
    ranked: bool
    opens: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question: its terms with their weights, names, numbers, kind of answer."""

    terms: tuple[str, ...]
    weights: NDArray[np.float64]
    codes: list[int]
    named: list[int]
    numeric: list[int]
    focus: list[int]
    kind: AnswerKind
    steps: bool
    insists: bool
    words: frozenset[str]


def pack_sentence(
    sentence: str, *, heading: str = "", chunk: str = "", ranked: bool = True, opens: str = ""
) -> str:
    """A passage for :class:`ExtractiveReranker`: one sentence, its heading, its chunk's name.

    ``opens`` is the heading directly above the sentence, empty if other text is between.

    Passages of one chunk must be adjacent and in text order, so that a sentence is read with its
    neighbours; chunks come best first. If they are not ranked, ``ranked`` is off, and each counts
    as the best one. Text without this packing is scored as a chunk of one sentence.
    """
    parts = (sentence, heading, chunk, "" if ranked else _UNRANKED, opens)
    return _MARK.join(parts).rstrip(_MARK)


_ANALYZER = Analyzer(AnalyzerOptions())


def names_subject(question: str, heading: str) -> bool:
    """True if a heading names what a question asks to define, in any language.

    It holds half of the question's terms, and one of its codes if it has any.
    """
    terms = list(dict.fromkeys(_ANALYZER.query_tokens(subject(question))))
    held = set(_ANALYZER.tokens(heading)).intersection(terms)
    codes = {t for t in terms if is_code(t) and not _within(t, terms)}
    return bool(terms) and 2 * len(held) >= len(terms) and (not codes or bool(codes & held))


class ExtractiveReranker(Reranker):
    """Scores sentences by how likely each answers the question; deterministic, no files."""

    name = "extractive"

    identity = f"extractive/{value_hash([_WEIGHTS, _DENIED])[:8]}"
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
        best = passages[int(np.argmax(logits))].partition(_MARK)[0]
        if denies(query) and not denies(best):
            logits -= _DENIED
        return [round(float(s), 6) for s in 1 / (1 + np.exp(-logits))]

    def features(self, query: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Feature matrix, shape (passages, len(FEATURES)); all values within about -2..2."""
        analyzer = self._analyzer(query, passages)
        # Sentences of a section share their heading.
        above = cache(lambda heading: frozenset(analyzer.tokens(heading)))
        units = [_unit(analyzer, p, number, above) for number, p in enumerate(passages)]
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


def _unit(
    analyzer: Analyzer, passage: str, number: int, above: Callable[[str], frozenset[str]]
) -> _Unit:
    text, heading, chunk, order, opens = (*passage.split(_MARK), "", "", "", "")[:5]
    tokens = tuple(analyzer.tokens(text))
    ranked = order != _UNRANKED
    place = chunk or f"#{number}"
    return _Unit(text, tokens, frozenset(tokens), above(heading), place, ranked, above(opens))


def _asked(analyzer: Analyzer, query: str, units: Sequence[_Unit]) -> _Asked:
    kind = answer_kind(query)
    steps = asks_steps(query)
    told = query
    if kind == "definition" or steps:
        told = subject(query)
    terms = tuple(dict.fromkeys(analyzer.query_tokens(told) or analyzer.query_tokens(query)))
    # German capitalises every noun, so capitals do not show names.
    found = [] if analyzer.options.language == "de" else names(query)
    wanted = {t for n in found for t in analyzer.tokens(n)}
    about = set(analyzer.tokens(focus(query)))
    return _Asked(
        terms,
        _rarity(terms, units),
        [i for i, t in enumerate(terms) if is_code(t) and not _within(t, terms)],
        [i for i, t in enumerate(terms) if t in wanted],
        [i for i, t in enumerate(terms) if t[:1].isdigit()],
        [i for i, t in enumerate(terms) if t in about],
        kind,
        steps,
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
        defines = offered * opens
    return columns | {
        "no_kind": strict - offered,
        "no_date": (strict - offered) * (kind == "time" and asked.insists),
        "no_person": (strict - offered) * (kind == "person" and asked.insists),
        "definition": defines,
        "lead": _named_above(units, asked, lead=True) * (1.0 if kind == "definition" else 0.5),
        "steps": _steps(units, asked),
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


def _within(term: str, terms: Sequence[str]) -> bool:
    """True for a piece of another term: ``2065`` of ``c2065``."""
    return any(term != other and term in other for other in terms)


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
    held = set(terms).intersection(tokens)
    if len(held) < 2:
        return 0.0
    where: dict[str, list[int]] = {term: [] for term in terms}
    for i, token in enumerate(tokens):
        if token in held:
            where[token].append(i)
    near = sum(any(abs(i - j) <= 3 for i in where[a] for j in where[b]) for a, b in pairwise(terms))
    return near / (len(terms) - 1)


def _named_above(units: Sequence[_Unit], asked: _Asked, *, lead: bool) -> NDArray[np.float64]:
    """How far the heading above a sentence names what a question asks about, 0 to 1.

    The weighted share of the question's terms in the heading, 0 if that is under one half or holds
    no code of a question with codes. Without codes, a heading that says more counts less. Only for
    questions that ask for a definition or for steps.

    Args:
        units: The sentences.
        asked: The question.
        lead: Only the heading that a sentence opens counts; else all headings above it, for
            questions that ask for steps.
    """
    marks = np.zeros(len(units))
    if not (asked.steps or (lead and asked.kind == "definition")):
        return marks
    total = float(asked.weights.sum()) or 1.0
    for i, unit in enumerate(units):
        above = unit.opens if lead else unit.heading
        named = [j for j, term in enumerate(asked.terms) if term in above]
        share = float(asked.weights[named].sum()) / total
        if share < 0.5 or (asked.codes and not set(asked.codes) & set(named)):
            continue
        exact = 1.0 if asked.codes else 0.5 + 0.5 * len(named) / len(above)
        marks[i] = share * exact
    return marks


def _steps(units: Sequence[_Unit], asked: _Asked) -> NDArray[np.float64]:
    """For a question that asks for steps: instructions under a heading that names the subject."""
    marks = _named_above(units, asked, lead=False)
    if marks.any():
        marks *= [float(instructs(unit.text)) for unit in units]
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
