"""The parts that belong to a lead-in: the list, the table, the steps or the paragraph."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..core import late_pattern
from ..models import WordTokenizer
from ._sentences import Sentence

_COUNTER = WordTokenizer()
_PARAGRAPH_WORDS = 60
"""Words of a paragraph that follow a lead-in."""

_NUMBER = (
    r"one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|several|deux|trois"
    r"|quatre|cinq"
    r"|six|sept|huit|neuf|dix|plusieurs|zwei|drei|vier|fünf|sechs|sieben|acht|neun|zehn|mehrere"
    r"|dos|tres|cuatro|cinco|seis|siete|ocho|nueve|diez|varios|varias"
)
_COUNTS = (
    r"^\W*(?:there (?:are|is) |these |the |les |die |los |las )?"
    rf"(?:{_NUMBER})\b(?:\W+\w+){{1,11}}\W*$"
)
_ANNOUNCES = late_pattern(
    r"[:：]$|\b(?:following|as follows|below|listed|suivante?s?|ci-dessous|folgende[nrs]?"
    r"|siguientes?"
    r"|seguenti|seguintes|volgende)\b"
    r"|\b(?:table|tableau|tabelle|tabla|tabella|tabela) \d"
    rf"|{_COUNTS}",
    re.IGNORECASE,
)
_COUNTED = late_pattern(_COUNTS, re.IGNORECASE)
_CAPTION = late_pattern(
    r"^(?:table|tableau|tabelle|tabla|tabella|tabela|listing|example) \d", re.IGNORECASE
)
_LABEL = re.compile(r"\*\*[^*]{1,80}\*\*[.:]?$|__[^_]{1,80}__[.:]?$")
_NUMBERED = re.compile(r"\d{1,3}[.)]")


def whole(sentences: Sequence[Sentence], at: int) -> tuple[Sentence, ...]:
    """Return the sentences that the one at a place announces, in text order; empty if it stands
    alone.

    A heading, a sentence that ends with a colon and one that names what follows ("Table 2 lists",
    "Four things go wrong.") lead to the list or table below them; a colon and a line in bold also
    to the paragraph below, and a number of things to the rest of their paragraph; an item that
    begins with a line in bold to its further sentences.
    """
    lead = sentences[at]
    following = sentences[at + 1 : at + 3]
    label = bool(_LABEL.match(lead.text))
    if lead.kind in ("item", "row") or (label and _same_block(lead, following[:1])):
        return _rest_of_block(sentences, at) if label else ()
    if not following or following[0].number != lead.number:
        return ()
    if _same_block(lead, following[:1]):
        return (
            _rest_of_block(sentences, at)
            if lead.kind == "prose" and _COUNTED.match(lead.text)
            else ()
        )
    start = at + 1
    captioned = len(following) > 1 and following[1].kind == "row" and following[0].kind == "prose"
    if captioned and _CAPTION.match(following[0].text):
        start += 1
    first = sentences[start]
    adjacent = first.block <= lead.block + (1 if start == at + 1 else 2)
    if not adjacent or first.kind == "title":
        return ()
    if first.kind == "prose":
        ends = lead.text.endswith((":", "：")) and lead.kind == "prose" and not lead.code
        return _rest_of_block(sentences, at, start) if (ends or label) and not first.opens else ()
    if lead.kind != "title" and not (label or _ANNOUNCES.search(lead.text)):
        return ()
    return (*sentences[at + 1 : start], *_list_or_table(sentences, start))


def has_steps(sentences: Sequence[Sentence], at: int) -> bool:
    """True where a command, code or numbered steps follow a sentence."""
    if sentences[at].code:
        return True
    return any(_NUMBERED.match(s.bullet) for s in whole(sentences, at)[:1])


def _list_or_table(sentences: Sequence[Sentence], start: int) -> tuple[Sentence, ...]:
    """The rows of one table, or the items of one list; code between numbered items ends none."""
    first = sentences[start]
    run: list[Sentence] = []
    for sentence in sentences[start:]:
        if (sentence.number, sentence.kind) != (first.number, first.kind):
            break
        goes_on = sentence.block == first.block
        if first.kind == "item" and _NUMBERED.match(first.bullet) and sentence.bullet:
            goes_on = bool(_NUMBERED.match(sentence.bullet))
        elif first.kind == "item" and run:
            goes_on = sentence.block == run[-1].block
        if not goes_on or sentence.heading != first.heading:
            break
        run.append(sentence)
    return tuple(run)


def _rest_of_block(sentences: Sequence[Sentence], at: int, start: int = 0) -> tuple[Sentence, ...]:
    """The sentences of an item or a paragraph from a place on, up to a number of words."""
    start = start or at + 1
    first = sentences[start] if start < len(sentences) else None
    rest: list[Sentence] = []
    size = 0
    for sentence in sentences[start:] if first else ():
        same_block = (
            (sentence.number, sentence.block) == (first.number, first.block) if first else False
        )
        size += _COUNTER.count(sentence.text)
        if not same_block or (rest and (size > _PARAGRAPH_WORDS or sentence.bullet)):
            break
        if start == at + 1 and sentence.bullet and sentences[at].kind == "item":
            break
        rest.append(sentence)
    return tuple(rest)


def _same_block(lead: Sentence, others: Sequence[Sentence]) -> bool:
    return any((o.number, o.block, o.kind) == (lead.number, lead.block, lead.kind) for o in others)
