"""Questions and passages read word by word, and what speaks against a sentence.

A quoted sentence must hold the thing that a question names and what is asked of it: a height, an
author, a number of pages. The terms of what is missing are subtracted from its logit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._analysis import Analyzer, is_code, words
from ._evidence import (
    asked_properties,
    compounds,
    counted_thing,
    points_back,
    shows_all_things,
    things,
)
from ._questions import (
    AnswerKind,
    answer_kind,
    asks_steps,
    asks_whether,
    defined_thing,
    defines,
    entities,
    focus,
    insists,
    instructs,
    may_offer,
    names,
    subject,
    task_object,
    without_light_verbs,
)

_UNASKED = 5.0
"""Taken from a sentence where neither it nor its headings hold what is asked about the thing: no
length for *how tall*, no founding for *who founded*. Enough to refuse. Set by hand: the development
splits hold few such questions."""

_UNOFFERED = 1.5
"""The same where neither the sentence nor the next one holds the kind of thing asked for: a date,
a number, a person."""

_UNCOUNTED = 1.2
"""The same for *how many pages* without pages. On PIAF's development articles 3 of 13 best
sentences without the thing counted held the answer, of those with it 23 of 31."""

_UNNAMED = 1.5
"""The same where a whole name of the question is missing from the passage and its headings."""

_FAR, _FAR_ASKED = 0.8, 2.0
"""The same where it is in the passage, but in neither the sentence, nor its headings, nor the
sentence before one that points back; the second, where a property of it is asked for."""

_UNSHARED, _NOTHING = 0.6, 2.0
"""The same where two thirds of the question's words other than names are in neither, and where all
of them are missing: the sentence names the thing and says something else of it. For questions
for a person, a time, a place, a number, a reason, a manner, and without a question word. A logistic
regression on the development splits gave 0.4 to 0.8 for the first."""

_SHARED_KINDS = frozenset({"person", "time", "place", "number", "reason", "manner", "other"})

_HALF, _NO_THING = 1.2, 0.8
"""The same from a sentence that with its headings holds one of two neighbouring words for a thing
and not the other: *study leave* where *sick leave* is asked for; the second, where it holds none of
the things that the question names. Set by hand."""

_IDLE, _OTHER_TASK = 2.0, 2.5
"""Taken, where a question asks how to do something, from a sentence that says nothing to do, and
from one that with its headings holds less than half of what it is to be done to. Set by hand."""

_UNSTATED = 3.0
"""Taken, for a question that *yes* or *no* answers, from a sentence that with its headings holds
less than two thirds of its words, or that lacks its last word, which is what is asked of the thing:
*Can the nut be reused?*. Set by hand."""

_UNDEFINED = 1.5
"""Taken, where a question asks what a thing is, from a sentence that neither says so nor opens a
section. Set by hand."""

_ALL = 0.6
"""Given to a sentence that with its headings and what it points back to holds every word of the
question. Set by hand, with the threshold."""

NAMED = 0.66
"""Share of the question's words from which a sentence names a task."""

LOSSES = (
    _UNASKED,
    _UNOFFERED,
    _UNCOUNTED,
    _UNNAMED,
    _FAR,
    _FAR_ASKED,
    _UNSHARED,
    _NOTHING,
    _HALF,
    _NO_THING,
    _IDLE,
    _OTHER_TASK,
    _UNSTATED,
    _UNDEFINED,
    _ALL,
    NAMED,
)
"""All of the above, for the identity of the model."""


def unsupported(units: Sequence[Unit], question: Asked) -> NDArray[np.float64]:
    """The penalties of sentences that lack the thing asked about, or what is asked about it.

    The sentence or its headings must hold both; the thing may also be in the sentence before one
    that points back: *It was …*.
    """
    penalties = np.zeros(len(units))
    terms = frozenset(question.terms)
    around: dict[str, set[str]] = {}
    for unit in units if question.entities else ():
        around.setdefault(unit.chunk, set(unit.heading)).update(unit.held)
    for i, unit in enumerate(units):
        around_terms = unit.held | unit.heading
        before = units[i - 1].held if i and units[i - 1].chunk == unit.chunk else frozenset()
        if not before.isdisjoint(terms - around_terms) and points_back(unit.text):
            around_terms |= before
        penalties[i] = _content_penalty(unit, around_terms, question) + _kind_penalty(
            units, i, question
        )
        if question.entities:
            if not (question.codes or _names_all(question, frozenset(around[unit.chunk]))):
                penalties[i] += _UNNAMED
            elif for_facts(question) and not _names_all(question, around_terms):
                penalties[i] += _FAR_ASKED if question.properties else _FAR
    return penalties


def for_facts(question: Asked) -> bool:
    """True for a question that asks for neither a definition nor steps."""
    return question.kind != "definition" and not question.steps


def _names_all(question: Asked, tokens: frozenset[str]) -> bool:
    """True where a text holds a word of each name of the question."""
    return all(any(holds(tokens, question.terms[j]) for j in name) for name in question.entities)


def _content_penalty(unit: Unit, nearby_terms: frozenset[str], question: Asked) -> float:
    """The penalty of a sentence that lacks content which the question asks for.

    Args:
        unit: The sentence.
        nearby_terms: The terms of the sentence, of its headings and of what it points back to.
        question: The question.
    """
    every = list(range(len(question.terms)))
    complete = for_facts(question) and every and nearby_terms.issuperset(question.terms)
    penalty = -_ALL if complete else 0.0
    if not all(p.search(unit.text) or p.search(unit.above) for _, p in question.properties):
        penalty += _UNASKED
    if question.counted and not share_held(nearby_terms, question, question.counted):
        penalty += _UNCOUNTED
    if question.whether and not (
        share_held(nearby_terms, question, every) >= NAMED
        and (unit.asks or holds(unit.held, question.terms[-1]))
    ):
        penalty += _UNSTATED
    if for_facts(question) and any(
        _in_half(nearby_terms, question, pair) for pair in question.compounds
    ):
        penalty += _HALF
    if (
        for_facts(question)
        and question.things
        and not share_held(nearby_terms, question, question.things)
    ):
        penalty += _NO_THING
    if question.kind in _SHARED_KINDS:
        asking = {i for numbers, p in question.properties if p.search(unit.text) for i in numbers}
        content = [i for i in _apart_from_names(question) if i not in asking]
        share = share_held(nearby_terms, question, content) if content else 1.0
        penalty += _UNSHARED if 0 < 3 * share <= 1 else _NOTHING if not share else 0.0
    if question.thing and not (question.codes or unit.opens or defines(unit.text, question.thing)):
        penalty += _UNDEFINED
    if question.steps:
        penalty += 0 if unit.acts else _IDLE
        if question.object and 2 * share_held(nearby_terms, question, question.object) < 1:
            penalty += _OTHER_TASK
    return penalty


def _in_half(
    nearby_terms: frozenset[str], question: Asked, pair: tuple[list[int], list[int]]
) -> bool:
    """True where a text holds one of two words for a thing only."""
    first, second = (any(holds(nearby_terms, question.terms[i]) for i in word) for word in pair)
    return first != second


def _kind_penalty(units: Sequence[Unit], at: int, question: Asked) -> float:
    """The penalty where a sentence and the next one lack the kind of thing asked for."""
    if not (question.insists or question.kind == "number") or not for_facts(question):
        return 0.0
    near = units[at : at + 2]
    texts = [unit.text for unit in near if unit.chunk == units[at].chunk]
    return (
        0.0 if any(may_offer(question.kind, text, question.words) for text in texts) else _UNOFFERED
    )


def _apart_from_names(question: Asked) -> list[int]:
    """The terms of a question that are in no name; fragments of two letters say nothing."""
    in_names = {*question.named, *(i for name in question.entities for i in name)}
    return [i for i, term in enumerate(question.terms) if i not in in_names and len(term) > 2]


def share_held(tokens: frozenset[str], question: Asked, numbers: list[int]) -> float:
    """Share of the weight of some terms that a text holds."""
    total = shared = 0.0
    for i in numbers:
        weight = float(question.weights[i])
        total += weight
        shared += weight * holds(tokens, question.terms[i])
    return shared / total


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
