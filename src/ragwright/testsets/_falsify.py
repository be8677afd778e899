"""Gold answers as parts, and passages in which the answer is falsified."""

from __future__ import annotations

import re
import string
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

from ..core import MetaValue, Row, text_hash
from ..measure import answer_words, content_words, stands_in
from ..models import is_code

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
    # First those of the same form: equally many words and digits, the same marks.
    form = _form_of(piece)
    for other in (*(same for same in order if _form_of(same) == form), *order):
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
    text = wording.strip()
    letter_before, letter_after = (
        rf"[{_LETTERS}]" if re.match(f"[{_LETTERS}]", c) else "$.^" for c in (text[:1], text[-1:])
    )
    return re.compile(rf"(?<!{letter_before}){re.escape(text)}(?!{letter_after})")


_LETTERS = "0-9A-Za-z_\u00c0-\u024f\u0370-\u04ff"
"""Letters of scripts that separate words: only there words have borders."""


def _form_of(text: str) -> tuple[int, str]:
    return len(text.split()), re.sub(r"\d", "0", re.sub(r"[^\W\d]+", "w", text))


ALL_OF = 3
"""A passage must contain all content words of an answer with at most this many to reveal it."""

MOST_OF = 0.75
"""Least share of a longer answer's content words in a passage that reveals it."""

_NUMBERS = {
    "en": "two three four five six seven eight nine ten eleven twelve",
    "fr": "deux trois quatre cinq six sept huit neuf dix onze douze",
    "de": "zwei drei vier fünf sechs sieben acht neun zehn elf zwölf",
    "es": "dos tres cuatro cinco seis siete ocho nueve diez once doce",
    "it": "due tre quattro cinque sei sette otto nove dieci undici dodici",
}
"""Words for 2 to 12; 1 is an article in most of these languages."""

_DIGITS = {
    name: {word: str(value) for value, word in enumerate(words.split(), 2)}
    for name, words in _NUMBERS.items()
}


@dataclass(frozen=True, slots=True)
class GoldAnswer:
    """A full answer: every part, each in one of its accepted wordings.

    Attributes:
        parts: Wordings of each part; the first one is the reference.
        language: ISO code, for articles and stems.
    """

    parts: tuple[tuple[str, ...], ...]
    language: str = "en"

    @property
    def text(self) -> str:
        """The reference: the first wording of every part."""
        return "; ".join(part[0] for part in self.parts)

    def held(self, text: str) -> tuple[bool, ...]:
        """Check each part for a wording whose words are in a text in sequence, as `Contains` does.

        A wording without words is never contained.
        """
        text_words = answer_words(text, self.language)
        return tuple(
            any(
                (words := answer_words(wording, self.language)) and stands_in(words, text_words)
                for wording in part
            )
            for part in self.parts
        )

    def metadata(self) -> dict[str, MetaValue]:
        """Return metadata from which, with ``reference``, :func:`gold_answer` rebuilds it."""
        values: dict[str, MetaValue] = {"language": self.language}
        if len(self.parts) > 1:
            values |= {f"part_{n}": part for n, part in enumerate(self.parts, 1)}
        elif len(self.parts[0]) > 1:
            values["references"] = self.parts[0]
        return values


def gold_answer(row: Row, language: str = "") -> GoldAnswer | None:
    """Return the gold answer of a row; None if it has no reference.

    ``metadata["part_1"]``, ``part_2``, … hold the wordings of each part; without them the
    reference, and further ones in ``metadata["references"]``, are wordings of the one part.
    """
    row_language = row.metadata.get("language")
    answer_language = (
        row_language if isinstance(row_language, str) and row_language else language or "en"
    )
    parts: list[tuple[str, ...]] = []
    while (wordings := row.metadata.get(f"part_{len(parts) + 1}")) is not None:
        parts.append(_nonempty_texts(wordings))
    if not parts:
        further = row.metadata.get("references")
        parts = [_nonempty_texts((row.reference, *(further if isinstance(further, tuple) else ())))]
    if not all(parts):
        return None
    return GoldAnswer(tuple(parts), answer_language)


class LeakCheck:
    """A check for passages that reveal a gold answer, by their words alone.

    A passage reveals the answer if it contains a wording of a part in sequence (numbers up to
    twelve as word or digit), or the wording's content words in any order: all of up to three, three
    quarters of more. This errs towards finding a leak: a passage wrongly left out costs little, one
    that answers the question spoils the test.

    Args:
        gold: The answer.

    Attributes:
        possible: False if a part has no wording with a content word (``yes``, ``no``): then
            passages cannot be checked.
    """

    def __init__(self, gold: GoldAnswer) -> None:
        self._language = gold.language
        wordings = [
            [(self._words(wording), self._content(wording)) for wording in part]
            for part in gold.parts
        ]
        self.possible = all(any(words and content for words, content in part) for part in wordings)
        self._wordings = [pair for part in wordings for pair in part if pair[0] and pair[1]]

    def leaks(self, text: str) -> bool:
        """True if the text reveals a part of the answer."""
        text_words, text_content = self._words(text), self._content(text)
        return any(
            stands_in(words, text_words) or _contains_most(content, text_content)
            for words, content in self._wordings
        )

    def _words(self, text: str) -> list[str]:
        return _words_with_digits(text, self._language)

    def _content(self, text: str) -> frozenset[str]:
        return frozenset(
            content_words(" ".join(_words_with_digits(text, self._language)), self._language)
        )


_NO_SIGNS = dict.fromkeys(map(ord, string.punctuation))
"""Removes signs that distinguish answers, as the check errs towards a leak."""


@lru_cache(maxsize=8192)  # a passage is compared with many answers
def _words_with_digits(text: str, language: str) -> list[str]:
    digits = _DIGITS.get(language, {})
    unsigned = (word.translate(_NO_SIGNS) for word in answer_words(text, language))
    return [digits.get(word, word) for word in unsigned if word]


@lru_cache(maxsize=8192)
def _contains_most(content: frozenset[str], text_content: frozenset[str]) -> bool:
    share = 1.0 if len(content) <= ALL_OF else MOST_OF
    return len(content & text_content) >= share * len(content)


def _nonempty_texts(value: MetaValue | tuple[str, ...]) -> tuple[str, ...]:
    texts = value if isinstance(value, tuple) else (str(value),)
    return tuple(dict.fromkeys(text for text in texts if text.strip()))
