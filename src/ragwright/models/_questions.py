"""The kind of answer that a question asks for, by its question words.

Rules for English and French, with the plain question words of German, Spanish, Italian,
Portuguese and Dutch. No model, no word lists beyond closed classes.
"""

from __future__ import annotations

import re
from typing import Literal, TypeAlias

from ..core import late_pattern
from ._analysis import is_code, words
from ._language import stop_words

AnswerKind: TypeAlias = Literal[
    "person", "time", "place", "number", "reason", "manner", "definition", "name", "other"
]

_I = re.IGNORECASE
_SMALL = stop_words("auto") | {"do", "what", "why", "how", "when", "where", "que", "qué", "was"}


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
            r"|\bwie ?viele?\b|\bwie (?:lang|hoch|alt|groß|weit)\b|\bcuánt[oa]s?\b"
            r"|\bquant[oiae]\b"
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
            r" (?:année|date|siècle|jour|mois|période|époque|décennie|saison)s?\b"
            r"|\bdepuis quand\b"
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
            r"\bwhere\b|\b(?:what|which)(?: \w+)? (?:country|city|town|place|region|state"
            r"|continent"
            r"|location|province|river|area)s?\b"
            r"|\boù\b|\bquel(?:le)?s?(?: (?:est|était|sont|fut))?(?: la| le| les)?"
            r" (?:pays|ville|région|lieu|endroit|continent|quartier|département|état"
            r"|province)s?\b"
            r"|\bwo\b|\bwohin\b|\bwoher\b|\bdónde\b|\bdove\b|\bonde\b|\bwaar\b",
            _I,
        ),
    ),
    (
        "definition",
        late_pattern(
            r"^\W*(?:what (?:is|are|was|were) (?:an? |the )?"
            r"(?:(?!(?:of|for|in|to|between)\b)\w+[ -]?){1,5}\??$|define\b"
            r"|(?:explain|describe) (?!how|why|when|where|which|who)"
            r"|qu['’]est[- ]ce qu(?:e|['’])|c['’]est quoi"
            r"|que signifie|was (?:ist|sind)|qué es|cos['’]è|o que é|wat is)"
            r"|\bwhat (?:does|do) .{1,60} mean\b|\bmeaning of\b|\bque (?:veut|veulent) dire\b"
            r"|\bwas (?:bedeutet|heißt)\b|\bqué significa\b|\b(?:che )?cosa significa\b"
            r"|\bo que significa\b|\bwat betekent\b",
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
    r"|\b\d{1,2}[/.]\d{1,2}[/.]\d{2,4}\b|\b(?-i:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?\b"
    r"|\b(?-i:Mon|Diens|Donners|Frei|Sams|Sonn)tags?\b|\bMittwochs?\b"
    r"|\b(?:lun|mar|mercre|jeu|vendre|same)dis?\b|\bdimanches?\b"
    r"|\b(?:januar|februar|märz|mai|juni|juli|oktober|dezember|enero|febrero|marzo|abril|mayo|junio"
    r"|julio|agosto|septiembre|octubre|noviembre|diciembre|gennaio|febbraio|aprile|maggio|giugno"
    r"|luglio|settembre|ottobre|dicembre|janeiro|fevereiro|março|maio|junho|julho|setembro|outubro"
    r"|novembro|dezembro|januari|februari|maart|mei|augustus)\b",
    _I,
)
_NUMBER = late_pattern(
    r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty"
    r"|fifty|hundred|thousand|million|billion|dozen|half|deux|trois|quatre|cinq|sept|huit"
    r"|neuf|dix"
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
    """Kind of answer that a question asks for, ``other`` if no question word shows it.

    A question about a code and nothing else asks for its definition, unless it asks for steps.
    """
    if about_codes(question):
        return "manner" if asks_steps(question) else "definition"
    for kind, pattern in _KINDS:
        if pattern.search(question):
            return kind
    return "other"


_LIGHT = late_pattern(
    r"\b(?:gets?|got|getting|receiv(?:e[sd]?|ing)|obtain(?:s|ed)?|takes?|took|gives?|gave|given"
    r"|needs?|needed|makes?|made"
    r"|bekomm(?:en|e|st|t)|bekam(?:en)?|erhalten?|erhält(?:st)?|erhielt(?:en)?|krieg(?:en|e|st|t)"
    r"|brauch(?:en|e|st|t)|gibt|geben|nehmen?|nimmt|mach(?:en|e|st|t)|gilt|gelten|beträgt|betragen"
    r"|obt(?:enir|iens|ient|enons|enez|iennent)|re[çc](?:ois|oit|evons|evez|oivent|evoir)"
    r"|fau(?:t|drait)|dois|doit|doivent|devons|devez|peu[xt]|puis|peuvent|prend(?:s|re)?|donnent?"
    r"|recib(?:ir|o|es?|en|imos)|obt(?:ener|engo|ienes?|ienen)|necesit(?:o|as?|an|amos)|tengo"
    r"|tomar?|toman|dan|hacen?)(?:-t)?(?:-(?:ils?|elles?|on|je|tu|nous|vous))?\b",
    _I,
)
_INVERTED = late_pattern(r"(?<=[^\W\d_])(?:-t)?-(?:ils?|elles?|on|je|tu|nous|vous)\b", _I)


def without_light_verbs(question: str) -> str:
    """A question without verbs that say little (*get*, *bekommen*), which its answer need not hold.

    Pronouns behind French verbs go too: *repose* of *repose-t-elle*.
    """
    return _INVERTED.sub("", _LIGHT.sub(" ", question))


def is_light(word: str) -> bool:
    """True for a verb that says little, with the pronoun behind it."""
    return bool(_LIGHT.fullmatch(word))


_ASKING = late_pattern(
    r"\bI(?: am|['’]m)? (?:see|saw|get|got|have|had|getting|seeing)\b"
    r"|\bwhat(?: is|['’]s) (?:wrong|the (?:problem|matter|reason|meaning))\b"
    r"|\b(?:mean(?:s|ing)?|explain|describe|define|definition|signifie|veut dire|veulent dire"
    r"|bedeutet|heißt|significa|betekent)\b",
    _I,
)
_ABOUT = late_pattern(
    # What reports an error is part of its name: "fix linker tools error LNK1104".
    r"\b(?:(?:compiler|linker|tools?|build|fatal|internal|runtime|system|resource|command[- ]line"
    r"|printer|device|machine|level \d) )+(?=(?:errors?|warnings?|messages?|codes?|faults?)\b)"
    r"|\b(?:get|see|having|occurs?|happens?|appears?|raised|caused?|causes|cause|fix|solve"
    r"|resolve"
    r"|avoid|correct|remove|handle|help|errors?|warnings?|messages?|codes?|faults?|alarms?"
    r"|erreurs?|corriger|résoudre|éviter|fehler|beheben|vermeiden|corregir|evitar|errore"
    r"|correggere|erro|corrigir|fout|oplossen)\b",
    _I,
)
_STEPS = late_pattern(
    r"\bhow (?:do|can|should|could|would) (?:I|we|you|one|they)\b|\bhow to\b"
    r"|\bwhat (?:should|must|can|do|could) (?:I|we|you|one) do\b|\bways? to\b"
    r"|^\W*(?:fix|solve|resolve)\b|\bcomment (?:faire|puis|peut|dois|doit|on|corriger|résoudre)\b"
    r"|\bque (?:faire|dois|puis)\b|\bwie (?:kann|muss|soll|behebe) ich\b|\bwas (?:soll"
    r"|kann) ich\b"
    r"|\bcómo (?:puedo|se|debo)\b|\bcome (?:posso|si)\b|\bcomo (?:posso|se)\b|\bhoe kan ik\b",
    _I,
)
_INSTRUCTS = late_pattern(
    r"^(?:to|pour|um|para|per|om) \w+.*?,|\byou (?:can|must|should|need|have to)\b"
    r"|(?:^|[;:] |, (?:then )?|\b(?:please|then|to fix[^,]*,) )(?:use|try|make sure|be sure"
    r"|ensure|check"
    r"|verify|consider|remove|replace|run|add|select|install|set|write|click|open|rebuild|delete"
    r"|create|change|move|enable|disable) "
    r"|^`[A-Za-z][\w./-]* [^`]{2,}`"
    r"|\b(?:must be|should be|has to be|il faut|devez|vérifiez)\b",
    _I,
)


def subject(question: str) -> str:
    """A question for a definition or for steps without the words that only ask: *mean*, *fix*."""
    stripped = _ASKING.sub(" ", question)
    return _ABOUT.sub(" ", stripped) if about_codes(question) else stripped


def asks_steps(question: str) -> bool:
    """True where a question asks what to do: *how do I*, *what should I do*."""
    return bool(_STEPS.search(question))


_REMEDIES = late_pattern(
    r"\b(?:to|can|and|how to) (?:fix|resolve|correct|solve|avoid|prevent|work around|repair)\b"
    r"|\b(?:solution|workaround|remedy|fix)\b|\bpour (?:corriger|résoudre|éviter)\b"
    r"|\b(?:um .* zu (?:beheben|vermeiden|lösen)|lösung|abhilfe)\b|\bpara (?:corregir|evitar"
    r"|resolver)\b",
    _I,
)


def remedies(sentence: str) -> bool:
    """True where a sentence says that it resolves something: *To fix this error, …*."""
    return bool(_REMEDIES.search(sentence))


def instructs(sentence: str) -> bool:
    """True where a sentence looks like an instruction."""
    return bool(_INSTRUCTS.search(sentence))


_TASK = late_pattern(
    r"\bhow (?:do|can|should|could|would|must) (?:I|we|you|one|they) (?:best )?[\w-]+ (.+)"
    r"|\bhow to [\w-]+ (.+)|\bcomment (?:faire pour |puis-je |peut-on |dois-je |on )?[\w-]+ (.+)"
    r"|\bwie (?:kann|muss|soll|behebe) ich (.+) [\w-]+\W*$"
    r"|\bcómo (?:puedo|se|debo) [\w-]+ (.+)",
    _I,
)


def task_object(question: str) -> str:
    """The object of a question for steps: *a persona* of *how do I add a persona*.

    Empty for other questions.
    """
    match = _TASK.search(question)
    return next((group for group in match.groups() if group), "") if match else ""


_DENIES = late_pattern(
    r"\b(?:not|never|no|without|neither|nor|cannot|none|nobody|nothing|except|lack\w*|fail\w*"
    r"|ne|pas|jamais|sans|aucune?|ni|nicht|kein\w*|nie|ohne|nunca|non|senza|não|sem|niet|geen"
    r"|nooit|zonder)\b|\bn['’]|n['’]t\b",
    _I,
)


def denies(text: str) -> bool:
    """True where a text holds a negation."""
    return bool(_DENIES.search(text))


def about_codes(question: str) -> bool:
    """True where a question names codes and nothing else: *Why do I get C2065?*."""
    rest = words(_ABOUT.sub(" ", _ASKING.sub(" ", question)))
    content = [word for word in rest if word.casefold() not in _SMALL and len(word) > 1]
    return bool(content) and all(is_code(word, written=True) for word in content)


def names(text: str) -> list[str]:
    """Capitalised words that are not at the start of a sentence, as written."""
    capitalised = _NAME.findall(text)
    for match in _DOUBLE_NAME.findall(text):
        capitalised += match.split()
    return capitalised


_ENTITY = late_pattern(
    r"(?<!^)(?<![.!?…:«\"“(]\s)\b[A-ZÀ-ÖØ-Þ][\w’'-]*\w"
    r"(?:[ ](?:(?:de|du|von|van|of|the|la|le|der|des|del)[ ])*[A-ZÀ-ÖØ-Þ0-9][\w’'-]*)*"
)
_GERMAN = late_pattern(r"\b(?:wer|wie|was|wann|wo|welche[rsmn]?|warum|wem|wessen)\b", _I)


def entities(question: str) -> list[str]:
    """The names in a question: runs of capitalised words that do not start it.

    In a German question, where every noun has a capital, only runs of two words or more.
    """
    runs = [match[0] for match in _ENTITY.finditer(question)]
    if _GERMAN.search(question):
        runs = [name for name in runs if " " in name]
    trimmed = (" ".join(w for w in words(name) if w.casefold() not in _SMALL) for name in runs)
    return [name for name in trimmed if name]


def offers(kind: AnswerKind, sentence: str, asked: frozenset[str]) -> bool:
    """True where a sentence holds something of the kind asked for.

    ``asked`` are the casefolded words of the question: a name in the question does not answer it.
    """
    if kind == "time":
        return any(m.casefold() not in asked for m in _TIME.findall(sentence))
    if kind == "number":
        # Neither a code nor a number of the question is a number that answers it.
        rest = re.sub(
            r"[^\W\d]+\d\w*|\d[\w.,]*",
            lambda m: m[0] if m[0][0].isdigit() and m[0].strip(".,") not in asked else "",
            sentence,
        )
        return bool(_NUMBER.search(rest))
    if kind in {"person", "place", "name"}:
        return any(n.casefold() not in asked for n in names(sentence))
    if kind == "reason":
        return bool(_REASON.search(sentence))
    if kind == "definition":
        return bool(_DEFINES.search(sentence))
    return True


def may_offer(kind: AnswerKind, sentence: str, question_words: frozenset[str]) -> bool:
    """The same as :func:`offers`, where the first word of a sentence may be a name."""
    first = next(iter(words(sentence)), "")
    capitalised = first[:1].isupper() and first.casefold() not in _SMALL | question_words
    return offers(kind, sentence, question_words) or (kind == "person" and capitalised)


_COPULA = (
    r"[*_`\"'”»]*(?:\s+(?:or|ou|oder|o)\s[^,.()]{1,40}?)?(?:\s*\([^()]{1,60}\)|,[^,.]{1,60},)?\s*(?:,\s*|[:—–]\s+|-\s+|\|\s*"
    r"|(?:is|are|was|were|means?|refers? to|denotes?|stands? for|describes?|est|sont|était"
    r"|étaient"
    r"|désigne(?:nt)?|signifie(?:nt)?|correspond(?:ent)? à|ist|sind|war|waren|bezeichnet|bedeutet"
    r"|heißt|es|son|era|eran|significa|designa|è|sono|é|são|is een)\b)"
)
_ARTICLE = (
    r"^[*_`\"'“«|\s>-]*(?:(?:an?|the|in [\w ]{1,30}, an?|le|la|les|une?|der|die|das|eine?|el"
    r"|los|las"
    r"|una?|il|lo|o|os|as|um|uma|het|een)\s+|l['’])?(?:(?:term|word|name)\s+)?[*_`\"'“«]*"
)


def defines(sentence: str, thing: str) -> bool:
    """True where a sentence defines a thing: *an X is …*, *X means …*, *X: …*, *… (X)*.

    The last form gives the words of an abbreviation: *Reciprocal rank fusion (RRF) …*.
    """
    name = re.escape(thing.strip()).replace(r"\ ", r"[\s-]+")
    if not name:
        return False
    plural = "" if thing.isupper() else "(?:e?s|n|en)?"
    if re.match(rf"{_ARTICLE}{name}{plural}{_COPULA}", sentence, _I):
        return True
    return expands(sentence, thing)


def expands(text: str, short: str) -> bool:
    """True where a text writes out an abbreviation: words with its letters, then it in brackets."""
    if not (2 <= len(short) <= 8 and short.isalnum() and sum(c.isupper() for c in short) >= 2):
        return False
    at = text.find(f"({short})")
    if at < 0:
        return False
    before = re.findall(r"\w+", text[:at])[-len(short) - 2 :]
    letters = iter(short.casefold())
    letter = next(letters)
    for word in before:
        if word[0].casefold() == letter:
            letter = next(letters, "")
            if not letter:
                return True
    return False


_THING = late_pattern(
    r"^\W*(?:what(?: is| are| was| were|['’]s)|define|explain|describe"
    r"|qu['’]est[- ]ce qu(?:e |['’])"
    r"|c['’]est quoi|was (?:ist|sind|bedeutet|heißt)|qué (?:es|son|significa)|que signifie"
    r"|cos['’]è|che cos['’]è|o que é|wat is)\s+"
    r"(?:(?:an?|the|le|la|les|une?|der|die|das|eine?|el|los|las|una?|il|lo|um|uma|o|het"
    r"|een)\s+|l['’])?"
    r"(?:meant by )?(.{1,60}?)\s*(?:\?|\bin\b.*|$)",
    _I,
)
_MEANING = late_pattern(r"\bwhat (?:does|do) (?:an? |the )?(.{1,60}?) (?:mean|stand for)\b", _I)


def defined_thing(question: str) -> str:
    """The thing that a question asks to define, without its article; empty for other questions."""
    match = _MEANING.search(question) or _THING.search(question)
    return match[1].strip(" \"'“”«»`*.?!") if match else ""


def says_what(question: str, text: str) -> bool:
    """True where a text defines the thing that a question asks to define."""
    return defines(text, defined_thing(question))


def writes_out(question: str, text: str) -> bool:
    """True where a text writes out the abbreviation whose meaning a question asks for."""
    return expands(text, defined_thing(question))


_YES_NO = late_pattern(
    r"^\W*(?:do|does|did|is|are|was|were|can|could|will|would|has|have|had|should|must"
    r"|may)(?:n['’]t)? \w"
    r"|^\W*est-ce qu|^\W*\w+(?:-t)?-(?:il|elle|on|ils|elles)\b"
    r"|^\W*(?:ist|sind|war|waren|hat|haben|kann|können|darf|muss|wird|werden|gibt es) \w",
    _I,
)


def asks_whether(question: str) -> bool:
    """True for a question that *yes* or *no* answers."""
    return bool(_YES_NO.search(question))


def insists(kind: AnswerKind, question: str) -> bool:
    """True if a sentence without this kind can hardly answer: a date, a person.

    French *qui* asks for things as well (*Qui gère la gabelle ?*), so it is not required.
    """
    return kind == "time" or (kind == "person" and not re.search(r"\bqui\b", question, _I))


_FOCUS = late_pattern(
    r"\b(?:what|which|whose|how many|how much|quel(?:le)?s?|combien d['’e]|combien de"
    r"|welche[rsmn]?"
    r"|wie ?viele|quale?|cuántos|cuántas|quantos|welke)\b"
    r"(?: (?:est|était|sont|fut|furent|is|are|was|were))?((?: ?['’]?[\w-]+){1,3})",
    _I,
)


def focus(question: str) -> str:
    """The words after *which*, *what*, *how many*, *quel*: the class of the answer."""
    match = _FOCUS.search(question)
    return match[1] if match else ""
