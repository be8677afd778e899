"""Words of a text by language, edit distance, and the ROUGE family over lists of words.

Four ways to cut a text, all without a download: :func:`answer_words` (SQuAD's normalising, with the
signs of numbers and of code kept), :func:`squad_words` (SQuAD's own), :func:`split_plain_words`
(what rouge-score cuts, for every script) and :func:`content_words` (the keyword analyzer: stems of
the language itself, stop words left out).
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..core import ConfigError
from ..models import Analyzer, AnalyzerOptions, make_analyzer, words

ARTICLES = {
    "en": "a an the",
    "fr": "le la les l un une des du",
    "de": "ein eine einen einem eines einer der die das den dem des",
    "es": "un una unos unas el la los las",
    "it": "il lo la i gli le l un uno una",
    "pt": "o a os as um uma uns umas",
    "nl": "de het een",
}
"""Articles that normalising leaves out; en, de and es as in MLQA, the others our own."""

_ELIDING = frozenset({"fr", "it"})
_ELISION = re.compile(r"(?<=\w)['’](?=\w)")
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff])"
)
"""Characters of scripts without spaces: each is a word of its own."""

_ASCII_WORD = re.compile("[a-z0-9]+")
_JOINTS = re.compile("[!-/:-@\\[-`{-~’\u2010\u2011]+")


_SIGNS = re.compile(
    r"""
    (?=[-+.,:/%\#_!<>=*^&|]|\s[!<>=+*^&|])  # most characters are passed over at once
    (?:
    (?<![\w.])[+-](?=\.?\d)           # the sign of a number
    | (?<=\d)[.,:/-](?=\d)            # 1.2, 10:30, 1/2, 2024-01-31
    | (?<=\d)%
    | (?<=[^\W\d_])(?:\#|\+\+)(?!\w)  # C#, C++
    | (?<![\w.])\.(?=[^\W\d_])        # .NET
    | (?<=\w)_(?=\w)                  # a name in code
    | (?<=[\w)\]])(?P<blank>\s?)(?:[!<>=]=|[<>=+*^]|&&|\|\|)(?P=blank)(?=[\w(\[+-])  # x >= -1
    )
    """,
    re.VERBOSE,
)
"""Signs that change the meaning of a text; all other punctuation is deleted."""

_MINUS = str.maketrans({"\u2212": "-", "\u2010": "-", "\u2011": "-", "\u2013": "-"})
_BEFORE_PER_CENT = re.compile(r"(?<=\d)\s(?=%)")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")


def answer_words(text: str, language: str = "en") -> list[str]:
    """Words in lower case without punctuation and articles; signs of numbers and code stay.

    As SQuAD normalises, but ``-5`` is not ``5``, ``1.2`` not ``12``, ``C#`` not ``C`` and
    ``a != b`` not ``a == b``. Other punctuation is deleted, not replaced (``U.S.`` gives
    ``us``), in every script; in French and Italian an apostrophe splits a word
    (``l'avare`` gives ``avare``); in English commas between thousands are removed.
    """
    articles = _article_words(language)
    return [word for word in words_with_articles(text, language) if word not in articles]


def split_raw_words(text: str, language: str = "en") -> list[str]:
    """Words separated by white space, in lower case, with punctuation."""
    return unicodedata.normalize("NFC", text).lower().split()


def squad_words(text: str) -> list[str]:
    """Words exactly as the evaluation script of SQuAD 1.1 and 2.0 normalises them.

    Lower case, no ASCII punctuation, no English article, whatever the language.
    """
    return _ENGLISH_ARTICLE.sub(" ", text.lower().translate(_ASCII_PUNCTUATION)).split()


_ASCII_PUNCTUATION = dict.fromkeys(map(ord, string.punctuation))
_ENGLISH_ARTICLE = re.compile(r"\b(a|an|the)\b")


def words_with_articles(text: str, language: str = "en") -> list[str]:
    """As :func:`answer_words`, but articles stay."""
    text = unicodedata.normalize("NFC", text).lower().translate(_MINUS)
    if language in _ELIDING:
        text = _ELISION.sub(" ", text)
    if language == "en":
        text = _THOUSANDS.sub("", text)
    text = _BEFORE_PER_CENT.sub("", text)
    pieces: list[str] = []
    at = 0
    for sign in _SIGNS.finditer(text):
        operator = f" {sign[0].strip()} " if sign["blank"] is not None else sign[0]
        pieces += (text[at : sign.start()].translate(_PUNCTUATION), operator)
        at = sign.end()
    text = "".join((*pieces, text[at:].translate(_PUNCTUATION)))
    if not text.isascii():
        text = _UNSPACED.sub(r" \1 ", text)
    return text.split()


def split_plain_words(text: str) -> list[str]:
    """Runs of letters and digits in lower case; single characters where a script has no spaces.

    On ASCII text exactly the tokens of rouge-score without its English-only stemmer.
    """
    text = unicodedata.normalize("NFC", text).lower()
    if text.isascii():
        return _ASCII_WORD.findall(text)
    pieces: list[str] = []
    for word in words(text):
        for piece in _JOINTS.split(word):
            pieces += _UNSPACED.sub(r" \1 ", piece).split()
    return pieces


def content_words(text: str, language: str = "en") -> list[str]:
    """Stems of the content words, accents folded, as in the keyword index."""
    return _language_analyzer(language).tokens(text)


@cache
def _article_words(language: str) -> frozenset[str]:
    return frozenset(ARTICLES.get(language, "").split())


class _Punctuation(dict[int, int | None]):
    """Mapping of characters, computed on first use, since there are a million."""

    def __missing__(self, code: int) -> int | None:
        mark = unicodedata.category(chr(code))[0] == "P" or chr(code) in string.punctuation
        replacement = self[code] = None if mark else code
        return replacement


_PUNCTUATION = _Punctuation()


@cache
def _language_analyzer(language: str) -> Analyzer:
    try:
        return make_analyzer(AnalyzerOptions(language=language))
    except ConfigError:  # it has no stemmer and no stop words
        return make_analyzer(AnalyzerOptions(language="none"))


def edit_distance(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Least insertions, deletions and substitutions that turn one sequence into the other.

    Myers 1999 in the form of Hyyrö 2003, with a column of the table in one integer.
    """
    if not first:
        return len(second)
    places = _position_bits(first)
    full, last, score = (1 << len(first)) - 1, 1 << (len(first) - 1), len(first)
    up, down = full, 0
    for item in second:
        equal = places.get(item, 0)
        vertical = equal | down
        horizontal = (((equal & up) + up) ^ up) | equal
        more = down | (full & ~(horizontal | up))
        less = up & horizontal
        score += bool(more & last) - bool(less & last)
        more, less = (more << 1) | 1, less << 1
        up = full & (less | ~(vertical | more))
        down = full & more & vertical
    return score


def common_subsequence(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Length of the longest common subsequence (Hyyrö 2004)."""
    places = _position_bits(first)
    full = (1 << len(first)) - 1
    row = full
    for item in second:
        matches = row & places.get(item, 0)
        row = ((row + matches) | (row - matches)) & full
    return len(first) - row.bit_count()


def _position_bits(items: Sequence[Hashable]) -> dict[Hashable, int]:
    bits: dict[Hashable, int] = {}
    for place, item in enumerate(items):
        bits[item] = bits.get(item, 0) | 1 << place
    return bits


Words = Sequence[str]
Overlap: TypeAlias = tuple[float, int, int]
"""What is common, and how much of it there is in the response and in the reference."""

RUN_POWER = 1.2
"""ROUGE-W's weight of runs: a run of n words counts n ** 1.2 (``-w 1.2`` of ROUGE 1.5.5)."""

_CELLS = 1 << 20
"""Counts of word pairs in memory at once: 8 MB per text."""


def rouge(parameter: str, response: Words, reference: Words) -> float | str:
    """ROUGE of a kind (``L``, ``W``, ``S``, ``SU`` or the length of N-grams), 0 to 1.

    F1, or with ``,recall`` or ``,precision`` behind the kind: the share of the reference, or of
    the response, that is found in the other. Returns the reason if the reference is too short for
    the kind.
    """
    kind, _, part = parameter.partition(",")
    least = {"L": 1, "W": 1, "S": 2, "SU": 1}.get(kind) or int(kind)
    if len(reference) < least:
        return f"the reference has {len(reference)} words; ROUGE({kind}) needs {least}"
    if len(response) < least:
        return 0.0
    if kind == "L":
        overlap: Overlap = (common_subsequence(response, reference), len(response), len(reference))
    elif kind == "W":
        overlap = rouge_w_overlap(response, reference)
    elif kind in ("S", "SU"):
        overlap = skips(response, reference, words=kind == "SU")
    else:
        ours, theirs = (
            Counter(zip(*(text[at:] for at in range(least)), strict=False))
            for text in (response, reference)
        )
        overlap = (ours & theirs).total(), ours.total(), theirs.total()
    return min(1.0, _PARTS[part](*overlap))


def rouge_w_overlap(response: Words, reference: Words, power: float = RUN_POWER) -> Overlap:
    """ROUGE-W: longest common subsequence that favours runs of words; O(words x words)."""
    weights = np.arange(min(len(response), len(reference)) + 2, dtype=np.float64) ** power
    gain = np.diff(weights).tolist()
    best, runs = [0.0] * (len(reference) + 1), [0] * (len(reference) + 1)
    for word in response:
        above, above_runs = best, runs
        best, runs = [0.0], [0]
        for at, other in enumerate(reference):
            met, run = max(best[at], above[at + 1]), 0
            if word == other:
                run = above_runs[at] + 1
                met = above[at] + gain[run - 1]
            best.append(met)
            runs.append(run)
    common = float(best[-1] ** (1 / power))
    # Rounding may take the root of equal texts past their length, and a score past 1.
    return min(common, len(response), len(reference)), len(response), len(reference)


def skips(response: Words, reference: Words, *, words: bool = False) -> Overlap:
    """ROUGE-S: pairs of words in order, however far apart; ``words`` adds single ones (SU)."""
    number = {word: at for at, word in enumerate(sorted(set(response) & set(reference)))}
    response_numbers, reference_numbers = (
        [number[w] for w in text if w in number] for text in (response, reference)
    )
    rows = min(len(number), max(1, _CELLS // max(1, len(number)))) or 1
    common = sum(
        int(
            np.minimum(
                *(
                    _skip_pairs(text, at, rows, len(number))
                    for text in (response_numbers, reference_numbers)
                )
            ).sum()
        )
        for at in range(0, len(number), rows)
    )
    sizes = [len(text) * (len(text) - 1) // 2 for text in (response, reference)]
    if words:
        common += (Counter(response) & Counter(reference)).total()
        sizes = [size + len(text) for size, text in zip(sizes, (response, reference), strict=True)]
    return common, sizes[0], sizes[1]


def recall(common: float, of_response: int, of_reference: int) -> float:
    """Share of the reference that the response has."""
    return common / of_reference if common else 0.0


def precision(common: float, of_response: int, of_reference: int) -> float:
    """Share of the response that the reference has."""
    return common / of_response if common else 0.0


def f1(common: float, response_size: int, reference_size: int) -> float:
    """Harmonic mean of ``common / ours`` and ``common / theirs``, 0 if nothing is common."""
    if not common:
        return 0.0
    of_response, of_reference = common / response_size, common / reference_size
    return 2 * of_response * of_reference / (of_response + of_reference)


def _skip_pairs(words: Sequence[int], first: int, rows: int, size: int) -> NDArray[np.int64]:
    """Counts of some words before each word: shape (rows, size).

    The words are numbers below ``size``; the rows are those of the words from ``first`` on, since
    the whole table would be too large for long texts.
    """
    counts, after = np.zeros((rows, size), np.int64), np.zeros(size, np.int64)
    for word in reversed(words):
        if first <= word < first + rows:
            counts[word - first] += after
        after[word] += 1
    return counts


_PARTS: dict[str, Callable[[float, int, int], float]] = {
    "": f1,
    "precision": precision,
    "recall": recall,
}
