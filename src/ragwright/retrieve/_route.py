"""Routing: the place where the answer is looked for: index, database, whole corpus, or nowhere."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal, TypeAlias

from ..core import compile_late
from ..flow import Flow, branch
from ..models import NO_MODEL, Analyzer, AnalyzerOptions, detect_language, words
from ._asking import (
    StructuredQuestion,
    ask_structured,
    json_object,
    object_schema,
    one_line,
)
from ._options import RouteOptions
from ._tables import QueryDatabase

RouteKind: TypeAlias = Literal["index", "sql", "corpus", "none"]


@dataclass(frozen=True, slots=True)
class Route:
    """The route of a question and the reason for it.

    Attributes:
        kind: ``index``, ``sql``, ``corpus`` or ``none``.
        reason: Why, for the reader.
        rewrite: The question should be rewritten before the search.
        split: It asks for several things that should be searched separately.
        database: The database of the route ``sql``.
        notes: Notes on faults.
        instead: Other routes that a dry run counts as the upper bound.
    """

    kind: RouteKind
    reason: str
    rewrite: bool = False
    split: bool = False
    database: str = ""
    notes: tuple[str, ...] = ()
    instead: tuple[RouteKind, ...] = ()


@dataclass(frozen=True, slots=True)
class RouteScene:
    """The options of routing: the databases, and the chat model that answers.

    Without a chat model (empty, or ``snippet``) nothing can write a statement, so the rules
    never choose ``sql``.
    """

    model: str = ""
    databases: tuple[QueryDatabase, ...] = ()

    @property
    def chats(self) -> bool:
        """True if there is a chat model."""
        return self.model not in {"", NO_MODEL}


def route(question: str, options: RouteOptions, scene: RouteScene | None = None) -> Flow[Route]:
    """The route of a question that stands alone.

    With ``model``, the reply is read strictly; if it cannot be used even after one retry, the rules
    decide, with a note. A dry run counts at least the plain index, as expected the route of the
    rules, and at most every route that the model may choose (their sum, since the most expensive is
    not known here), with rewriting and splitting.
    """
    scene_used = scene or RouteScene()
    if options.method in ("auto", "index"):
        by_words = options.method == "auto" and scene_used.databases
        counted = _counted_in_sheets(question, scene_used) if by_words else None
        return counted or Route("index", "routing is off: the index answers")
    ruled = route_by_rules(question, scene_used)
    if options.method == "rules":
        return ruled
    model = options.model or scene_used.model
    if model in {"", NO_MODEL}:
        note = "no chat model is set for routing: the rules decided"
        return replace(ruled, notes=(*ruled.notes, note))
    reply = yield from ask_structured(_question_for(model, question, scene_used, ruled))
    planned = yield from branch(0, 1, 2)
    if planned is not None:
        return (Route("index", ruled.reason), ruled, _upper_bound(ruled, scene_used))[planned]
    if reply.value is None:
        note = f"the router's reply could not be used ({reply.why}): the rules decided"
        return replace(ruled, notes=(*ruled.notes, note))
    return replace(reply.value, reason=f"{reply.value.reason} ({model})")


def _counted_in_sheets(question: str, scene: RouteScene) -> Route | None:
    """The route of a question that counts or compares what a spreadsheet holds."""
    sheets = [database for database in scene.databases if database.sheets]
    text = question[:_LONGEST]
    if not (sheets and scene.chats and _AGGREGATE.search(text)):
        return None
    database, reason = next(_named_databases(text, sheets), ("", ""))
    return Route("sql", reason, database=database) if database else None


def _upper_bound(ruled: Route, scene: RouteScene) -> Route:
    """The upper bound of a routed question: the index, every chunk, and a failing database."""
    usable = [d for d in scene.databases if not d.problem and scene.chats]
    if not usable:
        return Route("index", ruled.reason, rewrite=True, split=True, instead=("corpus",))
    largest = max(usable, key=lambda d: sum(len(t.columns) for t in d.tables)).options.name
    return Route("sql", ruled.reason, True, True, largest, instead=("corpus",))


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


_LONGEST = 1_000
"""Characters of a question that the rules look at: they run on the loop, and the time of some
patterns grows with the square of the text."""


_Rule: TypeAlias = tuple[re.Pattern[str], str]
"""A pattern searched for in a question, and its reason, which users can check.

The rules follow from the meaning of the routes, are not fitted to any collection, and if none
applies the index answers.
"""


def _rule_of(pattern: str, reason: str) -> _Rule:
    return compile_late(pattern, re.IGNORECASE), reason


_GREETING = compile_late(
    r"^\W*(?:(?:hi|hello|hey|good (?:morning|afternoon|evening|day)|dear \w+|greetings"
    r"|bonjour|bonsoir|salut|coucou|hallo|guten (?:tag|morgen|abend)|moin|servus"
    r"|hola|buenos días|buenas (?:tardes|noches))"
    r"(?: (?:there|all|everyone|again|à tous|tout le monde|zusammen|a todos))?(?!\w)"
    r"[\s,.!;:–-]*){1,5}",
    re.IGNORECASE,
)
"""A greeting at the beginning; a question may follow it."""

_CHAT: tuple[_Rule, ...] = (
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

_ABOUT_UNITS: tuple[_Rule, ...] = (
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

_CORPUS: tuple[_Rule, ...] = (
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

_AGGREGATE = compile_late(
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

_SPLIT = compile_late(
    r"\?.+\?|\b(?:compare|compared (?:to|with)|comparison|difference[s]? between|versus|vs\.?"
    r"|compare[rz]?|comparaison|différences? entre|par rapport à|unterschied\w* zwischen"
    r"|vergleich\w*|im vergleich|diferencias? entre|compara\w*)(?!\w)",
    re.IGNORECASE | re.DOTALL,
)
"""Patterns of questions that ask for several things or a comparison."""

_WORDY = compile_late(
    r"\b(?:i (?:was|am|'m) (?:just )?wondering|i would like to know|i'd like to know|can you"
    r" (?:please )?tell me|could you (?:please )?(?:tell|explain)|do you (?:happen to )?know"
    r"|je (?:me demandais|voudrais savoir|souhaite(?:rais)? savoir|aimerais savoir)"
    r"|(?:peux-tu|pouvez-vous|pourriez-vous) m(?:e |')\w+|ich (?:wüsste|würde) gern|ich frage mich"
    r"|könn(?:en sie|test du) mir|me gustaría saber|quisiera saber|(?:puedes|podrías) decirme)\b",
    re.IGNORECASE,
)
"""Politeness around a question."""

_MANY_WORDS = 30
"""Number of words from which a question should be rewritten before the search."""


def _matched_reason(rules: Sequence[_Rule], question: str) -> str:
    """The reason of the first rule that applies, with the words that match; empty without one."""
    for pattern, reason in rules:
        match = pattern.search(question)
        if match:
            words_matched = " ".join(match[0].split()).strip(" ,.;:!?")
            return f"{reason}: {words_matched[:60]!r}"
    return ""


_COURTESIES = ("it is a thank-you", "it is a farewell", "it is small talk")


def courtesy(message: str) -> Route | None:
    """The route of a message that is a greeting, thanks, a farewell or small talk and no more.

    Of what :func:`route_by_rules` answers without documents, these need no earlier turn to be
    understood; a remark such as "yes" does.
    """
    text = " ".join(message.replace("’", "'").split())
    if len(text) > _LONGEST:
        return None
    greeted = _GREETING.match(text)
    rest = text[greeted.end() :] if greeted else text
    if greeted and not words(rest):
        return Route("none", f"it is a greeting: {text[:60]!r}")
    reason = _matched_reason(_CHAT, rest)
    return Route("none", reason) if reason.startswith(_COURTESIES) else None


def route_by_rules(question: str, scene: RouteScene) -> Route:
    """The route by the question's own words: deterministic, offline, no request.

    In this order: nothing to look up; a question about documents as such; one that names a
    table, a keyword or, with a word of counting, a column of a database; one whose answer is
    spread over everything; else the index. Of a long question the first 1,000 characters count.
    """
    full = " ".join(question.replace("’", "'").split())
    text = full[:_LONGEST]
    greeted = _GREETING.match(text)
    rest = text[greeted.end() :] if greeted else text
    if greeted and text == full and len(words(rest)) < 2:
        return Route("none", f"it is a greeting: {text[:60]!r}")
    if text == full and (reason := _matched_reason(_CHAT, rest)):
        return Route("none", reason)
    broken = tuple(
        f"the database {d.options.name} cannot be queried: {d.problem}"
        for d in scene.databases
        if d.problem
    )
    wordy = bool(_WORDY.search(rest)) or len(words(rest)) > _MANY_WORDS
    chosen = Route("corpus", _matched_reason(_ABOUT_UNITS, rest))
    if not chosen.reason:
        database, named = "", ""
        if scene.databases:
            database, named = next(_named_databases(rest, scene.databases), ("", ""))
        spread = _matched_reason(_CORPUS, rest)
        if database and scene.chats:
            chosen = Route("sql", named, database=database)
        else:
            reason = spread or "no rule for another route applies"
            chosen = Route("corpus" if spread else "index", reason)
            if database:
                instead = f"{named}, but no chat model is set to write a statement"
                chosen = replace(chosen, reason=f"{reason}; {instead}", notes=(instead,))
    notes = (*chosen.notes, *broken)
    return replace(chosen, rewrite=wordy, split=bool(_SPLIT.search(rest)), notes=notes)


def _named_databases(text: str, databases: Sequence[QueryDatabase]) -> Iterator[tuple[str, str]]:
    """Databases of which a question names something, with the reason."""
    usable = [database for database in databases if not database.problem]
    if not usable:
        return
    analyzer = _cached_analyzer(detect_language([text], least=2))
    tokens = set(analyzer.tokens(text))
    counts = _AGGREGATE.search(text)
    for database in usable:
        name = database.options.name
        for keyword in database.options.keywords:
            if _names_all_words(analyzer, tokens, keyword):
                yield name, f"it holds the keyword {keyword!r} of the database {name}"
        for table in database.tables:
            table_name = table.name.rpartition(".")[2]
            if _names_all_words(analyzer, tokens, table_name):
                yield name, f"it names the table {table.name!r} of the database {name}"
        for table in database.tables if counts else ():
            for column in table.columns:
                if column.name[0] != "_" and _names_all_words(analyzer, tokens, column.name):
                    counting = f"it contains {counts[0]!r}" if counts else ""
                    yield (
                        name,
                        f"{counting} and names the column {table.name}.{column.name} of {name}",
                    )


@cache
def _cached_analyzer(language: str) -> Analyzer:
    """Kept, since it analyses each word once: names of tables and columns recur."""
    return Analyzer(AnalyzerOptions(language=language))


def _names_all_words(analyzer: Analyzer, tokens: set[str], name: str) -> bool:
    """True where a question holds every word of a name (``customer_id``, ``placedOn``)."""
    bare = re.sub(r"\(.*?\)", " ", name)  # a unit
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", bare.replace("_", " ").replace("-", " "))
    name_tokens = set(analyzer.tokens(spaced))
    return bool(name_tokens) and max(map(len, name_tokens)) > 1 and name_tokens <= tokens


def _question_for(
    model: str, question: str, scene: RouteScene, ruled: Route
) -> StructuredQuestion[Route]:
    """The router's prompt, and the form of its reply."""
    usable = [d for d in scene.databases if not d.problem and scene.chats]
    names = [database.options.name for database in usable]
    kinds = ["index", "corpus", "none", *(["sql"] if usable else [])]

    def parse(text: str) -> Route:
        reply = json_object(text, _KEYS)
        if reply["route"] not in kinds:
            raise ValueError(f"the route {reply['route']!r} is not one of {', '.join(kinds)}")
        chosen = reply["database"] if reply["route"] == "sql" else ""
        if reply["route"] == "sql" and chosen not in names:
            raise ValueError(f"the database {chosen!r} is not one of {', '.join(names)}")
        reason = one_line(reply["reason"], 500)
        return Route(reply["route"], reason, reply["rewrite"], reply["split"], chosen)

    described = [
        {
            "name": d.options.name,
            "description": d.options.description,
            "tables": [table.name for table in d.tables],
        }
        for d in usable
    ]
    schema = object_schema(
        {
            "route": {"type": "string", "enum": sorted(kinds)},
            "database": {"type": "string", "enum": sorted(["", *names])},
            "reason": {"type": "string"},
            "rewrite": {"type": "boolean"},
            "split": {"type": "boolean"},
        }
    )
    values = {"question": question, "databases": described}
    # names of tables of sheets are texts of their documents
    sources = tuple(name for database in usable for name in database.documents)
    return StructuredQuestion(model, "route", values, parse, ruled, schema=schema, sources=sources)


_KEYS: dict[str, type] = {
    "route": str,
    "database": str,
    "reason": str,
    "rewrite": bool,
    "split": bool,
}
