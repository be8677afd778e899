"""The offline answerer: scores how well a sentence answers a question, without a model server.

A sentence is scored by a dozen features (which of the question's words it holds, weighted by
rarity; what its neighbours and its title add; whether it offers the kind of thing asked for)
and a linear model over them. The weights were fitted on development splits only by
``benchmarks/extractive.py``, which also reports the quality on held-out articles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..core import value_hash
from ._analysis import Analyzer, detect_language, is_code
from ._options import AnalyzerOptions
from ._questions import (
    defines as says_what_is,
    denies,
    expands,
    offers,
    remedies,
    subject,
)
from ._reading import (
    LOSSES,
    MARK,
    NAMED,
    Asked,
    Unit,
    for_facts,
    holds,
    read_question,
    read_unit,
    unsupported,
    within,
)
from ._seams import Reranker

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

_SCALE, _PLAIN, _BIAS = 0.91, 0.47, -0.9
"""The score that decides whether anything is quoted, from two scores of the best sentence: the
logit above, and the natural logarithm of 1 + its plain BM25 score (k1 1.2, b 0.75, not as a share
of the best one's). Fitted by a logistic regression on whether the best sentence of a development
question holds its answer (PIAF and SQuAD 2; ``benchmarks/extractive.py``); the bias is 0.43 above
the fitted one. The AUC of answerable questions rose from 0.748 to 0.763 (PIAF, gold paragraph) and
from 0.798 to 0.816 (six paragraphs). The order of the sentences stays. Not for definitions and
steps, whose best sentences need not repeat the question."""


_DEFINES, _EXPANDS = 4.5, 6.0
"""Value of the feature ``definition`` where a sentence says what the thing is (*X is a …*), and
where it writes out an abbreviation."""

_LOOSELY = 0.3
"""The same where a sentence begins with the thing and holds *is* anywhere."""


_DENIED = 1.5
"""Taken from the scores of a question with a negation if the best sentence holds none: what is not
so is hardly answered by what is so. Set on the development splits, by how well the best score tells
answerable questions from others. The order of the sentences stays."""


_ANALYZER = Analyzer(AnalyzerOptions())


def names_subject(question: str, heading: str) -> bool:
    """True if a heading names what a question asks to define, in any language.

    It holds half of the question's terms, and one of its codes if it has any.
    """
    terms = list(dict.fromkeys(_ANALYZER.query_tokens(subject(question))))
    shared = set(_ANALYZER.tokens(heading)).intersection(terms)
    codes = {t for t in terms if is_code(t) and not within(t, terms)}
    return bool(terms) and 2 * len(shared) >= len(terms) and (not codes or bool(codes & shared))


def asks_same(question: str, heading: str) -> bool:
    """True if a heading is a question with most of the words of another one, as in lists of FAQ."""
    if not heading.rstrip().endswith("?"):
        return False
    terms = set(_ANALYZER.query_tokens(question))
    shared = terms.intersection(_ANALYZER.tokens(heading))
    return bool(terms) and len(shared) >= NAMED * len(terms)


class ExtractiveReranker(Reranker):
    """Scores sentences by how likely each answers the question; deterministic, no files."""

    name = "extractive"

    identity = (
        "extractive/"
        + value_hash(
            [_WEIGHTS, _DENIED, _SCALE, _PLAIN, _BIAS, _DEFINES, _EXPANDS, _LOOSELY, *LOSSES]
        )[:8]
    )
    columns = FEATURES
    scale = "0-1, logistic; fitted so that 0.5 separates answering sentences from the rest"

    def __init__(self) -> None:
        self._analyzers: dict[str, Analyzer] = {}

    def score(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        """One score per passage, 0 to 1, rounded to 6 digits."""
        if not passages:
            return []
        units, parsed = self._read_request(query, passages)
        weights = np.array([_WEIGHTS[name] for name in FEATURES])
        logits = _feature_columns(units, parsed) @ weights - unsupported(units, parsed)
        best = int(np.argmax(np.round(logits, 6)))
        if for_facts(parsed):
            best_bm25 = _unit_bm25(units, parsed.terms, parsed.weights)[best]
            logits = _SCALE * logits + _PLAIN * np.log1p(best_bm25) + _BIAS
        if denies(query) and not denies(units[best].text):
            logits -= _DENIED
        return [round(float(s), 6) for s in 1 / (1 + np.exp(-logits))]

    def features(self, query: str, passages: Sequence[str]) -> NDArray[np.float64]:
        """Feature matrix, shape (passages, len(FEATURES)); all values within about -2..2."""
        return _feature_columns(*self._read_request(query, passages))

    def _read_request(self, query: str, passages: Sequence[str]) -> tuple[list[Unit], Asked]:
        analyzer = self._request_analyzer(query, passages)
        # Sentences of a section share their heading.
        above = cache(lambda heading: frozenset(analyzer.tokens(heading)))
        units = [read_unit(analyzer, p, number, above) for number, p in enumerate(passages)]
        return units, read_question(analyzer, query, units)

    def _request_analyzer(self, query: str, passages: Sequence[str]) -> Analyzer:
        """The analyzer for the language of a request, detected from its passages."""
        sample = [query, *(p.partition(MARK)[0] for p in passages[:12])]
        language = detect_language(sample, least=5)
        if language not in self._analyzers:
            self._analyzers[language] = Analyzer(AnalyzerOptions(language=language))
        return self._analyzers[language]


def _feature_columns(units: Sequence[Unit], question: Asked) -> NDArray[np.float64]:
    columns = {**_overlap_features(units, question), **_shape_features(units, question)}
    columns["bias"] = np.ones(len(units))
    return np.column_stack([columns[name] for name in FEATURES])


def _overlap_features(units: Sequence[Unit], question: Asked) -> dict[str, NDArray[np.float64]]:
    """Features of the positions of the question's words."""
    shape = (len(units), len(question.terms))
    total = float(question.weights.sum()) or 1.0
    share = question.weights / total
    coverage_by_term = np.array(
        [[holds(u.held, t) for t in question.terms] for u in units]
    ).reshape(shape)
    head = np.array([[float(t in u.heading) for t in question.terms] for u in units]).reshape(shape)
    for numbers, pattern in question.properties:  # other words for what is asked hold it too
        matches = [bool(numbers) and bool(pattern.search(u.text)) for u in units]
        coverage_by_term[np.ix_(np.flatnonzero(matches), np.array(numbers, dtype=np.int64))] = 1.0
    names_of = [u.chunk for u in units]
    order = {name: i for i, name in enumerate(dict.fromkeys(names_of))}
    group = np.array([order[name] for name in names_of])
    before = np.zeros(shape)
    same_chunk = (group[1:] == group[:-1])[:, None]
    before[1:] = coverage_by_term[:-1] * same_chunk
    chunk = np.zeros((len(order), shape[1]))
    np.maximum.at(chunk, group, np.maximum(coverage_by_term, head))
    around = chunk[group]
    coverage, chunk_coverage = coverage_by_term @ share, around @ share
    anywhere = around.max(axis=0, initial=0.0)
    return {
        "coverage": coverage,
        "relative": coverage / (coverage.max() or 1.0),
        "before": np.maximum(before - coverage_by_term, 0) @ share,
        "chunk_relative": chunk_coverage / (chunk_coverage.max() or 1.0),
        "heading": np.maximum(head - coverage_by_term, 0) @ share,
        "absent": np.full(len(units), float((1 - anywhere) @ share)),
        "names_missing": _missing_weight(around, question.weights, question.named),
        "numbers_missing": _missing_weight(around, question.weights, question.numeric),
        "focus": 1 - _missing_weight(coverage_by_term, question.weights, question.focus)
        if question.focus
        else coverage * 0,
        "rank": _rank_share(units, group, question),
    }


def _rank_share(
    units: Sequence[Unit], group: NDArray[np.int64], question: Asked
) -> NDArray[np.float64]:
    """1 for the best passage, less for further ones; half of the difference for definitions and
    steps, since the fitted weight is that of questions for facts.
    """
    places = np.array(
        [u.place - 1 if u.place else rank for u, rank in zip(units, group, strict=True)]
    )
    share: NDArray[np.float64] = 1.0 / (1.0 + places * np.array([u.ranked for u in units]))
    return share if for_facts(question) else (1.0 + share) / 2


def _shape_features(units: Sequence[Unit], question: Asked) -> dict[str, NDArray[np.float64]]:
    """Features of the kind of sentence and of the kind of answer it could hold."""
    kind = question.kind
    bm25 = _unit_bm25(units, question.terms, question.weights)
    strict = kind not in {"manner", "other"}
    offered = np.array([strict and offers(kind, u.text, question.words) for u in units], float)
    columns = {name: offered * (kind == name) for name in ("time", "number", "reason", "name")}
    defines = np.zeros(len(units))
    if kind == "definition":
        defined = [_definition_score(u.text, question.thing) for u in units]
        opens = np.array([_opens_with(u.tokens, question.terms) for u in units], float)
        loose = _LOOSELY if question.thing else 1.0
        defines = np.maximum(loose * offered * opens, defined)
    return columns | {
        "no_kind": strict - offered,
        "no_date": (strict - offered) * (kind == "time" and question.insists),
        "no_person": (strict - offered) * (kind == "person" and question.insists),
        "definition": defines,
        "lead": _named_above(units, question, lead=True)
        * np.array([1.0 if kind == "definition" or u.asks else 0.5 for u in units]),
        "steps": _step_marks(units, question),
        "pairs": np.array([_near_pairs(u.tokens, question.terms) for u in units]),
        "bm25": bm25 / (bm25.max() or 1.0),
        "length": np.array([min(len(u.tokens), 40) / 40 for u in units]),
        "question": np.array([float(u.text.rstrip("»\"' ").endswith("?")) for u in units]),
    }


def _definition_score(text: str, thing: str) -> float:
    """How clearly a sentence defines a thing: most where it writes out the abbreviation."""
    if expands(text, thing):
        return _EXPANDS
    return _DEFINES * says_what_is(text, thing)


def _missing_weight(
    around: NDArray[np.float64], weights: NDArray[np.float64], numbers: list[int]
) -> NDArray[np.float64]:
    """Share of the weight of some terms that neither sentence nor context holds."""
    if not numbers:
        return np.zeros(len(around))
    share: NDArray[np.float64] = (
        (1 - around[:, numbers]) @ weights[numbers] / weights[numbers].sum()
    )
    return share


def _near_pairs(tokens: Sequence[str], terms: Sequence[str]) -> float:
    """Share of neighbouring question terms that are within three words of each other."""
    present = set(terms).intersection(tokens)
    if len(present) < 2:
        return 0.0
    positions: dict[str, list[int]] = {term: [] for term in terms}
    for i, token in enumerate(tokens):
        if token in present:
            positions[token].append(i)
    near = sum(
        any(abs(i - j) <= 3 for i in positions[a] for j in positions[b]) for a, b in pairwise(terms)
    )
    return near / (len(terms) - 1)


def _named_above(units: Sequence[Unit], question: Asked, *, lead: bool) -> NDArray[np.float64]:
    """Mark, from 0 to 1, how much of the question's subject the heading above a sentence names.

    The weighted share of the question's terms in the heading, 0 if that is under one half or holds
    no code of a question with codes. Without codes, a heading that says more counts less. Only for
    questions that ask for a definition or for steps, and below headings that ask the question.

    Args:
        units: The sentences.
        question: The question.
        lead: Only the heading that a sentence opens counts; else all headings above it, for
            questions that ask for steps.
    """
    marks = np.zeros(len(units))
    fitting = question.steps or (lead and question.kind == "definition")
    total = float(question.weights.sum()) or 1.0
    for i, unit in enumerate(units):
        if not (fitting or (lead and unit.asks)):
            continue
        least = 0.5 if fitting else NAMED
        above = unit.opens if lead else unit.heading
        shared = [j for j, term in enumerate(question.terms) if term in above]
        share = float(question.weights[shared].sum()) / total
        if share < least or (question.codes and not set(question.codes) & set(shared)):
            continue
        exact = 1.0 if question.codes else 0.5 + 0.5 * len(shared) / len(above)
        marks[i] = share * exact
    return marks


def _step_marks(units: Sequence[Unit], question: Asked) -> NDArray[np.float64]:
    """Mark instructions whose task they or their heading name, for a question for steps.

    A sentence that says it resolves something counts twice for a question about a code.
    """
    if not question.steps:
        return np.zeros(len(units))
    marks = _named_above(units, question, lead=False)
    total = float(question.weights.sum()) or 1.0
    for i, unit in enumerate(units):
        if unit.acts:
            held_weight = sum(
                float(question.weights[j]) for j, t in enumerate(question.terms) if t in unit.held
            )
            marks[i] = max(marks[i], held_weight / total if held_weight >= NAMED * total else 0.0)
        else:
            marks[i] = 0.0
    if question.codes:
        marks *= [2.0 if remedies(unit.text) else 1.0 for unit in units]
    return marks


def _opens_with(tokens: Sequence[str], terms: Sequence[str]) -> bool:
    """True where a sentence opens with the thing a question asks to define."""
    return any(t in tokens[: len(terms) + 2] for t in terms)


def _unit_bm25(
    units: Sequence[Unit], terms: Sequence[str], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """BM25 of the sentences."""
    return _token_bm25([unit.tokens for unit in units], terms, weights)


def _token_bm25(
    texts: Sequence[Sequence[str]], terms: Sequence[str], weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """BM25 (k1 1.2, b 0.75) of texts given as tokens."""
    mean = sum(map(len, texts)) / max(len(texts), 1) or 1.0
    scores = np.zeros(len(texts))
    term_set = set(terms)
    for i, tokens in enumerate(texts):
        norm = 1.2 * (0.25 + 0.75 * len(tokens) / mean)
        counts = Counter(token for token in tokens if token in term_set)
        for term, weight in zip(terms, weights, strict=True):
            if term in counts:
                scores[i] += weight * counts[term] * 2.2 / (counts[term] + norm)
    return scores
