"""Sentences of answers that are counted or listed here, in the language of the question."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..models import detect_language
from ._corpus_read import Item
from ._units import Found, UnitQuestion

_UNITS = {
    "en": {"document": "documents", "page": "pages", "passage": "passages"},
    "fr": {"document": "documents", "page": "pages", "passage": "passages"},
    "de": {"document": "Dokumente", "page": "Seiten", "passage": "Passagen"},
    "es": {"document": "documentos", "page": "páginas", "passage": "pasajes"},
}
_TEXTS = {
    "en": {
        "all": "There are {total} {units}.",
        "some": "{n} of {total} {units} hold “{topic}”",
        "none": "None of the {total} {units} holds “{topic}”.",
        "found": "{n} found",
        "least": "At least {n} found (not every passage could be read)",
        "more": "… and {n} more",
        "places": "{n} places",
    },
    "fr": {
        "all": "Il y a {total} {units}.",
        "some": "{n} sur {total} {units} contiennent « {topic} »",
        "none": "Aucun(e) des {total} {units} ne contient « {topic} ».",
        "found": "{n} trouvé(s)",
        "least": "Au moins {n} trouvé(s) (tous les passages n'ont pas pu être lus)",
        "more": "… et {n} de plus",
        "places": "{n} endroits",
    },
    "de": {
        "all": "Es gibt {total} {units}.",
        "some": "{n} von {total} {units} enthalten „{topic}“",
        "none": "Von {total} {units} enthält nichts „{topic}“.",
        "found": "{n} gefunden",
        "least": "Mindestens {n} gefunden (nicht alles konnte gelesen werden)",
        "more": "… und {n} weitere",
        "places": "{n} Stellen",
    },
    "es": {
        "all": "Hay {total} {units}.",
        "some": "{n} de {total} {units} contienen «{topic}»",
        "none": "Ninguno de {total} {units} contiene «{topic}».",
        "found": "{n} encontrados",
        "least": "Al menos {n} encontrados (no se pudo leer todo)",
        "more": "… y {n} más",
        "places": "{n} lugares",
    },
}

_HINTS = {
    "fr": re.compile(r"\b(?:combien|quel(?:le)?s?|liste[rz]|qui sont|dresse)\b", re.IGNORECASE),
    "de": re.compile(r"\b(?:wie viele|welche|nenne|wer sind)\b", re.IGNORECASE),
    "es": re.compile(r"\b(?:cuánt[oa]s|cuáles|enumera|quiénes)\b", re.IGNORECASE),
}
"""Words of asking that tell the language of a question too short for its function words."""


def units_text(
    question: str, asked: UnitQuestion, found: Sequence[Found], total: int, shown: int
) -> str:
    """How many units meet a question, and the first ``shown`` of them with their marks."""
    language = _language(question)
    texts = _TEXTS[language]
    values = {
        "n": len(found),
        "total": total,
        "units": _UNITS[language][asked.unit],
        "topic": asked.topic,
    }
    if not asked.topic:
        return texts["all"].format(**values)
    if not found:
        return texts["none"].format(**values)
    names = []
    for number, unit in enumerate(found[:shown], 1):
        page = f", p. {unit.page}" if unit.page is not None and asked.unit != "document" else ""
        names.append(f"{unit.hit.title or unit.hit.source}{page} [{number}]")
    return _listing(texts["some"].format(**values), names, len(found), texts)


def items_text(
    question: str,
    items: Sequence[Item],
    marks: Sequence[Sequence[int]],
    total: int,
    *,
    complete: bool,
) -> str:
    """The items of a list with their marks, under how many there are in all."""
    texts = _TEXTS[_language(question)]
    head = texts["found" if complete else "least"].format(n=total)
    names = []
    for item, numbers in zip(items, marks, strict=True):
        count = len(item.places)
        often = f" ({texts['places'].format(n=count)})" if count > 1 else ""
        names.append(f"{item.text}{often} {''.join(f'[{n}]' for n in numbers)}")
    return _listing(head, names, total, texts)


def _listing(head: str, names: Sequence[str], total: int, texts: dict[str, str]) -> str:
    lines = [f"{head}:", *(f"- {name}" for name in names)]
    if total > len(names):
        lines.append(texts["more"].format(n=total - len(names)))
    return "\n".join(lines)


def _language(question: str) -> str:
    hinted = next((name for name, words in _HINTS.items() if words.search(question)), "")
    found = hinted or detect_language([question], least=1)
    return found if found in _TEXTS else "en"
