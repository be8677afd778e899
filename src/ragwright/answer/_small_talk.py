"""Messages that need no document: a chat model answers them; offline they are declined."""

from __future__ import annotations

import re
from dataclasses import replace

from ..core import Answer, Persona
from ..flow import Flow
from ..models import ExtractiveReranker, question_language
from ._flow import AnswerSetup, write
from ._forms import Phrases

_THANKS = re.compile(r"\b(?:thanks?|thx|cheers|merci|danke|dank|gracias)\b", re.IGNORECASE)
_FAREWELL = re.compile(
    r"\b(?:bye|see you|have a nice|au revoir|bientôt|bonne (?:journée|soirée)|tschüss"
    r"|auf wiedersehen|adiós|hasta luego)\b",
    re.IGNORECASE,
)
_HINTS = {
    "fr": r"bonjour|bonsoir|salut|coucou|merci|qui es-tu|qui êtes-vous|que peux-tu|ça va|au revoir"
    r"|à bientôt|bonne (?:journée|soirée)",
    "de": r"hallo|guten|danke|vielen dank|wer bist|was kannst|wie geht|tschüss|auf wiedersehen",
    "es": r"hola|buen[oa]s|gracias|quién eres|qué puedes|qué tal|adiós|hasta luego",
}
"""Greetings have too few function words to detect their language."""


def reply_without_documents(question: str, persona: Persona, setup: AnswerSetup) -> Flow[Answer]:
    """A chat model's reply without any passage, or, offline, a polite sentence that abstains."""
    model = persona.model or setup.options.model
    if model != ExtractiveReranker.name:
        closed = replace(setup, options=replace(setup.options, closed_book=True))
        return (yield from write(question, persona, (), closed))
    hints = (name for name, words in _HINTS.items() if re.search(rf"\b(?:{words})", question, re.I))
    language = next(hints, "") or question_language(question)
    return Answer(
        question,
        Phrases(language).text(_sentence_name(question)),
        persona.name,
        abstained=True,
        model=model,
        notes=("nothing was looked up, and no chat model is set for small talk",),
    )


def _sentence_name(message: str) -> str:
    """Name of the sentence that answers a message."""
    if _THANKS.search(message):
        return "thanked"
    return "farewell" if _FAREWELL.search(message) else "small_talk"
