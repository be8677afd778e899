"""Cut a text into the words that a lexical measure compares, by language.

Four ways, all without a download: :func:`answer_words` (SQuAD's normalising, with the
signs of numbers and of code kept), :func:`squad_words` (SQuAD's own), :func:`split_plain_words`
(what rouge-score cuts, for every script) and :func:`content_words` (the keyword analyzer: stems of
the language itself, stop words left out).
"""

from __future__ import annotations

import re
import string
import unicodedata
from functools import cache

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
    stripped = text.lower().translate(_ASCII_PUNCTUATION)
    return _ENGLISH_ARTICLE.sub(" ", stripped).split()


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
