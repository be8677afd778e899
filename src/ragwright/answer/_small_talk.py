"""Messages that need no document: a chat model answers them; offline they are declined."""

from __future__ import annotations

import re
from dataclasses import replace

from ..core import Answer, Persona
from ..flow import Flow
from ..models import ExtractiveReranker, detect_language
from ._flow import AnswerSetup, write

_TEXTS = {
    "en": "I answer questions about the documents of this project. What would you like to know?",
    "fr": "Je réponds aux questions sur les documents de ce projet. Que voulez-vous savoir ?",
    "de": "Ich beantworte Fragen zu den Dokumenten dieses Projekts. Was möchten Sie wissen?",
    "es": "Respondo preguntas sobre los documentos de este proyecto. ¿Qué desea saber?",
}
_HINTS = {
    "fr": r"bonjour|bonsoir|salut|coucou|merci|qui es-tu|qui êtes-vous|que peux-tu|ça va|au revoir",
    "de": r"hallo|guten|danke|wer bist|was kannst|wie geht|tschüss|auf wiedersehen",
    "es": r"hola|buen[oa]s|gracias|quién eres|qué puedes|qué tal|adiós",
}
"""Greetings have too few function words to detect their language."""


def reply_without_documents(question: str, persona: Persona, setup: AnswerSetup) -> Flow[Answer]:
    """A chat model's reply without any passage, or, offline, a polite sentence that abstains."""
    model = persona.model or setup.options.model
    if model != ExtractiveReranker.name:
        closed = replace(setup, options=replace(setup.options, closed_book=True))
        return (yield from write(question, persona, (), closed))
    hints = (name for name, words in _HINTS.items() if re.search(rf"\b(?:{words})", question, re.I))
    language = next(hints, "") or detect_language([question], least=1)
    return Answer(
        question,
        _TEXTS.get(language, _TEXTS["en"]),
        persona.name,
        abstained=True,
        model=model,
        notes=("nothing was looked up, and no chat model is set for small talk",),
    )
