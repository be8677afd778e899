"""Answers that quote: sentences of the hits, scored offline, selected and ordered."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..core import Citation, Hit, Persona, Span
from ..flow import Flow, rerank
from ..models import ExtractiveReranker, WordTokenizer, pack_sentence, sentence_spans, words
from ._citations import citation


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a hit that may be quoted.

    Attributes:
        number: The hit's number from 1.
        span: Its position in the document.
        text: The quoted text: one line, without links and footnote numbers of the source.
        heading: Title and headings above it.
        weight: Share of its score that counts: 1 for a whole sentence of prose, less for a
            table row, a list item, a fragment, or a sentence cut by a chunk's border.
    """

    number: int
    document_id: str
    span: Span
    text: str
    heading: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Selection:
    """Selected sentences in reading order, and the best score of all sentences.

    ``best`` is None if there was no sentence to score.
    """

    chosen: tuple[Sentence, ...]
    best: Sentence | None = None
    score: float = 0.0


_HEADING = re.compile(r"#{1,6}\s+(.*)")
_FENCE = re.compile(r"```|~~~")
_FENCE_LINE = re.compile(r"^[ \t]*(?:```+|~~~+)[ \t]*(\w*).*$", re.MULTILINE)
_FRONT = re.compile(r"\ufeff?---\n.*?\n(?:---|\.\.\.)\s*(?:\n|$)", re.DOTALL)
_RULE = re.compile(r"[\s|:=_*~+>-]*$")
_CODE = re.compile(r"(?://|#include|/\*|\*/|<\?|@\w+\()|.*[{};]\s*$|.*\)\s*//", re.DOTALL)
_BULLET = re.compile(r"(?:>\s*)*(?:(?:[-*•◦▪‣]|\d{1,3}[.)])\s+)?")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s+\"[^\"]*\")?\)")
_FOOTNOTE = re.compile(r"\s?\[(?:\d{1,3}|note \d+|citation needed)\]")
_STOP = re.compile(r"[.!?…。！？][\"'”’»)\]*_`]*$")


def split_sentences(hits: Sequence[Hit]) -> list[Sentence]:
    """Sentences of the hits in hit order; one in several overlapping hits is taken once.

    Headings, rules, code and front matter are context, not sentences.
    """
    found: list[Sentence] = []
    seen: list[tuple[Hit, list[Sentence]]] = []
    for number, hit in enumerate(hits, 1):
        shared = [
            other.span
            for before, sentences in seen
            if before.document_id == hit.document_id and hit.start < before.end
            if before.start < hit.end
            for other in sentences
        ]
        own = [s for s in _of_hit(number, hit) if not any(_same(s.span, o) for o in shared)]
        seen.append((hit, own))
        found += own
    return found


def _of_hit(number: int, hit: Hit) -> Iterator[Sentence]:
    """Sentences of one hit, in text order."""
    skip = _code_before(hit.text) if hit.start else 0
    spans = [Span(skip + s.start, skip + s.end) for s in sentence_spans(hit.text[skip:])]
    headings = list(hit.headings)
    front = _FRONT.match(hit.text)
    begin = front.end() if front and hit.start == 0 else 0
    fenced = False
    for i, span in enumerate(spans):
        raw = hit.text[span.start : span.end]
        title = _HEADING.match(raw)
        if title and not fenced:
            headings = [*hit.headings, title[1]]
        if _FENCE.match(raw):
            fenced = not fenced
            continue
        if fenced or title or span.end <= begin or _RULE.match(raw) or _CODE.match(raw):
            continue
        bullet = _BULLET.match(raw)
        skipped = len(bullet[0]) if bullet else 0
        text = _shown(raw[skipped:])
        if not text:
            continue
        cut = (i == 0 and hit.start > 0 and text[0].islower()) or (
            i == len(spans) - 1 and i > 0 and not _STOP.search(text) and "|" not in text
        )
        yield Sentence(
            number,
            hit.document_id,
            Span(hit.start + span.start + skipped, hit.start + span.end),
            text,
            " ".join(dict.fromkeys((hit.title, *headings))),
            _weight(text, cut, skipped > 0),
        )


def _code_before(text: str) -> int:
    """Start of the prose in a chunk that begins inside fenced code; 0 in any other chunk.

    The first fence is then a closing one: the next one opens with a language, or, without one, most
    lines before it look like code.
    """
    fences = list(_FENCE_LINE.finditer(text))
    named = next((n for n, fence in enumerate(fences) if fence[1]), None)
    if not fences or named == 0:
        return 0
    if named is not None:
        torn = named % 2 == 1
    else:
        lines = [line for line in text[: fences[0].start()].splitlines() if line.strip()]
        torn = 2 * sum(bool(_CODE.match(line.strip())) for line in lines) > len(lines)
    return fences[0].end() if torn else 0


def _shown(raw: str) -> str:
    """A sentence as it is quoted: one line, without link targets and footnote numbers.

    A footnote's ``[3]`` in a quote would read as a citation of the third passage.
    """
    return " ".join(_FOOTNOTE.sub("", _LINK.sub(r"\1", raw)).split())


def _weight(text: str, cut: bool, item: bool) -> float:
    """Weight of a unit's score; set by hand, since the fitted data is prose."""
    if cut:
        return 0.7
    if _STOP.search(text):
        return 1.0
    if text.startswith("|"):
        return 0.9
    if text.endswith((":", "：")):
        return 0.6
    return 0.8 if item else 0.5


def _same(one: Span, other: Span) -> bool:
    return one.overlap(other) * 2 > min(one.length, other.length)


def score_sentences(
    question: str, sentences: Sequence[Sentence], sources: Sequence[str], *, ranked: bool = True
) -> Flow[tuple[float, ...]]:
    """One score per sentence, 0 to 1, in one request, times the sentence's weight.

    ``ranked`` says that the hits are ordered best first, which favours the first ones.
    """
    passages = [
        pack_sentence(s.text, heading=s.heading, chunk=str(s.number), ranked=ranked)
        for s in sentences
    ]
    reply = yield from rerank(ExtractiveReranker.name, question, passages, sources=sources)
    return tuple(score * s.weight for score, s in zip(reply.scores, sentences, strict=True))


def select(
    sentences: Sequence[Sentence],
    scores: Sequence[float],
    *,
    threshold: float,
    max_words: int,
    keep: float = 0.6,
    most: int = 6,
    alike: float = 0.8,
) -> Selection:
    """The answering sentences, in reading order; none if the best is below the threshold.

    Further sentences join the best one while they score at least ``keep`` of it and the
    threshold, say something new, and fit the word limit. Neighbours keep the order of their
    text; otherwise the better comes first.

    Args:
        sentences: Sentences that may be quoted.
        scores: One per sentence, 0 to 1.
        threshold: Score from which a sentence counts as an answer.
        max_words: Most words of the answer; the best sentence is never cut.
        keep: Share of the best score a further sentence needs.
        most: Most sentences.
        alike: Share of the shorter sentence's words in the other one from which the two count as
            the same.
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
        if taken and (used + size > max_words or _repeats(sentences, i, taken, alike)):
            continue
        taken.append(i)
        used += size
    chosen = tuple(sentences[i] for i in _reading_order(sentences, taken))
    return Selection(chosen, sentences[best], scores[best])


def _repeats(sentences: Sequence[Sentence], i: int, taken: Sequence[int], alike: float) -> bool:
    """True if a sentence is nearly the same as one already taken."""
    own = {w.casefold() for w in words(sentences[i].text)}
    for j in taken:
        other = {w.casefold() for w in words(sentences[j].text)}
        if len(own & other) >= alike * min(len(own), len(other)):
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

    ``[n]`` is the n-th hit as given, so a mark and ``Answer.hits`` always agree.
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
