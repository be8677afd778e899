"""Questions as a person would ask them, made by templates from the form of a passage.

A definition is asked for by "What is …?", a code entry by "What does … mean?", an instruction by
"How do I …?", a list by "Which …?", a value by "When …?", "Where …?" or "How many …?", a table row
by its column. Templates are grammar of one language (en, fr, de, es); other languages have none.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set

from ...core import Document, GoldSpan, text_hash
from ...models import detect_language
from ._candidates import Candidate, context_fault
from ._offline_questions import body_of, heading_text, plain_text
from ._subjects import finite
from ._survey import Survey, fenced, sentences_of
from ._templates import GENERIC, TEMPLATES, asked, mine
from ._verbs import VERBS

KIND = "template"

_MOST_WORDS = 24
_COMMON = re.compile(r"(?<![\w-])[^\W\d_A-ZÀ-Þ][^\W\d_]+")
"""Words in lower case: at the beginning of a sentence they are no names."""

_CODE = re.compile(r"#?\b(?:[A-Z]{1,6}[-_ ]?\d{2,6}|[A-Z]+_[A-Za-z0-9_]+|\d{4,6})\b")
_ERROR = re.compile(
    r"\b(?:error|warning|fault|code|erreur|fehler|warnung|errore?s?|advertencia)\b", re.I
)
_KEYS = re.compile(
    r"\b(?:description|meaning|definition|signification|définition|bedeutung|beschreibung"
    r"|significado|descripción|means|what it (?:is|means|does))\b",
    re.I,
)
_MEANS: Mapping[str, str] = {
    "en": "What does {} mean?",
    "fr": "Que signifie {} ?",
    "de": "Was bedeutet {}?",
    "es": "¿Qué significa {}?",
}
_HOW: Mapping[str, tuple[re.Pattern[str], str]] = {
    "en": (re.compile(r"how to (?P<s>\w+ .+)", re.I), "How do I {}?"),
    "fr": (re.compile(r"comment (?P<s>\w+ .+)", re.I), "Comment {} ?"),
    "de": (re.compile(r"wie (?P<s>man .+)", re.I), "Wie kann {}?"),
    "es": (re.compile(r"c[óo]mo (?P<s>\w+ .+)", re.I), "¿Cómo {}?"),
}
_FIX = re.compile(
    r"\b(?:resolve|fix|correct|avoid|to solve|make sure|check (?:the|that|if|whether)|try)\b", re.I
)


def template_questions(document: Document, survey: Survey, seed: int) -> Iterator[Candidate]:
    """Questions on headings, entries, table rows and sentences of a document, in a seeded order.

    Only sentences that occur once in the collection and are within one chunk that is neither
    boilerplate nor a duplicate; whose subject is a name, or a noun with a qualifier; and whose
    question can be understood by itself. The gold span is the sentence, the list, the row or the
    section's own text. Nothing in a language without templates.
    """
    text = document.text
    language = document.language[:2] if document.language else detect_language([text[:20_000]])
    if language not in TEMPLATES:
        return
    found = [*_of_sections(document, survey, language), *_of_entries(document, language)]
    found += _of_rows(document, language)
    found += _of_sentences(document, survey, language)
    counts = Counter(candidate.question for candidate in found)
    for candidate in sorted(found, key=lambda c: _drawn(seed, document.id, c)):
        if counts[candidate.question] > 1:
            yield candidate.rejected("several passages of the document answer this question")
        elif fault := context_fault(candidate.question, survey.vocabulary.source):
            yield candidate.rejected(f"without context: {fault.split(' (')[0]}")
        else:
            yield candidate


def _drawn(seed: int, name: str, candidate: Candidate) -> str:
    return text_hash(f"{seed}\x00{name}\x00{candidate.span.start}\x00{candidate.question}")


# -- sentences -------------------------------------------------------------------------------


def _of_sentences(document: Document, survey: Survey, language: str) -> Iterator[Candidate]:
    text = document.text
    usable = survey.usable(document.id, text)
    code = fenced(text)
    common = frozenset(_COMMON.findall(text))
    for span in sentences_of(text):
        if any(span.overlap(block) for block in code):
            continue
        if not any(c.start <= span.start and span.end <= c.end for c in usable):
            continue
        raw = text[span.start : span.end]
        if survey.repeated(raw) or "|" in raw or raw.lstrip()[:1] in "#-*+>":
            continue
        plain = plain_text(raw)
        for template in TEMPLATES[language]:
            found = asked(template, plain, survey, language, common)
            if found is None:
                continue
            lead = span.start + raw.find(":") + 1
            end = _list_end(text, lead) if template.form == "list" else span.end
            if end:
                gold = GoldSpan(document.id, span.start, end, text[span.start : end])
                yield Candidate(KIND, found[0], found[1] or plain, gold, template.form)
                break


def _list_end(text: str, start: int) -> int:
    """End of the list that follows a sentence, 0 if none does."""
    found = re.match(
        r"\s*(?:(?:[-*+•]|\d+[.)])\s+\S[^\n]*(?:\n(?!\n)[ \t]+\S[^\n]*)*\n*){2,}", text[start:]
    )
    return start + len(found[0].rstrip()) if found else 0


# -- headings and entries --------------------------------------------------------------------


def _of_sections(document: Document, survey: Survey, language: str) -> Iterator[Candidate]:
    text = document.text
    starts = sorted({section.span.start for section in document.sections})
    titles = Counter(heading_text(section) for section in document.sections)
    for section in document.sections:
        after = next((s for s in starts if s > section.span.start), section.span.end)
        code = _coded(heading_text(section))
        body = body_of(text, section, section.span.end if code else min(after, section.span.end))
        title = heading_text(section)
        if body is None or titles[title] > 1 or survey.boilerplate(text, body, sentences_of(text)):
            continue
        made = _of_title(title, text[body.start : body.end], language)
        if made is not None and made[0] == "procedure" and not _specific(title, survey):
            continue
        if made is not None:
            form, question = made
            gold = GoldSpan(document.id, body.start, body.end, text[body.start : body.end])
            answer = _said(text[body.start : body.end])
            yield Candidate(KIND, question, answer, gold, form)


_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_SUBHEADING = re.compile(r"[ \t]*#{1,6}[ \t]")
_NOTICE = re.compile(r"\[![A-Z]+\]")


def _said(body: str) -> str:
    """The prose of a section as plain text: without headings and code blocks, up to an example."""
    lines: list[str] = []
    fenced = False
    for line in body.splitlines():
        if _FENCE.match(line):
            fenced = not fenced
        elif _SUBHEADING.match(line):
            if lines and "example" in line.lower():
                break
        elif not fenced:
            lines.append(_NOTICE.sub("", line.lstrip(" \t>")))
    return plain_text("\n".join(lines)) or plain_text(body)


def _spoken(title: str) -> str:
    """A title of an entry within a sentence: "compiler error C2076"."""
    words = re.sub(r"\s*\([^)]*\)", "", title).split()
    return " ".join(w.lower() if re.fullmatch(r"[A-Z][a-z]+", w) else w for w in words)


def _coded(title: str) -> bool:
    return bool(_CODE.search(title)) and len(title.split()) <= 8


def _of_title(title: str, body: str, language: str) -> tuple[str, str] | None:
    if title.endswith("?") and 5 <= len(title.split()) <= _MOST_WORDS:
        return "question", title
    if _coded(title) and (_ERROR.search(title) or len(title.split()) == 1):
        named = _spoken(title)
        if language == "en" and _FIX.search(body) and int(text_hash(title), 16) % 2:
            return "code entry", f"How do I fix {named}?"
        return "code entry", _MEANS[language].format(named)
    pattern, template = _HOW[language]
    if how := pattern.fullmatch(title):
        return "procedure", template.format(how["s"].rstrip("."))
    if language == "en":
        plain = len(title.split()) > 1 and not finite(title)
        verb = _verb_of(title.split()[0]) if plain else ""
        if verb:
            rest = title.split(maxsplit=1)[1]
            rest = rest if rest[:2].isupper() else rest[0].lower() + rest[1:]
            return "procedure", f"How do I {verb} {mine(rest)}?"
    return None


def _specific(title: str, survey: Survey) -> bool:
    """True for a heading that says what is done to what: not "Reading the results"."""
    words = title.split(maxsplit=1)[1:]
    return bool(survey.vocabulary.source.tokens(GENERIC.sub("", " ".join(words))))


def _verb_of(word: str) -> str:
    """The verb of a gerund that begins a heading, else empty."""
    low = word.lower()
    if not re.fullmatch(r"[A-Z][a-z]{2,}ing", word):
        return ""
    stem = low[:-3]
    forms = [f"{stem}e", stem]
    if len(stem) > 3 and stem[-1] == stem[-2] and stem[-1] not in "lsfz":
        forms = [stem[:-1]]
    known = [form for form in forms if form in VERBS]
    return known[0] if known else ""


_ENTRY = re.compile(
    r"^[ \t]*-[ \t]+code:[ \t]*[\"']?(?P<code>[\w#-]{3,12})[\"']?[ \t]*\n(?P<body>(?:[ "
    r"\t]+\S[^\n]*\n?|[ \t]*\n(?=[ \t]+[a-z]))+)",
    re.MULTILINE,
)
_TITLE = re.compile(r"^[ \t]+title:[ \t]*[\"']?(?P<title>[^\"'\n]{3,80})", re.MULTILINE)


def _of_entries(document: Document, language: str) -> Iterator[Candidate]:
    """Entries of a list of codes in YAML: a code, a title, a text."""
    text = document.text
    for found in _ENTRY.finditer(text):
        title = _TITLE.search(found["body"])
        name = f"error {found['code']}" if language == "en" else found["code"]
        question = _MEANS[language].format(name)
        if title and language == "en":
            shown = title["title"].strip()
            question = f'What does the message "{shown}" mean?'
        end = found.start() + len(found[0].rstrip())
        gold = GoldSpan(document.id, found.start(), end, text[found.start() : end])
        yield Candidate(KIND, question, " ".join(gold.text.split()), gold, "code entry")


# -- table rows ------------------------------------------------------------------------------

_ROW = re.compile(r"^\|(?P<cells>[^\n]+)\|[ \t]*$", re.MULTILINE)
_RULE = re.compile(r"[\s|:-]+")
_ROW_NAME = re.compile(r"(?=.*[^\W\d])[^,…:?!\"\\/=<>]{2,50}")
_IDENTIFIER = re.compile(
    r"-{1,2}\w.*|\S*\w[_.@#]\w\S*|(?=\S*\d)(?=\S*[^\W\d])\S+|\S*[a-zà-ÿ][A-ZÀ-Þ]\S*|[A-ZÀ-Þ]{2,}"
)
"""An option, a key, a code or an abbreviation, of one word: its meaning can be asked for."""
_TERMS = re.compile(
    r"(?:term|word|abbreviation|acronym|code|symbol|terme|mot|sigle|begriff|abkürzung|t[ée]rmino"
    r"|sigla|código)s?",
    re.I,
)
"""Heads of a first column whose entries are to be explained."""
_NAMED = re.compile(r"[A-ZÀ-Þ][^\W\d_]+(?: [A-ZÀ-Þ][^\W\d_]+)*")
_COLUMNS = frozenset(
    re.findall(
        r"\S+",
        """
        default value range unit size price length weight version purpose limit author capital
        population year date number status port address type cost name symbol
        """,
    )
)
"""Columns that a person asks for by their name."""


def _of_rows(document: Document, language: str) -> Iterator[Candidate]:
    """Rows of Markdown tables: the second column of the row that the first column names."""
    text = document.text
    common = frozenset(_COMMON.findall(text))
    head: list[str] = []
    end = -2
    for found in _ROW.finditer(text):
        parts = re.split(r"(?<!\\)\|", found["cells"])
        cells = [plain_text(part.replace("\\|", "|")) for part in parts]
        if found.start() > end + 1:
            head = cells
        elif not _RULE.fullmatch(found["cells"]) and len(cells) == len(head) >= 2 and cells[1]:
            question = _of_row(head, cells, language, common)
            if question:
                gold = GoldSpan(document.id, found.start(), found.end(), found[0])
                yield Candidate(KIND, question, cells[1], gold, "table row")
        end = found.end()


def _of_row(head: Sequence[str], cells: Sequence[str], language: str, common: Set[str]) -> str:
    name, column = cells[0], head[1]
    if not _ROW_NAME.fullmatch(name) or len(name.split()) > 4:
        return ""
    code = _IDENTIFIER.fullmatch(name) is not None
    if _KEYS.search(column):
        # What "effect" or "Mandarin Duck" means is not what such a row answers.
        return _MEANS[language].format(name) if code or _TERMS.fullmatch(head[0]) else ""
    named = _NAMED.fullmatch(name) is not None and name.split()[0].lower() not in common
    if language != "en" or column.lower() not in _COLUMNS or not (code or named):
        return ""
    return f"What is the {column.lower()} of {name}?"
