"""The things that a question is about: its nouns with what stands before them, without its verbs.

No lexicon: German nouns have capitals, those of Romance languages follow an article, and in an
English question all is a thing but the verb, which its place shows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

from ..core import late_pattern
from ._analysis import words
from ._evidence import asked_properties
from ._question_language import question_language
from ._questions import is_light, without_light_verbs
from ._stopwords import stop_words

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
    are no compounds: a text may shorten them.
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
