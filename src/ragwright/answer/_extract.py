"""Answers that quote: sentences of the hits, scored offline, chosen and put in order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..core import Citation, Hit, Persona, Span
from ..flow import Flow, rerank
from ..models import WordTokenizer, pack_sentence, sentence_spans, words
from ._citations import citation


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a hit: the hit's number from 1, its span in the document, its text."""

    number: int
    document_id: str
    span: Span
    text: str
    heading: str
    whole: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """Chosen sentences in reading order, and the best score of all, chosen or not.

    ``best`` is None where there was no sentence to score.
    """

    chosen: tuple[Sentence, ...]
    best: Sentence | None = None
    score: float = 0.0


_HEADING = re.compile(r"#{1,6}\s+(.*)")
_RULE = re.compile(r"[\s|:=_*~+-]*$")
_BULLET = re.compile(r"(?:[-*•◦▪‣]|\d{1,3}[.)])\s+")
_ENDS = re.compile(r"[.!?…。！？|:;)\]»\"”'`]\s*$")


def split_sentences(hits: Sequence[Hit]) -> list[Sentence]:
    """Sentences of the hits in hit order; one that overlapping hits share is taken once.

    Headings and rules are context, not sentences; a sentence that a chunk border cuts is
    marked as not whole.
    """
    found: list[Sentence] = []
    taken: dict[str, list[Span]] = {}
    for number, hit in enumerate(hits, 1):
        spans = sentence_spans(hit.text)
        headings = list(hit.headings)
        for i, span in enumerate(spans):
            raw = hit.text[span.start : span.end]
            title = _HEADING.match(raw)
            if title:
                headings = [*hit.headings, title[1]]
            if title or _RULE.match(raw):
                continue
            begin = span.start + (len(m[0]) if (m := _BULLET.match(raw)) else 0)
            place = Span(hit.start + begin, hit.start + span.end)
            text = " ".join(hit.text[begin : span.end].split())
            if not text or any(_same(place, other) for other in taken.get(hit.document_id, [])):
                continue
            taken.setdefault(hit.document_id, []).append(place)
            cut = (i == 0 and hit.start > 0 and text[0].islower()) or (
                i == len(spans) - 1 and i > 0 and not _ENDS.search(text) and "|" not in text
            )
            heading = " ".join(dict.fromkeys((hit.title, *headings)))
            found.append(Sentence(number, hit.document_id, place, text, heading, not cut))
    return found


def _same(one: Span, other: Span) -> bool:
    return one.overlap(other) * 2 > min(one.length, other.length)


def score_sentences(
    question: str, sentences: Sequence[Sentence], sources: Sequence[str]
) -> Flow[tuple[float, ...]]:
    """One score a sentence, in one request; a sentence that is not whole counts 0.8 of its own."""
    passages = [pack_sentence(s.text, heading=s.heading, chunk=str(s.number)) for s in sentences]
    reply = yield from rerank("extractive", question, passages, sources=sources)
    return tuple(
        score * (1.0 if s.whole else 0.8) for score, s in zip(reply.scores, sentences, strict=True)
    )


def select(
    sentences: Sequence[Sentence],
    scores: Sequence[float],
    *,
    threshold: float,
    max_words: int,
    keep: float = 0.6,
    most: int = 6,
) -> Selection:
    """The sentences that answer, in reading order; none where the best is under the threshold.

    Further sentences join the best one while they score at least ``keep`` of it and the
    threshold, say something new, and fit the word limit. Neighbours keep the order of their
    text; otherwise the better comes first.

    Args:
        sentences: What may be quoted.
        scores: One each, 0..1.
        threshold: Score from which a sentence counts as an answer.
        max_words: Words the answer may have; the best sentence always stays whole.
        keep: Share of the best score a further sentence needs.
        most: Most sentences.
    """
    if not sentences:
        return Selection(())
    order = sorted(range(len(sentences)), key=lambda i: (-round(scores[i], 6), i))
    best = order[0]
    if scores[best] < threshold:
        return Selection((), sentences[best], scores[best])
    counter = WordTokenizer()
    taken: list[int] = []
    used = 0
    for i in order:
        if scores[i] < max(threshold, keep * scores[best]) or len(taken) == most:
            break
        size = counter.count(sentences[i].text)
        if taken and (used + size > max_words or _repeats(sentences, i, taken)):
            continue
        taken.append(i)
        used += size
    chosen = tuple(sentences[i] for i in _reading_order(sentences, taken))
    return Selection(chosen, sentences[best], scores[best])


def _repeats(sentences: Sequence[Sentence], i: int, taken: Sequence[int]) -> bool:
    """True where a sentence says in nearly the same words what is already taken."""
    own = {w.casefold() for w in words(sentences[i].text)}
    for j in taken:
        other = {w.casefold() for w in words(sentences[j].text)}
        if len(own & other) >= 0.8 * min(len(own), len(other)):
            return True
    return False


def _reading_order(sentences: Sequence[Sentence], taken: Sequence[int]) -> list[int]:
    """Best first, but neighbours in one passage as runs in the order of their text."""
    runs: list[list[int]] = []
    for i in taken:
        touching = [
            run
            for run in runs
            if any(abs(i - j) == 1 and sentences[i].number == sentences[j].number for j in run)
        ]
        if not touching:
            runs.append([i])
            continue
        merged = sorted({i, *(j for run in touching for j in run)})
        place = runs.index(touching[0])
        runs[place] = merged
        for run in touching[1:]:
            runs.remove(run)
    return [i for run in runs for i in run]


def quoted(
    selection: Selection, hits: Sequence[Hit], persona: Persona
) -> tuple[str, tuple[Citation, ...], tuple[str, ...]]:
    """Text with ``[n]`` after each sentence, the citations with exact spans, and notes.

    Marks are numbered by passage in order of first use... of the hits as given: ``[n]`` is
    the n-th hit, so a mark and ``Answer.hits`` always agree.
    """
    pieces, citations = [], []
    for sentence in selection.chosen:
        pieces.append(f"{sentence.text} [{sentence.number}]")
        hit = hits[sentence.number - 1]
        citations.append(citation(sentence.number, hit, sentence.span.start, sentence.span.end))
    notes = []
    size = WordTokenizer().count(" ".join(s.text for s in selection.chosen))
    if size > persona.max_words:
        notes.append(
            f"the answering sentence has {size} words, over the {persona.max_words} of the persona"
        )
    return " ".join(pieces), tuple(citations), tuple(notes)
