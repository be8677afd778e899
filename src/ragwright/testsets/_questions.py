"""Questions that a model writes on a passage, and questions without a model: gaps and headings.

A model's replies are parsed strictly and never repaired. Quotes must occur literally; a question
that its quote alone does not answer is rejected. Questions without a model are labelled as such
(``kind``): a cloze repeats the words of its sentence, a heading is not a sentence. They can
distinguish retrieval settings, but differ from users' questions.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count
from typing import Any, TypeVar

from ..core import ConfigError, Document, GoldSpan, Mapped, Persona, Section, Span, text_hash
from ..flow import Flow, branch, gather, unpack_settled
from ..measure import (
    JudgeCall,
    JudgeVerdict,
    MeasureSetup,
    ask_judge,
    object_schema,
    read_object,
    require_keys,
    schema_text,
    text_of,
)
from ..models import Analyzer, words
from ._candidates import (
    Candidate,
    Survey,
    Vocabulary,
    context_fault,
    find_fences,
    is_supported,
    language_fault,
    locate_quote,
    sentences_of,
)

T = TypeVar("T")

_QUOTED_LEVELS = ("fact", "extraction")
"""Levels whose answer must consist of words of its evidence."""
UNUSABLE = "no usable reply after a retry"
OTHER_MODEL = (
    "No questions result from these. Stop with Ctrl-C, then name another model with --model: this "
    "one does not write the requested JSON."
)


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk for questions: its place, text and language."""

    document_id: str
    span: Span
    text: str
    language: str = ""

    @property
    def id(self) -> str:
        """Id of its row in a run."""
        return f"{self.document_id}:{self.span.start}-{self.span.end}"


@dataclass(frozen=True, slots=True)
class QuestionWriter:
    """Options of a model that writes questions.

    Attributes:
        setup: The model and its limits (``model``, ``max_tokens``, ``temperature``, ``format``).
        files: Language -> prompt file that asks for questions, and the one that answers a question
            from its evidence; those under the empty name for all other languages.
        levels: Levels to ask for.
        count: Most questions on a passage.
        personas: Readers with a gold answer of their own.
    """

    setup: MeasureSetup
    files: Mapping[str, tuple[Mapped, Mapped]]
    levels: tuple[str, ...]
    count: int = 3
    personas: tuple[Persona, ...] = ()

    def files_of(self, language: str) -> tuple[Mapped, Mapped]:
        """Return the prompt files for a passage in a language."""
        return self.files.get(language, self.files[""])

    def manifest(self) -> dict[str, Any]:
        """Return everything that determines the questions, for the run."""
        return {
            "model": self.setup.model,
            "max_tokens": self.setup.max_tokens,
            "temperature": self.setup.temperature,
            "prompts": {
                name: [dict(file.values) for file in pair] for name, pair in self.files.items()
            },
            "levels": list(self.levels),
            "count": self.count,
            "personas": [asdict(persona) for persona in self.personas],
        }


def level_lines(data: Mapped) -> Mapping[str, str]:
    """Return the levels of a prompt file with the line that describes each.

    Raises:
        ConfigError: The file has none.
    """
    levels = data.values.get("levels")
    if not isinstance(levels, dict) or not levels:
        raise ConfigError(
            "the prompt file has no levels",
            where=data.where,
            hint="write levels: {fact: description}",
        )
    return {str(name): str(line) for name, line in levels.items()}


def write_questions(
    passage: Passage, writing: QuestionWriter, source: Analyzer
) -> Flow[tuple[Candidate, ...]]:
    """Return the candidates of a passage, each accepted or rejected with its reason.

    One call writes the questions; each one that passes the checks is then answered from its
    evidence alone (one call each): the answer must be the same.

    Raises:
        ModelError: The server fails.
    """
    reply = yield from ask_for_usable(_writing_call(passage, writing), writing.setup)
    drafts = reply.value
    if drafts is None:
        return (
            Candidate(
                "model", "", "", GoldSpan(passage.document_id, passage.span.start, passage.span.end)
            ).rejected(UNUSABLE),
        )
    checked = [_check_draft(draft, passage, source) for draft in drafts]
    estimate = yield from branch(0, min(writing.count, max(1, len(drafts))), writing.count)
    if estimate is not None:
        stand_in = Candidate(
            "model",
            "forecast?",
            "forecast",
            GoldSpan(passage.document_id, 0, 1, passage.text[:300]),
        )
        checked = [stand_in] * estimate
    outcomes = yield from gather(
        [
            check_by_answering(candidate, number, passage.language, writing, source)
            for number, candidate in enumerate(checked)
        ],
        settle=True,
    )
    return tuple(unpack_settled(outcome) for outcome in outcomes)


def ask_for_usable(call: JudgeCall[T], setup: MeasureSetup) -> Flow[JudgeVerdict[T]]:
    """Ask as `asked` does, but replace stored replies that cannot be used by new samples.

    Otherwise one malformed reply would leave its passage without questions in every later run.
    """
    for sample in count():
        judged = yield from ask_judge(replace(call, sample=sample), setup)
        if judged.value is not None or not judged.cached:
            break
    return judged


def candidate_body(candidates: Sequence[Candidate]) -> dict[str, Any]:
    """Return candidates as JSON-able values, for the run store."""
    return {"candidates": [asdict(candidate) for candidate in candidates]}


def candidates_of(body: Mapping[str, Any]) -> tuple[Candidate, ...]:
    """Rebuild the candidates from the values of :func:`candidate_body`."""
    return tuple(
        Candidate(**{**candidate, "span": GoldSpan(**candidate["span"])})
        for candidate in body["candidates"]
    )


def _check_draft(draft: Mapping[str, Any], passage: Passage, source: Analyzer) -> Candidate:
    question, quote, answer, level = (draft[k] for k in ("question", "quote", "answer", "level"))
    span, reason = locate_quote(quote, passage.text, passage.span.start, passage.document_id)
    place = span or GoldSpan(passage.document_id, passage.span.start, passage.span.end)
    candidate = Candidate("model", question, answer, place, level, draft["answers"])
    return candidate.rejected(reason or _fault_of(candidate, passage.language, source))


def _fault_of(candidate: Candidate, language: str, source: Analyzer) -> str:
    """Return why a question is invalid whose evidence is in the passage; empty if it is valid."""
    evidence = candidate.span.text
    if fault := context_fault(candidate.question, source):
        return f"without context: {fault.split(' (')[0]}"
    if language_fault(candidate.question, language):
        return "not in the language of its source"
    if candidate.level in _QUOTED_LEVELS and not is_supported(candidate.answer, evidence, source):
        return "the answer is not in its evidence"
    numbers = re.findall(r"\d+", " ".join(candidate.answers.values()))
    if any(number not in evidence for number in numbers):
        return "the answer for a persona has a number that is not in its evidence"
    return ""


def check_by_answering(
    candidate: Candidate, number: int, language: str, writing: QuestionWriter, source: Analyzer
) -> Flow[Candidate]:
    """Reject the candidate if its evidence alone does not give its answer."""
    if candidate.reason:
        return candidate
    reply: JudgeVerdict[tuple[bool, str]] = yield from ask_for_usable(
        _answer_call(candidate, number, writing.files_of(language)[1]), writing.setup
    )
    if reply.value is None:
        return candidate.rejected("no usable reply of the check")
    answerable, answer = reply.value
    if not answerable:
        return candidate.rejected("its evidence alone does not answer it")
    # Answers on style and ideas have many wordings: there only an abstention counts.
    if candidate.level in _QUOTED_LEVELS and not is_supported(candidate.answer, answer, source):
        return candidate.rejected("its evidence alone gives another answer")
    return candidate


def _writing_call(passage: Passage, writing: QuestionWriter) -> JudgeCall[list[dict[str, Any]]]:
    writer, _ = writing.files_of(passage.language)
    lines = level_lines(writer)
    names = [persona.name for persona in writing.personas]
    keys = ["level", "question", "quote", "answer", *(["answers"] if names else [])]

    def read(text: str, finish: str) -> list[dict[str, Any]]:
        entries = read_object(text, ("questions",), finish)["questions"]
        if not isinstance(entries, list) or len(entries) > writing.count:
            raise ValueError(f'"questions" must be a list of at most {writing.count} entries')
        return [_draft_of(require_keys(entry, keys), writing.levels, names) for entry in entries]

    text = {"type": "string"}
    properties: dict[str, Any] = {**dict.fromkeys(keys, text)}
    properties["level"] = {**text, "enum": list(writing.levels)}
    if names:
        properties["answers"] = object_schema(dict.fromkeys(names, text))
    stand_in = {**dict.fromkeys(keys, ""), "level": writing.levels[0], "answers": {}}
    return JudgeCall(
        file=writer,
        texts=(("passage", passage.text),),
        read=read,
        schema=schema_text({"questions": {"type": "array", "items": object_schema(properties)}}),
        stand_in=[stand_in] * writing.count,
        values={
            "count": writing.count,
            "levels": [{"name": name, "line": lines[name]} for name in writing.levels],
            "personas": [
                {"name": p.name, "about": _persona_description(p)} for p in writing.personas
            ],
            "language": passage.language,
        },
        sources=(passage.document_id,),
        advice=OTHER_MODEL,
    )


def _draft_of(
    entry: Mapping[str, Any], levels: Sequence[str], names: Sequence[str]
) -> dict[str, Any]:
    if entry["level"] not in levels:
        raise ValueError(f'"level" must be one of {", ".join(levels)}')
    texts = {name: text_of(entry[name], name) for name in ("question", "quote", "answer")}
    answers = entry.get("answers", {}) if names else {}
    if names and (not isinstance(answers, dict) or set(answers) != set(names)):
        raise ValueError(f'"answers" must have exactly the readers {", ".join(names)}')
    own = {name: text_of(answers[name], f"the answer for {name}") for name in names}
    question = " ".join(texts["question"].split())
    return {**texts, "question": question, "level": entry["level"], "answers": own}


def _answer_call(candidate: Candidate, number: int, checker: Mapped) -> JudgeCall[tuple[bool, str]]:
    def read(text: str, finish: str) -> tuple[bool, str]:
        reply = read_object(text, ("answerable", "answer"), finish)
        if not isinstance(reply["answerable"], bool) or not isinstance(reply["answer"], str):
            raise ValueError('"answerable" must be true or false and "answer" a text')
        if reply["answerable"] != bool(reply["answer"].strip()):
            raise ValueError('"answer" must be empty where "answerable" is false, and only there')
        return reply["answerable"], reply["answer"].strip()

    question = candidate.question
    if question == "forecast?":
        question = f"forecast {number}?"  # distinct calls are counted once each
    return JudgeCall(
        file=checker,
        texts=(("evidence", candidate.span.text), ("question", question)),
        read=read,
        schema=schema_text({"answerable": {"type": "boolean"}, "answer": {"type": "string"}}),
        stand_in=(True, "forecast"),
        sources=(candidate.span.document_id,),
        advice=OTHER_MODEL,
    )


def _persona_description(persona: Persona) -> str:
    traits = {
        "audience": persona.audience,
        "technical density": persona.technical_density,
        "language": persona.language_complexity,
        "length": persona.answer_length,
        "style": persona.writing_style,
        "also": persona.extra_instructions,
    }
    return "; ".join(f"{name}: {' '.join(text.split())}" for name, text in traits.items() if text)


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
