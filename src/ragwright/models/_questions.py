"""The kind of answer that a question asks for, by its question words.

Rules for English and French, with the plain question words of German, Spanish, Italian,
Portuguese and Dutch. No model, no word lists beyond closed classes.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from ..core import late_pattern

AnswerKind: TypeAlias = Literal[
    "person", "time", "place", "number", "reason", "manner", "definition", "name", "other"
]

_I = re.IGNORECASE


_KINDS: tuple[tuple[AnswerKind, re.Pattern[str]], ...] = (
    (
        "number",
        late_pattern(
            r"\bhow (?:many|much|long|far|old|tall|large|big|often|high|deep|fast|heavy|wide)\b"
            r"|\b(?:what|which)(?: \w+){0,2} (?:percentage|percent|number|amount|population|age"
            r"|length|height|size|distance|temperature|price|cost|proportion|rate)\b"
            r"|\bcombien\b|\bquel(?:le)?s?(?: (?:est|était|sont|fut|furent))?(?: \w+){0,2}"
            r" (?:âge|nombre|pourcentage|taille|superficie|prix|population|montant|part|distance"
            r"|longueur|hauteur|durée|coût|effectif|température|vitesse|proportion)\b"
            r"|\bà quelle (?:distance|vitesse|hauteur|altitude)\b"
            r"|\bwie ?viele?\b|\bwie (?:lang|hoch|alt|groß|weit)\b|\bcuánt[oa]s?\b|\bquant[oiae]\b"
            r"|\bquant[oa]s?\b|\bhoeveel\b",
            _I,
        ),
    ),
    (
        "time",
        late_pattern(
            # In the present tense *when* asks for a condition: "when does the lamp turn red?"
            r"\bwhen\b(?! (?:do|does|is|are|can|may|must|should)\b)"
            r"|\b(?:what|which)(?: \w+)? (?:year|date|century|day|month|decade|period"
            r"|era)s?\b"
            r"|\bquand\b|\bquel(?:le)?s?(?: (?:est|était|sont|fut))?(?: la| le| les)?"
            r" (?:année|date|siècle|jour|mois|période|époque|décennie|saison)s?\b|\bdepuis quand\b"
            r"|\bwann\b|\bcuándo\b|\bquando\b|\bwanneer\b",
            _I,
        ),
    ),
    (
        "reason",
        late_pattern(r"\bwhy\b|\bpourquoi\b|\bwarum\b|\bpor qué\b|\bperché\b|\bwaarom\b", _I),
    ),
    (
        "place",
        late_pattern(
            r"\bwhere\b|\b(?:what|which)(?: \w+)? (?:country|city|town|place|region|state|continent"
            r"|location|province|river|area)s?\b"
            r"|\boù\b|\bquel(?:le)?s?(?: (?:est|était|sont|fut))?(?: la| le| les)?"
            r" (?:pays|ville|région|lieu|endroit|continent|quartier|département|état|province)s?\b"
            r"|\bwo\b|\bwohin\b|\bwoher\b|\bdónde\b|\bdove\b|\bonde\b|\bwaar\b",
            _I,
        ),
    ),
    (
        "definition",
        late_pattern(
            r"^\W*(?:what (?:is|are|was|were) (?:an? |the )?(?:\w+[ -]?){1,3}\??$|define\b"
            r"|what does .{1,60} mean|qu['’]est[- ]ce qu(?:e|['’])|c['’]est quoi"
            r"|que signifie|was (?:ist|sind)|qué es|cos['’]è|o que é|wat is)",
            _I,
        ),
    ),
    (
        "person",
        late_pattern(
            r"\bwho(?:m|se)?\b|^\W*(?:\w+ )?qui\b(?! est-ce que)|\b(?:à|de|par|pour|avec) qui\b"
            r"|\bwer\b|\bwem\b|\bquién(?:es)?\b|^\W*chi\b|\bquem\b|\bwie (?:is|was|heeft)\b",
            _I,
        ),
    ),
    ("manner", late_pattern(r"\bhow\b|\bcomment\b|\bwie\b|\bcómo\b|\bcome\b|\bcomo\b|\bhoe\b", _I)),
    (
        "name",
        late_pattern(
            r"\bwhich\b|\bwhat\b(?= \w+)|\bquel(?:le)?s?\b|\blequel\b|\bwelche[rsmn]?\b"
            r"|\bcuál(?:es)?\b"
            r"|\bquale?\b|\bquai?s\b|\bwelke?\b",
            _I,
        ),
    ),
)

_TIME = late_pattern(
    r"\b(?:1[0-9]|20)\d\d\b|\b\d{1,2}(?:st|nd|rd|th)?[- ](?:centur|si[eè]cle)|\b[IVX]+e\b ?si"
    r"|\bcentur(?:y|ies)\b|\bsi[eè]cles?\b|\bdecades?\b|\bann[ée]es?\b"
    # In lower case these three are also ordinary words: "a low score may be good".
    r"|\b(?:january|february|april|june|july|(?-i:March|May|August)|september|october|november"
    r"|december|janvier|f[ée]vrier|mars|avril|mai|juin|juillet|ao[uû]t|septembre|octobre|novembre"
    r"|d[ée]cembre)\b|\b\d{3,4} ?(?:BC|AD|BCE|CE)\b|\b(?:en|in|an|vers|dès) [1-9]\d\d\b"
    r"|\b\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b",
    _I,
)
_NUMBER = late_pattern(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty"
    r"|fifty|hundred|thousand|million|billion|dozen|half|deux|trois|quatre|cinq|sept|huit|neuf|dix"
    r"|onze|douze|quinze|vingt|trente|quarante|cinquante|soixante|cent|mille|millions?|milliards?"
    r"|dizaine|centaine|moiti[ée]|tiers|quart|zwei|drei|vier|dos|tres|cuatro|due|tre|quattro)\b",
    _I,
)
_REASON = late_pattern(
    r"\bbecause\b|\bdue to\b|\bsince\b|\bin order to\b|\bso that\b|\btherefore\b|\bas a result\b"
    r"|\bthanks to\b|\bcaused?\b|\breasons?\b|\bparce qu|\bcar\b|\bpuisqu|\bafin\b|\bgr[âa]ce\b"
    r"|\ben raison\b|\bà cause\b|\bdu fait\b|\braisons?\b|\bpour\b|\bweil\b"
    r"|\bporque\b|\bperch[ée]\b",
    _I,
)
_DEFINES = late_pattern(
    r"\b(?:is|are|was|were|means|refers to|denotes|est|sont|était|étaient|désigne|signifie"
    r"|correspond|ist|sind|es|son|è|sono|é|são)\b|\(.{2,60}\)",
    _I,
)
_NAME = late_pattern(r"(?<![.!?…:«\"“(]\s)(?<!^)\b[A-ZÀ-ÖØ-Þ][\w’'-]+")
_DOUBLE_NAME = late_pattern(
    r"\b[A-ZÀ-ÖØ-Þ][\w’'-]+ (?:(?:de|du|von|van|of|the|la|le) )*[A-ZÀ-ÖØ-Þ]\w+"
)


def answer_kind(question: str) -> AnswerKind:
    """Kind of answer that a question asks for, ``other`` if no question word shows it."""
    for kind, pattern in _KINDS:
        if pattern.search(question):
            return kind
    return "other"


def names(text: str) -> list[str]:
    """Capitalised words that are not at the start of a sentence, as written."""
    found = _NAME.findall(text)
    for match in _DOUBLE_NAME.findall(text):
        found += match.split()
    return found


def offers(kind: AnswerKind, sentence: str, asked: frozenset[str]) -> bool:
    """True where a sentence holds something of the kind asked for.

    ``asked`` are the casefolded words of the question: a name in the question does not answer it.
    """
    if kind == "time":
        return any(m.casefold() not in asked for m in _TIME.findall(sentence))
    if kind == "number":
        rest = re.sub(r"\w*\d[\w.,]*", lambda m: "" if m[0].casefold() in asked else m[0], sentence)
        return bool(_NUMBER.search(rest))
    if kind in {"person", "place", "name"}:
        return any(n.casefold() not in asked for n in names(sentence))
    if kind == "reason":
        return bool(_REASON.search(sentence))
    if kind == "definition":
        return bool(_DEFINES.search(sentence))
    return True


def insists(kind: AnswerKind, question: str) -> bool:
    """True if a sentence without this kind can hardly answer: a date, a person.

    French *qui* asks for things as well (*Qui gère la gabelle ?*), so it is not required.
    """
    return kind == "time" or (kind == "person" and not re.search(r"\bqui\b", question, _I))


_FOCUS = late_pattern(
    r"\b(?:what|which|whose|how many|how much|quel(?:le)?s?|combien d['’e]|combien de|welche[rsmn]?"
    r"|wie ?viele|quale?|cuántos|cuántas|quantos|welke)\b"
    r"(?: (?:est|était|sont|fut|furent|is|are|was|were))?((?: ?['’]?[\w-]+){1,3})",
    _I,
)


def focus(question: str) -> str:
    """The words after *which*, *what*, *how many*, *quel*: the class of the answer."""
    match = _FOCUS.search(question)
    return match[1] if match else ""
