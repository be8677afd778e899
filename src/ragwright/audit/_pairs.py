"""Pairs of statements that are alike and not equal: a judge decides which contradict each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..core import Document
from ..models import stop_words, words
from ._records import Finding
from ._text import AuditCorpus, Brief, DocumentLine, statements_of, strip_markdown

_STOP = stop_words("en") | stop_words("de") | stop_words("fr") | stop_words("es")
_LEAST = 3
"""Content words of a statement that is compared."""
_ALIKE = 0.6
"""Share of the content words of both that two statements have in common."""
_MOST_PAIRS = 100
"""Most pairs that the judge reads."""

_MOST_WITH_WORD = 200
"""Statements that share a word; a more frequent word proposes no pair."""


@dataclass(frozen=True, slots=True)
class _Statement:
    document: int
    start: int
    end: int
    text: str
    content: frozenset[str]


@dataclass(slots=True)
class Pairs:
    """Collects the statements of a corpus, and pairs those that share most of their words."""

    corpus: AuditCorpus
    _statements: list[_Statement] = field(default_factory=list)

    def read(self, document: Document, brief: Brief, lines: Sequence[DocumentLine]) -> None:
        """Remember the statements of a document."""
        for start, end, sentence in statements_of(lines, document.language):
            text = strip_markdown(sentence)
            content = frozenset(
                word for word in words(text.casefold()) if word not in _STOP and len(word) > 1
            )
            if len(content) >= _LEAST and not text.endswith("?"):
                self._statements.append(_Statement(brief.number, start, end, text, content))

    def findings(self) -> Iterator[Finding]:
        """Candidates, the most alike first, at most ``most``."""
        alike = sorted(self._alike(), key=lambda pair: (-pair[0], pair[1], pair[2]))
        for _, first, second in alike[:_MOST_PAIRS]:
            places = (
                self.corpus.place(s.document, s.start, s.end)
                for s in (self._statements[first], self._statements[second])
            )
            yield Finding(
                "contradictions",
                "statement",
                "high",
                tuple(places),
                "Both passages speak of the same thing, and at most one of them can be right.",
                "Find out which one holds, correct the other or say when each applies.",
                sure=False,
            )

    def _alike(self) -> Iterator[tuple[float, int, int]]:
        """(share of common words, numbers of two statements): of each text only the first."""
        by_word: dict[str, list[int]] = defaultdict(list)
        seen: set[str] = set()
        for number, statement in enumerate(self._statements):
            key = " ".join(words(statement.text.casefold()))
            if key in seen:
                continue
            seen.add(key)
            shared: dict[int, int] = defaultdict(int)
            for word in statement.content:
                if len(by_word[word]) < _MOST_WITH_WORD:
                    for other in by_word[word]:
                        shared[other] += 1
                    by_word[word].append(number)
            for other, count in shared.items():
                known = len(statement.content | self._statements[other].content)
                if count >= _ALIKE * known:
                    yield count / known, other, number
