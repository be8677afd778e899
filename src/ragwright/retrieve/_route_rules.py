"""Rules that choose the route from the wording of a question, by language.

Every rule has a reason that users can check. The rules follow from the meaning of the routes, are
not fitted to any collection, and if none applies the index answers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..core import late_pattern

_UNITS = (
    r"(?:documents?|docs?|files?|pages?|articles?|passages?|chunks?|sections?|chapters?|papers?"
    r"|reports?|texts?|sources?|dateis?|fichiers?|chapitres?|textes?|rapports?|extraits?"
    r"|dokumente?n?|dateien|seiten?|kapiteln?|abschnitte?n?|berichte?n?|artikeln?|texte?n?"
    r"|documentos?|archivos?|páginas?|artículos?|capítulos?|secciones|informes?|textos?)"
)
"""Names of the parts of a corpus, in English, French, German and Spanish."""

_MENTIONS = (
    r"(?:mention\w*|discuss\w*|talk\w* about|refer\w* to|contain\w*|cite[sd]?|are about|is about"
    r"|deal\w* with|cover\w*|describ\w*|about|on|name[sd]?"
    r"|mentionnent|mentionne|parlent d\w*|parle d\w*|traitent d\w*|évoquent|contiennent|citent"
    r"|décrivent|sur|erwähnen|erwähnt|enthalten|enthält|handeln von|behandeln|nennen|über"
    r"|mencionan|menciona|hablan de|tratan de|contienen|citan|sobre)"
)

_SPEAK = r"(?:speaks?|spoke|takes? part|took part|participate[sd]?|contribute[sd]?)"
_PARLE = (
    r"(?:parlent?|ont parlé|a parlé|intervien(?:t|nent)|participent?|ont participé"
    r"|pren(?:d|nent) la parole)"
)


LONGEST = 1_000
"""Characters of a question that the rules look at: they run on the loop, and the time of some
patterns grows with the square of the text."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A pattern searched for in a question, and its reason."""

    pattern: re.Pattern[str]
    reason: str


def _rule_of(pattern: str, reason: str) -> Rule:
    return Rule(late_pattern(pattern, re.IGNORECASE), reason)


GREETING = late_pattern(
    r"^\W*(?:(?:hi|hello|hey|good (?:morning|afternoon|evening|day)|dear \w+|greetings"
    r"|bonjour|bonsoir|salut|coucou|hallo|guten (?:tag|morgen|abend)|moin|servus"
    r"|hola|buenos días|buenas (?:tardes|noches))"
    r"(?: (?:there|all|everyone|again|à tous|tout le monde|zusammen|a todos))?(?!\w)"
    r"[\s,.!;:–-]*){1,5}",
    re.IGNORECASE,
)
"""A greeting at the beginning; a question may follow it."""

CHAT: tuple[Rule, ...] = (
    _rule_of(
        r"^\W*(?:(?:many |ok |okay |great |perfect |super ){0,3}(?:thanks?|thank you|thx|cheers)"
        r"(?:[\s,]+(?:a lot|very much|so much|again)){0,3}(?:[\s,]+for [^?!.;:]{0,40})?"
        r"(?:[\s,.!]+(?:that|this|it)(?: (?:is|was)|'s)? (?:helps|helped|works|worked|all"
        r"|(?:very |really |most )?(?:helpful|useful|great|perfect|clear|kind)))?"
        r"|merci(?: (?:beaucoup|bien|à vous|à toi|infiniment)){0,3}(?: pour [^?!.;:]{0,40})?"
        r"|(?:danke(?: (?:schön|sehr|dir|ihnen)){0,3}|vielen dank)(?: für [^?!.;:]{0,40})?"
        r"|(?:muchas |mil )?gracias(?: por [^?!.;:]{0,40})?)\W*$",
        "it is a thank-you",
    ),
    _rule_of(
        r"^\W*(?:good ?bye|bye(?: bye)?|see you(?: \w+)?|have a nice \w+|au revoir|à bientôt"
        r"|bonne (?:journée|soirée)|tschüss|auf wiedersehen|adiós|hasta luego)\W*$",
        "it is a farewell",
    ),
    _rule_of(
        r"^\W*(?:ok|okay|yes|no|great|nice|cool|perfect|good job|well done|d'accord|oui|non"
        r"|parfait|super|très bien|gut|prima|vale|sí)\W*$",
        "it is a remark",
    ),
    _rule_of(
        r"^\W*(?:how are you|how's it going|what's up|ça va|comment (?:ça va|allez-vous|vas-tu)"
        r"|wie geht(?:'s| es (?:dir|ihnen))|qué tal|cómo est[áa]s?)\b[^?]{0,15}\W*$",
        "it is small talk",
    ),
    _rule_of(
        r"^\W*(?:who are you|what are you|what can you (?:do|help)|how (?:do|can) you (?:work|help)"
        r"|what is your name|what's your name|are you (?:an? )?(?:bot|robot|human|ai|machine)"
        r"|can you help me\W*$|who (?:made|built|created|trained) you"
        r"|qui (?:es-tu|êtes-vous)|que (?:peux-tu|pouvez-vous|sais-tu) faire"
        r"|comment (?:fonctionnes-tu|fonctionnez-vous|t'appelles-tu|vous appelez-vous)"
        r"|(?:es-tu|êtes-vous) (?:un|une) (?:robot|humain|machine|ia)"
        r"|wer bist du|wer sind sie\W*$|was kannst du|wie heißt du|bist du ein"
        r"|quién eres|qué puedes hacer|cómo te llamas)\b",
        "it is about the assistant",
    ),
)
"""Messages with nothing to look up; each matches the whole message, or its beginning if noted."""

UNITS: tuple[Rule, ...] = (
    _rule_of(
        rf"\b(?:how many|number of|count (?:all |of )?(?:the )?|combien d[e']\s?|le nombre d[e']\s?"
        rf"|wie viele|anzahl der|cuánt[oa]s|número de)\s*(?:\w+ )?{_UNITS}\b"
        rf"(?=.*\b(?:{_MENTIONS}|there|in (?:the|this)|y a-t-il|dans|gibt es|hay)\b|\W*$)",
        "it counts documents or passages",
    ),
    _rule_of(
        rf"\b(?:list|name|show(?: me)?|give(?: me)?|find|which|what|liste[rz]?|donne[rz]?(?:-moi)?"
        rf"|montre[rz]?(?:-moi)?|quel(?:le)?s(?: sont)?|nenne|liste|zeige|welche|lista|enumera"
        rf"|qué|cuáles son)\b(?: me)?(?: (?:all|every|the|of|toutes|tous|les|alle|die|todos|todas"
        rf"|los|las)){{0,4}} {_UNITS} (?:(?:that|which|who|qui|où|die|der|que) )?"
        rf"(?:\w+ )?{_MENTIONS}\b",
        "it asks for the documents or passages on something",
    ),
    _rule_of(
        r"^\W*(?:please )?(?:list|enumerate|name|show|give)(?: me)?"
        r"(?: (?:a list of|all|every|the|of|your)){0,3}"
        r" (?:documents?|docs|files?|sources?|pages)\W*$"
        r"|^\W*(?:which|what) (?:documents|docs|files|sources|pages) "
        r"(?:are there|are indexed|do you (?:have|know))\W*$",
        "it asks for the documents",
    ),
    _rule_of(
        r"\b(?:how (?:often|many times)|combien de fois|à quelle fréquence|wie (?:oft|häufig)"
        r"|cuántas veces)\b.*\b(?:mention\w*|appear\w*|occur\w*|cited?|named?|used"
        r"|appara\w+|cité\w*|utilisé\w*|erwähnt|genannt|vorkommt|kommt|aparece\w*|menciona\w*"
        r"|cita\w*)\b",
        "it counts mentions",
    ),
)
"""Questions about documents as such: before anything else, also before a database."""

CORPUS: tuple[Rule, ...] = (
    _rule_of(
        r"^\W*(?:please )?(?:(?:can|could|would) you )?(?:please )?(?:give me |make |provide )?"
        r"(?:list|enumerate|compile|a (?:full |complete )?list of"
        r"|name (?:all|every|each|everybody|everyone))\b"
        r"|^\W*(?:peux-tu |pouvez-vous |merci de )?(?:liste[rz]?|énumère[rz]?|énumérer"
        r"|recense[rz]?|dresse[rz]?(?: la)? liste"
        r"|donne[rz]?(?:-moi)? (?:la|une) liste)\b|^\W*(?:bitte )?(?:liste\b.*\bauf\b|zähle?\b.*"
        r"\bauf\b|nenne? (?:mir )?alle\b)|^\W*(?:enumera|lista|haz una lista|nombra todos)\b",
        "it asks for a list",
    ),
    _rule_of(
        r"\b(?:what|which|who|where|show(?: me)?|give(?: me)?|find|tell me) (?:are |were |is )?"
        r"(?:all|every|each)(?![\w-])"
        r"|\b(?:quel(?:le)?s?|qui|montre[rz]?(?:-moi)?|donne[rz]?(?:-moi)?|trouve[rz]?) "
        r"(?:sont |étaient )?(?:tou(?:s|tes)|chacun\w*|l'ensemble)\b"
        r"|\b(?:welche|was|wer) sind alle\b|\bcuáles son tod[oa]s\b|\bquiénes son todos\b",
        "it asks for all of something",
    ),
    _rule_of(
        r"^\W*(?:who|what) (?:are|were) (?:all )?(?:the|its|their) (?:characters|roles|speakers)\b"
        r"|^\W*quel(?:le)?s sont (?:tou(?:s|tes) )?les (?:personnages|acteurs|rôles)\b"
        r"|^\W*wer (?:tritt auf|spielt mit)\b|^\W*welche (?:figuren|personen|rollen) "
        r"(?:gibt es|treten auf|kommen vor)\b|^\W*cuáles son los (?:personajes|papeles)\b"
        r"|^\W*who (?:are|were) (?:all )?(?:the|its|their) \w+(?:s|people|men|women)\b"
        r"|^\W*qui (?:sont|étaient|furent) (?:tous )?(?:les|ses|leurs)\b"
        r"|^\W*quelles (?:sont|étaient) (?:toutes )?les (?:personnes|participantes|autrices)\b"
        r"|^\W*wer (?:sind|waren) (?:alle |die)\b|^\W*quiénes (?:son|eran|fueron) (?:todos )?los\b",
        "it asks who belongs to a group",
    ),
    _rule_of(
        rf"^\W*who (?:all )?{_SPEAK}(?: (?:in|at|during|to) .{{1,60}})?\W*$"
        rf"|^\W*(?:which|what) (?:people|persons|speakers) {_SPEAK}\b"
        rf"|^\W*qui {_PARLE}(?: (?:dans|à|au|pendant|lors) .{{1,60}})?\W*$",
        "it asks who speaks",
    ),
    _rule_of(
        r"\bhow many (?:different |distinct )?(?:people|persons|speakers?|contributors?"
        rf"|participants?|characters?) (?:(?:are|were) there|{_SPEAK}|appear)\b"
        r"|\bcombien (?:de |d')(?:personnes|personnages|orateurs|intervenants|participants) "
        rf"(?:y a-t-il|{_PARLE}|apparaissent)(?!\w)",
        "it counts who speaks",
    ),
    _rule_of(
        r"\b(?:how many|combien d\w*|wie viele|cuánt[oa]s)\b.*\b(?:in total|in all|altogether"
        r"|overall|are (?:mentioned|named|listed|described|cited)"
        r"|(?:mention|name|cite|describe|list)\b|au total|en tout"
        r"|sont (?:mentionnés?|mentionnées?|cités?|citées?|nommés?|décrits?)"
        r"|insgesamt|werden (?:\w+ ){0,6}(?:erwähnt|genannt)|en total"
        r"|se (?:mencionan|citan|nombran))",
        "it counts over everything",
    ),
    _rule_of(
        r"\b(?:in|across|over|throughout|from|of|among|through) (?:all|the (?:whole|entire|full)"
        r"|the complete|every) (?:\w+ )?(?:"
        + _UNITS
        + r"|corpus|collection|book|library|archive|set)\b"
        r"|\b(?:dans|à travers|sur|de) (?:tous les|toutes les|l'ensemble d\w+|tout le|toute la)"
        r" (?:\w+ )?(?:" + _UNITS + r"|corpus|collection|livre|fonds|archives?|débat\w*)\b"
        r"|\bin (?:allen|der gesamten|dem gesamten)\b|\ben todos los\b|\ben toda la\b",
        "it is about all documents",
    ),
    _rule_of(
        r"^\W*(?:please |can you |could you )?(?:summari[sz]e|give (?:me )?(?:a |an )?(?:summary"
        r"|overview)|what (?:are|is) the (?:main|key|overall|general|central|recurring|common)"
        r" (?:theme|topic|point|idea|argument|message|subject)s?)\b"
        r"|^\W*(?:peux-tu |pouvez-vous )?(?:résume[rz]?|fai(?:s|tes)(?:-moi)? (?:un|une) (?:résumé"
        r"|synthèse)|synthétise[rz]?|quel(?:le)?s? (?:sont|est) (?:les|le|la) (?:principa\w+"
        r"|grand\w*|thèmes?|idées? générales?)\b)|^\W*(?:fasse|fass)\b.*\bzusammen\b|^\W*was sind"
        r" die (?:haupt|wichtigsten themen)|^\W*(?:resume|resuma|haz un resumen)\b",
        "it asks for an overview",
    ),
    _rule_of(
        r"\b(?:most|least) (?:often|frequent(?:ly)?|common(?:ly)?|cited|mentioned|discussed|used)\b"
        r"|\ble (?:plus|moins) (?:souvent|fréquent\w*|cité|mentionné|utilisé)\b"
        r"|\bam (?:häufigsten|meisten|öftesten)\b|\bcon más frecuencia\b|\bmás (?:citad|mencionad)",
        "it compares how often things occur",
    ),
)
"""Answers that are spread over everything."""

AGGREGATE = late_pattern(
    r"\b(?:average|mean|median|sum|total|totals|maximum|minimum|highest|lowest|largest|smallest"
    r"|most|least|how many|how much|number of|count|per (?:day|week|month|year|\w+)|by (?:day|week"
    r"|month|year)|top \d+|percentage|share of|group(?:ed)? by|sorted by"
    r"|moyenne|médiane|somme|total[e]?s?|maximum|minimum|le plus|la plus|les plus|le moins|combien"
    r"|nombre d|par (?:jour|semaine|mois|an|année|\w+)|pourcentage|part d"
    r"|durchschnitt\w*|mittelwert|summe|gesamt\w*|höchste\w*|niedrigste\w*|wie viele|wie viel"
    r"|anzahl|pro (?:tag|woche|monat|jahr)|prozent\w*"
    r"|promedio|media|suma|máximo|mínimo|cuánt[oa]s?|número de|por (?:día|semana|mes|año))\b",
    re.IGNORECASE,
)
"""Words by which a question asks for a number over rows."""

SPLIT = late_pattern(
    r"\?.+\?|\b(?:compare|compared (?:to|with)|comparison|difference[s]? between|versus|vs\.?"
    r"|compare[rz]?|comparaison|différences? entre|par rapport à|unterschied\w* zwischen"
    r"|vergleich\w*|im vergleich|diferencias? entre|compara\w*)(?!\w)",
    re.IGNORECASE | re.DOTALL,
)
"""Patterns of questions that ask for several things or a comparison."""

WORDY = late_pattern(
    r"\b(?:i (?:was|am|'m) (?:just )?wondering|i would like to know|i'd like to know|can you"
    r" (?:please )?tell me|could you (?:please )?(?:tell|explain)|do you (?:happen to )?know"
    r"|je (?:me demandais|voudrais savoir|souhaite(?:rais)? savoir|aimerais savoir)"
    r"|(?:peux-tu|pouvez-vous|pourriez-vous) m(?:e |')\w+|ich (?:wüsste|würde) gern|ich frage mich"
    r"|könn(?:en sie|test du) mir|me gustaría saber|quisiera saber|(?:puedes|podrías) decirme)\b",
    re.IGNORECASE,
)
"""Politeness around a question."""

MANY_WORDS = 30
"""Number of words from which a question should be rewritten before the search."""


def matched(rules: Sequence[Rule], question: str) -> tuple[str, str] | None:
    """The reason of the first rule that applies and the words that match, None without one."""
    for rule in rules:
        match = rule.pattern.search(question)
        if match:
            words_matched = " ".join(match[0].split()).strip(" ,.;:!?")
            return rule.reason, words_matched[:60]
    return None
