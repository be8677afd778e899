"""The words of a question as parts of a query on one table: columns, values, numbers, dates."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

from ...core import late_pattern
from ...index import folded, month_number, named_unit, read_date, singular
from .._tables import Sheet
from ._signs import COMPARING, RANGE, SIGN, UNEQUAL, is_sign, written_so
from ._words import (
    AGGREGATES,
    COMPARISONS,
    DESCRIBING,
    FILLERS,
    GROUPS,
    NEGATIONS,
    OF_DATES,
    ROWS,
    WEAK,
)  # fmt: skip

ItemKind: TypeAlias = Literal[
    "aggregate", "column", "value", "table", "unit", "number", "date", "comparison", "negation",
    "group", "rows", "or", "filler", "unknown",
]  # fmt: skip
Found: TypeAlias = Mapping[str, Mapping[str, tuple[str, ...]]]
"""Values in a table, by the words of the question: folded words -> column -> values."""

_TOKEN = late_pattern(
    r"\d{4}-\d{2}-\d{2}|\d{1,2}[./]\d{1,2}[./]\d{4}|°[CFcf]\b|[€$£¥%]"
    rf"|{RANGE}|{SIGN}"
    r"|(?<![\w.,])[-−]?\d[\d.,]*\d(?![^\W_])|(?<![\w.,])[-−]?\d(?![^\W_])|\d+(?:[.,]\d+)?(?=[a-zA-Z]{1,3}\b)"
    r"|[^\W_]+"
)
_LONGEST = 8
"""Words of the longest value or name that is looked for."""
_NUMBER_WORDS = "zero one two three four five six seven eight nine ten eleven twelve"
_NUMBERS = {word: number for number, word in enumerate(_NUMBER_WORDS.split())}
_FACTORS = {"hundred": 100, "thousand": 1_000, "k": 1_000, "million": 1_000_000}
_KEYWORDS = (
    frozenset(AGGREGATES) | frozenset(COMPARISONS) | NEGATIONS | GROUPS | FILLERS | {"or", "and"}
)


@dataclass(frozen=True, slots=True)
class Word:
    """A word, number or sign of the question with its place."""

    text: str
    start: int
    end: int


@dataclass(slots=True)
class Item:
    """A part of the question.

    Attributes:
        kind: What it is.
        text: Its words as written.
        value: By kind: the aggregate, the comparison, the number, first and last day of a date, the
            unit; for ``column`` the names it may mean, for ``value`` its columns and values.
        exact: False for a column that is named by a part of its name, and for a number whose point
            may separate thousands, such as 3.500.
    """

    kind: ItemKind
    text: str
    value: Any = None
    exact: bool = True


@dataclass(frozen=True)
class Question:
    """A question, cut into words.

    Attributes:
        text: As asked.
        words: Its words.
    """

    text: str
    words: tuple[Word, ...] = field(default=())

    @classmethod
    def of(cls, text: str) -> Question:
        """Cut a question into words; the possessive ``'s`` is dropped."""
        plain = re.sub(r"['’]s\b", "  ", text)
        return cls(
            text, tuple(Word(m[0].strip(), m.start(), m.end()) for m in _TOKEN.finditer(plain))
        )

    def span(self, start: int, end: int) -> str:
        """The words from one position to another, as written."""
        return self.text[self.words[start].start : self.words[end - 1].end]

    @cached_property
    def grams(self) -> tuple[str, ...]:
        """All runs of up to eight words, folded: what a value may be called."""
        runs = {
            folded(self.span(start, end))
            for start in range(len(self.words))
            for end in range(start + 1, min(len(self.words), start + _LONGEST) + 1)
        }
        return tuple(sorted(run for run in runs if run and run not in _KEYWORDS | {""})) + tuple(
            sorted({word.text.casefold() for word in self.words if _emphasised(word)} & _KEYWORDS)
        )


def _emphasised(word: Word) -> bool:
    """True for a code in capitals, not a function word: IN for Indiana, A for a grade."""
    return word.text.isupper() and (len(word.text) > 1 or (word.text == "A" and word.start > 0))


def items_of(question: Question, sheet: Sheet, values: Found) -> list[Item]:
    """Cut a question into items as they are understood on one table, longest names first."""
    reader = _ItemReader(question, sheet, values)
    items: list[Item] = []
    at = 0
    while at < len(question.words):
        item, at = reader.item_at(at)
        items.append(item)
    items = [_as_number(item, items[at - 1 : at], items[at + 1 :]) for at, item in enumerate(items)]
    return [_as_condition(item, items[at + 1 :]) for at, item in enumerate(items)]


def _as_condition(item: Item, after: Sequence[Item]) -> Item:
    """Read no filler in "complete orders", which may be some of them only."""
    noun = bool(after) and after[0].kind in {"column", "table", "rows"}
    describes = item.kind == "filler" and item.text.casefold() in DESCRIBING
    return Item("unknown", item.text) if noun and describes else item


def _as_number(item: Item, before: Sequence[Item], after: Sequence[Item]) -> Item:
    """Read ``2024`` as a number after "over" and before a unit; other dates stay."""
    if item.kind != "date" or not item.text.isdigit():
        return item
    measured = bool(after) and after[0].kind == "unit"
    compared = bool(before) and before[0].kind == "comparison"
    if measured or (compared and before[0].text.casefold() not in OF_DATES):
        return Item("number", item.text, int(item.text))
    return item


class _ItemReader:
    """Finds the item that begins at a word of the question."""

    def __init__(self, question: Question, sheet: Sheet, values: Found) -> None:
        self._question = question
        self._values = values
        self._names: dict[str, list[str]] = {}
        self._parts: dict[str, list[str]] = {}
        for column in sheet.columns:
            for name in dict.fromkeys((column.header or column.name, column.name)):
                self._names.setdefault(singular(folded(name)), []).append(column.name)
            for part in _sub_runs(singular(folded(column.name)).split()):
                self._parts.setdefault(part, []).append(column.name)
        for name, columns in list(self._names.items()):  # "night flow" of Flow, Night
            turned = " ".join(reversed(name.split()))
            if len(name.split()) == 2 and turned not in self._names:
                self._names[turned] = columns
        self._dates = {
            word: [c.name for c in sheet.columns if c.type == "date" and word in _words(c.name)]
            for c in sheet.columns
            for word in _words(c.name)
        }
        short = [text for text in (sheet.notes, sheet.title) if len(text.split()) <= 6]
        named = " ".join([sheet.called, *short])
        self._table_words = set(singular(folded(named)).split()) - FILLERS

    def item_at(self, at: int) -> tuple[Item, int]:
        """The longest item at a word, and the position after it."""
        words = self._question.words
        for end in range(min(len(words), at + _LONGEST), at, -1):
            text = self._question.span(at, end)
            item = self._named_item(text, at, end)
            if item is not None:
                return item, end
            if end - at == 1:
                break
        dated = self._date_at(at)
        if dated is not None:
            return dated
        return self._plain_at(at)

    def _named_item(self, text: str, at: int, end: int) -> Item | None:
        """A value, a column or a phrase of the grammar with exactly these words."""
        form = folded(text)
        whole = singular(form)
        single = end - at == 1
        keyword = form in _KEYWORDS
        emphasised = _emphasised(self._question.words[at])
        values = self._values_of(form, text)
        if values and (not keyword or emphasised):
            return Item("value", text, values)
        if single and text == "A" and emphasised:
            return None
        edges = (self._question.words[at].text, self._question.words[end - 1].text)
        if not single and any(map(is_sign, edges)):
            return None
        columns = self._names.get(whole)
        opening = at == 0 and form in AGGREGATES
        if columns and not opening and form not in {"in", "on", "of", "by", "to"}:
            return Item("column", text, tuple(columns))
        phrase = _phrase_item(text, form)
        if phrase is not None and not (single and self._is_number(at)):
            return phrase
        if keyword or not form or (single and self._is_number(at)):
            return None
        parts = self._parts.get(whole)
        if parts and whole not in ROWS:
            both = whole in self._table_words and (len(parts) > 1)
            kind: ItemKind = "table" if both else "column"
            return Item(kind, text, tuple(parts), exact=False)
        if single and (whole in self._table_words):
            return Item("table", text)
        return None

    def _values_of(self, form: str, text: str) -> dict[str, tuple[str, ...]]:
        """Values by column with these words and these signs."""
        held = self._values.get(form, {})
        chosen = {column: written_so(values, text) for column, values in held.items()}
        return {column: values for column, values in chosen.items() if values}

    def _is_number(self, at: int) -> bool:
        return bool(re.match(r"[-−]?\d", self._question.words[at].text))

    def _date_at(self, at: int) -> tuple[Item, int] | None:
        """A day, month, quarter or year."""
        texts = [word.text for word in self._question.words[at : at + 4]]
        day = read_date(texts[0])
        if day is not None:
            return Item("date", texts[0], (day, day)), at + 1
        rest = [re.sub(r"(?<=\d)(?:st|nd|rd|th)$", "", text) for text in texts]
        for width, pattern in ((4, "do-y"), (3, "dmy"), (3, "mdy"), (2, "my"), (2, "qy"), (1, "y")):
            bounds = _bounds(rest[:width], pattern) if len(rest) >= width else None
            if bounds is not None:
                return Item("date", " ".join(texts[:width]), bounds), at + width
        return None

    def _plain_at(self, at: int) -> tuple[Item, int]:
        words = self._question.words
        text = words[at].text
        number = _number_of(text)
        if number is not None:
            factor = _FACTORS.get(words[at + 1].text.casefold()) if at + 1 < len(words) else None
            value = number * (factor or 1)
            clear = re.fullmatch(r"[-−]?[1-9]\d{0,2}\.\d{3}", text) is None
            return Item("number", text, value, exact=clear), at + (2 if factor else 1)
        unit = named_unit(text)
        if unit and text.casefold() not in _KEYWORDS and (len(text) > 1 or not text.isalpha()):
            return Item("unit", text, unit), at + 1
        if unit and at and self._is_number(at - 1):
            return Item("unit", text, unit), at + 1
        return self._verb_item(text, at) or Item("unknown", text), at + 1

    def _verb_item(self, text: str, at: int) -> Item | None:
        """A verb made of a name: "shipped" of the table shipments, or of its ship date."""
        bases = {base for base in _verb_bases(folded(text)) if len(base) > 2}
        if bases & self._table_words:
            return Item("table", text)
        following = (
            folded(self._question.words[at + 1].text) if at + 1 < len(self._question.words) else ""
        )
        columns = [c for base in sorted(bases) for c in self._dates.get(base, ())]
        if len(set(columns)) == 1 and following in COMPARISONS:
            return Item("column", text, (columns[0],), exact=False)
        return None


def _words(name: str) -> list[str]:
    return singular(folded(name)).split()


def _verb_bases(word: str) -> set[str]:
    """Names that a verb may be made of: order of "ordered", sale of "sold"."""
    bases = {"sale"} if word == "sold" else set()
    for ending in ("ed", "ing", "d"):
        if word.endswith(ending):
            base = word[: -len(ending)]
            bases |= {base, f"{base}e", f"{base}ment"}
            bases |= {base[:-1], f"{base[:-1]}ment"} if base[-1:] == base[-2:-1] else set()
    return bases


def _phrase_item(text: str, form: str) -> Item | None:
    if text in COMPARING:
        return Item("comparison", text, COMPARING[text], exact=text != "=")
    if text in UNEQUAL:
        return Item("negation", text)
    if form in NEGATIONS:
        return Item("negation", text)
    if form in AGGREGATES and form not in WEAK:
        return Item("aggregate", text, AGGREGATES[form])
    if form in COMPARISONS:
        return Item("comparison", text, COMPARISONS[form], exact=form not in WEAK)
    if form in AGGREGATES:
        return Item("aggregate", text, AGGREGATES[form])
    if form in GROUPS:
        return Item("group", text)
    if singular(form) in ROWS:
        return Item("rows", text)
    if form == "or":
        return Item("or", text)
    if form in FILLERS:
        return Item("filler", text)
    return None


def _sub_runs(words: Sequence[str]) -> Iterator[str]:
    """All runs of words of a name but the whole, without those that are function words."""
    runs = {
        " ".join(words[start:end])
        for start in range(len(words))
        for end in range(start + 1, len(words) + 1)
        if end - start < len(words)
    }
    return (run for run in sorted(runs) if run not in _KEYWORDS and len(run) > 1)


def _number_of(text: str) -> float | int | None:
    plain = text.replace("−", "-")
    if re.fullmatch(r"-?\d{1,3}(?:,\d{3})+(?:\.\d+)?", plain):
        plain = plain.replace(",", "")
    elif re.fullmatch(r"-?\d{1,3}(?:\.\d{3})+,\d+", plain):
        plain = plain.replace(".", "").replace(",", ".")
    elif re.fullmatch(r"-?\d+,\d+", plain):
        plain = plain.replace(",", ".")
    if re.fullmatch(r"-?\d+", plain):
        return int(plain)
    if re.fullmatch(r"-?\d+\.\d+", plain):
        return float(plain)
    return _NUMBERS.get(text.casefold())


def _bounds(texts: Sequence[str], pattern: str) -> tuple[str, str] | None:
    """First and last day of a date in words: ``1 of March 2024``, ``March 2024``, ``Q1 2024``."""
    parts = dict(zip(pattern.replace("-", "m"), texts, strict=True))
    year_text = parts.get("y", "")
    if not re.fullmatch(r"(?:19|20)\d\d", year_text) or (
        "o" in parts and parts["o"].casefold() != "of"
    ):
        return None
    year = int(year_text)
    if pattern == "y":
        return f"{year}-01-01", f"{year}-12-31"
    if "q" in parts:
        match = re.fullmatch(r"[Qq]([1-4])", parts["q"])
        first = 3 * int(match[1]) - 2 if match else 0
        last = first + 2
    else:
        first = last = month_number(parts["m"])
    if not first:
        return None
    end = calendar.monthrange(year, last)[1]
    if "d" not in parts:
        return f"{year}-{first:02}-01", f"{year}-{last:02}-{end:02}"
    if not parts["d"].isdigit() or not 1 <= int(parts["d"]) <= end:
        return None
    day = f"{year}-{first:02}-{int(parts['d']):02}"
    return day, day
