"""Answers of a special form: entries of codes, contrasts, words of a speaker, refusals."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core import Citation, Hit, Persona, late_pattern, neutral, shipped_mapping
from ..flow import Flow
from ..models import (
    WordTokenizer,
    answer_kind,
    fold,
    names_subject,
    question_language,
    sentence_spans,
    things,
    words,
)
from ..retrieve import Entry, Retrieved, Target, read_entries
from ._extract import Selection, fitting, ranked, score_sentences, word_places
from ._marks import citation
from ._options import AnswerOptions
from ._quotes import Quote, make_quotes
from ._sentences import Sentence

_LACKING = 2.5
"""Taken from the logit of every sentence. A sentence on study leave that holds all other words of a
question for parental leave has about 0.7, and then less than the threshold. Set by hand."""

_START, _ENDING = 5, 4
"""Letters that two forms of a word share at least, and by which their lengths may differ."""


def lacking(question: str, retrieved: Retrieved, target: Target) -> tuple[str, ...]:
    """The words for things in a question that no chunk of the index holds, in any form.

    Rarity says nothing of them in a small index, where all words are rare. Empty where no keyword
    channel looked them up.
    """
    absent = {term.token for term in retrieved.explanation.terms if not term.chunks}
    if not absent or target.analyzer is None:
        return ()
    unknown = []
    for word in things(question):
        tokens = target.analyzer.query_tokens(word)
        if tokens and absent.issuperset(tokens) and not _is_inflected(word, retrieved):
            unknown.append(word)
    return tuple(unknown)


def _is_inflected(word: str, retrieved: Retrieved) -> bool:
    """True where a passage holds another form of a word, or a compound that ends with it."""
    folded = fold(word.casefold())
    start = folded[: max(_START, len(folded) - 3)]
    for hit in retrieved.hits:
        for passage_word in words(f"{hit.title} {' '.join(hit.headings)} {hit.text}"):
            form = fold(passage_word.casefold())
            at = form.rfind(start)
            apart = abs(len(form) - at - len(folded))
            if (at == 0 or (at > 0 and len(folded) >= _START)) and apart <= _ENDING:
                return True
    return False


def lowered(scores: Sequence[float]) -> tuple[float, ...]:
    """Scores of sentences for a question with a thing that no document holds."""
    factor = math.exp(-_LACKING)
    return tuple(round(s * factor / (1 - s + s * factor), 6) if s < 1 else s for s in scores)


FALLBACK = "en"


@dataclass(frozen=True, slots=True)
class Phrases:
    """The sentences of a language; English ones where it has none."""

    language: str

    def text(self, key: str, **values: object) -> str:
        """A sentence with its values."""
        return str(self._phrase_entry(key)).format(**values)

    def forms(self, key: str) -> Sequence[str]:
        """The forms of a word or sentence for one and for several things."""
        forms: Sequence[str] = self._phrase_entry(key)
        return forms

    def _phrase_entry(self, key: str) -> Any:
        every: Mapping[str, Mapping[str, Any]] = shipped_mapping("answer", "phrases.yaml").values
        phrases = every.get(self.language, {})
        return phrases[key] if key in phrases else every[FALLBACK][key]


def phrases_for(question: str) -> Phrases:
    """The sentences in the language of a question; English where its language is open."""
    return Phrases(question_language(question))


def refusal(question: str) -> str:
    """The sentence of an abstention, in the language of the question."""
    return phrases_for(question).text("refused")


ENTRY = "quoted offline: the entry of the code, whole; no model wrote this"

_MOST = 3
"""Entries quoted for one code: printers of several makes share codes."""
_ELSEWHERE = frozenset({"person", "time", "place"})
"""Kinds of answers that an entry gives only by chance: its sentences are scored like others."""
_HEADING = re.compile(r"^\s{0,3}#{1,6}\s+|[*_`]{2,3}", re.MULTILINE)
_APART = re.compile(r"[-*+•|]\s|\d{1,3}[.)]\s|\w+:\s")
"""Beginnings of items, rows and fields."""
_MARKS = late_pattern(r"^[\s#*_`\"':.=–—-]+|[\s*_`\"']+$")
_COUNTER = WordTokenizer()


@dataclass(frozen=True, slots=True)
class CodeAnswer:
    """The entries of the codes of a question, as text with citations."""

    text: str
    citations: tuple[Citation, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _QuotedEntry:
    """An entry, the number of its hit, and the part of it that is quoted."""

    entry: Entry
    number: int
    hit: Hit
    body: str
    end: int
    cut: bool


def answer_from_entries(
    question: str, hits: Sequence[Hit], persona: Persona, *, headed: bool = False
) -> CodeAnswer | None:
    """The entries of the codes that a question names; None if no hit holds one whole.

    With ``headed`` entries below a Markdown heading count too: sentences of such sections are
    scored with their headings, so that the entry is needed only where none of them is enough.

    Every code of the question that heads an entry is answered. Where several entries have it, up
    to three with different texts are quoted, in the order of their hits.
    """
    if answer_kind(question) in _ELSEWHERE:
        return None
    by_code: dict[str, list[_QuotedEntry]] = {}
    for number, hit in enumerate(hits, 1):
        for entry in read_entries(hit.text):
            if (headed or entry.form != "heading") and _names_code(entry.code, question):
                _add_entry(by_code.setdefault(entry.code.casefold(), []), entry, number, hit)
    if not by_code:
        return None
    room = max(1, persona.max_words // len(by_code))
    chosen = []
    notes: list[str] = []
    for entries in by_code.values():
        best = entries[:_MOST]
        chosen += [_fitted_entry(quoted, room // len(best)) for quoted in best]
        if len(entries) > 1:
            notes.append(
                f"{entries[0].entry.code} has {len(entries)} entries in the passages found"
            )
    if any(quoted.cut for quoted in chosen):
        notes.append(f"entries are cut at {persona.max_words} words (the persona's max_words)")
    citations = tuple(
        citation(
            quoted.number,
            quoted.hit,
            quoted.hit.start + quoted.entry.start,
            quoted.hit.start + quoted.end,
        )
        for quoted in chosen
    )
    text = "\n\n".join(map(_entry_text, chosen))
    return CodeAnswer(text, citations, (ENTRY, *notes))


def _names_code(code: str, question: str) -> bool:
    """True where a question holds a code as a word of its own."""
    parts = r"\s+".join(map(re.escape, code.split()))
    return bool(re.search(rf"(?<![\w.-]){parts}(?![\w-]|\.\w)", question, re.IGNORECASE))


def _add_entry(entries: list[_QuotedEntry], entry: Entry, number: int, hit: Hit) -> None:
    """Add an entry, or replace the same one in an overlapping hit that holds less of it."""
    body = hit.text[entry.body : entry.end]
    flat = " ".join(body.split())
    start = hit.start + entry.start
    for at, earlier in enumerate(entries):
        is_same = (earlier.hit.document_id, earlier.hit.start + earlier.entry.start) == (
            hit.document_id,
            start,
        )
        if is_same and len(earlier.body) >= len(body):
            return
        if is_same:
            entries[at] = _QuotedEntry(entry, number, hit, body, entry.end, cut=False)
            return
        if " ".join(earlier.body.split()) == flat:
            return
    entries.append(_QuotedEntry(entry, number, hit, body, entry.end, cut=False))


def _fitted_entry(quoted: _QuotedEntry, room: int) -> _QuotedEntry:
    """An entry of at most so many words, and at least its first sentence."""
    if _COUNTER.count(quoted.body) <= room:
        return quoted
    words = 0
    end = None
    for span in sentence_spans(quoted.body):
        words += _COUNTER.count(quoted.body[span.start : span.end])
        if end is not None and words > room:
            break
        end = span.end
    if end is None:
        return quoted
    return _QuotedEntry(
        quoted.entry,
        quoted.number,
        quoted.hit,
        quoted.body[:end],
        quoted.entry.body + end,
        cut=True,
    )


def _entry_text(quoted: _QuotedEntry) -> str:
    """The code and its title on a line, the text below it, with the citation mark."""
    lines = quoted.body.strip().splitlines()
    first = _MARKS.sub("", lines[0]) if lines else ""
    titled = bool(quoted.entry.title) and first == _MARKS.sub("", quoted.entry.title)
    head = f"{quoted.entry.code}: {first}" if titled else quoted.entry.code
    text = "\n".join(_joined_paragraphs(lines[titled:]))
    return f"{neutral(head)}{chr(10) if text else ''}{neutral(text)} [{quoted.number}]"


def _joined_paragraphs(lines: Sequence[str]) -> Iterator[str]:
    """Paragraphs as one line each; items, fields and rows stay on lines of their own."""
    pending: list[str] = []
    for line in (*lines, ""):
        text = " ".join(_HEADING.sub("", line).split())
        if pending and (not text or _APART.match(text)):
            yield " ".join(pending)
            pending = []
        pending += [text] if text else []


_SPEAKER = re.compile(
    r"^(?:\*\*|__)?(?P<name>[A-ZÀ-Ý][A-ZÀ-Ý'’-]+(?: [A-ZÀ-Ý][A-ZÀ-Ý'’-]*){0,4}"
    r"|(?:[A-ZÀ-Ý][\w'’-]*\.? ){1,4}[A-ZÀ-Ý][\w'’-]+)(?:\*\*|__)?"
    r"(?: \([^)\n]{1,60}\)|, [^.:\n]{1,60})?(?:\*\*|__)?(?P<mark>[.:])(?:\*\*|__)?(?=\s)",
    re.MULTILINE,
)
"""``MADAME ORTIE. …``, ``Ada Long: …``, ``**Mr Short** (Hull): …`` at the beginning of a line."""
_ALONE = re.compile(
    r"^(?P<name>[A-ZÀ-Ý][\w.'’-]*(?:,? [\w.'’-]+){0,6})(?: \([^)\n]{1,60}\))? ?:[ \t]*$",
    re.MULTILINE,
)
"""A line that is a name and a colon, as plays in XML are read."""
_NO_NAMES = re.compile(
    r"(?:NOTE|NOTES|WARNING|EXAMPLE|EXAMPLES|TIP|IMPORTANT|CAUTION|REMARK|FIGURE|TABLE|ACT"
    r"|ACTE|SCENE|SCÈNE|CHAPTER|CHAPITRE|PART|PARTIE|APPENDIX|ANNEXE|FAQ|TODO)"
)
_CAST = late_pattern(
    r"^(?:#{1,6} )?(?:(?:les |the |die |los )?(?:acteurs|personnages|personen|figuren|personajes"
    r"|characters|cast|persons|dramatis person(?:ae|æ)|list of characters|cast of characters)"
    r"(?: (?:de la pièce|of the play|des stücks|de la obra|de la com[ée]di[ea]))?)[ .:]*$",
    re.IGNORECASE,
)
_ASKS = late_pattern(
    r"^\W*(?:(?:que|qu['’]est-ce que) (?:dit|raconte|répond|pense|déclare)(?:-il)?"
    r"|what (?:does|did|has)|was (?:sagt|sagte|meint|erzählt)|qué (?:dice|dijo|cuenta|piensa)) "
    r"(?P<name>\S.*?)"
    r"(?: (?:say|says|said|think|tell))?"
    r"(?: (?P<about>(?:à propos|au sujet|sur|de|du|des|d['’]|about|on|of|über|von|zu[mr]?|sobre"
    r"|del?|acerca)\b.*?))?[\s?.!]*$",
    re.IGNORECASE,
)
_LONGEST = 1_000
"""Characters of a question that is read."""
_LEAST_LINES = 2
"""Speaker lines of a passage in which names are speakers."""


@dataclass(frozen=True, slots=True)
class NamedLine:
    """A name, and the span of the line that names it."""

    name: str
    start: int
    end: int


def speaker_lines(text: str) -> Iterator[NamedLine]:
    """Lines that begin with a speaker, in the order of a text."""
    by_start: dict[int, NamedLine] = {}
    for pattern in (_SPEAKER, _ALONE):
        for match in pattern.finditer(text):
            name = match["name"]
            dotted = pattern is _SPEAKER and match["mark"] == "."
            if _NO_NAMES.fullmatch(name.split()[0].upper()) or (dotted and name != name.upper()):
                continue
            by_start.setdefault(match.start(), NamedLine(name, match.start(), match.end()))
    yield from (by_start[start] for start in sorted(by_start))


def cast_lines(hit: Hit) -> Iterator[NamedLine]:
    """Yield the lines of a list of the cast: each a role, mostly with its relation to the others.

    Spans are in the document.
    """
    inside = bool(hit.headings) and bool(_CAST.match(hit.headings[-1]))
    entered = False
    at = hit.start
    for line in hit.text.splitlines(keepends=True):
        start, at = at, at + len(line)
        text = line.strip()
        if _CAST.match(text):
            inside, entered = True, False
        elif text.startswith("#") or (entered and not text):
            inside = False
        elif inside and text and not text.startswith("("):
            entered = True
            yield NamedLine(text.lstrip("-*• "), start, start + len(line.rstrip()))


_LEAD = re.compile(
    r"^(?:(?:about|on|of|über|zu[mr]?|von|vom|sur|du|de|à propos|sobre|acerca|"
    r"the|an?|d(?:er|ie|as|en|em|es)|ein\w{0,2}|les?|la|une?|el|los|las|una)\s+|[dl]['’])+",
    re.IGNORECASE,
)
"""Prepositions and articles of a question may be in another language than the speeches."""


def of_speaker(
    question: str, sentences: Sequence[Sentence], hits: Sequence[Hit]
) -> tuple[str, list[Sentence]] | None:
    """The topic that a question asks of one speaker, and the sentences that this speaker says.

    None for other questions, and where nobody of that name speaks in the hits.
    """
    # the pattern's time grows with the square of the text
    match = _ASKS.match(question) if len(question) <= _LONGEST else None
    if match is None:
        return None
    speaker = _folded_name(match["name"])
    spoken = {number: _speech_lines(hit.text) for number, hit in enumerate(hits, 1)}
    if not any(_folded_name(line.name) == speaker for lines in spoken.values() for line in lines):
        return None
    spoken_by = []
    for sentence in sentences:
        offset = hits[sentence.number - 1].start
        before = [
            line for line in spoken[sentence.number] if line.start + offset <= sentence.span.start
        ]
        if before and _folded_name(before[-1].name) == speaker:
            spoken_by.append(sentence)
    return _LEAD.sub("", match["about"]) if match["about"] else question, spoken_by


def _speech_lines(text: str) -> list[NamedLine]:
    lines = list(speaker_lines(text))
    return lines if len(lines) >= _LEAST_LINES else []


def _folded_name(name: str) -> str:
    return " ".join(fold(word.casefold()) for word in words(name))


_ASKS_DIFFERENCE = late_pattern(
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
    match = _ASKS_DIFFERENCE.search(question)
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
