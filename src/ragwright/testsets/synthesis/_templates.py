"""Grammar of the template questions: sentences of four languages, and what asks for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass

from ._survey import Survey
from ._verbs import VERBS

_DATE = r"(?P<date>(?:\d{1,2} )?(?:[^\W\d_]+ )?(?:\d{1,2}, )?(?:1\d|20)\d\d)"
_SUBJECT = r"(?P<s>[^\W_][^,;:()\[\]!?«»\"“”=|]{1,70}?)"
_REST = r"(?P<rest>(?: [^,;:()\[\]]+?)?)"
_NUMBER = r"(?P<n>\d[\d., \u00a0\u202f]*\d|\d|two|three|four|five|six|seven|eight|nine|ten|twelve)"

_LONGEST_SUBJECT = 8
_MOST_WORDS = 24


@dataclass(frozen=True, slots=True)
class Template:
    """One form of a sentence, and the question that asks for it.

    Attributes:
        form: ``definition``, ``procedure``, ``value``, ``list``, ….
        pattern: Of the whole plain sentence; ``s`` is its subject.
        ask: Makes the question from the match and its subject.
    """

    form: str
    pattern: re.Pattern[str]
    ask: Callable[[re.Match[str], str], str]
    answer: str = ""


_PEOPLE = re.compile(
    r"\b(?:man|woman|author|writer|poet|novelist|actor|actress|singer|musician|composer|"
    r"player|footballer"
    r"|student|leader|chair|founder|head of|member of|economist|vocalist|teacher|minister|professor"
    r"|fondat(?:eur|rice)|père|mère|fils|direct(?:eur|rice)|présidente?|father|mother|ceo"
    r"|politician|architecte?|économiste|economista|scientist|physicist|chemist|mathematician|"
    r"engineer|philosopher|historian|king|queen"
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
    r"|such|some|many|most|other|another|all|as|if|when|while|after|before|during|in|on|at|"
    r"for|by|with|from"
    r"|to|although|because|however|then|thus|also|what|which|who|where|how|why|and|but|or|so|"
    r"not|no|only|among"
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
    r"should|do|does|did|when|if"
    r"|est|sont|était|étaient|fut|a|ont|avait|qui|que|dont|où|ist|sind|war|waren|wird|wurde|"
    r"hat|haben"
    r"|es|son|era|eran|fue|fueron|ha|han|que|cuyo|not|ne|pas|n['’]\w+)\b",
    re.IGNORECASE,
)
_NAME = re.compile(r"\b[A-ZÀ-Þ][\w'’.-]+")
_PLURAL = frozenset(["are", "were", "sont", "étaient", "sind", "waren", "son", "eran"])
_SINGULAR = re.compile(r"(?:an?|une?|le|la|ein|eine|der|das|el|una)\s|l['’]", re.IGNORECASE)
_INDEFINITE = re.compile(r"(?:an?|une?|des|eine?|un|una|unos|unas)\s", re.IGNORECASE)
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
_ARTICLE = re.compile(
    r"(?:the|an?|les?|la|un|une|des|du|der|die|das|dem|den|eine?|el|los|las|unos?|unas?)\s|l['’]",
    re.IGNORECASE,
)


def _lowered(subject: str) -> str:
    """A subject inside a sentence: its article or first common word in lower case."""
    article = _ARTICLE.match(subject)
    if article:
        return subject[0].lower() + subject[1:]
    return subject


def _who(match: re.Match[str], subject: str) -> bool:
    """True for a name that is said to be a person."""
    article = _ARTICLE.match(subject)
    said = _PEOPLE.search(subject)
    if said and said[0].islower() and (said.start() == (article.end() if article else 0)):
        return True
    names = len(_NAME.findall(subject))
    if said and said[0].islower() and names >= 2:
        return True
    first = " ".join(match["d"].split()[:3])
    return not article and bool(
        (names >= 2 and _PEOPLE.search(_head(match))) or (names == 1 and _PEOPLE.search(first))
    )


def _head(match: re.Match[str]) -> str:
    return " ".join(match["d"].split()[:8])


def _perhaps_who(subject: str) -> bool:
    """True for a name of two or three words, which may be a person's."""
    words = subject.split()
    return 2 <= len(words) <= 3 and all(w[0].isupper() and w.isalpha() for w in words)


def _disagree(match: re.Match[str], subject: str) -> bool:
    """True for a singular subject with a plural verb: the sentence is inverted."""
    return match["v"] in _PLURAL and bool(_SINGULAR.match(subject))


_BASE: Mapping[str, str] = {
    verb: base
    for base, verbs in {
        "contain": "contains",
        "include": "includes",
        "require": "requires",
        "support": "supports",
        "provide": "provides",
        "return": "returns",
        "measure": "measures",
        "store": "stores",
        "mean": "means",
        "describe": "describes",
        "cause": "causes",
        "affect": "affects",
        "specify": "specifies",
        "indicate": "indicates",
    }.items()
    for verb in verbs.split()
}
_AGENTS: Mapping[str, str] = {
    "written": "wrote",
    "built": "built",
    "made": "made",
    "won": "won",
    "led": "led",
    "drawn": "drew",
    "taken": "took",
    "sung": "sang",
    "held": "held",
}


def _who_did(match: re.Match[str], subject: str) -> str:
    verb = match["p"]
    past = _AGENTS.get(verb, verb if verb.endswith("ed") else "")
    return f"Who {past} {_lowered(subject)}?" if past else ""


def _english_what(match: re.Match[str], subject: str) -> str:
    verb = match["v"]
    who = _who(match, subject)
    if _disagree(match, subject) or (not who and verb == "was" and _perhaps_who(subject)):
        return ""
    return f"{'Who' if who else 'What'} {verb} {_lowered(subject)}?"


def _french_what(match: re.Match[str], subject: str) -> str:
    if _disagree(match, subject):
        return ""
    if _who(match, subject):
        return f"Qui {match['v']} {_lowered(subject)} ?"
    if len(re.findall(r"\b[A-ZÀ-Þ]\w+", subject)) >= 2 and not _ARTICLE.match(subject):
        return ""  # perhaps a person
    low = _lowered(subject)
    if match["v"] in _PLURAL:
        return f"Que sont {low} ?"
    return f"Qu'est-ce {_que(low)}{low} ?"


def _que(following: str) -> str:
    return "qu'" if following[:1].lower() in "aeiouyàâéèêëîïôœ" else "que "


def _il(verb: str, part: str) -> str:
    """The pronoun that agrees with a participle."""
    many = verb.split()[0] in {"ont", "sont", "furent"}
    woman = part.rstrip("s").endswith("e")
    return ("elle" if woman else "il") + ("s" if many else "")


def _french_passive(match: re.Match[str], subject: str, word: str) -> str:
    verb, part = match["v"], match["p"]
    head, _, tail = verb.partition(" ")
    hyphen = "-t-" if head[-1] == "a" else "-"
    inverted = f"{head}{hyphen}{_il(verb, part)}{' ' + tail if tail else ''}"
    return f"{word} {_lowered(subject)} {inverted} {part}{match['rest']} ?"


def _german_what(match: re.Match[str], subject: str) -> str:
    who = _who(match, subject)
    if _disagree(match, subject) or (not who and match["v"] == "war" and _perhaps_who(subject)):
        return ""
    return f"{'Wer' if who else 'Was'} {match['v']} {_lowered(subject)}?"


def _spanish_count(match: re.Match[str], subject: str) -> str:
    things = match["what"]
    word = "Cuántas" if things.endswith("as") else "Cuántos"
    verb = match["v"].replace("cuenta con", "tiene")
    return f"¿{word} {things} {verb} {_lowered(subject)}?"


def _spanish_what(match: re.Match[str], subject: str) -> str:
    if _disagree(match, subject) or (match["v"] == "fue" and not _who(match, subject)):
        return ""
    word = "Quién" if _who(match, subject) else "Qué"
    return f"¿{word} {match['v']} {_lowered(subject)}?"


def _of(
    form: str, pattern: str, ask: Callable[[re.Match[str], str], str], answer: str = ""
) -> Template:
    return Template(form, re.compile(pattern), ask, answer)


_PART_FR = r"(?P<p>[^\W\d_]+(?:é|ée|és|ées|i|ie|ies|it|ite|its|ites|is|ise|ises|u|ue|us|ues))"
_HAVE = {"has": "does", "have": "do", "had": "did"}

TEMPLATES: Mapping[str, Sequence[Template]] = {
    "en": (
        _of(
            "value",
            rf"{_SUBJECT} (?P<v>was|were) (?P<p>[a-z]+ed|born|built|made|written|won|held|sold)"
            rf"{_REST} (?:in|on) {_DATE}\b.*",
            lambda m, s: f"When {m['v']} {_lowered(s)} {m['p']}{m['rest']}?",
            "date",
        ),
        _of(
            "value",
            rf"{_SUBJECT} (?P<v>was|were) (?P<p>\w+) by (?P<who>(?:the )?[A-Z][^,;()]{{2,60}}?)"
            r"(?: (?:in|on|at|for|to|as|after|during)\b.*)?\.",
            _who_did,
            "who",
        ),
        _of(
            "value",
            rf"{_SUBJECT} (?P<v>is|are|was|were) (?P<p>located|situated|based|headquartered) "
            rf"(?!on |upon ).*",
            lambda m, s: f"Where {m['v']} {_lowered(s)} {m['p']}?",
        ),
        _of(
            "value",
            rf"{_SUBJECT} (?P<v>has|have|had) (?:about |around |over |only |exactly )?{_NUMBER} "
            r"(?P<what>(?!more|other|new|years)[a-z]+(?: [a-z]+)?s)\b(?! of)(?:[ ,.;].*)?",
            lambda m, s: f"How many {m['what']} {_HAVE[m['v']]} {_lowered(s)} have?",
            "n",
        ),
        _of(
            "definition",
            rf"{_SUBJECT} (?P<v>is|are|was|were) (?P<d>(?:an?|the|one of)\s.+)",
            _english_what,
        ),
        _of(
            "definition",
            rf"{_SUBJECT} (?:means|refers to|stands for) .+",
            lambda m, s: f"What does {_lowered(s)} mean?",
        ),
        _of(
            "procedure",
            r"To (?P<s>[a-z]+ [^,;:]{3,70}), (?P<next>[a-z-]+)\b.+",
            lambda m, s: f"How do I {mine(s)}?" if m["next"] in {*VERBS, "you", "first"} else "",
        ),
        _of(
            "list",
            r"The following (?P<s>[a-z][\w -]{2,50}?) (?P<v>are|can|must|may|will|have) "
            r"(?P<rest>[^:]{2,60}):.*",
            lambda m, s: f"Which {s} {m['v']} {m['rest']}?",
        ),
        _of(
            "statement",
            rf"{_SUBJECT} (?P<v>{'|'.join(_BASE)}) (?!that\b|to\b).+",
            lambda m, s: f"What does {_lowered(s)} {_BASE[m['v']]}?",
        ),
    ),
    "fr": (
        _of(
            "value",
            rf"{_SUBJECT} (?P<v>est|sont|a été|ont été|fut|furent) {_PART_FR}{_REST} en "
            rf"(?P<date>(?:[a-zéû]+ )?(?:1\d|20)\d\d)\b.*",
            lambda m, s: _french_passive(m, s, "Quand"),
            "date",
        ),
        _of(
            "value",
            rf"{_SUBJECT} (?P<v>est|sont|a été|ont été|fut|furent) {_PART_FR}{_REST} par "
            r"(?P<who>[A-ZÀ-Þ][^,;()]{3,60}?)(?: (?:en|dans|pour|à|lors)\b.*)?\.",
            lambda m, s: _french_passive(m, s, "Par qui"),
            "who",
        ),
        _of(
            "value",
            rf"{_SUBJECT} (?P<v>se trouve|se situe|est située?|sont située?s) .+",
            lambda m, s: (
                f"Où se {'trouvent' if m['v'].startswith('sont') else 'trouve'} {_lowered(s)} ?"
            ),
        ),
        _of(
            "value",
            rf"{_SUBJECT} (?P<v>compte|comptait|comporte|possède) (?:environ |près de |plus de "
            rf")?(?P<n>\d[\d  .,]*|deux|trois|quatre|cinq|six|sept|huit|dix) "
            rf"(?P<what>[^\W\d_]+s)\b.*",
            lambda m, s: f"Combien {_de(m['what'])} {m['v']} {_lowered(s)} ?",
            "n",
        ),
        _of(
            "definition",
            rf"{_SUBJECT} (?P<v>est|sont|était|étaient|fut) (?P<d>(?:une?\s|l['’]une?\s|les?\s|"
            rf"la\s|l['’]).+)",
            _french_what,
        ),
        _of(
            "procedure",
            r"Pour (?P<s>[^\W\d_]+(?:er|ir|re) [^,;:]{3,70}), (?:vous|il faut|\w+ez)\b.+",
            lambda m, s: f"Comment {s} ?",
        ),
        _of(
            "list",
            r"Les (?P<s>[\w' -]{3,50}?) suivant(?P<f>e?)s (?P<v>sont|peuvent|doivent|ont) "
            r"(?P<rest>[^:]{2,60}):.*",
            lambda m, s: f"{'Quelles' if m['f'] else 'Quels'} {s} {m['v']} {m['rest'].strip()} ?",
        ),
    ),
    "de": (
        _of(
            "value",
            rf"{_SUBJECT} (?P<v>wurde|wurden) (?:im Jahre? |am |im )?"
            rf"(?P<date>(?:\d{{1,2}}\. )?(?:[A-ZÄ][a-zäöü]+ )?(?:1\d|20)\d\d) "
            rf"(?P<rest>[^,;:.]{{3,60}})\.",
            lambda m, s: f"Wann {m['v']} {_lowered(s)} {m['rest']}?",
            "date",
        ),
        _of(
            "value",
            rf"{_SUBJECT} (?P<v>liegt|liegen|befindet sich|befinden sich) (?:in|im|an|am|auf|"
            rf"zwischen|nördlich|südlich|östlich|westlich|nahe) .+",
            lambda m, s: (
                f"Wo {m['v'].split()[0]} {'sich ' if 'sich' in m['v'] else ''}{_lowered(s)}?"
            ),
        ),
        _of(
            "value",
            rf"{_SUBJECT} (?P<v>hat|haben|hatte|hatten) (?:etwa |rund |über "
            rf")?(?P<n>(?!1[0-9]{3}\b|20\d\d\b)\d[\d.]*|zwei|drei|vier|fünf|sechs|sieben|acht|"
            rf"zehn) (?P<what>[A-ZÄÖÜ][a-zäöüß]+(?:en|er|e|s))\b.*",
            lambda m, s: f"Wie viele {m['what']} {m['v']} {_lowered(s)}?",
            "n",
        ),
        _of(
            "definition",
            rf"{_SUBJECT} (?P<v>ist|sind|war|waren) (?P<d>(?:eine?|eine[rs]|der|die|das)\s.+)",
            _german_what,
        ),
        _of(
            "procedure",
            r"Um (?P<s>[^,;:]{3,60}) zu (?P<v>[a-zäöü]+en), (?:müssen|können|klicken|muss man|"
            r"kann man|\w+en Sie)\b.+",
            lambda m, s: f"Wie kann ich {s} {m['v']}?",
        ),
        _of(
            "list",
            r"Die folgenden (?P<s>[\w -]{3,50}?) (?P<v>sind|können|müssen|haben|werden) "
            r"(?P<rest>[^:]{2,60}):.*",
            lambda m, s: f"Welche {s} {m['v']} {m['rest']}?",
        ),
    ),
    "es": (
        _of(
            "value",
            rf"{_SUBJECT} (?P<v>fue|fueron) (?P<p>[^\W\d_]+[aio]d[oa]s?){_REST} en "
            rf"(?P<date>(?:[a-z]+ de )?(?:1\d|20)\d\d)\b.*",
            lambda m, s: f"¿Cuándo {m['v']} {m['p']}{m['rest']} {_lowered(s)}?",
            "date",
        ),
        _of(
            "value",
            rf"{_SUBJECT} (?P<v>fue|fueron) (?P<p>[^\W\d_]+[aio]d[oa]s?){_REST} por "
            rf"(?P<who>[^,;()]{{3,60}}?)(?: en\b.*)?\.",
            lambda m, s: f"¿Por quién {m['v']} {m['p']}{m['rest']} {_lowered(s)}?",
            "who",
        ),
        _of(
            "value",
            rf"{_SUBJECT} (?P<v>se encuentra|está situad[oa]|está ubicad[oa]|se encuentran) .+",
            lambda m, s: f"¿Dónde {m['v']} {_lowered(s)}?",
        ),
        _of(
            "value",
            rf"{_SUBJECT} (?P<v>tiene|tenía|cuenta con) (?:unos |unas |más de )?(?P<n>\d[\d.]*|"
            rf"dos|tres|cuatro|cinco|seis) (?P<what>[^\W\d_]+[oa]s)\b.*",
            _spanish_count,
            "n",
        ),
        _of(
            "definition",
            rf"{_SUBJECT} (?P<v>es|son|era|eran|fue) (?P<d>(?:una?|unos|unas|el|la|los|las)\s.+)",
            _spanish_what,
        ),
        _of(
            "procedure",
            r"Para (?P<s>[^\W\d_]+(?:ar|er|ir) [^,;:]{3,70}), (?:debe|hay que|puede|haga|use|"
            r"utilice|pulse|seleccione|abra)\b.+",
            lambda m, s: f"¿Cómo {s}?",
        ),
        _of(
            "list",
            r"L(?P<f>[oa])s siguientes (?P<s>[\w -]{3,50}?) (?P<v>son|están|pueden|deben) "
            r"(?P<rest>[^:]{2,60}):.*",
            lambda m, s: f"¿Qué {s} {m['v']} {m['rest']}?",
        ),
    ),
}
"""Templates by language, in order of preference."""


def mine(words: str) -> str:
    """The words as the reader would say them: my project, not your project."""
    return re.sub(r"\byour\b", "my", re.sub(r"\byou\b", "I", words))


def _de(noun: str) -> str:
    return f"d'{noun}" if noun[:1].lower() in "aeiouyhéèê" else f"de {noun}"


def finite(words: str) -> bool:
    """True for words with a conjugated verb, as a whole sentence has."""
    return bool(_INNER_VERB.search(words))


def _fits(
    template: Template, match: re.Match[str], subject: str, survey: Survey, language: str
) -> bool:
    """True if the question can be understood alone, and the sentence answers it."""
    if template.form in ("procedure", "list"):
        asked_for = subject if template.form == "procedure" else match[0].partition(":")[0]
        content = set(survey.vocabulary.source.tokens(_GENERIC.sub("", asked_for)))
        return len(subject.split()) <= 12 and len(content) >= 2
    parts = match.groupdict()
    return (
        _stands_alone(subject, survey, language)
        and not (template.form == "value" and _INDEFINITE.match(subject))
        and not _OPINION.match(parts.get("d") or "")
        and not re.search(r" (?:und|and|et) ", parts.get("rest") or "")
    )


def asked(
    template: Template, plain: str, survey: Survey, language: str, common: Set[str]
) -> tuple[str, str] | None:
    """The question and the answer (empty: the sentence) that a template makes of a sentence.

    Args:
        template: The form.
        plain: The sentence, without marks.
        survey: Of the collection.
        language: Of the sentence: en, fr, de, es.
        common: Words that the document writes in lower case.
    """
    if len(plain.split()) > 45 or not plain[:1].isupper():
        return None
    match = template.pattern.fullmatch(plain)
    if match is None:
        return None
    subject = match["s"].strip()
    if not _fits(template, match, subject, survey, language):
        return None
    first, *others = subject.split()
    if (
        template.form == "statement"
        and first.lower() in common
        and any(word.islower() and word.endswith("s") for word in others)
    ):
        return None  # perhaps a plural
    if first.lower() in common and language != "de":
        subject = subject[0].lower() + subject[1:]
    question = template.ask(match, subject)
    if not question or len(question.split()) > _MOST_WORDS:
        return None
    answer = match[template.answer].strip() if template.answer else ""
    if answer and answer.casefold() in question.casefold():
        return None
    return question[0].upper() + question[1:], answer


def _stands_alone(subject: str, survey: Survey, language: str) -> bool:
    """True for a subject that a reader understands without the text around it."""
    parts = subject.split()
    if len(parts) > _LONGEST_SUBJECT or _NOT_A_SUBJECT.match(parts[0]):
        return False
    if _INNER_VERB.search(subject) or _RELATIVE.search(subject):
        return False
    if _NOT_A_SUBJECT.match(parts[-1]) or not parts[-1][-1].isalnum():
        return False
    article = _ARTICLE.match(subject)
    rest = subject[article.end() :].split() if article else parts
    content = set(survey.vocabulary.source.tokens(" ".join(rest)))
    rare = any(survey.vocabulary.holding(token) <= _FEW for token in content)
    names = [w for w in rest if w[:1].isupper() or any(c.isdigit() for c in w)]
    if language == "de" and article:  # every noun has a capital
        return len(names) >= 2 or (rare and len(names) == 1)
    if article and _INDEFINITE.match(subject):
        return len(content) >= 2 or rare
    if article:
        return bool(names) or (len(content) >= 2 and rare)
    if language != "en":
        return all(w in names or w.lower() in _JOINERS for w in rest) and rare
    return bool(names[1:]) or parts[0].isupper() or len(content) >= 2 or (len(parts) == 1 and rare)


_OPINION = re.compile(
    r"(?:\w+\s)(?:\w+\s)?(?:good|bad|useful|important|common|popular|key|matter|only|best|reason|result"
    r"|bon|bonne|importante?s?|résultat|gute?\w*|wichtig\w*|importantes?|buen\w*)\b"
)
"""Beginnings of what is said of a subject that define nothing."""

_GENERIC = re.compile(
    r"\b(?:issues?|problems?|errors?|this|these|it|them|possible)\b", re.IGNORECASE
)

_FEW = 3
"""Number of chunks up to which a word identifies what is asked about."""
