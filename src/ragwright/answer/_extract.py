"""Answers that quote: units of the hits, scored offline, selected and ordered."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from itertools import pairwise, zip_longest

from ..core import Citation, ClosestPassage, Hit, Persona
from ..flow import Flow, rerank
from ..models import (
    Analyzer,
    AnalyzerOptions,
    ExtractiveReranker,
    asks_steps,
    pack_sentence,
    words,
)
from ._options import AnswerOptions
from ._quotes import Quote, definition_above, details, rest_of_paragraph
from ._sentences import Sentence, has_steps


@dataclass(frozen=True, slots=True)
class Selection:
    """Selected quotes in reading order, and the best score of all.

    ``best`` is None if there was nothing to score.
    """

    chosen: tuple[Quote, ...]
    best: Quote | None = None
    score: float = 0.0


CLOSEST = 3
"""Passages shown where none is good enough to be quoted."""
_CONTENT = Analyzer(AnalyzerOptions(stem=False))
_HOPELESS = 0.0005
"""Score under which a passage is not shown as close: it has nothing of the question."""
_PREFERRED = 2.5
"""Factor, in the order of quotes only, for sections and documents that a persona prefers; about
what the best hit is ahead of the second."""
_KEEP = 0.6
"""Share of the best score that a further quote needs."""
_KEEP_BESIDE, _LARGE = 0.95, 40
"""The same beside a definition and a unit of so many words, which are answers of their own."""
_ALIKE = 0.8
"""Share of the shorter quote's words in the other one from which two quotes count as the same."""
_DETAIL = 2
"""One word of this many that a persona may have is left for what follows a definition."""
_WORDS_PER_DETAIL = 40
"""A persona's words for each passage that may follow a definition."""


def score_sentences(
    question: str,
    sentences: Sequence[Sentence],
    sources: Sequence[str],
    *,
    ranked: bool = True,
    places: Sequence[int] = (),
) -> Flow[tuple[float, ...]]:
    """One score per sentence, 0 to 1, in one request, times the sentence's weight.

    ``ranked`` says that the hits are ordered best first, which favours the first ones; ``places``
    are their ranks where they are not (see :func:`word_places`).
    """
    # Below a heading with steps the heading is the task, and those above it are part of it.
    steps = asks_steps(question)
    passages = [
        pack_sentence(
            s.heading if steps and s.kind == "title" else s.text,
            heading=s.heading,
            chunk=str(s.number),
            ranked=ranked,
            opens=s.opens,
            acts=has_steps(sentences, at),
            place=places[s.number - 1] if places else 0,
        )
        for at, s in enumerate(sentences)
    ]
    reply = yield from rerank(ExtractiveReranker.name, question, passages, sources=sources)
    return tuple(score * s.weight for score, s in zip(reply.scores, sentences, strict=True))


def word_places(hits: Sequence[Hit]) -> tuple[int, ...]:
    """The rank of each hit from 1 by the keyword channel, so that a score depends on words alone.

    Hits that the channel did not find follow in their order; empty where it found none of them.
    """
    scores = [hit.channels["keyword"].score if "keyword" in hit.channels else None for hit in hits]
    if all(score is None for score in scores):
        return ()
    order = sorted(range(len(hits)), key=lambda i: -(scores[i] or 0.0))
    return tuple(order.index(i) + 1 for i in range(len(hits)))


def select(quotes: Sequence[Quote], *, threshold: float, max_words: int, most: int) -> Selection:
    """Every quote from a threshold on, without literal repetitions, in the order of the text.

    Args:
        quotes: What may be quoted.
        threshold: Score from which a quote counts as an answer.
        max_words: Most words of the answer; the best quote is never cut.
        most: Most sentences.
    """
    order = ranked(quotes)
    if not order:
        return Selection(())
    best = order[0]
    enough = [quote for quote in order if quote.score >= threshold]
    # Items of a list may differ in a name only, so that only equal words count as the same.
    chosen = fitting(enough, max_words, most, 1.0)
    chosen.sort(key=lambda quote: (quote.number, quote.span.start))
    return Selection(tuple(chosen), best, best.score)


def ranked(quotes: Sequence[Quote]) -> list[Quote]:
    """Quotes, best first; of equal ones the earlier, of those the longer."""
    return sorted(quotes, key=lambda q: (-round(q.score, 6), q.at, -len(q.sentences)))


def fitting(
    order: Sequence[Quote], max_words: int, most: int, alike: float = _ALIKE
) -> list[Quote]:
    """The first quotes of an order that say something new and fit, in reading order."""
    chosen: list[Quote] = []
    used = sentence_count = 0
    for quote in order:
        if sentence_count >= most:
            break
        quote = quote.fitted(max_words - used)
        if chosen and (used + quote.words > max_words or _repeats_any(quote, chosen, alike)):
            continue
        chosen.append(quote)
        used += quote.words
        sentence_count += len(quote.sentences)
    return _reading_order(chosen)


def select_for(
    persona: Persona,
    quotes: Sequence[Quote],
    hits: Sequence[Hit],
    options: AnswerOptions,
    *,
    steps: bool = False,
) -> Selection:
    """Select the quotes for a persona; whether anything is quoted depends on the scores alone.

    A persona orders what is good enough by its preferred sections and documents. What follows a
    definition in its passage may take half of the persona's words; steps come first there for
    a persona that wants them first. A persona that wants definitions first gets that of the page
    before its steps; one with more words than usual gets the rest of the paragraph.

    Args:
        persona: The reader.
        quotes: What may be quoted.
        hits: Where the quotes are from.
        options: Threshold and most sentences.
        steps: The question asks for steps.
    """
    order = ranked(quotes)
    if not order or order[0].score < options.threshold:
        return Selection((), *((order[0], order[0].score) if order else ()))
    score = order[0].score
    enough = [q for q in order if q.score >= options.threshold]
    enough.sort(key=lambda q: -round(q.score * _preference_factor(persona, q, hits), 6))
    best = enough[0]
    least = (
        (_KEEP_BESIDE if best.words >= _LARGE else _KEEP)
        * best.score
        * _preference_factor(persona, best, hits)
    )
    enough = [q for q in enough if q.score * _preference_factor(persona, q, hits) >= least]
    room = persona.max_words // _DETAIL
    beside: list[Quote] = []
    if best.kind == "definition":
        beside = details(best, quotes, room, steps=persona.first == "procedure")
        beside = beside[: max(1, persona.max_words // _WORDS_PER_DETAIL)]
    elif steps and best.steps and persona.first == "definition":
        beside = definition_above(best, quotes, room)
    elif persona.max_words > Persona("").max_words:
        beside = rest_of_paragraph(best, quotes, room)
    chosen = fitting([best, *beside, *enough[1:]], persona.max_words, options.sentences)
    if persona.first:
        steps_first = persona.first == "procedure"
        chosen.sort(key=lambda q: (q.steps if q in beside or q == best else False) != steps_first)
    return Selection(tuple(_self_contained(chosen, best)), order[0], score)


def _self_contained(chosen: Sequence[Quote], best: Quote) -> list[Quote]:
    """Drop quotes that refer to a sentence that is not quoted right before them.

    The best quote scored as the answer, so it is kept, together with the sentence before it.
    """
    quotes: list[Quote] = []
    for quote, following in zip_longest(chosen, chosen[1:]):
        follows = bool(quotes) and _leads_to(quotes[-1], quote)
        leads = following == best and _leads_to(quote, best)
        if quote == best or follows or leads or not quote.refers:
            quotes.append(quote)
    return quotes


def _leads_to(before: Quote, after: Quote) -> bool:
    same_heading = before.first.heading == after.first.heading
    return same_heading and before.at < after.at and _are_neighbours(before, after)


def _preference_factor(persona: Persona, quote: Quote, hits: Sequence[Hit]) -> float:
    """1, or more for a quote of a section or a document that a persona prefers."""
    heading = quote.first.heading.casefold()
    source = hits[quote.number - 1].source
    preferred = any(name.casefold() in heading for name in persona.sections)
    if preferred or any(fnmatch(source, f"*{pattern}") for pattern in persona.documents):
        return _PREFERRED
    return 1.0


def _repeats_any(quote: Quote, chosen: Sequence[Quote], alike: float) -> bool:
    """True if a quote is part of one already taken, or nearly the same."""
    own_words = {w.casefold() for w in words(quote.text())}
    for earlier in chosen:
        if quote.number == earlier.number and quote.span.overlap(earlier.span):
            return True
        earlier_words = {w.casefold() for w in words(earlier.text())}
        if len(own_words & earlier_words) >= alike * min(len(own_words), len(earlier_words)):
            return True
    return False


def _reading_order(chosen: Sequence[Quote]) -> list[Quote]:
    """Best first, but neighbours in one passage as runs in the order of their text."""
    runs: list[list[Quote]] = []
    for quote in chosen:
        touching = [run for run in runs if any(_are_neighbours(quote, member) for member in run)]
        if not touching:
            runs.append([quote])
            continue
        merged = sorted([quote, *(q for run in touching for q in run)], key=lambda q: q.at)
        runs[runs.index(touching[0])] = merged
        for run in touching[1:]:
            runs.remove(run)
    return [quote for run in runs for quote in run]


def _are_neighbours(first: Quote, second: Quote) -> bool:
    before, after = (first, second) if first.at < second.at else (second, first)
    return first.number == second.number and before.at + len(before.sentences) == after.at


def quoted(
    selection: Selection, hits: Sequence[Hit], persona: Persona
) -> tuple[str, tuple[Citation, ...], tuple[str, ...]]:
    """Text with ``[n]`` after each quote, the citations with exact spans, and notes.

    ``[n]`` is the n-th hit as given, so a mark and ``Answer.hits`` always agree.
    """
    pieces: list[str] = []
    citations: list[Citation] = []
    for quote in selection.chosen:
        quote_citations = quote.citations(hits[quote.number - 1])
        marks = " ".join(f"[{cited.marker}]" for cited in quote_citations)
        text = quote.text(persona.layout)
        pieces.append(f"{text}{'' if text.endswith(chr(10)) else ' '}{marks}")
        citations += quote_citations
    notes = []
    size = sum(quote.words for quote in selection.chosen)
    if size > persona.max_words:
        notes.append(
            f"the answering sentence has {size} words, over the {persona.max_words} of the persona"
        )
    return _joined_quotes(pieces), tuple(citations), tuple(notes)


def closest(
    question: str, quotes: Sequence[Quote], hits: Sequence[Hit]
) -> tuple[ClosestPassage, ...]:
    """The best quotes of an abstention, each from its own place, with something of the question."""
    question_tokens = set(_CONTENT.tokens(question))
    near = [
        quote
        for quote in ranked(quotes)[: 4 * CLOSEST]
        if quote.score >= _HOPELESS or not question_tokens.isdisjoint(_CONTENT.tokens(quote.text()))
    ]
    near_quotes = fitting(near, sys.maxsize, sys.maxsize)
    near_quotes = ranked(near_quotes)[:CLOSEST]
    return tuple(
        ClosestPassage(quote.citations(hits[quote.number - 1])[0], quote.text(), quote.score)
        for quote in near_quotes
    )


def _joined_quotes(pieces: Sequence[str]) -> str:
    """Quotes in one paragraph; one of several lines is on its own."""
    text = pieces[0] if pieces else ""
    for before, piece in pairwise(pieces):
        text += ("\n" if "\n" in before or "\n" in piece else " ") + piece
    return text
