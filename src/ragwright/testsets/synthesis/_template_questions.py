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
from ._subjects import has_finite_verb
from ._survey import Survey, fenced, sentences_of
from ._templates import GENERIC, TEMPLATES, in_first_person, question_of_template
from ._verbs import VERBS

KIND = "template"

_MOST_WORDS = 24
_COMMON = re.compile(r"(?<![\w-])[^\W\d_A-ZÀ-Þ][^\W\d_]+")
"""Words in lower case: at the beginning of a sentence they are not names."""

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
_HOW_TO: Mapping[str, tuple[re.Pattern[str], str]] = {
    "en": (re.compile(r"how to (?P<s>\w+ .+)", re.I), "How do I {}?"),
    "fr": (re.compile(r"comment (?P<s>\w+ .+)", re.I), "Comment {} ?"),
    "de": (re.compile(r"wie (?P<s>man .+)", re.I), "Wie kann {}?"),
    "es": (re.compile(r"c[óo]mo (?P<s>\w+ .+)", re.I), "¿Cómo {}?"),
}
_FIX = re.compile(
    r"\b(?:resolve|fix|correct|avoid|to solve|make sure|check (?:the|that|if|whether)|try)\b", re.I
)


def template_questions(document: Document, survey: Survey, seed: int) -> Iterator[Candidate]:
    """Yield questions on headings, entries, table rows and sentences, in a seeded order.

    A sentence must occur once in the collection, within one chunk that is neither boilerplate nor a
    duplicate; its subject must be a name, or a noun with a qualifier; and the question must be
    understood by itself. The gold span is the sentence, the list, the row or the section's own
    text. A language without templates yields nothing.
    """
    text = document.text
    language = document.language[:2] if document.language else detect_language([text[:20_000]])
    if language not in TEMPLATES:
        return
    candidates = [
        *_section_questions(document, survey, language),
        *_entry_questions(document, language),
    ]
    candidates += _row_questions(document, language)
    candidates += _sentence_questions(document, survey, language)
    counts = Counter(candidate.question for candidate in candidates)
    for candidate in sorted(candidates, key=lambda c: _order_key(seed, document.id, c)):
        if counts[candidate.question] > 1:
            yield candidate.rejected("several passages of the document answer this question")
        elif fault := context_fault(candidate.question, survey.vocabulary.source):
            yield candidate.rejected(f"without context: {fault.split(' (')[0]}")
        else:
            yield candidate


def _order_key(seed: int, name: str, candidate: Candidate) -> str:
    return text_hash(f"{seed}\x00{name}\x00{candidate.span.start}\x00{candidate.question}")


# -- sentences -------------------------------------------------------------------------------


def _sentence_questions(document: Document, survey: Survey, language: str) -> Iterator[Candidate]:
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
            question_and_answer = question_of_template(template, plain, survey, language, common)
            if question_and_answer is None:
                continue
            lead = span.start + raw.find(":") + 1
            end = _list_end(text, lead) if template.form == "list" else span.end
            if end:
                gold = GoldSpan(document.id, span.start, end, text[span.start : end])
                yield Candidate(
                    KIND,
                    question_and_answer[0],
                    question_and_answer[1] or plain,
                    gold,
                    template.form,
                )
                break


def _list_end(text: str, start: int) -> int:
    """Return the end of the list that follows a sentence, 0 if there is none."""
    match = re.match(
        r"\s*(?:(?:[-*+•]|\d+[.)])\s+\S[^\n]*(?:\n(?!\n)[ \t]+\S[^\n]*)*\n*){2,}", text[start:]
    )
    return start + len(match[0].rstrip()) if match else 0


# -- headings and entries --------------------------------------------------------------------


def _section_questions(document: Document, survey: Survey, language: str) -> Iterator[Candidate]:
    text = document.text
    starts = sorted({section.span.start for section in document.sections})
    titles = Counter(heading_text(section) for section in document.sections)
    for section in document.sections:
        next_start = next((s for s in starts if s > section.span.start), section.span.end)
        code = _is_coded(heading_text(section))
        body = body_of(
            text, section, section.span.end if code else min(next_start, section.span.end)
        )
        title = heading_text(section)
        if body is None or titles[title] > 1 or survey.boilerplate(text, body, sentences_of(text)):
            continue
        form_and_question = _title_question(title, text[body.start : body.end], language)
        if (
            form_and_question is not None
            and form_and_question[0] == "procedure"
            and not _is_specific(title, survey)
        ):
            continue
        if form_and_question is not None:
            form, question = form_and_question
            gold = GoldSpan(document.id, body.start, body.end, text[body.start : body.end])
            answer = _section_prose(text[body.start : body.end])
            yield Candidate(KIND, question, answer, gold, form)


_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_SUBHEADING = re.compile(r"[ \t]*#{1,6}[ \t]")
_NOTICE = re.compile(r"\[![A-Z]+\]")


def _section_prose(body: str) -> str:
    """Return the prose of a section as plain text: no headings or code blocks, up to an example."""
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


def _title_in_sentence(title: str) -> str:
    """Return a title of an entry as it stands within a sentence: "compiler error C2076"."""
    words = re.sub(r"\s*\([^)]*\)", "", title).split()
    return " ".join(w.lower() if re.fullmatch(r"[A-Z][a-z]+", w) else w for w in words)


def _is_coded(title: str) -> bool:
    return bool(_CODE.search(title)) and len(title.split()) <= 8


_COMPOUND = re.compile(
    r"(?:opening|closing|working|operating|visiting|waiting|running|training|meeting|parking|shipping)"
    r" (?:hours?|times?|days?|costs?|fees|rooms?|spaces?|courses?|instructions|conditions)",
    re.I,
)
"""Noun phrases as headings, such as "Opening hours": the gerund does not name a procedure."""


def _title_question(title: str, body: str, language: str) -> tuple[str, str] | None:
    if title.endswith("?") and 5 <= len(title.split()) <= _MOST_WORDS:
        return "question", title
    if _is_coded(title) and (_ERROR.search(title) or len(title.split()) == 1):
        phrase = _title_in_sentence(title)
        if language == "en" and _FIX.search(body) and int(text_hash(title), 16) % 2:
            return "code entry", f"How do I fix {phrase}?"
        return "code entry", _MEANS[language].format(phrase)
    pattern, template = _HOW_TO[language]
    if match := pattern.fullmatch(title):
        return "procedure", template.format(match["s"].rstrip("."))
    if language == "en":
        may_be_gerund = (
            len(title.split()) > 1 and not has_finite_verb(title) and not _COMPOUND.fullmatch(title)
        )
        verb = _verb_of_gerund(title.split()[0]) if may_be_gerund else ""
        if verb:
            rest = title.split(maxsplit=1)[1]
            rest = rest if rest[:2].isupper() else rest[0].lower() + rest[1:]
            return "procedure", f"How do I {verb} {in_first_person(rest)}?"
    return None


def _is_specific(title: str, survey: Survey) -> bool:
    """True for a heading that names the object of its verb: not "Reading the results"."""
    words = title.split(maxsplit=1)[1:]
    return bool(survey.vocabulary.source.tokens(GENERIC.sub("", " ".join(words))))


def _verb_of_gerund(word: str) -> str:
    """Return the verb of a gerund that begins a heading, or else an empty text."""
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


def _entry_questions(document: Document, language: str) -> Iterator[Candidate]:
    """Yield questions on entries of a list of codes in YAML: a code, a title, a text."""
    text = document.text
    for entry in _ENTRY.finditer(text):
        title = _TITLE.search(entry["body"])
        name = f"error {entry['code']}" if language == "en" else entry["code"]
        question = _MEANS[language].format(name)
        if title and language == "en":
            message = title["title"].strip()
            question = f'What does the message "{message}" mean?'
        end = entry.start() + len(entry[0].rstrip())
        gold = GoldSpan(document.id, entry.start(), end, text[entry.start() : end])
        yield Candidate(KIND, question, " ".join(gold.text.split()), gold, "code entry")


# -- table rows ------------------------------------------------------------------------------

_ROW = re.compile(r"^\|(?P<cells>[^\n]+)\|[ \t]*$", re.MULTILINE)
_RULE = re.compile(r"[\s|:-]+")
_ROW_NAME = re.compile(r"(?=.*[^\W\d])[^,…:?!\"\\/=<>]{2,50}")
_IDENTIFIER = re.compile(
    r"-{1,2}\w.*|\S*\w[_.@#]\w\S*|(?=\S*\d)(?=\S*[^\W\d])\S+|\S*[a-zà-ÿ][A-ZÀ-Þ]\S*|[A-ZÀ-Þ]{2,}"
)
"""An option, a key, a code or an abbreviation, of one word, whose meaning can be asked for."""
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


def _row_questions(document: Document, language: str) -> Iterator[Candidate]:
    """Yield questions on rows of Markdown tables: the second column of the named row."""
    text = document.text
    common = frozenset(_COMMON.findall(text))
    head: list[str] = []
    end = -2
    for match in _ROW.finditer(text):
        parts = re.split(r"(?<!\\)\|", match["cells"])
        cells = [plain_text(part.replace("\\|", "|")) for part in parts]
        if match.start() > end + 1:
            head = cells
        elif not _RULE.fullmatch(match["cells"]) and len(cells) == len(head) >= 2 and cells[1]:
            question = _row_question(head, cells, language, common)
            if question:
                gold = GoldSpan(document.id, match.start(), match.end(), match[0])
                yield Candidate(KIND, question, cells[1], gold, "table row")
        end = match.end()


def _row_question(
    head: Sequence[str], cells: Sequence[str], language: str, common: Set[str]
) -> str:
    name, column = cells[0], head[1]
    if not _ROW_NAME.fullmatch(name) or len(name.split()) > 4:
        return ""
    is_identifier = _IDENTIFIER.fullmatch(name) is not None
    if _KEYS.search(column):
        # Such a row does not explain the meaning of "effect" or "Mandarin Duck".
        return _MEANS[language].format(name) if is_identifier or _TERMS.fullmatch(head[0]) else ""
    is_name = _NAMED.fullmatch(name) is not None and name.split()[0].lower() not in common
    if language != "en" or column.lower() not in _COLUMNS or not (is_identifier or is_name):
        return ""
    return f"What is the {column.lower()} of {name}?"
