"""Speakers of plays, debates and interviews: lines that name a speaker, and lists of the cast."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..core import Hit, late_pattern
from ..models import fold, words
from ._sentences import Sentence

_SPEAKER = re.compile(
    r"^(?:\*\*|__)?(?P<name>[A-ZÀ-Ý][A-ZÀ-Ý'’-]+(?: [A-ZÀ-Ý][A-ZÀ-Ý'’-]*){0,4}"
    r"|(?:[A-ZÀ-Ý][\w'’-]*\.? ){1,4}[A-ZÀ-Ý][\w'’-]+)(?:\*\*|__)?"
    r"(?: \([^)\n]{1,60}\)|, [^.:\n]{1,60})?(?:\*\*|__)?(?P<mark>[.:])(?:\*\*|__)?(?=\s)",
    re.MULTILINE,
)
"""``MADAME ORTIE. …``, ``Ada Long: …``, ``**Mr Short** (Hull): …`` at the beginning of a line."""
_ALONE = re.compile(
    r"^(?P<name>[A-ZÀ-Ý][\w.'’-]*(?:,? [\w.'’-]+){0,6})(?: \([^)\n]{1,60}\))? ?:[ \t]*$",
    re.MULTILINE,
)
"""A line that is a name and a colon, as plays in XML are read."""
_NO_NAMES = re.compile(
    r"(?:NOTE|NOTES|WARNING|EXAMPLE|EXAMPLES|TIP|IMPORTANT|CAUTION|REMARK|FIGURE|TABLE|ACT"
    r"|ACTE|SCENE|SCÈNE|CHAPTER|CHAPITRE|PART|PARTIE|APPENDIX|ANNEXE|FAQ|TODO)"
)
_CAST = late_pattern(
    r"^(?:#{1,6} )?(?:(?:les |the |die |los )?(?:acteurs|personnages|personen|figuren|personajes"
    r"|characters|cast|persons|dramatis person(?:ae|æ)|list of characters|cast of characters)"
    r"(?: (?:de la pièce|of the play|des stücks|de la obra|de la com[ée]di[ea]))?)[ .:]*$",
    re.IGNORECASE,
)
_ASKS = late_pattern(
    r"^\W*(?:(?:que|qu['’]est-ce que) (?:dit|raconte|répond|pense|déclare)(?:-il)?"
    r"|what (?:does|did|has)|was (?:sagt|sagte|meint|erzählt)|qué (?:dice|dijo|cuenta|piensa)) "
    r"(?P<name>\S.*?)"
    r"(?: (?:say|says|said|think|tell))?"
    r"(?: (?P<about>(?:à propos|au sujet|sur|de|du|des|d['’]|about|on|of|über|von|zu[mr]?|sobre"
    r"|del?|acerca)\b.*?))?[\s?.!]*$",
    re.IGNORECASE,
)
_LONGEST = 1_000
"""Characters of a question that is read."""
_LEAST_LINES = 2
"""Speaker lines of a passage in which names are speakers."""


@dataclass(frozen=True, slots=True)
class NamedLine:
    """A name, and the span of the line that names it."""

    name: str
    start: int
    end: int


def speaker_lines(text: str) -> Iterator[NamedLine]:
    """Lines that begin with a speaker, in the order of a text."""
    by_start: dict[int, NamedLine] = {}
    for pattern in (_SPEAKER, _ALONE):
        for match in pattern.finditer(text):
            name = match["name"]
            dotted = pattern is _SPEAKER and match["mark"] == "."
            if _NO_NAMES.fullmatch(name.split()[0].upper()) or (dotted and name != name.upper()):
                continue
            by_start.setdefault(match.start(), NamedLine(name, match.start(), match.end()))
    yield from (by_start[start] for start in sorted(by_start))


def cast_lines(hit: Hit) -> Iterator[NamedLine]:
    """Yield the lines of a list of the cast: each a role, mostly with its relation to the others.

    Spans are in the document.
    """
    inside = bool(hit.headings) and bool(_CAST.match(hit.headings[-1]))
    entered = False
    at = hit.start
    for line in hit.text.splitlines(keepends=True):
        start, at = at, at + len(line)
        text = line.strip()
        if _CAST.match(text):
            inside, entered = True, False
        elif text.startswith("#") or (entered and not text):
            inside = False
        elif inside and text and not text.startswith("("):
            entered = True
            yield NamedLine(text.lstrip("-*• "), start, start + len(line.rstrip()))


_LEAD = re.compile(
    r"^(?:(?:about|on|of|über|zu[mr]?|von|vom|sur|du|de|à propos|sobre|acerca|"
    r"the|an?|d(?:er|ie|as|en|em|es)|ein\w{0,2}|les?|la|une?|el|los|las|una)\s+|[dl]['’])+",
    re.IGNORECASE,
)
"""Prepositions and articles of a question may be in another language than the speeches."""


def of_speaker(
    question: str, sentences: Sequence[Sentence], hits: Sequence[Hit]
) -> tuple[str, list[Sentence]] | None:
    """The topic that a question asks of one speaker, and the sentences that this speaker says.

    None for other questions, and where nobody of that name speaks in the hits.
    """
    # the pattern's time grows with the square of the text
    match = _ASKS.match(question) if len(question) <= _LONGEST else None
    if match is None:
        return None
    speaker = _folded_name(match["name"])
    spoken = {number: _speech_lines(hit.text) for number, hit in enumerate(hits, 1)}
    if not any(_folded_name(line.name) == speaker for lines in spoken.values() for line in lines):
        return None
    spoken_by = []
    for sentence in sentences:
        offset = hits[sentence.number - 1].start
        before = [
            line for line in spoken[sentence.number] if line.start + offset <= sentence.span.start
        ]
        if before and _folded_name(before[-1].name) == speaker:
            spoken_by.append(sentence)
    return _LEAD.sub("", match["about"]) if match["about"] else question, spoken_by


def _speech_lines(text: str) -> list[NamedLine]:
    lines = list(speaker_lines(text))
    return lines if len(lines) >= _LEAST_LINES else []


def _folded_name(name: str) -> str:
    return " ".join(fold(word.casefold()) for word in words(name))
