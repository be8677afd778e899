"""The language of one question: too short for statistics, so that its question words count most."""

from __future__ import annotations

from ..core import late_pattern
from ._analysis import fold, words
from ._stopwords import LANGUAGES, stop_words

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
