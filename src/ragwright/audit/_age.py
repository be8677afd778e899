"""Age: dates that have passed, plans for years gone by, documents beside a newer one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date

from ..core import Document
from ._options import AuditOptions
from ._records import Finding
from ._text import Brief, Corpus, Line, lines_of, statements_of

_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec"
_MONTH = {name: number for number, name in enumerate(_MONTHS.split(), start=1)}
_DATE = (
    r"(?:(?P<iso>\d{4}-\d{2}-\d{2})"
    r"|(?P<day>\d{1,2})(?:st|nd|rd|th|\.)?\s+(?P<month>[A-Z][a-zä]{2,8})\.?,?\s+(?P<year>\d{4})"
    r"|(?P<month2>[A-Z][a-z]{2,8})\.?\s+(?P<day2>\d{1,2})(?:st|nd|rd|th)?,\s+(?P<year2>\d{4})"
    r"|(?P<month3>[A-Z][a-z]{2,8})\s+(?P<year3>\d{4})"
    r"|(?P<alone>(?:19|20)\d{2}))(?![\w-])"
)
_EXPIRY = re.compile(
    r"(?P<cue>\b(?:valid (?:until|through|to)|expires?(?: on| in)?|gültig bis(?: zum)?|"
    r"valable jusqu'au|offer ends|(?:submit|apply|register|return)\w*[^.\n]{0,40}"
    r"(?:\bby|no later than|before)|deadline(?: is|:)?|support ends(?: on| in)?|"
    r"supported until|in force until)\s+(?:the\s+)?(?:end of\s+)?)" + _DATE,
    re.IGNORECASE,
)
_PLAN = re.compile(
    r"(?P<cue>\b(?:will be (?:\w+\s+){0,4}?(?:in|on|by|from)|(?:is|are) (?:planned|scheduled|"
    r"expected|due)(?: \w+){0,5}? (?:in|on|for|by)|planned for|coming in|upcoming|"
    r"wird(?: \w+){0,5} (?:im Jahr|ab|bis)|geplant für)\s+(?:the\s+)?(?:end of\s+)?)" + _DATE,
    re.IGNORECASE,
)
_AS_OF = re.compile(
    r"(?P<cue>\b(?:as of|last (?:updated|reviewed|revised)(?: on| in|:)?|stand:?|current as of)\s+)"
    + _DATE,
    re.IGNORECASE,
)
_RULES = (
    ("expired date", _EXPIRY, "which has passed"),
    ("past plan", _PLAN, "a plan for a time that has passed"),
)
_VERSIONS = re.compile(r"\b(?:v(?:ersion)?\.?\s*)?\d+(?:[.\-]\d+)*\b|[^\w]+")


class Age:
    """Collects dates, and compares documents of one title."""

    def __init__(self, corpus: Corpus, options: AuditOptions, today: date) -> None:
        self._corpus, self._options, self._today = corpus, options, today
        self._ready: list[Finding] = []
        self._titled: dict[str, list[int]] = defaultdict(list)

    def read(self, document: Document, brief: Brief, lines: Sequence[Line]) -> None:
        """Look at the dates of a document."""
        key = _VERSIONS.sub(" ", brief.title.casefold()).strip()
        if len(key) > 5 and len(brief.date) >= 10:
            self._titled[key].append(brief.number)
        text = document.text
        if not re.search(r"\b(?:19|20)\d{2}\b", text):
            return
        for line in lines:
            if line.code or not re.search(r"\d{4}", line.text):
                continue
            for fault, pattern, phrase in _RULES:
                for match in pattern.finditer(line.text):
                    self._report(brief, line, match, fault, phrase)
            for match in _AS_OF.finditer(line.text):
                self._report(brief, line, match, "old statement", "which is long ago")

    def _report(
        self, brief: Brief, line: Line, match: re.Match[str], fault: str, phrase: str
    ) -> None:
        last = _last_day(match)
        if last is None or last >= self._today:
            return
        years = (self._today - last).days / 365.25
        written = brief.date[:10]
        if fault == "old statement" and years < self._options.age_years:
            return
        start, end = max(0, match.start() - 120), min(len(line.text), match.end() + 120)
        place = self._corpus.place(
            brief.number, line.start + start, line.start + end, line.text[start:end]
        )
        when = match[0][len(match["cue"]) :]
        self._ready.append(
            Finding(
                "age",
                fault,
                "medium" if fault == "expired date" else "low",
                (place,),
                f"The text says «{' '.join(match[0].split())}», {phrase}.",
                "Update the statement, or mark the document as a record of its time.",
                fault != "old statement" and not _is_report(line.text, match),
                {"date": when, "years": round(years, 1), "document_date": written},
            )
        )

    def findings(self) -> Iterator[Finding]:
        """Dates, then documents beside a newer one of the same title."""
        yield from self._ready
        for numbers in self._titled.values():
            briefs = sorted((self._corpus.briefs[n] for n in numbers), key=lambda b: b.date)
            newest = briefs[-1]
            if not 2 <= len(briefs) <= 6:
                continue
            for brief in briefs[:-1]:
                gap = _years_between(brief.date, newest.date)
                if gap is None or gap < self._options.age_years:
                    continue
                places = tuple(
                    self._corpus.place(b.number, *self._opening(b)) for b in (brief, newest)
                )
                yield Finding(
                    "age",
                    "older version",
                    "medium",
                    places,
                    f"{brief.source} is of {brief.date[:10]}, {newest.source} with the same title "
                    f"is {gap:.0f} years newer.",
                    "Leave the older one out of the sources, or give both a field that says which "
                    "is in force and filter by it.",
                    brief.title.casefold() == newest.title.casefold(),
                    {"years": round(gap, 1)},
                )

    def _opening(self, brief: Brief) -> tuple[int, int]:
        """The first statement of a document."""
        text = self._corpus.text(brief.number)[:2_000]
        spans = statements_of(list(lines_of(text)), brief.language)
        return next(((start, end) for start, end, _ in spans), (0, min(200, len(text))))


def _last_day(match: re.Match[str]) -> date | None:
    """Last day that a date can mean; None if it is none."""
    try:
        if match["iso"]:
            return date.fromisoformat(match["iso"])
        for day, month, year in (("day", "month", "year"), ("day2", "month2", "year2")):
            if match[day]:
                number = _MONTH.get(match[month][:3].casefold())
                return date(int(match[year]), number, int(match[day])) if number else None
        if match["month3"]:
            number = _MONTH.get(match["month3"][:3].casefold())
            return date(int(match["year3"]), number, 28) if number else None
        return date(int(match["alone"]), 12, 31)
    except ValueError:
        return None


def _is_report(line: str, match: re.Match[str]) -> bool:
    """True if a sentence tells of the past: a plan within it was one then."""
    before = line[max(0, match.start() - 80) : match.start()].casefold()
    return bool(re.search(r"\b(?:said|announced|reported|stated|was|were|had)\b", before))


def _years_between(first: str, second: str) -> float | None:
    try:
        a, b = (date.fromisoformat(text[:10]) for text in (first, second))
    except ValueError:
        return None
    return (b - a).days / 365.25
