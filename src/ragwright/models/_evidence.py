"""The words that a sentence must hold to answer a question about a property: a height, an age.

A question names the property in one word (*tall*, *founded*, *CEO*), and its answer may use another
(*metres*, *established*, *chief executive*). Each row pairs the words of questions with the words
of answers, in the languages that are stemmed. Closed classes only: measures, events, roles.
"""

from __future__ import annotations

import re
from functools import cache

from ..core import late_pattern

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
