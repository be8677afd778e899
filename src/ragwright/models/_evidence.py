"""Evidence in a sentence: the words that answer a question about a property, and its things.

A question names the property in one word (*tall*, *founded*, *CEO*), and its answer may use another
(*metres*, *established*, *chief executive*). Each row pairs the words of questions with the words
of answers, in the languages that are stemmed. Closed classes only: measures, events, roles.

The things of a question are its nouns with the words before them, without its verbs. No lexicon:
German nouns have capitals, those of Romance languages follow an article, and in an English question
all is a thing but the verb, which its place shows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import pairwise

from ..core import late_pattern
from ._analysis import fold, words
from ._language import LANGUAGES, stop_words
from ._questions import is_light, without_light_verbs

_I = re.IGNORECASE
_N = (
    r"(?:\d[\d.,\u00a0\u202f]*|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|hundred"
    r"|thousand"
    r"|million|zwei|drei|vier|fünf|zehn|deux|trois|quatre|cinq|dix|dos|tres|cuatro|cinco"
    r"|diez)s?\b)"
    r"[\s-]{0,2}(?:(?:square|cubic|and a half|million|millionen|millions|millones|de)\s)?"
)
_LONG = (
    r"(?:[kcm]?m[²³]?|km2|ft|feet|foot|inch(?:es)?|miles?|yards?|(?:kilo|centi"
    r"|milli)?met(?:er|re)s?n?"
    r"|zentimetern?|(?:kilo|centi|milli)?m[eè]tr[eo]s?|hect?ares?|hektar|pieds?|pouces?|pies"
    r"|meilen?)\b"
)
_TIME = (
    r"(?:seconds?|minutes?|hours?|days?|weeks?|months?|years?|decades?|centur(?:y|ies)|sekunden?"
    r"|minuten?|stunden?|tagen?|wochen?|monaten?|jahren?|secondes?|heures?|jours?|semaines?"
    r"|mois|ans"
    r"|années?|siècles?|segundos?|minutos?|horas?|días?|semanas?|meses|años?|s|ms|h|min)\b"
)
_WORK = r"\([^()]*[^()\d](?:1[89]|20)\d\d\)"
"""A work in brackets: (Gao and others, 2022)."""
_MONEY = r"[$€£¥]|\b(?:dollars?|euros?|eur|usd|pounds?|francs?|pesos?|yens?|cents?|dólares)\b"

_TABLE = (
    # measures: in the question, and in what answers it
    (
        r"\bhow (?:tall|deep|wide)\b|\b(?:height|altitude|elevation|depth|width)\b"
        r"|\bwie (?:groß|tief|breit)\b|\b(?:höhe|tiefe|breite|körpergröße)\b"
        r"|\bcombien mesur\w+|\b(?:hauteur|altitude|taille|profondeur|largeur)\b"
        r"|\b(?:cuánto|qué) mid[ei]\w*|\b(?:altura|estatura|profundidad|anchura|altezza|hoogte)\b"
        r"|\bqué tan alt[oa]\b|\bhoe (?:hoog|groot|lang)\b|\bquanto (?:è|era) alt[oa]\b",
        _N + _LONG,
    ),
    (
        r"\b(?:how high|wie hoch)\b",
        _N + _LONG + "|" + _MONEY + r"|\d\s?(?:%|percent\b|prozent\b|°|grad\b|degrees\b|cents?\b)"
        r"|\b(?:percent|prozent)\b",
    ),
    (
        r"\bhow (?:far|long is the)\b|\bdistance\b|\bwie weit\b|\bentfernung\b|\bdistancia\b"
        r"|\blongueur\b|\blongitud\b|\blänge\b",
        _N + _LONG + "|" + _N + _TIME,
    ),
    (
        r"\bhow (?:heavy|much (?:does|did|do) .*\bweigh)\w*|\bweighs?\b|\bwie (?:schwer"
        r"|viel wiegt)\b"
        r"|\bwieg(?:t|en)\b|\bgewicht\b|\bpèsent?\b|\bpoids\b|\b(?:cuánto )?pesan?\b|\bpeso\b",
        _N + r"(?:[km]?g|kilo\w*|grams?|gramm|grammes?|gramos|lbs?|pounds?|ton(?:ne)?s?|tonnen?"
        r"|toneladas?)\b|\b(?:weigh|wieg|pès|pesa)\w*",
    ),
    (
        r"\bhow much (?:does|do|did|is|was) .*\bcosts?\b|\bhow expensive\b|\b(?:price|cost)s?\b"
        r"|\bkoste\w*|\bpreis\w*|\bcoût\w*|\bprix\b|\bc(?:ue|o)st(?:a|ó)\w*|\bprecio\b",
        _MONEY + r"|\b(?:price|free of charge|preis|prix|precio)\w*",
    ),
    (
        r"\bhow old\b|\bwhat age\b|\bwie alt\b|\bquel âge\b|\bcuántos años t\w+|\bqué edad\b"
        r"|\bquanti anni ha\b|\bhoe oud\b",
        r"\byears?[- ]old\b|\bage[ds]?\b|\bjahre?n? alt\b|\balter\b|\bjährig\w*|\d ans\b"
        r"|\bâgée?s?\b"
        r"|\bâge\b|\baños\b|\bedad\b|\banni\b|\bjaar\b",
    ),
    (
        r"\bhow fast\b|\bspeeds?\b|\bwie schnell\b|\bgeschwindigkeit\b|\bvitesse\b|\bvelocidad\b",
        _N + r"(?:/ ?h|/ ?s|mph|knots?|knoten|nœuds?|nudos|per (?:second|hour)|pro|par|por)",
    ),
    (
        r"\bhow long (?:do|does|did|will|can|is it|has|have|was|were)\b|\bwie lange\b"
        r"|\bcombien de temps\b|\bcuánto (?:tiempo|dura\w*|tard\w*)\b|\bduration\b|\bdauer\b"
        r"|\bdurée\b|\bduración\b|\bquanto (?:tempo|dur\w+)\b|\bhoe lang duur\w*",
        r"(?:\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|an?|ein\w*|zwei|drei"
        r"|vier|une?"
        r"|deux|trois|quatre|un[ao]?|dos|tres|cuatro|several|many|mehrere|plusieurs)\b)"
        r"[^.;]{0,30}?" + _TIME + r"|\b(?:until|bis|jusqu|hasta|from .* to)\b",
    ),
    (
        r"\btemperatur(?:e|es|en)?\b|\btempératures?\b|\btemperaturas?\b|\bhow hot\b|\bwie heiß\b",
        r"\d\s?(?:°|degrees?\b|grad\b|degrés?\b|grados\b|gradi\b|graus\b|graden\b|kelvin\b|[CFK]\b)"
        r"|\btemp[eé]rat\w+",
    ),
    (
        r"\b(?:population|inhabitants|how many people live\w*|residents)\b|\beinwohner\w*"
        r"|\bhabitants\b|\bhabitantes\b|\bpoblación\b|\bbevölkerung\b|\babitanti\b|\binwoners\b",
        r"\b(?:population|inhabitants?|residents?|people|einwohner\w*|bevölkerung|menschen"
        r"|habitants?"
        r"|habitantes?|población|personas|personnes|âmes|abitanti|inwoners)\b",
    ),
    (
        r"\b(?:telephone|phone)(?: number)?\b|\btelefon\w*|\btéléphone\b|\bteléfono\b",
        r"\+?\(?\d[\d ()/.-]{5,}\d",
    ),
    # events
    (
        r"\b(?:born|birth\w*)\b|\bgeboren\b|\bgeburts\w*|\bnée?s?\b|\bnaissance\b|\bnaci\w+"
        r"|\bnat[oa]\b|\bnascido\b",
        r"\b(?:born|birth\w*|geboren\w*|geburts?\w*|geb|née?s?|naquit|naît|naissance|nativ\w+"
        r"|nacid\w+"
        r"|nació|natural|nat[oa]|nacque|nascid\w+|native)\b|\*\s?\d"
        r"|\([^()]{0,60}\d{4}\s?[-–—]\s?[^()]{0,40}\)",
    ),
    (
        r"\b(?:die[ds]?|death)\b|\b(?:ge)?st[ao]rb\w*|\btod\b|\bmorte?s?\b|\bmourut\b|\bmuri\w+"
        r"|\bdécéd\w+|\bmuerte\b",
        r"\b(?:die[ds]?|death|dead|killed|executed|assassinated|(?:ge|ver)?st[ao]rb\w*|tod\w*"
        r"|getötet|hingerichtet|ermordet|mort\w*|meurt|mourut|décéd\w+|décès|tué\w*|guillotiné\w*"
        r"|exécuté\w*|assassiné\w*|muri\w+|muert\w+|falleci\w+)\b|†"
        r"|\([^()]{0,60}\d{4}\s?[-–—]\s?[^()]{0,40}\)",
    ),
    (
        r"\b(?:found(?:ed|er|ers|ing)|establish\w*|creat(?:ed|or)|set up)\b|\bgegründet\b"
        r"|\bgründ\w+"
        r"|\bfond(?:é\w*|ateur\w*|a|ation)\b|\bcréé\w*|\bfund(?:ó|ad\w+)\b|\bcread\w+"
        r"|\bfondat\w+",
        r"\b(?:found(?:ed|er|ers|ing)|establish\w*|creat\w+|set up|start(?:ed|s)|gegründet\w*"
        r"|gründ\w+"
        r"|fond(?:é\w*|ateur\w*|a|ation|ent|èrent)|cré[éaè]\w*|fund(?:ó|ad\w+)|cread\w+|creó"
        r"|fondat\w+"
        r"|formed|opened|born|begann|initi\w+|incorporat\w+)\b",
    ),
    (
        r"\b(?:first )?(?:released?|introduced?|launched?|published?)\b|\bcome out\b"
        r"|\b(?:erschien\w*|erscheint|veröffentlich\w*|eingeführt)\b"
        r"|\b(?:sorti\w*|sort|parue?s?|parut|lancée?s?|publiée?s?)\b"
        r"|\b(?:lanz\w+|public(?:ó|ad\w+)|estren\w+)\b|\buscit[oa]\b",
        r"\b(?:releas\w+|introduc\w+|launch\w+|publish\w*|publication|came out|appear\w*|debut\w*"
        r"|premier\w+|available|issued|announc\w+|erschien\w*|erscheint|veröffentlich\w*"
        r"|eingeführt"
        r"|vorgestellt|sort\w*|paru\w*|parai\w+|lanc\w+|publi\w+|dévoil\w+|présent\w+|lanz\w+"
        r"|estren\w+"
        r"|aparec\w+|uscit\w+)\b|" + _WORK,
    ),
    (
        r"\b(?:invent\w*|propose[ds]?|suggested|devised)\b|\berfunden\b|\berfand\b|\berfinder\w*|\bdiscover\w*"
        r"|\bentdeck\w*"
        r"|\bdécouv\w+|\bdescubr\w+",
        r"\b(?:invent\w*|erfunden|erfand|erfinder\w*|discover\w*|entdeck\w*|découv\w+|descubr\w+"
        r"|devis\w+|develop\w*|patent\w*|pioneer\w*|designed by|first (?:made|built|described)"
        r"|entwickel\w*|mis au point|créa\w*|propos\w*|suggest\w*)\b|" + _WORK,
    ),
    # roles
    (
        r"\b(?:ceo|chief executive\w*|head of|boss|managing director)\b|\bgeschäftsführer\w*"
        r"|\b(?:pdg|p\.-?d\.-?g|directeur général|directrice générale)\b"
        r"|\bdirector(?:a)? ejecutiv[oa]",
        r"\b(?:ceo|chief executive\w*|managing director|boss|heads|headed|run by|led by|chief"
        r"|president"
        r"|geschäftsführer\w*|vorstand\w*|chef\w*|pdg|directeur général|directrice générale"
        r"|président"
        r"|director(?:a)? (?:ejecutiv[oa]|general))\b",
    ),
    (
        r"\b(?:wife|husband|spouse|married|marry)\b|\b(?:ehe(?:frau|mann)|verheiratet"
        r"|heiratete)\b"
        r"|\b(?:épou[sx]e?|mariée?|mari de|femme de)\b|\b(?:espos[oa]|marido|casad[oa])\b",
        r"\b(?:wife|husband|spouse|marr(?:y|ied|iage)|wed\w*|widow\w*|ehe\w*|verheiratet\w*"
        r"|heirat\w*"
        r"|gattin|gatten?|frau|mann|épou[sx]\w*|mari\w*|femme|espos\w+|marido|cas(?:ó|ad\w+)"
        r"|matrimonio)\b",
    ),
    (
        r"\bmothers?\b|\bmutter\b|\bmère\b|\bmadre\b",
        r"\b(?:mother|mutter|mère|madre|mum|mom|daughter of|son of|parents?|eltern|padres)\b",
    ),
    (
        r"\bfathers?\b|\bvater\b|\bpère\b|\bpadre\b",
        r"\b(?:father|vater|père|padre|dad|daughter of|son of|sohn|tochter|fils|fille|hij[oa]"
        r"|parents?"
        r"|eltern)\b",
    ),
    (
        r"\bwho wrote\b|\bauthors?\b|\bwritten by\b|\bwer (?:hat .*ge)?schrieb\w*|\bautor\w*"
        r"|\bqui a écrit\b|\bauteure?s?\b|\bescribi\w+|\bscreenplay\b|\bdrehbuch\b|\bscénario\b"
        r"|\bguion\b",
        r"\b(?:wr[oi]t\w*|written|authors?|by|pen(?:ned|s)|novel\w*|poet|playwright"
        r"|(?:ge)?schrieb\w*"
        r"|verfass\w+|autor\w*|drehbuch\w*|écri\w+|auteure?s?|scénari\w+|rédig\w+|escri\w+"
        r"|guion\w*"
        r"|redact\w+)\b",
    ),
    (
        r"\bwho directed\b|\bdirector of\b|\bdirected\b|\bregie\w*|\bregisseur\w*|\brealis\w+"
        r"|\bréalis\w+|\bqui a dirigé\b|\bdirigi\w+",
        r"\b(?:direct\w*|film by|regi\w+|réali\w+|metteu\w+|mise en scène|dirig\w+|headed|led"
        r"|film(?:e|s)? (?:von|de))\b",
    ),
    (
        r"\b(?:head)?coach(?:es|ed)?\b|\b(?:chef)?trainers?\b|\bentra[iî]ne\w*|\bentrenador\w*",
        r"\b(?:(?:head)?coach\w*|(?:chef|haupt)?trainer\w*|entra[iî]n\w*|sélectionneur"
        r"|entrenad\w+"
        r"|manager)\b",
    ),
    (
        r"\bwho compose[ds]?\b|\bcomposers?\b|\bwer komponierte\b|\bkomponist\w*|\bcompos(?:é"
        r"|iteur)\w*"
        r"|\bcompus\w+",
        r"\b(?:compos\w*|music by|score|soundtrack|kompon\w+|musik von|musique d[eu]|bande"
        r"|compus\w+)\b",
    ),
    (
        r"\bwho (?:makes?|made|produces?|built)\b|\bmanufactur\w+"
        r"|\b(?:company|firm|firma) (?:that )?(?:makes?|made|produces?|manufactures?|builds?)\b"
        r"|\bwer (?:produziert|baut|stellt)\b|\bhersteller\w*|\bqui (?:fabrique|produit)\b"
        r"|\bfabrica\w*",
        r"\b(?:made by|mak(?:es|ers?)|produc\w+|manufactur\w*|built|builds?|suppl\w+|herstell\w*"
        r"|produzier\w*|gebaut|hergestellt|fabri\w+|produi\w+|construi\w+)\b",
    ),
    (
        r"\bhead ?quarter\w*|\bbased\b|\b(?:haupt)?sitz\b|\bsiège\b|\bsede\b",
        r"\b(?:head ?quarter\w*|based|located|office|(?:haupt|firmen)?sitz\w*|ansässig"
        r"|siège\w*|sis"
        r"|sede|oficinas?|situad\w+)\b",
    ),
    (
        r"\bcapital\b|\bhauptstadt\b|\bcapitale\b",
        r"\b(?:capital|hauptstadt|capitale)\w*",
    ),
    (
        r"\bwho owns?\b|\bowners?\b|\bowned by\b|\bwem gehört\b|\beigentümer\w*|\bbesitzer\w*"
        r"|\bpropriétaire\w*|\bpropietari\w+|\bdueñ\w+",
        r"\b(?:own(?:s|ed|ers?)|belong\w*|acquir\w+|bought|subsidiary|gehör\w+|eigentum"
        r"|eigentümer\w*"
        r"|besitz\w*|tochter\w*|propriét\w+|appart\w+|filiale|propi\w+|dueñ\w+|pertenec\w+)\b",
    ),
    (
        r"\b(?:who designed|designers?)\b|\bwer entwarf\b|\bqui a (?:conçu|dessiné)\b"
        r"|\bquién diseñó\b",
        r"\b(?:design(?:ed by|ers?)|designed (?:the|it|this)|entw[oa]rf\w*|conçu\w*|dessin\w+"
        r"|diseñ\w+)\b",
    ),
    (
        r"\bcolou?rs?\b|\bfarben?\b|\bcouleurs?\b|\bcolor(?:es)?\b",
        r"\b(?:colou?r\w*|red|green|blue|yellow|white|black|gr[ae]y|orange|brown|purple|pink"
        r"|gold\w*"
        r"|silver|farb\w*|rot\w*|grün\w*|blau\w*|gelb\w*|weiß\w*|schwarz\w*|grau\w*|braun\w*"
        r"|couleur\w*|rouge|vert\w*|bleu\w*|jaune|blanc\w*|noir\w*|gris\w*|rojo|verde|azul"
        r"|amarillo"
        r"|blanco|negro)\b",
    ),
    (
        r"\b(?:e-?mail|website|web ?site|url|web address)\b|\bcorreo electrónico\b|\bcourriel\b",
        r"@\w|https?:|\bwww\.|\.(?:com|org|net|de|fr|es|eu)\b",
    ),
    (
        r"\b(?:salary|earns?|income)\b|\bhow much (?:is|are|was|were|do|does|did) [^?]*\bpaid\W*$"
        r"|\bgehalt\b|\bverdien\w+|\bsalaire\b|\bgagne\b"
        r"|\bsalario\b"
        r"|\bsueldo\b",
        _MONEY + r"|\b(?:salar\w+|wages?|earn\w*|gehalt\w*|verdien\w+|salaire\w*|sueldo)\b",
    ),
    (
        r"\b(?:nationality|citizen\w*)\b|\bstaatsangehörig\w+|\bnationalität\b|\bnationalité\b"
        r"|\bnacionalidad\b",
        r"\b(?:nationalit\w+|citizen\w*|native|born|staats\w+|bürger\w*|citoyen\w*|nacion\w+)\b"
        r"|\b(?:is|was|est|était|war|ist|es|era) (?:an? |une? |ein\w* )?[\w-]*(?:an|ese|ish"
        r"|ais\w*|ien\w*"
        r"|ische[rn]?|och)\b",
    ),
    (
        r"\b(?:stud(?:y|ied)|graduat\w+|degree|alma mater|university did|went to school)\b"
        r"|\bstudierte\b|\bétudi\w+|\bestudi\w+",
        r"\b(?:stud\w+|graduat\w+|degree|alma|educat\w+|enrol\w*|attended|school|college"
        r"|universit\w*"
        r"|étud\w+|diplôm\w+|école|lycée|estudi\w+|escuela|schule|hochschule)\b",
    ),
    (
        r"\bgoals?\b|\bscored\b|\btore\b|\bbuts\b|\bgoles\b",
        r"\b(?:goals?|scor\w+|tore?n?|tref\w+|buts?|marqu\w+|gol(?:es)?|anot\w+)\b",
    ),
)

_ROWS = tuple((late_pattern(asked, _I), late_pattern(holds, _I)) for asked, holds in _TABLE)


@cache
def asked_properties(question: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """For each property that a question asks for: the asking words and the pattern of its answers.

    What stands between is not among them: *the nut* of *how much does the nut weigh*.
    """
    matches = ((asking.search(question), holds) for asking, holds in _ROWS)
    return tuple((_outer_words(match[0].split()), holds) for match, holds in matches if match)


def _outer_words(asking_words: list[str]) -> str:
    """The words that ask: the first two and the last one of a longer match."""
    return " ".join(
        asking_words if len(asking_words) <= 3 else [*asking_words[:2], asking_words[-1]]
    )


_COUNTED = late_pattern(
    r"\b(?:how many|combien (?:de|d['’])|combien y a-t-il (?:de|d['’])|wie ?viele|cuánt[oa]s"
    r"|quant[ie]"
    r"|quantos|quantas|hoeveel)\s?([\w-]+)",
    _I,
)


def counted_thing(question: str) -> str:
    """The thing that *how many* asks to count; empty for other questions."""
    match = _COUNTED.search(question)
    return match[1] if match else ""


_POINTS_BACK = late_pattern(
    r"\b(?:it|its|he|his|him|she|her|they|their|them|this|these|that|those|er|sein\w*|sie|ihr\w*|es"
    r"|dies\w*|il|elle|ils|elles|son|sa|ses|leurs?|ce|cet|cette|ces|él|ella|su|sus|est[aeo]s?"
    r"|lui|lei|suo|sua|ele|ela|seu|hij|zij|zijn|haar)\b",
    _I,
)


def points_back(sentence: str) -> bool:
    """True where a sentence refers back with a word such as *it* or *they*."""
    return bool(_POINTS_BACK.search(sentence))


_ASKS = {
    "en": "what when where which who whom whose why how does did list show tell give",
    "fr": "quel quelle quels quelles qui quoi quand comment combien pourquoi lequel laquelle"
    " lesquels lesquelles est-ce listez lister donne donnez montre montrez cite citez nomme dis",
    "de": "welche welcher welches welchem welchen wer wen wem wessen wann wo warum wie wieviel"
    " wieviele woher wohin wozu worin woran worauf womit wofur wodurch wovon woraus wogegen nenne"
    " nenn liste zeige zeig gib weshalb wieso",
    "es": "cual cuales quien quienes cuando donde cuanto cuanta cuantos cuantas lista enumera"
    " muestra dime adonde",
    "it": "quale quali chi quando dove quanto quanta quanti quante perche come elenca mostra cosa",
    "pt": "qual quais quem quando onde quanto quanta quantos quantas liste mostre porque como",
    "nl": "welke wie wat waar wanneer waarom hoe hoeveel noem toon geef waarin waarmee waarvan",
}
"""Words that ask, folded as the stop lists are."""

_ASKING = {name: frozenset(text.split()) for name, text in _ASKS.items()}
_QUESTION_WORD = 2
"""Function words that a question word counts for."""

_MARKS = (
    ("es", late_pattern(r"[¿¡]|\b[Qq]ué\b|\b(?:[Cc]uá|[Qq]uié|[Dd]ó)n\w+|ñ"), 3),
    ("de", late_pattern(r"ß|[äöü]"), 1),
    ("fr", late_pattern(r"[êùœç]|\b[Oo]ù\b|\b[Qq]u['’]|-t-(?:il|elle|on)\b|\bÀ\b"), 2),
    ("fr", late_pattern(r"\w ?[\u00a0\u202f ][?!]\s*$"), 1),
    ("fr", late_pattern(r"\b[cdjlmnst]['’](?=[aeéèêiouyhàâ])"), 1),
    ("pt", late_pattern(r"[ãõ]"), 3),
)
"""Spellings that belong to one language, and what they count for."""

_ORDER = ("de", "nl", *(name for name in LANGUAGES if name not in {"de", "nl"}))
"""German before Dutch: a question of words that both have (*wie viele*) is read as German."""


def question_language(question: str) -> str:
    """Language of a question, as an ISO code of :data:`LANGUAGES`; ``auto`` where it is open.

    Function words count one, question words and spellings of one language more; a tie is
    open, but for German and Dutch.
    """
    votes = dict.fromkeys(LANGUAGES, 0)
    text = question[:2_000]
    parts = [fold(word.casefold()) for word in words(text)]
    # Elided words (l'avare, qu'on) hold a function word before the apostrophe.
    parts += [part.partition(mark)[0] for part in parts for mark in "'’" if mark in part]
    for name in LANGUAGES:
        stops, asking = stop_words(name), _ASKING[name]
        votes[name] += sum((part in stops) + _QUESTION_WORD * (part in asking) for part in parts)
    for name, pattern, weight in _MARKS:
        if pattern.search(text):
            votes[name] += weight
    most = max(votes.values())
    first, *others = [name for name in _ORDER if votes[name] == most]
    return first if not others or (first, *others) == ("de", "nl") else "auto"


_ARTICLES = {
    "fr": r"(?:les?|la|une?|du|des|aux?|de|mon|ma|mes|nos|notre|vos|votre|combien de)\s+"
    r"|[dl]['’]|combien d['’]",
    "es": r"(?:el|la|los|las|una?|unos|unas|del|de|al|mi|mis|cuánt[oa]s?)\s+",
    "it": r"(?:il|lo|la|i|gli|le|una?|uno|del(?:la|lo|le)?|dei|degli|quant[aoie])\s+"
    r"|(?:l|un|dell)['’]",
    "pt": r"(?:os?|as?|uma?|d[oae]s?|n[oa]s?|quant[oa]s?)\s+",
    "nl": r"(?:de|het|een|van|mijn|hoeveel)\s+",
}
_AFTER = {
    name: late_pattern(rf"(?:^|(?<=[\s(¿]))(?:{articles})([^\W\d_]{{3,}})", re.IGNORECASE)
    for name, articles in _ARTICLES.items()
}
_WORDS = {
    "does": "do does did can could will would shall should must may might",
    "is": "is are was were has have had be been being get",
    "subjects": "i we you they he she it one",
    "articles": "a an the my our your his her its their",
    "binds": "this that these those of for in on at with from to by per any some no and or about"
    " into as between against during under over",
    "wants": "have has had need want how like able",
    "asks": "who what",
    "plain": "many much long often old far tall high deep wide fast heavy big large late early good"
    " per may might used",
    "class": "what which welche welcher welches welchen welchem",
    "anybody": "people persons person users user employees employee workers customers customer"
    " somebody anyone everyone everybody mitarbeiter mitarbeiterinnen mitarbeitende beschäftigte"
    " personen leute menschen kunden nutzer personnes personne gens clients utilisateurs salariés"
    " employés personas usuarios clientes empleados",
    "polite": "please kindly thanks thank hello hi hey bitte danke hallo merci bonjour gracias"
    " hola",
}
_SETS = {name: frozenset(text.split()) for name, text in _WORDS.items()}
_DOES = _SETS["does"]
_HELPS = _DOES | _SETS["is"]
_SUBJECTS, _WANTS, _ASKS_ACTOR = _SETS["subjects"], _SETS["wants"], _SETS["asks"]
_ARTICLES_EN = _SETS["articles"]
_BINDS = _ARTICLES_EN | _SETS["binds"]
_SMALL = stop_words("en") | _SETS["plain"]
_CLASS = _SETS["class"]
_ANYBODY = _SETS["anybody"] | _SETS["polite"]
"""Who a text speaks to or of anyway, and polite words: its sentences need not hold them."""
_SHORTEST = 3


@lru_cache(maxsize=1024)
def things(question: str) -> tuple[str, ...]:
    """The words for things in a question, as written; empty where its language is not known.

    Left out are the class of its answer (*which company*) and the property that it asks for (*the
    height of*), since an answer names neither.
    """
    language = question_language(question)
    stripped = without_light_verbs(question)
    asking_words = {
        word for asking, _ in asked_properties(question) for word in asking.casefold().split()
    }
    if language == "de":
        question_words = words(stripped)
        candidates = [word for word in question_words[1:] if word[0].isupper() and len(word) > 2]
        candidates = (
            candidates[1:]
            if question_words
            and question_words[0].casefold() in _CLASS
            and candidates[:1] == question_words[1:2]
            else candidates
        )
    elif language in _AFTER:
        stops = stop_words(language)
        after = (match[1] for match in _AFTER[language].finditer(stripped))
        candidates = [word for word in after if word.casefold() not in stops]
    else:
        candidates = _english_things(words(question)) if _is_english(question) else []
    worded = (word for word in candidates if any(map(str.isalnum, word)))  # a gap is ____
    return tuple(word for word in worded if word.casefold() not in asking_words | _ANYBODY)


def shows_all_things(question: str) -> bool:
    """False in Romance languages and Dutch, where only nouns that follow an article are seen."""
    return question_language(question) not in _AFTER


@lru_cache(maxsize=1024)
def compounds(question: str) -> tuple[tuple[str, str], ...]:
    """Neighbouring words for things in an English question: *sick leave*, *client library*.

    Both stand for one thing, so that a sentence with one of them may be about another thing. Names
    are not compounds: a text may shorten them.
    """
    if not _is_english(question):
        return ()
    thing_words = set(things(question))
    near = pairwise(words(question))
    return tuple((a, b) for a, b in near if {a, b} <= thing_words and a.islower() and b.islower())


def _is_english(question: str) -> bool:
    """True for an English question, also for a short one that only its first word shows."""
    language = question_language(question)
    first = next(iter(words(question)), "").casefold()
    return language == "en" or (language == "auto" and first in _HELPS)


def _english_things(written: list[str]) -> list[str]:
    """All words but function words, verbs and the class of the answer."""
    lower = [word.casefold() for word in written]
    content = []
    of_class = lower[:1] in (["what"], ["which"])
    for at, word in enumerate(written):
        of_class = of_class and (not at or lower[at] not in _SMALL)
        is_small = lower[at] in _SMALL or len(word) < _SHORTEST or is_light(word)
        if not (of_class or is_small or (word.islower() and _is_verb(lower, at))):
            content.append(word)
    return content


def _is_verb(lower: Sequence[str], at: int) -> bool:
    """True for a verb by its place: after a pronoun, *to* or *who*, at the end, after a subject."""
    before = lower[at - 1] if at else ""
    if at == 1:
        return before in _ASKS_ACTOR
    if at > 1 and ((before in _SUBJECTS and lower[at - 2] in _HELPS) or _follows_need(lower, at)):
        return True
    # The last of the words between *does a* and the end or a function word: *does a program end*.
    last = at == len(lower) - 1
    after = "" if last else lower[at + 1]
    if after and (after not in _SMALL | _BINDS or after in _HELPS or is_light(after)):
        return False
    start = at
    while start and lower[start - 1] not in _SMALL | _BINDS:
        start -= 1
    articled = start > 0 and lower[start - 1] in _ARTICLES_EN
    helper = start - 1 - articled
    if helper < 0 or (articled and start == at):
        return False
    asks_actor = lower[0] in _ASKS_ACTOR and lower[helper] not in _DOES  # what is a hard filter
    return not asks_actor and (last or start < at) and lower[helper] in (_HELPS if last else _DOES)


def _follows_need(lower: Sequence[str], at: int) -> bool:
    return lower[at - 1] == "to" and lower[at - 2] in _WANTS
