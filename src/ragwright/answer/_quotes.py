"""Units that are quoted whole: a definition, a lead-in with what it leads to, a row, code, a
sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, TypeAlias

from ..core import Citation, Hit, Span, citation_marks, late_pattern
from ..models import (
    AnswerKind,
    WordTokenizer,
    about_codes,
    answer_kind,
    asks_same,
    asks_steps,
    instructs,
    names_subject,
    offers,
    says_what,
    words,
    writes_out,
)
from ._marks import citation
from ._sentences import Sentence, whole

QuoteKind: TypeAlias = Literal["sentence", "pair", "definition", "list", "table", "row", "code"]
Layout: TypeAlias = Literal["prose", "lists"]

_FORM = 1.2
"""Factor for a list or steps where the question asks for them; set by hand."""
_OPENS = 1.01
"""Factor by which the meaning of a code is above the other sentences of its page."""
_LEAD_WORDS = 40
"""Words from which no further sentence joins a definition."""

_WANTS_CODE = late_pattern(
    r"\b(?:examples?|samples?|snippets?|code|syntax|commands?|exemples?|commandes?|beispiele?"
    r"|befehle?|ejemplos?|comandos?|esemp[io]|exemplos?|voorbeeld)\b",
    re.IGNORECASE,
)
_EXAMPLE = late_pattern(
    r"\b(?:examples?|samples?|exemples?|beispiele?|ejemplos?|esemp[io]|exemplos?|voorbeeld)\b",
    re.IGNORECASE,
)
_WANTS_LIST = late_pattern(
    r"^\W*(?:list\b|name (?:all|the)\b|what (?:are|were|causes?|caused)\b|which .*\bare\b"
    r"|(?:which|what) (?:[\w-]+ ){0,3}?\w{2,}s (?:do|can|could|should|must|may"
    r"|have|were|in|of|for|does)\b"
    r"|what (?:can|could|may|might|should|do) |what do .* mean\b"
    r"|quel(?:le)?s\b|quels? sont\b|welche .*\b(?:sind|gibt|haben|werden|können)\b"
    r"|cuáles\b|qué \w+s\b|quali\b|quais\b)",
    re.IGNORECASE,
)
_CAUSES = late_pattern(
    r"\b(?:possible |likely |common |probable )?(?:causes?|caused|reasons?|causes possibles"
    r"|raisons?|ursachen?|gründe?|causas?|razon(?:es)?|motivos?)\b",
    re.IGNORECASE,
)
_ASKS_CAUSES = late_pattern(
    r"^\W*(?:(?:what|which|list|name)\b.*\b)?(?:possible |likely |common |probable )*"
    r"(?:causes?|reasons?) (?:of|for|behind)\b|^\W*what (?:can |could |may )?causes?\b"
    r"|^\W*(?:quelles? .*)?(?:causes|raisons) (?:possibles )?(?:de|d['’]|du)\b"
    r"|^\W*(?:was|welche) .*ursachen?\b|^\W*(?:cuáles .*)?(?:causas|razones) (?:posibles )?de\b",
    re.IGNORECASE,
)
_CAUSE_SCORE = 0.97
"""Score of a unit that says it lists the causes of what a question for causes names: above that of
the thing's definition."""
_WHOLE = 0.98
"""Factor for a unit that begins with a heading: of equal ones, a sentence comes first."""
_CODE_WORDS = 60
"""Words of code from which it is quoted only for a question for code."""
_STEPS_ABOVE = late_pattern(
    r"\b(?:how to|fix\w*|resol\w+|solutions?|steps?|procedures?|troubleshoot\w*|remed\w+"
    r"|install\w*|configur\w+|comment|étapes|lösung\w*|schritte|pasos|solución)\b",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"\d{1,3}[.)]")
_ASIDE = late_pattern(r"^(?:for more|see|voir|siehe|véase|vedi|veja|zie)\b", re.IGNORECASE)
_REFERS = late_pattern(
    r"^(?:then|therefore|thus|hence|instead|otherwise|here (?:is|are)|in (?:this|that|such) case)\b"
    r"|^(?:\w+\W+){0,8}(?:this|that|these|those) (?:issue|problem|case|situation|cause)s?\b",
    re.IGNORECASE,
)
_POINTS_BACK = late_pattern(
    r"(?:it|he|she|they|its|his|her|their|il|elle|ils|elles|er|sie|es|él|ella)\b"
    r"|(?:\w+\W+){0,2}(?:this|these|those|cett?e|ces|cet|dies\w*|est[aeo]s?)\b",
    re.IGNORECASE,
)
_PAIR_WORDS = 60
"""Most words of two sentences that are quoted as one."""
_HOPELESS = 0.05
"""Score up to which no sentence is joined to another one: it is not going to be quoted."""
_LEADS = late_pattern(r"\b(?:the following|as follows|listed below)\b", re.IGNORECASE)
_COUNTER = WordTokenizer()


@dataclass(frozen=True, slots=True)
class Quote:
    """Sentences of one hit that are quoted together, in text order.

    Attributes:
        at: Number of its first sentence among all sentences.
        score: 0 to 1; comparable between kinds.
        code: For code with its caption: the fenced lines.
    """

    kind: QuoteKind
    sentences: tuple[Sentence, ...]
    score: float
    at: int
    code: str = ""

    @property
    def first(self) -> Sentence:
        """Its first sentence."""
        return self.sentences[0]

    @property
    def number(self) -> int:
        """The hit's number from 1."""
        return self.first.number

    @property
    def span(self) -> Span:
        """From its first to its last character in the document."""
        last = self.sentences[-1]
        end = max(last.span.end, self.first.code.end if self.code and self.first.code else 0)
        return Span(self.first.span.start, end)

    @property
    def words(self) -> int:
        """Words of its text."""
        return _COUNTER.count(self.text())

    @property
    def steps(self) -> bool:
        """True where the quote is an instruction."""
        if self.kind == "definition":
            return False
        numbered = any(_NUMBERED.match(s.bullet) for s in self.sentences)
        above = bool(_STEPS_ABOVE.search(self.first.heading))
        return numbered or above or any(instructs(s.text) for s in self.sentences)

    @property
    def refers(self) -> bool:
        """True where the quote needs the sentence before it, or leads to something missing."""
        first = self.first
        if self.kind == "definition" or first.kind != "prose":
            return False
        leads = self.kind == "sentence" and _LEADS.search(first.text)
        return bool(_REFERS.search(first.text) or leads)

    def text(self, layout: Layout = "prose") -> str:
        """The quoted text; a list has a line for each item in the layout ``lists``."""
        if self.code:
            below = "".join(_item_line(s, True) for s in self.sentences[1:]).lstrip("\n")
            return f"{self.first.text}\n{self.code}\n{below}"
        if self.first.kind == "row":
            return _row_with_columns(self.first)
        if self.kind == "table":
            return _table_text(self.sentences, layout)
        if self.kind != "list":
            return " ".join(s.text for s in self.sentences)
        if layout == "lists":
            return "".join(_item_line(s, i > 0) for i, s in enumerate(self.sentences))
        return _run_on([s.text for s in self.sentences])

    def fitted(self, room: int) -> Quote:
        """The same with as many sentences as fit a number of words; the first one always stays.

        A lead-in keeps its first item too.
        """
        count = 2 if self.kind in ("list", "table", "pair") and not self.code else 1
        if len(self.sentences) <= count:
            return self
        used = _COUNTER.count(self.code) + sum(
            _COUNTER.count(s.text) for s in self.sentences[:count]
        )
        for sentence in self.sentences[count:]:
            used += _COUNTER.count(sentence.text)
            if used > room:
                break
            count += 1
        return replace(self, sentences=self.sentences[:count])

    def moved(self, number: int) -> Quote:
        """The same from a hit with another number."""
        return replace(self, sentences=tuple(replace(s, number=number) for s in self.sentences))

    def citations(self, hit: Hit) -> list[Citation]:
        """Its exact span; for a row with a header also the header's, each with its own mark."""
        cited = [citation(self.number, hit, self.span.start, self.span.end)]
        if self.first.header:
            span, _ = self.first.header
            cited.append(citation(self.number, hit, span.start, span.end))
        return cited


def single_quotes(sentences: Sequence[Sentence], scores: Sequence[float]) -> list[Quote]:
    """One quote for each sentence; none for a heading."""
    return [
        Quote("row" if s.kind == "row" else "sentence", (s,), score, at)
        for at, (s, score) in enumerate(zip(sentences, scores, strict=True))
        if s.kind != "title"
    ]


def make_quotes(
    question: str, sentences: Sequence[Sentence], scores: Sequence[float], hits: Sequence[Hit]
) -> list[Quote]:
    """All that may be quoted: every sentence, and the larger units that they belong to.

    A unit has the score of its first sentence without the weight of a fragment: a lead-in is whole
    with its list. Where the question asks for steps or a list, units of that form gain a fifth.

    Args:
        question: The form of its answer decides which units there are.
        sentences: Of all hits, in order.
        scores: One per sentence, times its weight.
        hits: Where the sentences are from.
    """
    form = _QuestionForm.of(question)
    singles = single_quotes(sentences, scores)
    best: dict[str, float] = {}
    for quote in singles if form.defines and about_codes(question) else ():
        if says_what(question, quote.first.text):
            continue
        page = quote.first.document_id
        best[page] = max(best.get(page, 0.0), quote.score)
    single_at = {quote.at: quote for quote in singles}
    units_found = []
    for at, (first, score) in enumerate(zip(sentences, scores, strict=True)):
        raw = score / first.weight
        units = list(_with_neighbour(form, sentences, single_at[at])) if at in single_at else []
        if first.kind == "prose" and first.opens and asks_same(question, first.opens):
            units = [Quote("definition", _paragraph_from(sentences, at), score, at)]
        elif form.defines and first.kind == "prose" and _opens_definition(form, first):
            # What opens the page of a code is its meaning, however often examples repeat the code.
            score = min(1.0, max(raw, _OPENS * best.get(first.document_id, 0.0)))
            units = [Quote("definition", _paragraph_from(sentences, at), score, at)]
        if form.listed or form.steps:
            raw = max(raw, *_led_to(sentences, scores, at))
        units += _larger_units(form, sentences, at, raw, hits[first.number - 1])
        units_found += [form.preferring(unit) for unit in units]
    return units_found


@dataclass(frozen=True, slots=True)
class _QuestionForm:
    """The form of the answer that a question asks for."""

    question: str
    kind: AnswerKind
    words: frozenset[str]
    defines: bool
    steps: bool
    listed: bool
    coded: bool
    causes: bool

    @classmethod
    def of(cls, question: str) -> _QuestionForm:
        """The form of a question."""
        causes = bool(_ASKS_CAUSES.search(question))
        kind = answer_kind(question)
        return cls(
            question,
            kind,
            frozenset(word.casefold() for word in words(question)),
            kind == "definition" and not causes,
            asks_steps(question),
            causes or bool(_WANTS_LIST.search(question)),
            bool(_WANTS_CODE.search(question)),
            causes,
        )

    def preferring(self, unit: Quote) -> Quote:
        """A unit with a fifth more where it has the form that is asked for."""
        leads = unit.first.text.endswith((":", "：")) and len(unit.sentences) > 1
        several = unit.kind in ("list", "table") or leads
        score = unit.score
        if self.causes and several and self._gives_causes(unit.first):
            score = max(score, _CAUSE_SCORE)
        elif (self.steps and unit.steps) or (self.listed and several):
            score = round(min(1.0, score * _FORM), 6)
        return unit if score == unit.score else replace(unit, score=score)

    def _gives_causes(self, lead: Sentence) -> bool:
        thing = _CAUSES.sub(" ", self.question)
        return bool(_CAUSES.search(lead.text)) and names_subject(
            thing, f"{lead.heading} {lead.text}"
        )


def _with_neighbour(
    form: _QuestionForm, sentences: Sequence[Sentence], quote: Quote
) -> Iterator[Quote]:
    """Yield a sentence; before it, the pair with the one it refers back to or with the next.

    The next one is needed where it holds the kind of thing that is asked for, a date or a number,
    and the sentence itself does not. Reasons need no word that marks them.
    """
    at, first = quote.at, quote.first
    prose = quote.score > _HOPELESS and quote.kind == "sentence" and first.kind == "prose"
    back = prose and at and _POINTS_BACK.match(first.text)
    pair: tuple[Sentence, ...] = (sentences[at - 1], first) if back else ()
    if prose and not pair and form.kind in ("time", "number", "reason") and at + 1 < len(sentences):
        offered, below = (offers(form.kind, s.text, form.words) for s in sentences[at : at + 2])
        if not offered and (below or form.kind == "reason"):
            pair = (first, sentences[at + 1])
    near = pair and all(_same_paragraph(part, first) for part in pair)
    if near and sum(_COUNTER.count(part.text) for part in pair) <= _PAIR_WORDS:
        yield Quote("pair", pair, quote.score, at - (pair[-1] is first))
    yield quote


def _led_to(sentences: Sequence[Sentence], scores: Sequence[float], at: int) -> Iterator[float]:
    """Scores of the sentences before a lead-in in its paragraph, and of the items below it.

    A paragraph that answers and ends in a list leads to it, and an item that answers is part of it.
    """
    yield 0.0
    below = whole(sentences, at)
    if below and below[0].kind == "item" and sentences[at].kind == "prose":
        yield from (_WHOLE * score for score in scores[at + 1 : at + 1 + len(below)])
    for before in range(at - 1, -1, -1):
        if not _same_paragraph(sentences[before], sentences[at]):
            return
        yield _WHOLE * scores[before]


def _same_paragraph(first: Sentence, second: Sentence) -> bool:
    return (first.number, first.block, first.kind) == (second.number, second.block, second.kind)


def _opens_definition(form: _QuestionForm, first: Sentence) -> bool:
    """True where a sentence opens what names the thing, or writes out its abbreviation."""
    return names_subject(form.question, first.opens) or writes_out(form.question, first.text)


def _larger_units(
    form: _QuestionForm, sentences: Sequence[Sentence], at: int, raw: float, hit: Hit
) -> Iterator[Quote]:
    """Yield the lead-in at a place with its list, and the sentence with its code."""
    first = sentences[at]
    score = raw * _WHOLE if first.kind == "title" else raw
    below = whole(sentences, at)
    code = _shown_code(form, first, hit)
    if below:
        rows = below[-1].kind == "row"
        runs = below[-1].kind == "prose" or first.kind == "item"
        kind: QuoteKind = "table" if rows else "sentence" if runs else "list"
        yield Quote(kind, (first, *below), score, at, code if kind == "list" else "")
    if code:
        yield Quote("code", (first,), score, at, code)


def _shown_code(form: _QuestionForm, first: Sentence, hit: Hit) -> str:
    """The code below a sentence, empty where the question needs none.

    A question for steps or for code needs it; other questions where the sentence leads to it, and
    no example.
    """
    if not first.code:
        return ""
    caption = _EXAMPLE.search(first.text)
    leads = form.steps or (first.kind == "prose" and first.text.endswith((":", "：")))
    if not (form.coded or (leads and not caption)):
        return ""
    code = _fenced_code(hit, first.code)
    return code if form.coded or _COUNTER.count(code) <= _CODE_WORDS else ""


def details(best: Quote, quotes: Sequence[Quote], room: int, *, steps: bool) -> list[Quote]:
    """The quotes that follow a definition in its passage, up to a number of words.

    It ends with the section, at a table, at a list without a lead-in, and at code; references to
    other pages and sentences without an end are passed over. With ``steps``, only what says what to
    do, if anything does.
    """
    following = list(_quotes_after(best, quotes, room))
    if steps:
        step_quotes = [q for q in quotes if q.steps]
        following = list(_quotes_after(best, step_quotes, room)) or following
    return following


def rest_of_paragraph(best: Quote, quotes: Sequence[Quote], room: int) -> list[Quote]:
    """The sentences that follow a quote in its paragraph, up to a number of words."""
    in_paragraph = [q for q in quotes if q.first.block == best.first.block]
    return list(_quotes_after(best, in_paragraph, room))


def _quotes_after(best: Quote, quotes: Sequence[Quote], room: int) -> Iterator[Quote]:
    end = best.span.end
    for quote in sorted(quotes, key=lambda q: (q.first.span.start, -len(q.sentences))):
        first = quote.first
        if quote.number != best.number or first.span.start < end:
            continue
        if not first.heading.startswith(best.first.heading):
            return
        if first.kind != "prose" or first.code:
            return
        if _ASIDE.match(first.text) or (quote.kind != "list" and first.text.endswith((":", "："))):
            continue
        if quote.kind == "sentence" and first.weight < 1.0:
            continue
        quote = quote.fitted(room)
        room -= quote.words
        if room < 0:
            return
        end = quote.span.end
        yield quote


def definition_above(best: Quote, quotes: Sequence[Quote], room: int) -> list[Quote]:
    """The sentence that opens the page of some steps, if it fits a number of words."""
    for quote in quotes:
        first = quote.first
        if first.document_id != best.first.document_id or quote.kind != "sentence":
            continue
        if first.opens and first.kind == "prose" and first.span.end <= best.span.start:
            return [quote] if quote.words <= room else []
    return []


def _paragraph_from(sentences: Sequence[Sentence], at: int) -> tuple[Sentence, ...]:
    """A sentence and those that follow it in its paragraph, and the list that they lead to."""
    first = sentences[at]
    parts = [first]
    size = _COUNTER.count(first.text)
    for sentence in sentences[at + 1 :]:
        size += _COUNTER.count(sentence.text)
        same_block = (sentence.number, sentence.block) == (first.number, first.block)
        if not same_block or size > _LEAD_WORDS or sentence.code:
            break
        parts.append(sentence)
    return tuple(parts)


def _fenced_code(hit: Hit, span: Span) -> str:
    """The fenced lines, empty if something in them reads as a citation mark."""
    code = hit.text[span.start - hit.start : span.end - hit.start].strip()
    return "" if any(citation_marks(code)) else code


def _row_with_columns(sentence: Sentence, *, short: bool = False) -> str:
    """The cells of a row, each with the name of its column where the table has a header.

    ``short`` leaves out the name of the first column, and of the second one of two.
    """
    cells = _split_cells(sentence.text)
    names = _split_cells(sentence.header[1]) if sentence.header else []
    if short and len(names) == len(cells) == 2:
        return ": ".join(cell for cell in cells if cell)
    if short and names:
        names[0] = ""
    if len(names) != len(cells):
        return "; ".join(cell for cell in cells if cell)
    pairs = zip(names, cells, strict=True)
    return "; ".join(f"{name}: {cell}" if name else cell for name, cell in pairs if cell)


def _table_text(sentences: Sequence[Sentence], layout: Layout) -> str:
    """A lead-in and the rows below it: a line for each row, or running text."""
    lead = [s for s in sentences if s.kind != "row"]
    rows = [s for s in sentences if s.kind == "row"]
    if layout != "lists":
        return _run_on([*(s.text for s in lead), *(_row_with_columns(s, short=True) for s in rows)])
    return " ".join(s.text for s in lead) + "".join(
        f"\n- {_row_with_columns(s, short=True)}" for s in rows
    )


def _split_cells(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def _item_line(sentence: Sentence, below: bool) -> str:
    if not sentence.bullet:
        return f" {sentence.text}" if below else sentence.text
    mark = sentence.bullet if _NUMBERED.match(sentence.bullet) else "-"
    return f"\n{mark} {sentence.text}"


def _run_on(texts: Sequence[str]) -> str:
    """A lead-in and its items as running text."""
    joined = texts[0]
    for before, text in pairwise(texts):
        ends = before.endswith((".", ":", ";", ",", "!", "?", "：", "。", " and", " or"))
        joined += f"{'' if ends else ';'} {text}"
    return joined
