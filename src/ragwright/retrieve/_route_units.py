"""Questions about documents, pages or passages as such, read from their wording in four languages.

"How many pages mention X?", "Quels fichiers parlent de X ?", "In welchen Dateien steht X?",
"Lista todos los documentos": the unit that is counted or listed, and what it must hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..core import late_pattern

Unit: TypeAlias = Literal["document", "page", "passage"]

LONGEST_UNITS = 1_000
"""Characters of a question that is read: the time of the patterns grows with its square."""

_END = r"\s*[?.!\s]*$"
_TOPIC = r"(?P<topic>\S.*?)"


@dataclass(frozen=True, slots=True)
class UnitPhrase:
    """The units that a question about documents as such asks for.

    Attributes:
        unit: What is counted or listed.
        counts: Only the number is asked for.
        topic: What the units must hold, as written; empty for all units.
        language: ISO code of the language in which the question was read.
    """

    unit: Unit
    counts: bool
    topic: str
    language: str


@dataclass(frozen=True, slots=True)
class _Grammar:
    """The parts of such a question in one language, as regular expressions.

    Attributes:
        unit: Names of units, with the groups ``page`` and ``passage``.
        count: What asks for a number, before a unit.
        which: What asks for names, before a unit.
        every: Words between the two.
        mentions: What stands between the unit and its topic.
        there: What asks for all units, after the unit.
        all_units: Names of units that may be listed without a condition.
        adjective: What may stand before a unit (two *different* pages).
        forms: Further forms with ``{asks}``, ``{unit}`` and ``{topic}``, for other orders of words.
    """

    unit: str
    count: str
    which: str
    every: str
    mentions: str
    there: str
    all_units: str
    adjective: str = ""
    forms: tuple[str, ...] = ()

    def patterns(self) -> Iterator[str]:
        """The questions, as regular expressions with the groups that :func:`read_units` reads."""
        asks = rf"(?:(?P<count>{self.count})|(?:{self.which}))(?:\s+(?:{self.every}))*"
        opening = rf"(?:^|(?<=[\s,;:¿¡«\"(])){asks}\s+{self.adjective}{self.unit}"
        yield rf"{opening}\s+(?:{self.mentions})\s*(?<=[\s'’]){_TOPIC}{_END}"
        yield rf"{opening}\s+(?:{self.there})(?!\w).*?{_END}"
        # Without a topic the list is all that is asked for.
        yield rf"^\W*(?:{self.which})(?:\s+(?:{self.every}))*\s+(?:{self.all_units}){_END}"
        for form in self.forms:
            yield form.format(asks=asks, unit=self.unit, topic=_TOPIC, end=_END)


_GRAMMARS = {
    "en": _Grammar(
        unit=r"(?:(?P<page>pages?)|(?P<passage>passages?|chunks?|sections?|chapters?|paragraphs?)"
        r"|documents?|docs|files?|articles?|papers?|reports?|texts?|sources?)",
        count=r"how many|number of|count",
        which=r"(?:please )?(?:list|enumerate|name|show|give|find)|which|what",
        every=r"me|all|every|the|of|your|a list of",
        mentions=r"(?:that |which |do )?(?:(?:mention|discuss|contain|cite|citing|name|describ"
        r"|cover)\w*|on|(?:talk|talking) about|refer to|(?:are )?about)",
        there=r"are there|are indexed|do you (?:have|know)",
        all_units=r"documents|docs|files|sources|(?P<page>pages)",
        adjective=r"(?:\w+\s+)?",
        forms=(
            r"\b{asks}\s+{unit}\s+(?:is|are|was|were|do|does|did)\s+(?!there\b|not\b|you\b){topic}"
            r"\s+(?:mentioned|discussed|cited|named|described|covered|appear|occur|contained|found)"
            r"(?: in| on)?{end}",
        ),
    ),
    "fr": _Grammar(
        unit=r"(?:(?P<page>pages?)|(?P<passage>passages?|extraits?|sections?|chapitres?"
        r"|paragraphes?)|documents?|fichiers?|articles?|rapports?|textes?|sources?)",
        count=r"combien(?= d)|(?:quel est )?(?:le )?nombre(?= d)",
        which=r"quel(?:le)?s?(?: sont)?|(?:liste|donne|montre|énumère|cite|trouve|nomme)[rz]?"
        r"(?:[ -]moi)?|énumérer",
        every=r"de|des|tous|toutes|les?|la|chaque|la liste|différent(?:e)?s",
        mentions=r"(?:qui )?(?:mentionn\w+|cit(?:e|ent)|contien(?:t|nent)|nomment?|décri(?:t|vent)"
        r"|évoquent?|(?:parl|trait)(?:e|ent) (?:des|du|de|d['’])|portent? sur|sur"
        r"|à propos (?:des|du|de|d['’])|au sujet (?:des|du|de|d['’]))",
        there=r"y a-t-il|existe-t-il|il y a|as-tu|avez-vous|connais(?:sez)?-(?:tu|vous)"
        r"|sont (?:indexés|indexées|là)",
        all_units=r"documents|fichiers|sources|(?P<page>pages)",
        forms=(
            r"\b{asks}\s+{unit}\s+(?:appara[iî]t|apparaissent|figurent?|se trouvent?"
            r"|(?:est|sont) (?:mentionn|cit|nomm|décri|évoqu)\w+|mentionne-t-on|trouve-t-on"
            r"|est-il question (?:des|du|de|d['’])|parle-t-on (?:des|du|de|d['’]))\s*{topic}{end}",
            r"\b{asks}\s+{unit}\s+{topic}\s+(?:(?:est|sont)-(?:ils?|elles?)"
            r" (?:mentionn|cit|nomm|décri|évoqu)\w+"
            r"|(?:appara[iî]t|apparaissent|figurent?)-(?:t-)?(?:ils?|elles?)){end}",
        ),
    ),
    "de": _Grammar(
        unit=r"(?:(?P<page>seiten?)|(?P<passage>passagen?|abschnitte?n?|kapiteln?|absätzen?"
        r"|(?:text)?stellen)|dokumente?n?|dateien?|artikeln?|berichte?n?|texte?n?|quellen?)",
        count=r"wie ?vielen?|(?:die )?anzahl",
        which=r"(?:bitte )?(?:welche[nrsm]?|nenne?|liste?|zeige?|gib|finde)",
        every=r"mir|alle[nr]?|die|der|den|sämtliche[nr]?|verschiedenen?|eine liste",
        mentions=r"(?:auf)?,?\s*(?:(?:die|welche) )?(?:erwähn(?:en|t)|enthalten|enthält"
        r"|nenn(?:en|t)|behandel(?:n|t)|beschreib(?:en|t)|zitier(?:en|t)|handel(?:n|t) von"
        r"|sprechen (?:über|von)|über)",
        there=r"gibt es|sind (?:es|indexiert|vorhanden|da)|liegen vor|hast du|haben sie|kennst du",
        all_units=r"(?:dokumente|dateien|quellen|(?P<page>seiten))(?:\s+auf)?",
        forms=(
            r"\b{asks}\s+{unit}(?: auf)?,?\s+(?:die|welche|wo|(?:in|auf) (?:denen|der|dem))\s+"
            r"{topic}\s+(?:erwähnen|enthalten|nennen|behandeln|beschreiben|zitieren|vorkomm(?:t|en)"
            r"|(?:erwähnt|genannt|beschrieben|behandelt|zitiert) (?:wird|werden)|stehe?[nt]?"
            r"|auftauch(?:t|en)){end}",
            r"\b{asks}\s+{unit}\s+(?:wird|werden|ist|sind)\s+{topic}"
            r"\s+(?:erwähnt|genannt|beschrieben|behandelt|zitiert|enthalten|zu finden){end}",
            r"\b(?:in|auf)\s+{asks}\s+{unit}\s+(?:kommt|kommen|stehe?[nt]?|taucht|tauchen"
            r"|findet sich|finden sich)\s+{topic}(?:\s+(?:vor|auf))?{end}",
        ),
    ),
    "es": _Grammar(
        unit=r"(?:(?P<page>p[áa]ginas?)|(?P<passage>pasajes?|fragmentos?|secci(?:ones|ón)"
        r"|cap[íi]tulos?|párrafos?)|documentos?|archivos?|ficheros?|art[íi]culos?|informes?|textos?"
        r"|fuentes?)",
        count=r"cu[áa]nt[oa]s|(?:el )?número(?= de)|(?:la )?cantidad(?= de)",
        which=r"qu[ée]|cu[áa]les(?: son)?|lista|enumera|muestra(?:me)?|muéstrame|dame|nombra|busca",
        every=r"de|tod[oa]s|l[oa]s|la lista",
        mentions=r"(?:que )?(?:mencionan?|contienen?|citan?|nombran?|describen?"
        r"|(?:hablan?|tratan?) (?:del?|sobre)|sobre|acerca del?)",
        there=r"hay|existen|tienes|tiene usted|conoces|están indexad[oa]s",
        all_units=r"documentos|archivos|ficheros|fuentes|(?P<page>p[áa]ginas)",
        forms=(
            r"\ben\s+{asks}\s+{unit}\s+(?:se (?:mencionan?|citan?|nombran?|describen?|hablan?"
            r" (?:del?|sobre))|aparecen?|figuran?|está|están|salen?)\s+{topic}{end}",
        ),
    ),
}

_PATTERNS = {
    language: tuple(late_pattern(text, re.IGNORECASE) for text in grammar.patterns())
    for language, grammar in _GRAMMARS.items()
}


def read_units(question: str) -> UnitPhrase | None:
    """Read which units a question about documents as such asks for; None for any other question.

    Always None for more than 1,000 characters.
    """
    flat = " ".join(question.split())
    if len(flat) > LONGEST_UNITS:
        return None
    for language, patterns in _PATTERNS.items():
        for pattern in patterns:
            if match := pattern.search(flat):
                groups = match.groupdict()
                unit: Unit = (
                    "page"
                    if groups.get("page")
                    else "passage"
                    if groups.get("passage")
                    else "document"
                )
                topic = (groups.get("topic") or "").strip()
                return UnitPhrase(unit, bool(groups.get("count")), topic, language)
    return None
