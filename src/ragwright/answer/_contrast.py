"""The difference between two things: a sentence that compares them, and a unit about each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..core import Hit, Persona, late_pattern
from ..flow import Flow
from ..models import names_subject
from ._extract import Selection, fitting, ranked, score_sentences, word_places
from ._options import AnswerOptions
from ._quotes import Quote, make_quotes
from ._sentences import Sentence

_ASKS = late_pattern(
    r"\bdifferences? (?:between|of) (?P<a>.+?) (?:and|from|to|vs\.?) (?P<b>.+)"
    r"|\bhow (?:do|does|is|are) (?P<c>.+?) (?:differ|different) from (?P<d>.+)"
    r"|\bdifférences? entre (?P<e>.+?) et (?P<f>.+)"
    r"|\bunterschied(?:e|et|en)?\b.*?\b(?:zwischen|von) (?P<g>.+?) (?:und|von) (?P<h>.+)"
    r"|\bdiferencias? entre (?P<i>.+?) (?:y|e) (?P<j>.+)"
    r"|\bdifferenza (?:tra|fra) (?P<k>.+?) e (?P<l>.+)",
    re.IGNORECASE,
)
_COMPARES = late_pattern(
    r"\b(?:than|whereas|while|unlike|differs?|difference|in contrast|instead"
    r"|als|während|dagegen|hingegen|anders|unterscheide\w*|unterschied\w*"
    r"|tandis|alors que|contrairement|diffèr\w*|différence"
    r"|mientras|diferen\w*)\b",
    re.IGNORECASE,
)
_SURE = 0.25
"""Score that the best unit of each thing needs where no sentence compares them."""


def compared_things(question: str) -> tuple[str, str] | None:
    """The two things whose difference a question asks for, None for other questions.

    "hard and soft filters" are hard filters and soft filters.
    """
    match = _ASKS.search(question)
    if match is None:
        return None
    first, second = (group.strip(" ?.!\"'`*").strip() for group in match.groups() if group)
    parts = second.split()
    if len(first.split()) == 1 and len(parts) == 2 and parts[1].endswith("s"):
        first = f"{first} {parts[1]}"
    return (first, second) if first and second else None


def contrast(
    question: str,
    things: tuple[str, str],
    sentences: Sequence[Sentence],
    hits: Sequence[Hit],
    persona: Persona,
    options: AnswerOptions,
) -> Flow[Selection]:
    """A sentence that compares two things, and the best unit about each of them.

    Without a sentence that compares, both must have a unit that reaches the threshold.
    """
    sources = list(dict.fromkeys(hit.document_id for hit in hits))
    places = word_places(hits)
    scores = yield from score_sentences(question, sentences, sources, places=places)
    both = [
        quote
        for quote in ranked(make_quotes(question, sentences, scores, hits))
        if _COMPARES.search(quote.text()) and all(_names_thing(quote, thing) for thing in things)
    ]
    units: list[Quote] = []
    for thing in things:
        definition = f"What is {thing}?"
        scores_of = yield from score_sentences(definition, sentences, sources, places=places)
        naming = [
            q
            for q in ranked(make_quotes(definition, sentences, scores_of, hits))
            if _names_thing(q, thing)
        ]
        others = [named for named in things if named != thing]
        exclusive = [q for q in naming if not any(_names_thing(q, named) for named in others)]
        naming = exclusive or naming
        units += [q for q in naming[:1] if q.score >= options.threshold]
    best = both[:1] if both and both[0].score >= options.threshold else []
    least = min((unit.score for unit in units), default=0.0)
    if not best and (
        least < max(_SURE, options.threshold)
        or len({(unit.number, unit.at) for unit in units}) < len(things)
    ):
        near = ranked([*both, *units])
        return Selection(
            (), *((near[0], min(near[0].score, options.threshold * 0.99)) if near else ())
        )
    chosen = fitting(list(dict.fromkeys([*best, *units])), persona.max_words, options.sentences)
    return Selection(tuple(chosen), chosen[0], max(quote.score for quote in chosen))


def _names_thing(quote: Quote, thing: str) -> bool:
    """True where a unit or the heading it opens names a thing."""
    return names_subject(f"What is {thing}?", f"{quote.text()} {quote.first.opens}")
