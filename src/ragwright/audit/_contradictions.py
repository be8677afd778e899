"""Contradictions: statements that are equal but for a number, unit, date or negation.

A statement is stored under its words without its values. Two statements under one key that differ
in a value are a candidate if something shows that both speak of the same thing: the heading above
them, or a code or rare word within them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

from ..core import Document, value_hash
from ..models import is_code, stop_words, words
from ._records import Finding, Severity
from ._text import Brief, Corpus, Headings, Line, cells_of, plain_words, statements_of, tables_of
from ._values import Shape, shape_of

_LEAST_WORDS = 4
"""Content words that a statement has besides its values."""
_MOST_SHARED = 6
"""Statements under one key; more are a template."""
_MOST_VALUES = 3
_RARE = 4
"""Documents up to which a word names something particular."""
_NEAR = 1_500
"""Characters within one document in which alike statements are an enumeration."""
_STOP = stop_words("en") | stop_words("de") | stop_words("fr") | stop_words("es")

_KEPT = frozenset(
    ("with", "without", "no", "only", "all", "some", "few", "more", "less", "most", "up", "down")
)
"""Stop words that change what a statement says."""
_LINKING = (
    "indeed also just then thus therefore however moreover furthermore hence besides still even "
    "quite rather very auch doch dann daher jedoch zudem noch aussi donc cependant alors"
)
_SMALL = frozenset(_LINKING.split())
"""Words that link or colour a statement: two that differ in them alone say the same."""
_LONG = 8
"""Content words from which two equal statements need no further sign of a common subject."""
_FEW = 3
"""Statements under the key of such a pair."""

_Key: TypeAlias = int


@dataclass(frozen=True, slots=True)
class _Stated:
    """A statement: its place, heading and values."""

    document: int
    start: int
    end: int
    heading: str
    values: tuple[str, ...]
    cell: bool = False


class Contradictions:
    """Collects the statements of a corpus, and pairs those that differ in a value."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._by_key: dict[_Key, list[_Stated]] = {}
        self._documents_of: Counter[str] = Counter()
        self._titles: Counter[str] = Counter()

    def read(self, document: Document, brief: Brief, lines: Sequence[Line]) -> None:
        """Remember the statements of a document."""
        headings = Headings(document)
        seen: set[str] = set(words(document.title.casefold()))
        self._titles[_plain(document.title)] += 1
        topics = {_plain(section.title) for section in document.sections}
        self._titles.update(topics - {_plain(document.title)})
        for start, end, sentence in statements_of(lines, document.language):
            shape = shape_of(plain_words(sentence))
            seen.update(shape.content)
            if len(shape.skeleton) <= 60 and not _asks(sentence):
                self._store(shape, _Stated(brief.number, start, end, headings.at(start), ()))
        for table in tables_of(lines):
            self._read_table(table, brief, headings)
            seen.update(word for line in table for word in words(cells_of(line)[0].casefold()))
        self._documents_of.update(seen)

    def _read_table(self, table: Sequence[Line], brief: Brief, headings: Headings) -> None:
        """Remember each cell under its row's first cell and its column's head."""
        if len(table) < 3 or not table[1].rule:
            return
        heads = [_plain(cell) for cell in cells_of(table[0])]
        for line in table[2:]:
            first, *rest = cells_of(line) or [""]
            if not _plain(first) or len(rest) + 1 > len(heads):
                continue
            for head, cell in zip(heads[1:], rest, strict=False):
                if head and cell and len(cell) <= 60 and any(c.isdigit() for c in cell):
                    key = value_hash(["cell", _plain(first), head])
                    shape = shape_of(f"value {cell}")
                    place = headings.at(line.start)
                    stated = _Stated(
                        brief.number, line.start, line.end, place, shape.values, cell=True
                    )
                    self._by_key.setdefault(int(key[:15], 16), []).append(stated)

    def _store(self, shape: Shape, stated: _Stated) -> None:
        content = [word for word in shape.content if word not in _STOP and len(word) > 1]
        if len(content) < _LEAST_WORDS - 2:
            return
        key = hash_of(_telling(shape.skeleton))
        entries = self._by_key.setdefault(key, [])
        if len(entries) <= 4 * _MOST_SHARED:  # a template: the rest says no more
            entries.append(
                _Stated(stated.document, stated.start, stated.end, stated.heading, shape.values)
            )

    def findings(self) -> Iterator[Finding]:
        """Candidates, in the order of their first statement."""
        for entries in self._by_key.values():
            if len(entries) < 2 or len({entry.values for entry in entries}) < 2:
                continue
            pairs: set[frozenset[tuple[str, ...]]] = set()
            for first, second in combinations(_told_apart(entries), 2):
                values = frozenset((first.values, second.values))
                if len(values) < 2 or values in pairs:
                    continue
                pair = self._pair(first, second, entries)
                if pair is not None:
                    pairs.add(values)
                    yield pair

    def _pair(self, first: _Stated, second: _Stated, entries: Sequence[_Stated]) -> Finding | None:
        """The candidate of two statements; None where nothing shows a common subject."""
        if len(first.values) != len(second.values):
            return None
        if first.document == second.document and abs(first.start - second.start) < _NEAR:
            return None
        left, right = (
            self._corpus.place(entry.document, entry.start, entry.end) for entry in (first, second)
        )
        if first.cell:
            return self._cell_pair(first, second, left.text, right.text)
        one_shape, other_shape = shape_of(plain_words(left.text)), shape_of(plain_words(right.text))
        differing = [
            number
            for number, (a, b) in enumerate(zip(one_shape.values, other_shape.values, strict=True))
            if a != b
        ]
        subject = self._subject(first, second, one_shape, len(entries))
        shape_words = [word for word in one_shape.content if word not in _STOP]
        sure = (
            bool(subject)
            and len(entries) <= _MOST_SHARED
            and len({entry.values for entry in entries}) <= _MOST_VALUES
            and not self._separate(first, second, one_shape)
            and len(differing) <= 2
            and (_is_sentence(left.text) or len(shape_words) > _LEAST_WORDS)
        )
        changed = [
            [one_shape.written[number] for number in differing],
            [other_shape.written[number] for number in differing],
        ]
        kind = _difference(one_shape, other_shape, differing[0])
        about = (
            f"Both passages speak of {_spelled_in(subject, left.text)}"
            if subject
            else "The passages read alike"
        )
        return Finding(
            "contradictions",
            kind,
            _severity(kind),
            (left, right),
            f"{about}, but the first says {_quoted(changed[0])} and the second "
            f"{_quoted(changed[1])}.",
            "Find out which value holds, correct the other passage or say when each applies.",
            sure,
            {"changed": changed},
        )

    def _cell_pair(self, first: _Stated, second: _Stated, left: str, right: str) -> Finding | None:
        """The candidate of two cells with the same row and column."""
        name = cells_of(Line(left, 0))[0]
        same_place = first.heading and _plain(first.heading) == _plain(second.heading)
        title, other = (self._corpus.briefs[e.document].title for e in (first, second))
        same_title = title and _plain(title) == _plain(other)
        rare = any(self._is_rare(word.casefold()) for word in words(name))
        if first.document == second.document:
            return None
        places = tuple(
            self._corpus.place(entry.document, entry.start, entry.end) for entry in (first, second)
        )
        changed = [
            sorted(set(first.values) - set(second.values)),
            sorted(set(second.values) - set(first.values)),
        ]
        return Finding(
            "contradictions",
            "table cell",
            "high",
            places,
            f"Two tables have a row {name!r}, but in the same column the first has "
            f"{_quoted(changed[0])} and the second {_quoted(changed[1])}.",
            "Find out which value holds, and keep the table in one place.",
            bool(same_place or same_title or rare),
            {"changed": changed},
        )

    def _subject(self, first: _Stated, second: _Stated, shape: Shape, count: int) -> str:
        """What both statements speak of; empty if nothing shows that."""
        content = [word for word in shape.content if word not in _STOP and len(word) > 1]
        codes = [word for word in content if is_code(word, written=True) and self._is_rare(word)]
        if codes:
            return f"«{codes[0]}»"
        for name in self._names(second):
            if name in self._names(first) and self._titles[name] <= _RARE:
                return f"«{name}»"
        if len(content) < _LEAST_WORDS:
            return ""
        rare = [word for word in content if self._is_rare(word) and len(word) > 3]
        if len(rare) >= 2:
            return f"«{rare[0]}»"
        alone = first.document != second.document and count <= _FEW
        return f"«{' '.join(content[:4])}»" if alone and len(content) >= _LONG else ""

    def _names(self, stated: _Stated) -> list[str]:
        """What a statement stands under: its heading and the title of its document."""
        names = (stated.heading, self._corpus.briefs[stated.document].title)
        return [plain for plain in map(_plain, names) if plain]

    def _separate(self, first: _Stated, second: _Stated, shape: Shape) -> bool:
        """True if the headings name two different things and the statement itself none."""
        if any(is_code(word, written=True) for word in shape.content):
            return False
        names = [
            {
                word.casefold()
                for word in words(f"{self._corpus.briefs[e.document].title} {e.heading}")
                if any(c.isdigit() for c in word)
            }
            for e in (first, second)
        ]
        return bool(names[0] and names[1]) and names[0].isdisjoint(names[1])

    def _is_rare(self, word: str) -> bool:
        return 0 < self._documents_of[word] <= _RARE


def _told_apart(entries: Sequence[_Stated]) -> list[_Stated]:
    """Some statements under one key: the first ones of each value, so that no value is left out."""
    by_values: dict[tuple[str, ...], list[_Stated]] = {}
    for entry in entries:
        by_values.setdefault(entry.values, []).append(entry)
    each = max(1, 2 * _MOST_SHARED // len(by_values))
    return [entry for alike in by_values.values() for entry in alike[:each]]


def _difference(first: Shape, second: Shape, at: int) -> str:
    """What kind of value differs: of values in one unit it is the number."""
    kind = first.kinds[at]
    units = {re.sub(r"[\d.,\s+−-]", "", shape.written[at]) for shape in (first, second)}
    return "number" if kind == "unit" and len(units) == 1 else kind


def _telling(skeleton: Sequence[str]) -> list[str]:
    """The words of a skeleton that say something: no articles, no adverbs in -ly."""
    return [
        word
        for word in skeleton
        if word.startswith("<")
        or word in _KEPT
        or not (word in _STOP or word in _SMALL or (len(word) > 4 and word.endswith("ly")))
    ]


def _is_sentence(text: str) -> bool:
    """True if a statement ends as a sentence does; headers of pages do not."""
    return text.rstrip().rstrip('*_`)"”').endswith((".", "!", "?", ":", ";"))


def _asks(text: str) -> bool:
    """True for a question: it states nothing that another one could contradict."""
    return text.rstrip().rstrip('*_`)"”').endswith("?")


def hash_of(skeleton: Sequence[str]) -> _Key:
    """Number of a skeleton, the same in every process."""
    return int(value_hash(list(skeleton))[:15], 16)


def _plain(text: str) -> str:
    return " ".join(words(text.casefold()))


def _spelled_in(subject: str, text: str) -> str:
    """A subject in the letters of the text, where it stands there."""
    match = re.search(re.escape(subject.strip("«»")), text, re.IGNORECASE)
    return f"«{match[0]}»" if match else subject


def _quoted(values: Sequence[str]) -> str:
    return ", ".join(f"«{value}»" for value in values) or "nothing"


def _severity(kind: str) -> Severity:
    return "medium" if kind == "date" else "high"
