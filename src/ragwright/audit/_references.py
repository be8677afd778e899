"""References into nothing: sections, tables, figures and pages, relative links and anchors."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from ..core import Document, count_noun
from ._records import Finding
from ._text import LINK, AuditCorpus, Brief, DocumentLine

_SEE = re.compile(
    r"(?<![\w/])(?P<kind>sections?|chapters?|tables?|fig(?:ure|\.)s?|appendix|annex|"
    r"Abschnitt|Kapitel|Tabelle|Abbildung|Anhang|chapitre|tableau)\s+"
    r"(?P<number>\d{1,3}(?:[.-]\d{1,3}){0,4}|[A-H](?:\.\d+){0,3})(?![\w-]|\.\d)",
    re.IGNORECASE,
)
_PAGE = re.compile(
    r"\b(?:see|on|siehe|auf|voir)\s+(?:page|Seite|p\.)\s+(?P<number>\d{1,4})\b", re.I
)
_POINTING = re.compile(
    r"\b(?:see|refer to|in|of|described|shown|listed|given|according to|under|from|cf\.|siehe|"
    r"voir|in)\s*(?:also\s+)?\(?$",
    re.IGNORECASE,
)
_ELSEWHERE = re.compile(
    r"^\W{0,2}\s*(?:of|in)\s+(?:the\s+|this\s+|that\s+)?(?P<what>[A-Z]|act|law|code|regulation|"
    r"manual|directive|treaty|standard|RFC|ISO)",
    re.IGNORECASE,
)
_SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_NUMBERED = re.compile(
    r"^\s{0,3}(?:#{1,6}\s+)?(?:\*\*)?(?:(?:section|chapter|appendix|annex|kapitel|abschnitt|anhang"
    r"|chapitre)\s+)?(?P<number>\d{1,3}(?:\.\d{1,3}){0,4}|[A-H](?:\.\d+){0,3})[.):]?(?:\s+|$)",
    re.IGNORECASE,
)
_CAPTION = re.compile(
    r"^\s*(?:[*_]{0,3}|#{1,6}\s+|\|\s*)(?P<kind>table|fig(?:ure|\.)?|tabelle|abbildung|tableau)\s+"
    r"(?P<number>\d{1,3}(?:[.-]\d{1,3}){0,3})\s*(?:[.:|)*_–—-]|$|\s)",
    re.IGNORECASE,
)
_PLACES, _MANY = 20, 5
"""Links to one dead address that a finding lists, and from how many on it is more severe."""
_LEAST_NUMBERED = 3
"""Numbered headings or captions from which a document numbers them throughout."""
_KINDS = {"tab": "table", "fig": "figure", "abb": "figure"}
"""Beginning of a word -> what it refers to; all others refer to sections."""


@dataclass(frozen=True, slots=True)
class _Link:
    """A relative link, to be resolved once all documents are known."""

    document: int
    start: int
    end: int
    path: str
    anchor: str


class References:
    """Collects links and checks references within each document.

    Attributes:
        dead: Links into nothing, once :meth:`findings` was read: number of document, start, end.
    """

    def __init__(self, corpus: AuditCorpus, exists: Callable[[str], bool]) -> None:
        self._corpus, self._exists = corpus, exists
        self._links: list[_Link] = []
        self._anchors: dict[str, frozenset[str]] = {}
        self._ready: list[Finding] = []
        self.dead: set[tuple[int, int, int]] = set()

    def read(self, document: Document, brief: Brief, lines: Sequence[DocumentLine]) -> None:
        """Check a document's references to itself, and remember its links."""
        prose = [line for line in lines if not line.code and line.text.strip()]
        self._anchors[posixpath.normpath(brief.source)] = _anchors_of(document, prose)
        for line in prose:
            for match in LINK.finditer(line.text):
                to = match["to"].strip("<>")
                if _SCHEME.match(to) or to.startswith(("/", "//", "{", "$")):
                    continue
                path, _, anchor = to.partition("#")
                path = unquote(path.partition("?")[0])
                if path or anchor:
                    start, end = line.start + match.start(), line.start + match.end()
                    self._links.append(_Link(brief.number, start, end, path, unquote(anchor)))
        self._ready += self._numbers_within(document, brief, prose)

    def _numbers_within(
        self, document: Document, brief: Brief, prose: Sequence[DocumentLine]
    ) -> Iterator[Finding]:
        """References by number to sections, tables, figures and pages that are not there."""
        numbers = _numbers_of(document, prose)
        reported: set[tuple[str, str]] = set()
        for line in prose:
            for match in _SEE.finditer(line.text):
                kind = _KINDS.get(match["kind"][:3].casefold(), "section")
                number = match["number"].replace("-", ".").upper()
                known = numbers[kind]
                if (
                    (kind, number) in reported
                    or any(f"{other}.".startswith(f"{number}.") for other in known)
                    or _CAPTION.match(line.text)
                    or _ELSEWHERE.match(line.text[match.end() :])
                ):
                    continue
                numbered = [n for n in known if n[0].isdigit() == number[0].isdigit()]
                pointing = _POINTING.search(line.text[: match.start()]) is not None
                reported.add((kind, number))
                yield self._dead(
                    brief,
                    line,
                    (match.start(), match.end()),
                    f"dead {kind}",
                    f"The text refers to {match[0]}, but the document has no {kind} {number}"
                    + (f" (it has {len(numbered)} numbered ones)." if numbered else "."),
                    pointing
                    and len(numbered) >= _LEAST_NUMBERED
                    and any(other.count(".") == number.count(".") for other in numbered),
                )
        yield from self._pages_within(document, brief, prose)

    def _pages_within(
        self, document: Document, brief: Brief, prose: Sequence[DocumentLine]
    ) -> Iterator[Finding]:
        if len(document.pages) < 2:
            return
        last = max(page.number for page in document.pages)
        labels = {page.label for page in document.pages if page.label}
        for line in prose:
            for match in _PAGE.finditer(line.text):
                if int(match["number"]) > last and match["number"] not in labels:
                    yield self._dead(
                        brief,
                        line,
                        (match.start(), match.end()),
                        "dead page",
                        f"The text refers to page {match['number']}, but the document has {last} "
                        "pages.",
                        not labels,
                    )

    def _dead(
        self,
        brief: Brief,
        line: DocumentLine,
        span: tuple[int, int],
        fault: str,
        why: str,
        sure: bool,
    ) -> Finding:
        start, end = max(0, span[0] - 150), min(len(line.text), span[1] + 150)
        place = self._corpus.place(
            brief.number, line.start + start, line.start + end, line.text[start:end]
        )
        return Finding(
            "references",
            fault,
            "low",
            (place,),
            why,
            "Correct the reference, or add what it refers to.",
            sure,
            {"reference": line.text[span[0] : span[1]]},
        )

    def findings(self) -> Iterator[Finding]:
        """References by number, then links."""
        yield from self._ready
        stems = {posixpath.splitext(source)[0] for source in self._anchors}
        folded = {source.casefold() for source in self._anchors}
        dead: dict[tuple[str, str, bool], list[_Link]] = {}
        for link in self._links:
            fault = self._fault_of(link, stems, folded)
            if fault is not None:
                dead.setdefault(fault, []).append(link)
                self.dead.add((link.document, link.start, link.end))
        for (name, why, sure), links in dead.items():
            places = [self._corpus.place(k.document, k.start, k.end) for k in links[:_PLACES]]
            others = f" {count_noun(len(links), 'link leads', 'links lead')} there."
            yield Finding(
                "references",
                name,
                "medium" if len(links) >= _MANY else "low",
                tuple(places),
                why + (others if len(links) > 1 else ""),
                "Correct the address, or add the page to the sources.",
                sure,
                {
                    "reference": f"{links[0].path}#{links[0].anchor}".rstrip("#"),
                    "links": len(links),
                },
                subject=why,
            )

    def _fault_of(
        self, link: _Link, stems: set[str], folded: set[str]
    ) -> tuple[str, str, bool] | None:
        """Name, sentence and certainty of a link's fault; None if it leads somewhere."""
        own = posixpath.normpath(self._corpus.briefs[link.document].source)
        if _SCHEME.match(own):
            return None  # relative to an address on the web: not fetched here
        target = own
        if link.path:
            target = posixpath.normpath(posixpath.join(posixpath.dirname(own), link.path))
        if target not in self._anchors:
            if target in stems or self._exists(target):
                return None
            if target.casefold() in folded:
                why = f"The link leads to {target}, which differs in capitals from the file."
                return "link in other capitals", why, False
            local = target.startswith("..") or not posixpath.splitext(target)[1]
            return "dead link", f"The link leads to {target}, which is not there.", not local
        known, anchor = self._anchors[target], link.anchor.casefold()
        if not anchor or anchor in known:
            return None
        why = f"The link leads to #{link.anchor}, a heading that {target} does not have."
        return "dead anchor", why, len(known) >= 2 and anchor != "top"


def _anchors_of(document: Document, prose: Sequence[DocumentLine]) -> frozenset[str]:
    """Anchors of headings as GitHub makes them, and those that the text names."""
    titles = [section.title for section in document.sections]
    titles += [line.text.lstrip("# ") for line in prose if line.text.startswith("#")]
    anchors: list[str] = []
    for title in titles:
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|[`*]", r"\1", title)
        explicit = re.search(r"\{#([\w-]+)\}\s*$", plain)
        if explicit:
            anchors.append(explicit[1].casefold())
        slug = re.sub(r"[^\w\- ]", "", plain.strip().casefold()).replace(" ", "-")
        anchors += [slug, re.sub(r"-+", "-", slug).strip("-")]
        anchors += [f"{slug}-{n}" for n in range(1, 4)]
    named = re.compile(r"(?:id|name)=[\"']([^\"']+)[\"']|\{#([\w-]+)\}")
    for line in prose:
        anchors += [(m[1] or m[2]).casefold() for m in named.finditer(line.text)]
    return frozenset(anchors)


def _numbers_of(document: Document, prose: Sequence[DocumentLine]) -> dict[str, set[str]]:
    numbers: dict[str, set[str]] = {"section": set(), "table": set(), "figure": set()}
    titles = [section.title for section in document.sections]
    lines = [line.text for line in prose if len(line.text) < 120]
    for text in (*titles, *lines):
        if (heading := _NUMBERED.match(text)) is not None:
            numbers["section"].add(heading["number"].upper())
    for line in prose:
        if (caption := _CAPTION.match(line.text)) is not None:
            kind = _KINDS[caption["kind"][:3].casefold()]
            numbers[kind].add(caption["number"].replace("-", "."))
    return numbers
