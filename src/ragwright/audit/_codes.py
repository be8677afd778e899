"""Codes and terms: used and defined nowhere, defined twice differently, never written out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ..core import Document
from ..models import is_code, stop_words, words
from ..retrieve import Glossary, Meaning
from ._records import Finding, Place
from ._text import LINK, Brief, Corpus, Line, cells_of

_FAMILY = 4
"""Defined codes of one shape from which another one of that shape should be defined too."""
_DEFINED_SHARE = 0.5
"""Share of the codes of a shape that are defined; below it the corpus defines none on purpose."""
_USES = 3
"""Uses from which an acronym should be written out once."""
_ALIKE = 0.3
"""Share of common words up to which two meanings differ."""
_STRONG = ("row", "line", "below", "heading")
_ACRONYM = re.compile(r"(?<![\w./@#&-])[A-Z]{2,5}s?(?![\w/@&-]|\.\w)")
_NUMBERS = re.compile(r"\d+")
_DIGIT = re.compile(r"\d")
_NAME = re.compile(r"(?<![\w./@#-])[^\W_][\w-]*[^\W_](?![\w/@])")
_FAMILIAR = (
    "FIFA UEFA UNESCO UNICEF NHL MLB NCAA CBS NBC CNN EXE DLL IDE "
    "AC AD AI AM API APR ASAP ASCII ATM AUG AWS BBC BC BIOS BMP BST CA CD CEO CET CFO CIA CM CO "
    "CPU CSS CSV CTO DC DEC DIN DIY DNA DNS DOC DOS DVD EDT EN EPUB ES EST ETC EU EUR FAQ FBI "
    "FEB FF FM FR FTP GB GBP GDP GIF GIT GMT GPS GPU GUI HD HDMI HIV HR HTML HTTP HTTPS IBM ID "
    "IEC IEEE IO IP IOS ISBN ISO IT JAN JPEG JPG JR JSON JUL JUN KB KG LAN LCD LED LLC LTD MAC "
    "MAR MB MD MIT MM MP MS NA NASA NATO NB NBA NFL NO NOV NY OCR OCT OEM OK OS PC PDF PHP PIN "
    "PM PNG PR PS PSI QA RAM RGB RNA ROM RPM SD SDK SEP SIM SMS SQL SSD SSH SSL SVG TB TCP TIFF "
    "TLS TV TXT UDP UI UK UN URI URL US USA USB USD UTC UTF UV UX VAT VGA VIP VPN VS WIFI WWW "
    "XLS XLSX XML YAML ZIP TODO NOTE AND OR NOT THE FOR IN TO OF ON IF BY AS AT IS BE NULL TRUE "
    "FALSE II III IV VI VII VIII IX XI XII XIII XIV XV XVI XX XXI MR MRS DR ST AVE PHD BA MA "
    "BSC MSC ABC XYZ OP CIT EG IE ET AL "
)
_KNOWN = frozenset(_FAMILIAR.split())
"""Acronyms that readers know, words in capitals, and Roman numbers."""


@dataclass(slots=True)
class _Use:
    """First use of a code, and how often it is used."""

    document: int
    start: int
    end: int
    uses: int = 1
    documents: int = 1
    last: int = -1


class Codes:
    """Collects uses of codes and acronyms, and compares them with the mined definitions."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._codes: dict[str, _Use] = {}
        self._acronyms: dict[str, _Use] = {}
        self._lower: Counter[str] = Counter()
        self._rows: set[str] = set()
        self._headed: set[str] = set()
        self._expanded: set[str] = set()
        self._loose: set[str] = set()

    def read(self, document: Document, brief: Brief, lines: Sequence[Line]) -> None:
        """Count the codes and acronyms of a document's prose."""
        for line in lines:
            if line.code or not line.text.strip():
                continue
            shouted = line.text.isupper()
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
                    _count(self._codes, word, brief.number, start, line.start + match.end())
            if not shouted:
                for match in _ACRONYM.finditer(line.text):
                    word = match[0].removesuffix("s")
                    if word not in self._expanded and _is_expanded(word, line.text):
                        self._expanded.add(word)
                    start = line.start + match.start()
                    _count(self._acronyms, word, brief.number, start, start + len(word))
        self._lower.update({word for word in words(document.text) if word.islower()})

    def findings(
        self, glossary: Glossary, dead: Collection[tuple[int, int, int]] = ()
    ) -> Iterator[Finding]:
        """Findings on codes, then on acronyms, then on meanings that differ.

        Args:
            glossary: Definitions that were mined from the same documents.
            dead: Links that are reported already: number of the document, start, end. A code that
                is used within them alone is not reported a second time.
        """
        yield from self._undefined(glossary, dead)
        yield from self._unexpanded(glossary)
        for term, meanings in glossary.entries.items():
            pair = self._defined_twice(term, meanings)
            if pair is not None:
                yield pair

    def _undefined(
        self, glossary: Glossary, dead: Collection[tuple[int, int, int]]
    ) -> Iterator[Finding]:
        """Codes without a definition, of a shape of which others have one."""
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

    def _unexpanded(self, glossary: Glossary) -> Iterator[Finding]:
        known = {term.casefold() for term in glossary.entries}
        for term, use in self._acronyms.items():
            if use.uses < _USES or term in _KNOWN or term.casefold() in known:
                continue
            if term in self._expanded:
                continue
            if self._lower[term.casefold()] or self._lower[f"{term.casefold()}s"]:
                continue  # a word that is also written in small letters
            yield Finding(
                "codes",
                "unexpanded acronym",
                "low",
                (self._around(use),),
                f"{term} is used {_times(use.uses)} in {use.documents} "
                f"document{'s' * (use.documents > 1)} and written out nowhere.",
                f"Write {term} out where it is used first, or add it to the glossary.",
                use.uses >= 2 * _USES and use.documents > 1,
                {"term": term, "uses": use.uses, "documents": use.documents},
                subject=term,
            )

    def _defined_twice(self, term: str, meanings: Sequence[Meaning]) -> Finding | None:
        """Two meanings of one term that differ."""
        numbers = self._corpus.numbers
        for at, first in enumerate(meanings):
            for second in meanings[at + 1 :]:
                if first.rule != second.rule or first.document_id == second.document_id:
                    continue
                if first.document_id not in numbers or second.document_id not in numbers:
                    continue
                if not _differ(first.text, second.text):
                    continue
                briefs = [self._corpus.briefs[numbers[m.document_id]] for m in (first, second)]
                if briefs[0].language != briefs[1].language:
                    continue
                places = tuple(
                    self._corpus.place(numbers[m.document_id], m.start, m.end, m.text)
                    for m in (first, second)
                )
                return Finding(
                    "codes",
                    "two meanings",
                    "medium",
                    places,
                    f"{term} is defined twice: as «{first.text[:80]}» and as «{second.text[:80]}».",
                    "Keep one definition, or say in which documents which one holds.",
                    first.rule in ("acronym", "row", "line"),
                    {"term": term, "rule": first.rule},
                )
        return None

    def _around(self, use: _Use) -> Place:
        """The line of a use."""
        text = self._corpus.text(use.document)
        start = text.rfind("\n", 0, use.start) + 1
        end = text.find("\n", use.end)
        end = len(text) if end < 0 else end
        start, end = max(start, use.start - 200), min(end, use.end + 200)
        return self._corpus.place(use.document, start, end)


def _count(uses: dict[str, _Use], word: str, document: int, start: int, end: int) -> None:
    use = uses.get(word)
    if use is None:
        uses[word] = _Use(document, start, end, last=document)
        return
    use.uses += 1
    if use.last != document:
        use.documents, use.last = use.documents + 1, document


def _shape(code: str) -> str:
    """A code with its digits replaced: ``C2065`` -> ``C0000``; empty if it has no letter part."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z_-]*\d{2,}|[A-Z]+[-_]\d+", code):
        return ""
    return _NUMBERS.sub(lambda match: "0" * len(match[0]), code)


def _differ(first: str, second: str) -> bool:
    """True if two meanings, whole ones, have few words in common; endings do not count."""
    if any(text.count("(") != text.count(")") or len(text.split()) < 2 for text in (first, second)):
        return False
    stop = stop_words("en")
    a, b = (
        {word[:5] for word in re.findall(r"[^\W_]+", text.casefold()) if word not in stop}
        for text in (first, second)
    )
    return bool(a and b) and len(a & b) <= _ALIKE * min(len(a), len(b))


_BEFORE_RANGE = re.compile(r"(?:\bthrough|\bto|\bbis|[-–—])\s*[`*(]*$", re.IGNORECASE)
_AFTER_RANGE = re.compile(r"^[`*)]*\s*(?:through\b|to\b|bis\b|[-–—])", re.IGNORECASE)


def _in_range(line: str, start: int, end: int) -> bool:
    """True for an end of a range: *C2000 through C3999* names all of them, not this code."""
    return bool(_BEFORE_RANGE.search(line[:start]) or _AFTER_RANGE.match(line[end:]))


def _is_expanded(acronym: str, line: str) -> bool:
    """True if the first letters of words in a row on the line spell the acronym."""
    parts = [part for part in re.findall(r"[^\W\d_]+", line) if part != acronym]
    for kept in (parts, [part for part in parts if len(part) > 3 or part[0].isupper()]):
        if acronym.casefold() in "".join(part[0] for part in kept).casefold():
            return True
    return False


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
