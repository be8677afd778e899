"""The things that a question is about: its nouns with what stands before them, without its verbs.

No lexicon: German nouns have capitals, those of Romance languages follow an article, and in an
English question all is a thing but the verb, which its place shows.
"""

from __future__ import annotations

import re
from functools import cache

from ..core import late_pattern
from ._analysis import words
from ._evidence import asked_properties
from ._question_language import question_language
from ._questions import without_light_verbs
from ._stopwords import stop_words

_ARTICLES = {
    "fr": r"(?:les?|la|une?|du|des|aux?|de|mon|ma|mes|nos|notre|vos|votre|combien de)"
    r"\s+|[dl]['’]|combien d['’]",
    "es": r"(?:el|la|los|las|una?|unos|unas|del|de|al|mi|mis|cuánt[oa]s?)\s+",
    "it": r"(?:il|lo|la|i|gli|le|una?|uno|del(?:la|lo|le)?|dei|degli|quant[aoie])\s+|(?:l|un|dell)['’]",
    "pt": r"(?:os?|as?|uma?|d[oae]s?|n[oa]s?|quant[oa]s?)\s+",
    "nl": r"(?:de|het|een|van|mijn|hoeveel)\s+",
}
_AFTER = {
    name: late_pattern(rf"(?:^|(?<=[\s(]))(?:{articles})([^\W\d_]{{3,}})", re.IGNORECASE)
    for name, articles in _ARTICLES.items()
}
_HELPS = frozenset(
    "do does did can could will would shall should must may might is are was were has have had be "
    "been being get".split()
)
_SUBJECTS = frozenset("i we you they he she it one".split())
_WANTS = frozenset("have has had need want how like able".split())
_BINDS = frozenset(
    "a an the my our your his her its their this that these those of for in on at with from to by "
    "per any some no and or about into as between against during under over".split()
)
_ASKS_ACTOR = frozenset("who what".split())
_SMALL = stop_words("en") | frozenset(
    "many much long often old far tall high deep wide fast heavy big large late early good".split()
)


_CLASS = frozenset("what which welche welcher welches welchen welchem".split())


@cache
def things(question: str) -> tuple[str, ...]:
    """The words for things in a question, as written; empty where its language is not known.

    Left out are the class of its answer (*which company*) and the property that it asks for (*the
    height of*), since an answer names neither.
    """
    language = question_language(question)
    plain = without_light_verbs(question)
    told = {word for asked, _ in asked_properties(question) for word in asked.casefold().split()}
    if language == "de":
        own = words(plain)
        kept = [word for word in own[1:] if word[0].isupper() and len(word) > 2]
        kept = kept[1:] if own and own[0].casefold() in _CLASS and kept[:1] == own[1:2] else kept
    elif language in _AFTER:
        stops = stop_words(language)
        named = (match[1] for match in _AFTER[language].finditer(plain))
        kept = [word for word in named if word.casefold() not in stops]
    else:
        kept = _of_english(words(plain)) if language == "en" else []
    return tuple(word for word in kept if word.casefold() not in told)


def _of_english(written: list[str]) -> list[str]:
    """All words but function words, verbs and the class of the answer.

    Verbs are the last word, and those after a pronoun, *to* or *who*.
    """
    lower = [word.casefold() for word in written]
    helped = any(word in _HELPS for word in lower)
    kept = []
    of_class = lower[:1] in (["what"], ["which"])
    for at, word in enumerate(written):
        before = lower[at - 1] if at else ""
        of_class = of_class and (not at or lower[at] not in _SMALL)
        last = at == len(written) - 1 and helped and before not in _BINDS
        subject = before in _SUBJECTS and at > 1 and lower[at - 2] in _HELPS
        infinitive = before == "to" and at > 1 and lower[at - 2] in _WANTS
        actor = before in _ASKS_ACTOR and at == 1
        verb = last or subject or infinitive or actor
        if not (verb or of_class) and lower[at] not in _SMALL and len(word) > 2:
            kept.append(word)
    return kept
