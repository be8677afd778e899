"""Subjects of sentences: names, persons, and subjects that can be understood alone."""

from __future__ import annotations

import re

from ._survey import Survey

_LONGEST_SUBJECT = 8
_FEW = 3
"""Most chunks with a word that identifies a subject."""

_PEOPLE = re.compile(
    r"\b(?:man|woman|author|writer|poet|novelist|actor|actress|singer|musician|composer|"
    r"player|footballer"
    r"|student|leader|chair|founder|head of|member of|economist|vocalist|teacher|minister|professor"
    r"|fondat(?:eur|rice)|père|mère|fils|direct(?:eur|rice)|présidente?|father|mother|ceo"
    r"|politician|architecte?|économiste|economista|scientist|physicist|chemist|mathematician|"
    r"engineer|philosopher|historian|king|queen"
    r"|consultant|specialist|manager|developer|analyst|researcher|expert|editor|journalist"
    r"|commander|architect|designer|sculptor|bishop|pope|judge|soldier|pilot|chef|executive"
    r"|emperor|general|officer|president|painter|artist|director|inventor|businessman|nurse|lawyer"
    r"|homme|femme|auteure?|écrivaine?|poète|romanci\w+|act(?:eur|rice)|chant(?:eur|euse)|"
    r"musicien(?:ne)?"
    r"|composit\w+|joueu\w+|footballeu\w+|politi(?:que|cien|cienne)|scientifique|"
    r"physicien(?:ne)?|chimiste"
    r"|mathématicien(?:ne)?|ingénieure?|philosophe|historien(?:ne)?|roi|reine|empereur|"
    r"général|peintre|artiste"
    r"|avocate?|journaliste|médecin|prêtre|évêque|saint"
    r"|Mann|Frau|Autor(?:in)?|Schriftsteller(?:in)?|Dichter(?:in)?|Schauspieler(?:in)?|"
    r"Politiker(?:in)?"
    r"|Physiker(?:in)?|König(?:in)?|Maler(?:in)?|Komponist(?:in)?|Spieler(?:in)?"
    r"|hombre|mujer|autora?|escritora?|poeta|act(?:or|riz)|cantante|polític[oa]|científic[oa]|"
    r"rey|reina"
    r"|pintora?|jugadora?|físico|filósof[oa])\b",
    re.IGNORECASE,
)

_NOT_A_SUBJECT = re.compile(
    r"(?:this|that|these|those|it|its|there|here|he|she|they|we|you|i|his|her|their|our|your|"
    r"my|one|both|each"
    r"|since|likewise|north|south|east|west|within|inside|outside|under|over|below|above|"
    r"between|unlike|like"
    r"|despite|due|according|today|now|instead|whereas|until|once|again|every|any|more|two|"
    r"three|later|early"
    r"|of|such|some|many|most|other|another|all|as|if|when|while|after|before|during|in|on|at|"
    r"for|by|with|from"
    r"|to|although|because|however|then|thus|also|what|which|who|where|how|why|and|but|or|so|"
    r"not|no|only|among"
    r"|afterwards?|meanwhile|finally|otherwise|sometimes|usually|often|always|never|together|"
    r"first|lastly|hence|elsewhere"
    r"|ce|cet|cette|ces|cela|ceci|c['’].*|il|elle|ils|elles|on|nous|vous|son|sa|ses|leur|"
    r"leurs|un autre"
    r"|dans|en|au|aux|à|pour|par|avec|sur|sous|selon|depuis|après|avant|pendant|mais|et|ou|"
    r"donc|si|quand"
    r"|lorsque|comme|où|qui|que|tout|tous|toutes|y|chaque|certains|plusieurs|celui|celle|ceux|"
    r"l['’]un|l['’]autre"
    r"|dies\w*|das|er|sie|es|wir|ihr\w*|sein\w*|man|hier|dort|dabei|wenn|als|nach|vor|bei|für|"
    r"mit|auf|aber"
    r"|und|oder|darüber|innerhalb|außerhalb|seit|unter|über|zwischen|im|in|am|zum|zur|beim|"
    r"vom|von|aus|ohne|gegen"
    r"|durch|heute|jetzt|auch|so|wie|wo|was|wer|nur|zwei|drei|beide|viele|einige|alle|zudem|"
    r"eine[rs]|jede[rs]?"
    r"|est[eao]s?|es[eao]s?|ello|él|ella|ellos|ellas|su|sus|se|hay|aquí|allí|cuando|según|"
    r"pero|y|o|para|con"
    r"|desde|durante|donde|aunque|consiste|como|si|entre|sobre|hasta|tras|hoy|además|cada|"
    r"otr[oa]s?|tod[oa]s?)$",
    re.IGNORECASE,
)
_INNER_VERB = re.compile(
    r"\b(?:is|are|was|were|be|has|have|had|which|that|who|will|would|can|could|may|must|"
    r"should|do|does|did|when|if|where|how|why|what|whether"
    r"|est|sont|était|étaient|fut|a|ont|avait|qui|que|dont|où|ist|sind|war|waren|wird|wurde|"
    r"hat|haben"
    r"|es|son|era|eran|fue|fueron|ha|han|que|cuyo|not|ne|pas|n['’]\w+)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"\b[A-ZÀ-Þ][\w'’.-]+")
INDEFINITE = re.compile(r"(?:an?|une?|des|eine?|un|una|unos|unas)\s", re.IGNORECASE)
_RELATIVE = re.compile(
    r"\b(?:last|next|first|second|third|other|another|main|same|previous|following|new|former|"
    r"latter|only"
    r"|example|reason|cause|result|stage|phase|problem|issue|goal|aim|part|kind|type|way|"
    r"number|rest|majority"
    r"|now|also|often|usually|typically|therefore|today|likewise|thus|however|still|even|at|"
    r"until|since"
    r"|derni[eè]re?s?|autres?|mêmes?|premi[eè]re?s?|seconde?s?|princip\w+|nouve\w+|exemples?|"
    r"raison|objectif"
    r"|but|cause|résultat|partie|plupart|nombre|aussi|ainsi|également|désormais|maintenant|"
    r"moitié|reste"
    r"|letzte\w*|erste\w*|zweite\w*|dritte\w*|andere\w*|größte\w*|einzige\w*|neue\w*|"
    r"Beispiel\w*|Grund|Ziel"
    r"|Teil|Ursache|Ergebnis|hinaus|selbst|jetzt|auch|heute|solche\w*|dies\w*"
    r"|últim[oa]s?|otr[oa]s?|mism[oa]s?|primer[oa]?s?|segund[oa]s?|principal\w*|nuev[oa]s?|"
    r"ejemplos?|raz[oó]n|causa"
    r"|parte|mayor|mayoría|resultado|ahora|también|hoy|meta|objetivo)\b",
    re.IGNORECASE,
)
_JOINERS = frozenset(
    re.findall(
        r"\S+",
        """
        de del la las los el of von van the et y und and du des le les d' der di
        """,
    )
)
ARTICLE = re.compile(
    r"(?:the|an?|les?|la|un|une|des|du|der|die|das|dem|den|eine?|el|los|las|unos?|unas?)\s|l['’]",
    re.IGNORECASE,
)


def lowered_first(subject: str) -> str:
    """Lower the first word of a subject if it is an ordinary word; names stay as they are.

    "Virginia Gewin" is a name although "virginia" occurs in an address; so is "DOCUMENT".
    """
    first, *others = subject.split()
    is_name = bool(others) and re.fullmatch(r"[A-ZÀ-Þ][a-zà-ÿ]+", others[0]) is not None
    if is_name or not re.fullmatch(r"[A-ZÀ-Þ][^A-ZÀ-Þ]*", first):
        return subject
    return subject[0].lower() + subject[1:]


def lowered(subject: str) -> str:
    """Return a subject inside a sentence: its article or first common word in lower case."""
    article = ARTICLE.match(subject)
    if article:
        end = article.end()
        return article[0].lower() + subject[end:]
    return subject


def is_person(match: re.Match[str], subject: str) -> bool:
    """True for a name that the sentence describes as a person."""
    article = ARTICLE.match(subject)
    profession = _PEOPLE.search(subject)
    start, names = article.end() if article else 0, len(_NAME.findall(subject))
    if profession and profession[0].islower() and (profession.start() == start or names >= 2):
        return True
    words = match["d"].split()
    return not article and bool(
        (names >= 2 and _PEOPLE.search(" ".join(words[:8])))
        or (names == 1 and _PEOPLE.search(" ".join(words[:3])))
    )


def perhaps_person(subject: str) -> bool:
    """True for a name of two or three words, which may be a person's."""
    words = subject.split()
    return 2 <= len(words) <= 3 and all(w[0].isupper() and w.isalpha() for w in words)


_NUMBERED = re.compile(
    r"\b(?:table|figure|fig|equation|section|chapter|appendix|tableau|tabelle|tabla)\.? \d", re.I
)
"""A numbered part of the document, which only its reader can see."""


def has_finite_verb(words: str) -> bool:
    """True for words with a conjugated verb, as in a whole sentence."""
    return bool(_INNER_VERB.search(words))


def stands_alone(subject: str, survey: Survey, language: str) -> bool:
    """True for a subject that a reader understands without the text around it."""
    parts = subject.split()
    if len(parts) > _LONGEST_SUBJECT or _NOT_A_SUBJECT.match(parts[0]):
        return False
    if _INNER_VERB.search(subject) or _RELATIVE.search(subject):
        return False
    if _NOT_A_SUBJECT.match(parts[-1]) or not parts[-1][-1].isalnum():
        return False
    if _NUMBERED.search(subject):
        return False
    article = ARTICLE.match(subject)
    rest = subject[article.end() :].split() if article else parts
    content = set(survey.vocabulary.source.tokens(" ".join(rest)))
    rare = any(survey.vocabulary.holding(token) <= _FEW for token in content)
    names = [w for w in rest if w[:1].isupper() or any(c.isdigit() for c in w)]
    if language == "de" and article:  # every noun has a capital
        return len(names) >= 2 or (rare and len(names) == 1)
    if article and INDEFINITE.match(subject):
        return len(content) >= 2 or rare
    if article:
        return bool(names) or (len(content) >= 2 and rare)
    if language != "en":
        return all(w in names or w.lower() in _JOINERS for w in rest) and rare
    return bool(names[1:]) or parts[0].isupper() or len(content) >= 2 or (len(parts) == 1 and rare)
