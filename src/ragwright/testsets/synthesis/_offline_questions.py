"""Questions without a model: sentences with a gap, and headings.

They are labelled as such (``kind``): a cloze repeats the words of its sentence, a heading is not a
sentence. They can distinguish retrieval settings, but differ from users' questions.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from ...core import Document, GoldSpan, Section, Span, text_hash
from ...models import words
from ._candidates import Candidate, Survey, Vocabulary, context_fault, find_fences, sentences_of

GAP = "____"
"""The gap in a cloze."""

_FEWEST_WORDS, _MOST_WORDS = 8, 40
_FEWEST_LETTERS = 3
"""Fewest letters of a meaningful heading, unlike a glossary's "C"."""
_FEWEST_OTHERS = 4
"""Fewest content words in the rest of a cloze."""
_LONG = 40
"""Least number of sentences of a long document."""
_LONGEST_GOLD = 1200
"""Most gold characters of a section: longer ones use their opening sentences."""
_SHORTEST_GOLD = 80

_COMMON, _MANY = 0.2, 20
"""Share of the chunks above which a word is common, if there are enough chunks."""
_OPENERS = "«»\"“”'’( \u00a0\u202f—–-"

_LEAD = re.compile(r"(?:[-*+•–—]|\(?\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_MARKS = re.compile(r"\*\*|__|``?|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)")
_AS_IT_IS = re.compile(
    r"(?<!\\)(`+)(?P<code>.+?)\1|\\(?P<mark>[\\`*_{}\[\]()#+.!|<>~-])", re.DOTALL
)
_CODE_MARK = "\ue000"
_NOTE = re.compile(r"\[\^?\d{1,3}\]")
_ELISION = re.compile(r"^(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quoiqu)['’](?=\w)", re.IGNORECASE)
_ENDING = re.compile(r"['’]s?$", re.IGNORECASE)
_HEADING = re.compile(r"[^\n]*\n(?:[ \t]*(?:=+|-+)[ \t]*\n)?\s*")
_HEADING_MARK = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|={2,}[ \t]*)|[ \t]*(?:#+|={2,})[ \t]*$")

T = TypeVar("T")


def strip_marks(text: str) -> str:
    """Return a sentence as plain text: no Markdown marks or note numbers, single spaces.

    Text within back ticks is code and stays as it is; an escaped mark becomes that mark.
    """
    code: list[str] = []

    def set_aside(match: re.Match[str]) -> str:
        code.append(match["code"] or match["mark"])
        return _CODE_MARK

    text = _AS_IT_IS.sub(set_aside, _LINK.sub(r"\1", text.replace(_CODE_MARK, "")))
    text = _MARKS.sub("", _NOTE.sub("", text))
    pieces = iter(code)
    return " ".join(re.sub(_CODE_MARK, lambda _: next(pieces), text).split())


def cloze_questions(document: Document, survey: Survey, seed: int) -> Iterator[Candidate]:
    """Blank the rarest informative term in each sentence of a document, in a seeded order.

    Sentences are prose of 8 to 40 words that occurs once in the collection and lies within one
    chunk that is neither boilerplate nor a duplicate. Informative terms are names, numbers, codes,
    and words of at least four letters that occur in at least two sentences of the document (three
    if it has 40 or more) and in at most a fifth of the chunks; the term occurs once in the
    sentence. The rarest is the one with the highest idf. The gold span is the sentence, the answer
    is the term.
    """
    text, source = document.text, survey.vocabulary.source
    usable = survey.usable(document.id, text)
    code = find_fences(text)
    sentences = sentences_of(text)
    counts = Counter(t for s in sentences for t in set(source.tokens(text[s.start : s.end])))
    least = 2 if len(sentences) < _LONG else 3
    topics = frozenset(token for token, count in counts.items() if count >= least)
    for span in order_spans(sentences, document.id, seed):
        if not any(c.start <= span.start and span.end <= c.end for c in usable) or any(
            span.overlap(block) for block in code
        ):
            continue
        lead = _LEAD.match(text, span.start, span.end)
        start = lead.end() if lead else span.start
        sentence = text[start : span.end]
        plain = strip_marks(sentence)
        if _is_prose_sentence(plain):
            yield _cloze_candidate(
                plain, GoldSpan(document.id, start, span.end, sentence), survey, topics
            )


def _cloze_candidate(
    plain: str, gold: GoldSpan, survey: Survey, topics: frozenset[str]
) -> Candidate:
    """Return one sentence as a candidate, with the reason if it is rejected."""
    source = survey.vocabulary.source
    candidate = Candidate("cloze", plain, "", gold)
    if survey.repeated(gold.text):
        return candidate.rejected("the sentence occurs more than once in the collection")
    place = _rarest_term(plain, survey.vocabulary, topics)
    if place is None:
        return candidate.rejected("no informative term for the gap")
    answer = plain[place.start : place.end]
    question = f"{plain[: place.start]}{GAP}{plain[place.end :]}"
    candidate = Candidate("cloze", question, answer, gold)
    if len(set(source.tokens(question))) < _FEWEST_OTHERS:
        return candidate.rejected("without context: too few content words")
    if fault := context_fault(question, source):
        return candidate.rejected(f"without context: {fault.split(' (')[0]}")
    if not set(source.tokens(answer)) <= set(source.tokens(gold.text)):
        return candidate.rejected("the answer is not in its evidence")
    return candidate


def _rarest_term(plain: str, vocabulary: Vocabulary, topics: frozenset[str]) -> Span | None:
    """Return the position of the rarest informative term of a sentence."""
    source = vocabulary.source
    token_counts = Counter(token for word in words(plain) for token in set(source.tokens(word)))
    ranked: list[tuple[float, bool, int, int]] = []
    for word in dict.fromkeys(words(plain)):
        term = _ENDING.sub("", _ELISION.sub("", word))
        tokens = source.tokens(term)
        if not tokens or "/" in term or any(token_counts[token] > 1 for token in tokens):
            continue
        places = list(re.finditer(rf"(?<![\w-]){re.escape(term)}(?![\w-])", plain))
        if len(places) != 1:
            continue
        start = places[0].start()
        is_name = _is_name(term, plain[:start])
        if is_name or _is_topic(term, tokens[0], vocabulary, topics):
            # Of equals a name, then the longer, then the later, which is usually the new
            # information.
            ranked.append((round(vocabulary.idf(tokens[0]), 6), is_name, len(term), start))
    if not ranked:
        return None
    _, _, length, start = max(ranked)
    return Span(start, start + length)


def _is_name(term: str, before: str) -> bool:
    """True for a name (a capital within a sentence), a number or a code."""
    if len(term) > 1 and any(c.isdigit() for c in term):
        return True
    opens = not before.strip(_OPENERS) or before.rstrip(_OPENERS)[-1:] in ".!?:…"
    return len(term) > 2 and term[0].isupper() and not opens


def _is_topic(term: str, token: str, vocabulary: Vocabulary, topics: frozenset[str]) -> bool:
    """True for a word that the document repeats, which indicates its topic."""
    common = vocabulary.chunks >= _MANY and vocabulary.holding(token) > _COMMON * vocabulary.chunks
    return len(term) >= 4 and term.isalpha() and token in topics and not common


def _is_prose_sentence(plain: str) -> bool:
    """True for a whole sentence: begins with a capital, ends with a stop, is mostly letters.

    One that begins with a quotation mark is an example or a quote, not a statement.
    """
    return (
        _FEWEST_WORDS <= len(plain.split()) <= _MOST_WORDS
        and not any(mark in plain for mark in ("|", "://", GAP))
        and plain[0] not in "«\"“„‘'"
        and re.search(r"[.!?…][»\"”’)]*$", plain) is not None
        and plain.lstrip("( \u00a0\u202f—–-")[:1].isupper()
        and sum(c.isalpha() or c.isspace() for c in plain) >= 0.85 * len(plain)
    )


def heading_questions(document: Document, survey: Survey, seed: int) -> Iterator[Candidate]:
    """Return heading paths of a document, in a seeded order; the section's own text is gold.

    A section's own text ends at the next heading; if it has more than 1,200 characters, the opening
    sentences are gold, and below 80 it is skipped. The answer is empty: no sentence answers a
    heading.
    """
    text = document.text
    sentences = sentences_of(text)
    paths = Counter(_heading_path(document, section) for section in document.sections)
    sections = {section.span.start: section for section in document.sections}
    starts = sorted(sections)
    for place in order_spans([Span(s, s + 1) for s in starts], document.id, seed):
        section = sections[place.start]
        next_start = next((s for s in starts if s > section.span.start), section.span.end)
        body = _body_of(text, section, min(next_start, section.span.end))
        if body is None:
            continue
        path = _heading_path(document, section)
        candidate = Candidate(
            "heading",
            path,
            "",
            GoldSpan(document.id, body.start, body.end, text[body.start : body.end]),
        )
        if paths[path] > 1:
            yield candidate.rejected("several sections have this heading")
        elif survey.boilerplate(text, body, sentences):
            yield candidate.rejected("the section occurs more than once in the collection")
        elif len(re.findall(r"[^\W\d_]", section.title)) < _FEWEST_LETTERS:
            yield candidate.rejected("the heading has no content word")
        else:
            yield candidate


def _heading_path(document: Document, section: Section) -> str:
    """Return the headings above a section and its own, outermost first, below the title."""
    titles = [*document.headings_at(section.span.start)]
    if document.title and not any(title.startswith(document.title) for title in titles):
        titles.insert(0, document.title)
    return ": ".join(strip_marks(_HEADING_MARK.sub("", title)) for title in dict.fromkeys(titles))


def _body_of(text: str, section: Section, end: int) -> Span | None:
    """Return a section's own text below its heading, None if it is too short or mostly code."""
    heading = _HEADING.match(text, section.span.start, end)
    if heading is None:
        return None
    start = heading.end()
    if end - start > _LONGEST_GOLD:
        most = start + _LONGEST_GOLD
        end = max((s.end for s in sentences_of(text) if start < s.end <= most), default=most)
    body = Span(start, max(start, start + len(text[start:end].rstrip())))
    code = sum(body.overlap(block) for block in find_fences(text))
    return None if body.length < _SHORTEST_GOLD or 2 * code > body.length else body


def spread(
    read: Callable[[str], Document | None],
    survey: Survey,
    make: Callable[[Document, Survey, int], Iterator[T]],
    seed: int,
) -> Iterator[T]:
    """Yield what is made of each document, alternating between documents in a seeded order.

    Args:
        read: A document by its id; read once, on its turn.
        survey: Survey of the whole collection.
        make: Makes the candidates or passages of a document.
        seed: Seed of all orders.
    """

    def of_document(name: str) -> Iterator[T]:
        document = read(name)
        if document is not None:
            yield from make(document, survey, seed)

    waiting = deque(
        map(of_document, sorted(survey.chunks, key=lambda name: text_hash(f"{seed}\x00{name}")))
    )
    while waiting:
        items = waiting.popleft()
        for item in items:
            yield item
            waiting.append(items)
            break


def order_spans(spans: Sequence[Span], document_id: str, seed: int) -> list[Span]:
    """Return spans of a document in an order of their places that depends on the seed."""
    return sorted(spans, key=lambda s: text_hash(f"{seed}\x00{document_id}\x00{s.start}"))
