"""Packed sentences and a question, read into tokens for the offline answerer."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._analysis import Analyzer, is_code, words
from ._evidence import asked_properties, counted_thing
from ._questions import (
    AnswerKind,
    answer_kind,
    asks_steps,
    asks_whether,
    defined_thing,
    entities,
    focus,
    insists,
    instructs,
    names,
    subject,
    task_object,
    without_light_verbs,
)
from ._things import compounds, shows_all_things, things

_UNRANKED = "unranked"
_ACTS = "acts"
MARK = "\x1f"
"""Separates a sentence from its context; normalised text holds no control characters."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A sentence: its tokens, those of its heading, its chunk, and the heading it opens.

    ``asks`` is true where that heading is a question.
    """

    text: str
    above: str
    tokens: tuple[str, ...]
    held: frozenset[str]
    heading: frozenset[str]
    chunk: str
    ranked: bool
    place: int
    opens: frozenset[str]
    asks: bool
    acts: bool


@dataclass(frozen=True, slots=True)
class Asked:
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
    entities: list[list[int]]
    counted: list[int]
    object: list[int]
    thing: str
    whether: bool
    properties: tuple[tuple[list[int], re.Pattern[str]], ...]
    compounds: list[tuple[list[int], list[int]]]
    things: list[int]


def pack_sentence(
    sentence: str,
    *,
    heading: str = "",
    chunk: str = "",
    ranked: bool = True,
    opens: str = "",
    acts: bool = False,
    place: int = 0,
) -> str:
    """A passage for :class:`ExtractiveReranker`: one sentence, its heading, its chunk's name.

    ``opens`` is the heading directly above the sentence, empty if other text is between; ``acts``
    says that a command, code or numbered steps follow it. ``place`` is the rank of its chunk from 1
    where the chunks do not come best first.

    Passages of one chunk must be adjacent and in text order, so that a sentence is read with its
    neighbours; chunks come best first. If they are not ranked, ``ranked`` is off, and each counts
    as the best one. Text without this packing is scored as a chunk of one sentence.
    """
    order = str(place) if place else "" if ranked else _UNRANKED
    parts = (sentence, heading, chunk, order, opens, _ACTS if acts else "")
    return MARK.join(parts).rstrip(MARK)


def read_unit(
    analyzer: Analyzer, passage: str, number: int, above: Callable[[str], frozenset[str]]
) -> Unit:
    """A packed sentence; ``above`` gives the tokens of a heading."""
    text, heading, chunk, order, opens, acts = (*passage.split(MARK), *("",) * 5)[:6]
    tokens = tuple(analyzer.tokens(text))
    ranked = order != _UNRANKED
    place = chunk or f"#{number}"
    return Unit(
        text,
        heading,
        tokens,
        frozenset(tokens),
        above(heading),
        place,
        ranked,
        int(order) if order.isdigit() else 0,
        above(opens),
        opens.rstrip().endswith("?"),
        bool(acts) or instructs(text),
    )


def read_question(analyzer: Analyzer, query: str, units: Sequence[Unit]) -> Asked:
    """A question, its terms weighted by how rare they are in the sentences."""
    kind = answer_kind(query)
    steps = asks_steps(query)
    core = query
    if kind == "definition" or steps:
        core = subject(query)
    heavy = analyzer.query_tokens(without_light_verbs(core)) or analyzer.query_tokens(core)
    terms = tuple(dict.fromkeys(heavy or analyzer.query_tokens(query)))
    properties_asked = () if kind == "definition" or steps else asked_properties(query)
    properties = tuple(
        (_term_numbers(terms, analyzer.tokens(asking)), holds) for asking, holds in properties_asked
    )
    roles = {token for asking, _ in properties_asked for token in analyzer.tokens(asking)}
    # German capitalises every noun, so capitals do not show names.
    capitalised = [] if analyzer.options.language == "de" else names(query)
    name_tokens = {t for n in capitalised for t in analyzer.tokens(n)} - roles
    thing_words = things(query) if shows_all_things(query) else ()
    about = set(analyzer.tokens(focus(query)))
    return Asked(
        terms,
        rarity(terms, units),
        [i for i, t in enumerate(terms) if is_code(t) and not within(t, terms)],
        [i for i, t in enumerate(terms) if t in name_tokens],
        [i for i, t in enumerate(terms) if t[:1].isdigit()],
        [i for i, t in enumerate(terms) if t in about],
        kind,
        steps,
        insists(kind, query),
        frozenset(w.casefold() for w in words(query)),
        [
            name_numbers
            for n in entities(query)
            if (name_numbers := _term_numbers(terms, set(analyzer.tokens(n)) - roles))
        ],
        [] if properties else _term_numbers(terms, analyzer.tokens(counted_thing(query))),
        _term_numbers(terms, analyzer.tokens(task_object(query))) if steps else [],
        defined_thing(query) if kind == "definition" else "",
        bool(terms) and kind == "other" and asks_whether(query),
        properties,
        [
            (first, second)
            for a, b in compounds(query)
            if (first := _term_numbers(terms, analyzer.tokens(a)))
            and (second := _term_numbers(terms, analyzer.tokens(b)))
        ],
        _term_numbers(terms, {token for word in thing_words for token in analyzer.tokens(word)}),
    )


def _term_numbers(terms: Sequence[str], tokens: Collection[str]) -> list[int]:
    """The numbers of the terms that are among some tokens."""
    return [i for i, term in enumerate(terms) if term in tokens]


def rarity(terms: Sequence[str], units: Sequence[Unit]) -> NDArray[np.float64]:
    """Weight of each question term: rare among the passages, long, or a code."""
    count = len(units)
    holding = np.array([sum(t in u.held for u in units) for t in terms], dtype=np.float64)
    idf = np.log((count + 4.0) / (holding + 1.0)) + 0.5
    codes = np.array([1.3 if any(c.isdigit() for c in t) else 1.0 for t in terms])
    rarity: NDArray[np.float64] = idf * codes
    return rarity


def holds(tokens: frozenset[str], term: str) -> float:
    """1 for the term itself, 0.6 for a word that shares its first letters, else 0."""
    if term in tokens:
        return 1.0
    if len(term) < 5 or not term.isalpha():
        return 0.0
    stem = term[: max(5, len(term) - 2)]
    return 0.6 if any(h.startswith(stem) and abs(len(h) - len(term)) < 5 for h in tokens) else 0.0


def within(term: str, terms: Sequence[str]) -> bool:
    """True for a piece of another term: ``2065`` of ``c2065``."""
    return any(term != longer and term in longer for longer in terms)
