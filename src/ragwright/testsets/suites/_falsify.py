"""Falsified passages: the answer in a passage is replaced by another one of its kind."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from ...core import text_hash
from ...models import is_code
from ._gold_answers import GoldAnswer

Kind: TypeAlias = Literal["date", "year", "code", "number", "ordinal", "name"]

_MONTHS = (
    "january february march april may june july august september october november december "
    "janvier février mars avril mai juin juillet août septembre octobre novembre décembre "
    "januar februar märz april mai juni juli august september oktober november dezember "
    "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre "
    "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre"
)
_MONTH = "|".join(sorted(set(_MONTHS.split()), key=lambda name: (-len(name), name)))
_DATE = re.compile(
    r"(?<!\w)(?:\d{4}-\d{2}-\d{2}"
    rf"|(?:\d{{1,2}}(?:st|nd|rd|th|er|\.)?\s+)(?:de\s+)?(?:{_MONTH})(?:,?\s+(?:de\s+)?\d{{4}})?"
    rf"|(?:{_MONTH})\s+\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s+\d{{4}})?"
    rf"|(?:{_MONTH})\s+\d{{4}}"
    r"|(?:\d{4}年)?\d{1,2}月\d{1,2}日)(?![\w-])",
    re.IGNORECASE,
)
_YEAR = re.compile(r"(?<![\w.,-])(?:1[0-9]|20)\d\d(?![\w%]|[.,]\d)")
_NUMBER = re.compile(r"(?<![\w.,])\d+(?:[.,\u00a0\u202f ]\d{3})*(?:[.,]\d+)?(?![\w]|[.,]\d)")
_ORDINAL = re.compile(
    r"(?<![\w.,])\d+(?:st|nd|rd|th|er|ers|re|ère|e|es|ème|èmes|º|ª)(?!\w)", re.IGNORECASE
)
_CODE = re.compile(r"[A-Za-z]\S*\d|\d\S*[A-Za-z_:]\S*")
_NAME = re.compile(
    r"(?<!\w)[A-ZÀ-ÖØ-Þ](?:[^\W\d_]|['’-])+(?:\s+[A-ZÀ-ÖØ-Þ](?:[^\W\d_]|['’-])+){0,3}(?!\w)"
)
_WORD = re.compile(r"\S+")
_STOPS = ".!?…:"


def kind_of(answer: str) -> tuple[Kind, str] | None:
    """Return the kind of an answer and the piece that can be replaced; None if there is none.

    An answer with exactly one number is a number with a unit: ``15,000`` of ``15,000
    kilometres``.
    """
    text = answer.strip().rstrip(".")
    for kind, pattern in _WHOLE_KINDS:
        if pattern.fullmatch(text):
            return kind, text
    if _is_code(text):
        return "code", text
    pieces: list[tuple[Kind, str]] = []
    rest = text
    for kind, pattern in _PIECES:
        pieces += [(kind, piece) for piece in pattern.findall(rest)]
        rest = pattern.sub(" ", rest)  # the numbers in a date do not count separately
    if len(pieces) == 1:
        return pieces[0]
    return ("name", text) if not pieces and _NAME.fullmatch(text) else None


def _is_code(word: str) -> bool:
    """True for one word with letters and digits, except ordinals."""
    return (
        len(word.split()) == 1
        and _CODE.match(word) is not None
        and _ORDINAL.fullmatch(word) is None
        and is_code(word, written=True)
    )


_WHOLE_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (("date", _DATE), ("year", _YEAR))
_PIECES: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("date", _DATE),
    ("ordinal", _ORDINAL),
    ("number", _NUMBER),
)
"""Kinds of answer parts that can be replaced, in search order."""


def entities(texts: Iterable[str]) -> Mapping[Kind, Sequence[str]]:
    """Return dates, years, codes, numbers and names of passages, each once and sorted."""
    by_kind: dict[Kind, set[str]] = defaultdict(set)
    for text in texts:
        rest = text
        for kind, pattern in (*_WHOLE_KINDS, *_PIECES[1:]):
            by_kind[kind].update(pattern.findall(rest))
            rest = pattern.sub(" ", rest)
        words = (word.strip("()[]{}<>\"'`,;:.!?*") for word in _WORD.findall(rest))
        by_kind["code"].update(word for word in words if _is_code(word))
        for match in _NAME.finditer(rest):
            # a sentence's first word is always capitalised
            if not _begins_sentence(rest, match.start()):
                by_kind["name"].add(match[0])
    return {kind: sorted(values) for kind, values in by_kind.items()}


def _begins_sentence(text: str, place: int) -> bool:
    """True at the beginning of a text, behind a stop and on a new line.

    Looks back from the place: a regular expression would look through all that is before it.
    """
    end = place
    while end and text[end - 1].isspace():
        end -= 1
    return place == 0 or text[end - 1 : end] in (*_STOPS,) or "\n" in text[end:place]


def falsify(
    gold: GoldAnswer, passage: str, known: Mapping[Kind, Sequence[str]], seed: str
) -> tuple[str, str] | None:
    """Return a false answer and the passage that states it, drawn by a seed; None if there is none.

    Every occurrence of a wording of the answer is replaced. The new passage holds the false
    answer and no wording of the true one; the false answer was not in the old one.

    Args:
        gold: The true answer, of one part.
        passage: A passage that contains it literally.
        known: Possible replacements, by kind; see :func:`entities`.
        seed: Seed of the draw: the same passage always gets the same false answer.
    """
    wordings = [wording for wording in gold.parts[0] if _wording_pattern(wording).search(passage)]
    if len(gold.parts) != 1 or not wordings:
        return None
    replaceable = kind_of(wordings[0])
    if replaceable is None:
        return None
    kind, piece = replaceable
    order = sorted(known.get(kind, ()), key=lambda other: text_hash(f"{seed}\x00{other}"))
    for other in (*_of_same_form(piece, order), *order):
        fake = wordings[0].replace(piece, other)
        false_answer = GoldAnswer(((fake,),), gold.language)
        if fake.casefold() == wordings[0].casefold() or any(false_answer.held(passage)):
            continue
        text = passage
        for wording in sorted(wordings, key=len, reverse=True):
            text = fake.join(_wording_pattern(wording).split(text))
        if any(false_answer.held(text)) and not any(gold.held(text)):
            return fake, text
    return None


def _wording_pattern(wording: str) -> re.Pattern[str]:
    """Return a pattern for a wording as a whole."""
    text = wording.strip()
    letter_before, letter_after = (
        rf"[{_LETTERS}]" if re.match(f"[{_LETTERS}]", c) else "$.^" for c in (text[:1], text[-1:])
    )
    return re.compile(rf"(?<!{letter_before}){re.escape(text)}(?!{letter_after})")


_LETTERS = "0-9A-Za-z_\u00c0-\u024f\u0370-\u04ff"
"""Letters of scripts that separate words: only there words have borders."""


def _of_same_form(piece: str, order: Sequence[str]) -> list[str]:
    """Return candidates of the same form: equally many words and digits, the same marks."""
    shape = _form_of(piece)
    return [other for other in order if _form_of(other) == shape]


def _form_of(text: str) -> tuple[int, str]:
    marks = re.sub(r"\d", "0", re.sub(r"[^\W\d]+", "w", text))
    return len(text.split()), marks
