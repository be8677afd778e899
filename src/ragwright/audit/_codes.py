"""Codes that are used and defined nowhere, while others of their shape are defined."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ..core import Document
from ..models import is_code
from ..retrieve import Glossary
from ._records import Finding, Place
from ._text import LINK, AuditCorpus, Brief, DocumentLine, cells_of

_FAMILY = 4
"""Defined codes of one shape from which another one of that shape should be defined too."""
_DEFINED_SHARE = 0.5
"""Share of the codes of a shape that are defined; below it the corpus defines none on purpose."""
_STRONG = ("row", "line", "below", "heading")
_NUMBERS = re.compile(r"\d+")
_DIGIT = re.compile(r"\d")
_NAME = re.compile(r"(?<![\w./@#-])[^\W_][\w-]*[^\W_](?![\w/@])")


@dataclass(slots=True)
class _Use:
    """First use of a code, and how often it is used."""

    document: int
    start: int
    end: int
    uses: int = 1


class Codes:
    """Collects uses of codes, and compares them with the mined definitions."""

    def __init__(self, corpus: AuditCorpus) -> None:
        self._corpus = corpus
        self._codes: dict[str, _Use] = {}
        self._rows: set[str] = set()
        self._headed: set[str] = set()
        self._loose: set[str] = set()

    def read(self, document: Document, brief: Brief, lines: Sequence[DocumentLine]) -> None:
        """Count the codes of a document's prose."""
        for line in lines:
            if line.code or not line.text.strip():
                continue
            if line.row and not line.rule:
                first = cells_of(line)[0].split()
                self._rows.update(word.strip("`*") for word in (*first[:1], *first[-1:]))
            links = [match.span() for match in LINK.finditer(line.text)]
            for match in _NAME.finditer(line.text):
                word = match[0]
                if _DIGIT.search(word) is None or not is_code(word, written=True):
                    continue
                if line.text.lstrip().startswith("#"):
                    self._headed.add(word)
                if not any(start <= match.start() < end for start, end in links):
                    self._loose.add(word)
                if not _in_range(line.text, match.start(), match.end()):
                    start = line.start + match.start()
                    use = self._codes.get(word)
                    if use is None:
                        end = line.start + match.end()
                        self._codes[word] = _Use(brief.number, start, end)
                    else:
                        use.uses += 1

    def findings(
        self, glossary: Glossary, dead: Collection[tuple[int, int, int]] = ()
    ) -> Iterator[Finding]:
        """Codes without a definition, of a shape of which others have one.

        Args:
            glossary: Definitions that were mined from the same documents.
            dead: Links that are reported already: number of the document, start, end. A code that
                is used within them alone is not reported a second time.
        """
        strong = {term for term, all_of in glossary.entries.items() if all_of[0].rule in _STRONG}
        families = Counter(_shape(term) for term in strong if _shape(term))
        used = Counter(_shape(code) for code in self._codes)
        defined = {term.casefold() for term in (*glossary.entries, *self._rows)}
        for code, use in self._codes.items():
            shape = _shape(code)
            if not shape or code.casefold() in defined or families[shape] < _FAMILY:
                continue
            if code not in self._loose and any(
                number == use.document and start <= use.start < end for number, start, end in dead
            ):
                continue
            example = min(term for term in strong if _shape(term) == shape)
            yield Finding(
                "codes",
                "undefined code",
                "medium",
                (self._around(use),),
                f"{code} is used {_times(use.uses)} and defined nowhere, while "
                f"{families[shape]:,} codes like {example} are defined.",
                f"Add a definition of {code}, or correct it if it is a typing error.",
                families[shape] >= _DEFINED_SHARE * max(1, used[shape])
                and code not in self._headed,
                {"term": code, "uses": use.uses},
                subject=code,
            )

    def _around(self, use: _Use) -> Place:
        """The line of a use."""
        text = self._corpus.text(use.document)
        start = text.rfind("\n", 0, use.start) + 1
        end = text.find("\n", use.end)
        end = len(text) if end < 0 else end
        start, end = max(start, use.start - 200), min(end, use.end + 200)
        return self._corpus.place(use.document, start, end)


def _shape(code: str) -> str:
    """A code with its digits replaced: ``C2065`` -> ``C0000``; empty if it has no letter part."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z_-]*\d{2,}|[A-Z]+[-_]\d+", code):
        return ""
    return _NUMBERS.sub(lambda match: "0" * len(match[0]), code)


_BEFORE_RANGE = re.compile(r"(?:\bthrough|\bto|\bbis|[-–—])\s*[`*(]*$", re.IGNORECASE)
_AFTER_RANGE = re.compile(r"^[`*)]*\s*(?:through\b|to\b|bis\b|[-–—])", re.IGNORECASE)


def _in_range(line: str, start: int, end: int) -> bool:
    """True for an end of a range: *C2000 through C3999* names all of them, not this code."""
    return bool(_BEFORE_RANGE.search(line[:start]) or _AFTER_RANGE.match(line[end:]))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
