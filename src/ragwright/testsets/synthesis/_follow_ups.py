"""Follow-up questions without a model: a first turn on one chunk, a second one on another.

Templates make them of sentences with a subject that can be understood alone. They are weak: people
ask on what they were answered, templates on what the document says elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from ...core import Document, GoldSpan, Span, Turn, text_hash
from ...models import detect_language
from ._candidates import AND_FOR, ELLIPSIS, FOLLOW_UP, PRONOUN, Candidate, context_fault
from ._offline_questions import is_prose_sentence, plain_text
from ._subjects import ARTICLE, lowered, lowered_first, perhaps_person, stands_alone
from ._survey import Survey, fenced, sentences_of
from ._template_questions import template_questions

_LONGEST_ANSWER = 300
"""Most characters of the answer in the first turn."""

_FEW = 5
"""Most chunks with a name that a follow-up asks for."""

_AND: Mapping[str, str] = {"en": "And {}?", "fr": "Et {} ?", "de": "Und {}?", "es": "¿Y {}?"}
_WITH_END = frozenset({"statement", "value", "table row"})
"""Forms whose questions end with what they ask: only the subject between may differ."""

_SENTENCE = re.compile(
    r"(?P<s>[^\W_][^,;:()\[\]!?«»\"“”'‘’=|<>@]{1,60}?) "
    r"(?P<v>is|are|was|were|has|have|had|can|may|must|will|does|do|did) .+"
)
_PLURAL = frozenset({"are", "were", "have", "do"})
_FIX = re.compile(
    r"To (?P<v>fix|resolve|correct|avoid|work around|suppress|prevent|eliminate) "
    r"(?:this|the|these) (?:error|warning|issue|problem|message)s?\b.+",
)
_CODED = re.compile(r"What does (?P<meant>.+) mean\?|How do I fix (?P<fixed>.+)\?")
_NAME = re.compile(
    r"(?<=[a-z,] )(?!Fig|Tab|Sec|Eq|January|February|March|April|May|June|July|August|September"
    r"|October|November|December)[A-Z][\w-]{2,}(?: [A-Z][\w-]+)*"
)
_VAGUE = re.compile(
    r"(?:several|similar|identical|various|different|past|recent|previous|additional|further|high"
    r"|higher|low|lower|make|unless|simplest|such|certain|many|these|results?|studies)\b"
    r"|.*\b(?:and|or|than|compared|following|results?|above|below)\b",
    re.IGNORECASE,
)
"""Subjects that mean nothing outside of their place."""

_MENTIONS = 3
"""Fewest mentions of a subject that a document is about."""

_MOST_WORDS = 5
_NEARBY = 8_000
"""Most characters between the two places of a conversation that changes its subject."""


@dataclass(frozen=True, slots=True)
class _First:
    """A first turn: its question and answer, what it is about, and where that is said."""

    question: str
    answer: str
    subject: str
    chunk: Span
    plural: bool = False


def follow_up_questions(document: Document, survey: Survey, seed: int) -> Iterator[Candidate]:
    """Yield follow-ups in a seeded order, each after a first turn on an earlier chunk.

    - ``ellipsis``: the first question with another subject and no verb ("And LNK2019?"), or, in
      English, a question on the same subject without it ("And when?").
    - ``and-for``, in English: the next subject of the document ("And about …?").
    - ``pronoun``, in English: the subject of the first question as "it" or "they" ("How do I fix
      it?", "What does it have to do with …?").

    The gold is the sentence, row or section that the second question asks for.
    """
    language = document.language[:2] or detect_language([document.text[:20_000]])
    if language not in _AND:
        return
    asked = [c for c in template_questions(document, survey, seed) if not c.reason]
    candidates = list(_same_frame(asked, survey, language))
    if language == "en":
        sentences = _subject_sentences(document, survey)
        candidates += _same_subject(asked, sentences)
        firsts = list(
            {sentence.subject: sentence.first() for sentence in reversed(sentences)}.values()
        )
        if title := _title_turn(asked, survey):
            candidates += _ways_to_fix(document, title, survey)
            firsts.append(title)
        candidates += _connections(document, firsts, survey)
        candidates += _next_subjects(sentences)
    seen: set[tuple[int, int]] = set()
    for candidate in sorted(candidates, key=lambda c: _follow_up_key(seed, c)):
        place = candidate.span.start, candidate.span.end
        if place in seen:
            continue
        seen.add(place)
        if fault := context_fault(candidate.standalone, survey.vocabulary.source):
            yield candidate.rejected(f"without context: {fault.split(' (')[0]}")
        else:
            yield candidate


def _follow_up_key(seed: int, candidate: Candidate) -> str:
    span = candidate.span
    return text_hash(f"{seed}\x00{span.document_id}\x00{span.start}\x00{candidate.standalone}")


def _follow_up(
    first: _First, form: str, question: str, standalone: str, gold: Candidate
) -> Candidate:
    """Return the second turn, with the gold of another candidate."""
    turns = Turn("user", first.question), Turn("assistant", first.answer)
    return Candidate(
        FOLLOW_UP,
        question,
        gold.answer,
        gold.span,
        form,
        history=turns,
        standalone=standalone,
    )


def _opening_of(answer: str) -> str:
    """Return the first sentences of an answer."""
    end = 0
    for span in sentences_of(answer):
        if end and span.end > _LONGEST_ANSWER:
            break
        end = span.end
    return answer[: end or None]


def _first_turn(candidate: Candidate, survey: Survey, subject: str = "") -> _First | None:
    span = candidate.span
    chunk = survey.chunk_of(span.document_id, span.start, span.start + 1)
    if chunk is None or not candidate.answer:
        return None
    return _First(candidate.question, _opening_of(candidate.answer), subject, chunk)


def _same_frame(asked: Sequence[Candidate], survey: Survey, language: str) -> Iterator[Candidate]:
    """Yield questions that differ from an earlier one by their subject alone."""
    in_order = sorted(asked, key=lambda candidate: candidate.span.start)
    for at, second in enumerate(in_order):
        for earlier in reversed(in_order[:at]):
            if earlier.level != second.level or not _is_near(earlier.span, second.span):
                continue
            other = _other_subject(earlier.question, second.question, second.level)
            first = _first_turn(earlier, survey)
            if other and first and second.span.start >= first.chunk.end:
                question = _AND[language].format(other)
                yield _follow_up(first, ELLIPSIS, question, second.question, second)
                break


def _is_near(first: GoldSpan, second: GoldSpan) -> bool:
    """True for places on one topic, as a conversation moves from one to the next."""
    return 0 <= second.start - first.end <= _NEARBY


def _other_subject(first: str, second: str, form: str) -> str:
    """Return the words of the second question in place of those of the first; empty if the rest
    differs.
    """
    if form not in {*_WITH_END, "definition", "code entry"}:
        return ""
    first_words, second_words = (question.strip(" ?¿").split() for question in (first, second))
    shorter = min(len(first_words), len(second_words))
    start = next((n for n in range(shorter) if first_words[n] != second_words[n]), shorter)
    end = next(
        (n for n in range(shorter - start) if first_words[-1 - n] != second_words[-1 - n]),
        shorter - start,
    )
    subject = second_words[start : len(second_words) - end]
    if start and ARTICLE.match(f"{second_words[start - 1]} "):
        subject = second_words[start - 1 : len(second_words) - end]
    if start < 2 or not subject or len(first_words) == start + end:
        return ""
    if form in _WITH_END and not (end or second_words[start - 1] in {"of", "de", "von"}):
        return ""
    return "" if subject[0].lower().startswith(("qu'", "qu’")) else " ".join(subject)


@dataclass(frozen=True, slots=True)
class _Said:
    """A sentence with a subject that can be understood alone."""

    subject: str
    plural: bool
    plain: str
    gold: Candidate
    chunk: Span

    def first(self) -> _First:
        """The sentence as the answer to a first question."""
        question = f"What can you tell me about {self.subject}?"
        return _First(question, self.plain, self.subject, self.chunk, self.plural)


def _subject_sentences(document: Document, survey: Survey) -> list[_Said]:
    """Return the prose sentences with a subject, in their order."""
    text = document.text
    common = frozenset(re.findall(r"(?<![\w-])[a-z][a-z]+", text))
    code, mentions = fenced(text), text.casefold()
    kept: list[_Said] = []
    usable = survey.usable(document.id, text)
    for span in sentences_of(text):
        inside = (c for c in usable if c.start <= span.start and span.end <= c.end)
        chunk = next(inside, None)
        if chunk is None or any(span.overlap(block) for block in code):
            continue
        raw = text[span.start : span.end]
        plain = plain_text(raw)
        if survey.repeated(raw) or not is_prose_sentence(plain):
            continue
        match = _SENTENCE.fullmatch(plain)
        if match is None:
            continue
        plural = match["v"] in _PLURAL
        subject = _known_subject(match["s"].strip(), survey, common, plural=plural)
        if not subject or mentions.count(_bare(subject)) < _MENTIONS:
            continue
        gold = Candidate(FOLLOW_UP, "", plain, GoldSpan(document.id, span.start, span.end, raw))
        kept.append(_Said(subject, plural, plain, gold, chunk))
    return kept


def _known_subject(subject: str, survey: Survey, common: Set[str], *, plural: bool) -> str:
    """Return a subject as it stands within a question; empty if a reader may not understand it."""
    words = subject.split()
    if not 2 <= len(words) <= _MOST_WORDS or _VAGUE.match(subject):
        return ""
    if not stands_alone(subject, survey, "en"):
        return ""
    if words[0].lower() in common:
        return lowered(lowered_first(subject))
    is_word = re.fullmatch(r"[A-Z][a-z-]+", words[0]) is not None
    # A plural may begin with an ordinary word: "Live cells".
    return "" if plural and is_word and not ARTICLE.match(subject) else lowered(subject)


def _bare(subject: str) -> str:
    """Return a subject without its article, in lower case."""
    article = ARTICLE.match(subject)
    return subject[article.end() if article else 0 :].casefold()


def _same_subject(asked: Sequence[Candidate], sentences: Sequence[_Said]) -> Iterator[Candidate]:
    """Yield questions on the subject of an earlier sentence, with a pronoun in its place or
    without it.
    """
    for second in asked:
        for sentence in sentences:
            place = re.search(rf"\b{re.escape(sentence.subject)}\b", second.question, re.IGNORECASE)
            if place is None or perhaps_person(sentence.subject) or second.level == "definition":
                continue
            if second.span.start < sentence.chunk.end:
                continue
            pronoun = "they" if sentence.plural else "it"
            if second.question[place.end() :] == "?":
                pronoun = "them" if sentence.plural else "it"
            before, after = second.question[: place.start()], second.question[place.end() :]
            question, form = f"{before}{pronoun}{after}", PRONOUN
            if short := re.match(r"(?:When|Where)(?= (?:is|are|was|were) $)", before):
                question, form = f"And {short[0].lower()}?", ELLIPSIS
            yield _follow_up(sentence.first(), form, question, second.question, second)
            break


def _title_turn(asked: Sequence[Candidate], survey: Survey) -> _First | None:
    """Return the question on the code that a page is about; its subject is the code alone."""
    for candidate in asked:
        title = _CODED.fullmatch(candidate.question)
        if candidate.level == "code entry" and title:
            phrase = title["meant"] or title["fixed"]
            meaning = replace(candidate, question=f"What does {phrase} mean?")
            return _first_turn(meaning, survey, phrase.split()[-1])
    return None


def _ways_to_fix(document: Document, first: _First, survey: Survey) -> Iterator[Candidate]:
    """Yield "How do I fix it?" after a question on an error, if one sentence says how."""
    phrase = first.question.removeprefix("What does ").removesuffix(" mean?")
    ways = []
    for span in sentences_of(document.text):
        raw = document.text[span.start : span.end]
        match = _FIX.fullmatch(plain_text(raw))
        if match and "following" not in raw and match[0][-1] != ":":
            ways.append((GoldSpan(document.id, span.start, span.end, raw), match))
    if len(ways) == 1 and not survey.repeated(ways[0][0].text):
        place, match = ways[0]
        if match[0] in first.answer:
            return
        gold = Candidate(FOLLOW_UP, "", match[0], place)
        if place.start >= first.chunk.end:
            standalone = f"How do I {match['v']} {phrase}?"
            yield _follow_up(first, PRONOUN, f"How do I {match['v']} it?", standalone, gold)


def _connections(
    document: Document, firsts: Sequence[_First], survey: Survey
) -> Iterator[Candidate]:
    """Yield "What does it have to do with …?" for a later sentence on a subject and a rare name."""
    text = document.text
    for first in firsts:
        bare = _bare(first.subject)
        if perhaps_person(first.subject):
            continue
        for span in sentences_of(text):
            raw = text[span.start : span.end]
            if span.start < first.chunk.end or bare not in raw.casefold():
                continue
            plain = plain_text(raw)
            names = [n for n in _NAME.findall(plain) if _is_news(n, first, survey)]
            if names and is_prose_sentence(plain) and not survey.repeated(raw):
                gold = Candidate(
                    FOLLOW_UP, "", plain, GoldSpan(document.id, span.start, span.end, raw)
                )
                verb, pronoun = ("do", "they") if first.plural else ("does", "it")
                ask = f"What {verb} {{}} have to do with {names[0]}?"
                standalone = ask.format(first.subject)
                yield _follow_up(first, PRONOUN, ask.format(pronoun), standalone, gold)


def _is_news(name: str, first: _First, survey: Survey) -> bool:
    """True for a rare name that the first turn does not mention: a code, an abbreviation, or two
    words and more; a single word may be the half of a name.
    """
    tokens = survey.vocabulary.source.tokens(name)
    return (
        bool(tokens)
        and (" " in name or not name.isalpha() or name.isupper())
        and first.subject not in name
        and name.casefold() not in f"{first.question} {first.answer}".casefold()
        and all(survey.vocabulary.holding(token) <= _FEW for token in tokens)
    )


def _next_subjects(sentences: Sequence[_Said]) -> Iterator[Candidate]:
    """Yield "And about …?" for the subject of a sentence in the chunk after that of another."""
    for at, second in enumerate(sentences):
        before = (s for s in reversed(sentences[:at]) if s.chunk.end <= second.gold.span.start)
        earlier = next((s for s in before if _is_near(s.gold.span, second.gold.span)), None)
        known = {_bare(sentence.subject) for sentence in sentences[:at]}
        is_new = not any(
            _bare(second.subject) in other or other in second.subject for other in known
        )
        if earlier is not None and is_new:
            standalone = f"What can you tell me about {second.subject}?"
            question = f"And about {second.subject}?"
            yield _follow_up(earlier.first(), AND_FOR, question, standalone, second.gold)
