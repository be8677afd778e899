"""Sentences of answers that are counted, and of lists in the language of the question."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..core import counted
from ..models import detect_language
from ._corpus_read import Item
from ._units import Found, UnitQuestion

_TEXTS = {
    "en": {
        "found": "{n} found",
        "least": "At least {n} found (not every passage could be read)",
        "more": "… and {n} more",
        "places": "{n} places",
    },
    "fr": {
        "found": "{n} trouvé(s)",
        "least": "Au moins {n} trouvé(s) (tous les passages n'ont pas pu être lus)",
        "more": "… et {n} de plus",
        "places": "{n} endroits",
    },
    "de": {
        "found": "{n} gefunden",
        "least": "Mindestens {n} gefunden (nicht alles konnte gelesen werden)",
        "more": "… und {n} weitere",
        "places": "{n} Stellen",
    },
    "es": {
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
"""Question words that show the language of questions too short for other detection."""


def units_text(asked: UnitQuestion, found: Sequence[Found], total: int, shown: int) -> str:
    """The number of units that match a question, and the first ``shown`` with their marks."""
    units = f"{asked.unit}s"
    if not asked.topic:
        there = f"There {'is' if total == 1 else 'are'} {counted(total, asked.unit)}"
        if asked.counts:
            return f"{there}."
    elif not found:
        return f"None of the {total} {units} holds “{asked.topic}”."
    names = []
    for number, unit in enumerate(found[:shown], 1):
        page = f", p. {unit.page}" if unit.page is not None and asked.unit != "document" else ""
        names.append(f"{unit.hit.title or unit.hit.source}{page} [{number}]")
    verb = "holds" if len(found) == 1 else "hold"
    head = f"{len(found)} of {total} {units} {verb} “{asked.topic}”" if asked.topic else there
    return _listing(head, names, len(found), _TEXTS["en"])


def items_text(
    question: str,
    items: Sequence[Item],
    marks: Sequence[Sequence[int]],
    total: int,
    *,
    complete: bool,
) -> str:
    """The items of a list with their marks, below their total number."""
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
