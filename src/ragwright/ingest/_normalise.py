"""Text in the one form that spans point into: raised pieces, metadata, dates, and its language."""

from __future__ import annotations

import datetime
import itertools
import operator
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from ..core import GROUPS, MetaValue, meta_value

_BREAKS = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_DROPPED = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]"
)
_DATA = re.compile(
    r"\bdata:([\w.+-]+/[\w.+-]+)(?:;[\w.=+-]+)*,"
    r"(?:[A-Za-z0-9+/=_-]{64,}(?:\n[ \t]*[A-Za-z0-9+/=]{40,})*(?:\n[ \t]*[A-Za-z0-9+/]+={1,2})?"
    r"|[^\s\"'<>()\\…]{64,})"
)
LEFT_OUT = ",…"
"""What stands for the content of a ``data:`` address."""
_BROKEN = re.compile("[\ud800-\udfff\ufffe\uffff]")


def normalise(text: str) -> str:
    r"""Return text in the form of ``Document.text``; doing it twice changes nothing.

    Line ends become ``\n`` (also form feeds and Unicode's line and paragraph separators),
    control characters, byte order marks, soft hyphens and directional marks are removed (they are
    invisible and break words for a search), lone surrogates become U+FFFD, and the rest is composed
    (NFC). Tabs, spaces and joiners stay. Of a file in a ``data:`` address only the type stays.
    Linear in the length.
    """
    text = _BREAKS.sub("\n", text)
    if "data:" in text:
        text = _DATA.sub(rf"data:\1{LEFT_OUT}", text)
    text = _DROPPED.sub("", text)
    text = _BROKEN.sub("\ufffd", text)
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def clean_metadata(values: Mapping[str, Any]) -> dict[str, MetaValue]:
    """Reduce metadata to what filters can use: scalars and tuples of strings, none empty.

    Names become ``lower_case``; dates ISO 8601; nested tables are left out. Groups of readers that
    are no texts become an empty tuple, which is refused later: left out, they would open the
    document to everyone.
    """
    cleaned: dict[str, MetaValue] = {}
    for key, value in values.items():
        name = re.sub(r"\W+", "_", normalise(str(key))).strip("_").lower()
        cleaned_value = meta_value(value, normalise)
        if name == GROUPS and value not in (None, ""):
            items = [value] if isinstance(value, str) else value
            readable = isinstance(items, list | tuple) and all(isinstance(i, str) for i in items)
            cleaned[name] = cleaned_value if readable and cleaned_value is not None else ()
            continue
        if name and cleaned_value not in (None, "", ()):
            cleaned[name] = cleaned_value
    return cleaned


def iso_date(value: Any) -> str:
    """Convert a date as documents write it to ISO 8601; empty if it cannot be read.

    Knows date objects, ISO 8601, PDF (``D:20240131…``) and mail (RFC 5322) spellings.
    """
    if isinstance(value, datetime.date):
        return value.isoformat()
    text = str(value or "").strip()
    if text.startswith("D:"):
        text = re.sub("Z.*", "Z", text[2:].replace("'", ""))
        text = re.sub(r"^(\d{4})(\d\d)(\d\d)?", r"\1-\2-\3T", text).strip("T-")
    try:
        if re.fullmatch(r"\d{4}(-\d\d)?", text):
            return text
        if re.match(r"\d{4}-?\d\d-?\d\d", text):
            whole = datetime.datetime.fromisoformat(text)
            return text[:10] if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else whole.isoformat()
        return parsedate_to_datetime(text).isoformat() if re.search("[A-Za-z]{3}", text) else ""
    except (TypeError, ValueError, IndexError):
        return ""


SUPERSCRIPTS = str.maketrans("0123456789+-\u2212()=ni", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁽⁾⁼ⁿⁱ")
"""For ``str.translate``: digits and signs to raised ones."""

_DOWN = str.maketrans("0123456789+-\u2212()=", "₀₁₂₃₄₅₆₇₈₉₊₋₋₍₎₌")
_PLAIN = re.compile(
    r"(?i)(?:st|nd|rd|th|er|re|e|ère|ème|ers|os?|as?|ter|te|tm|sm|mme|lle|me|le|ᵉ)\.?|[^\w+\-\u2212]+"
)
"""Raised text that is read as it is: endings of ordinals, signs such as ° and *."""
_MARK = re.compile(r"\d{1,3}(?:\s?[,;–-]\s?\d{1,3})*")
_AFTER_WORD = re.compile(r"(?:[^\W\d_]{4,}|[^\W\d_]\)|[.,;:!?”\"»’\]])$")
"""What a number of a note stands after; after a shorter word it is an exponent: cm², Ca²."""

Raised = tuple[str, int]
"""A piece of text, and 1 if it is raised, -1 if it is lowered."""


def join_raised(pieces: Iterable[Raised]) -> str:
    """Join pieces of text; neighbours at the same height are one."""
    joined = ""
    for height, group in itertools.groupby(pieces, key=operator.itemgetter(1)):
        joined += spell_raised("".join(text for text, _ in group), joined, height)
    return joined


def spell_raised(text: str, before: str, height: int) -> str:
    """Return a piece as it is written after the text before it; ``height`` as in ``Raised``."""
    bare = text.strip()
    if not height or not bare or not before.strip() or "\n" in bare:
        return text
    start, end = text[: len(text) - len(text.lstrip())], text[len(text.rstrip()) :]
    if height > 0 and _PLAIN.fullmatch(bare):
        return text
    if height > 0 and _MARK.fullmatch(bare) and _AFTER_WORD.search(before):
        return f" {bare.translate(SUPERSCRIPTS)}{end}"
    small = bare.translate(SUPERSCRIPTS if height > 0 else _DOWN)
    if any(character.isascii() for character in small):
        inner = bare if re.fullmatch(r"\w+|[+\-\u2212]\w", bare) else f"({bare})"
        small = f"{'^' if height > 0 else '_'}{inner}"
    return f"{start}{small}{end}"


_LATIN = "la"
_WORDS = {
    "en": "the of and to in is that it was for on are with as his they be at from this have or by "
    "not but which had were you can has their will what would there been if when who more",
    "fr": "le la les de des du un une et est en que qui dans pour pas sur au aux plus ce cette se "
    "sont avec il elle par ne nous vous leur mais ou été être comme ces même d l qu n c j",
    "de": "der die das und ist in den von zu mit sich des auf für nicht ein eine als auch es an "
    "werden aus er hat dass sie nach wird bei einer um am sind noch wie einem über so zum war",
    "es": "el la los las de del y que en un una es por con no para se su al lo como más pero sus "
    "le ha este ya o fue si porque esta son entre está cuando muy sin sobre también",
    "it": "il lo la gli le di del della dei delle e che in un una è per con non si da al alla nel "
    "nella sono come più ma anche ha dal o questo questa essere dalla suo l d",
    "pt": "o a os as de do da dos das e que em um uma é por com não para se na no ao como mais mas "
    "foi ele ela seu sua ou ser quando muito nos já está também só pelo pela são",
    # Only to recognise placeholder text, which is Latin and looks French by its "et, est".
    _LATIN: "et in est non ut ad cum sed quod qui quis sit ac ex aut ab enim vel nec esse per sunt "
    "eu vitae dolor ipsum lorem dolore",
    "nl": "de het een en van in is dat op te zijn met voor niet aan er die als ook om hij was bij "
    "maar door over wordt naar uit dan nog wel worden hebben heeft werd deze",
}
_STOP = {
    # Single letters are left out: they are column names and initials in any language.
    language: frozenset(word for word in words.split() if len(word) > 1)
    for language, words in _WORDS.items()
}
_WEIGHT = {word: 1 / n for word, n in Counter(w for s in _STOP.values() for w in s).items()}

_SCRIPTS = (
    ("ja", re.compile("[\u3040-\u30ff]")),
    ("ko", re.compile("[\uac00-\ud7a3\u1100-\u11ff]")),
    ("zh", re.compile("[\u4e00-\u9fff]")),
    ("ru", re.compile("[\u0400-\u04ff]")),
    ("ar", re.compile("[\u0600-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefe]")),
    ("el", re.compile("[\u0370-\u03ff]")),
    ("he", re.compile("[\u0590-\u05ff]")),
)
_ALIKE = {"ru": re.compile("[іїєґІЇЄҐ]"), "ar": re.compile("[پچژگ]")}
"""Language -> letters of another in its script: Ukrainian, Persian."""
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]+")
_PIECE = 4000
_FEWEST_WORDS = 6
_FEWEST_STOP_WORDS = 2
_LEAST_SHARE = 0.06
"""Least share of common words: 99 of 100 encyclopaedia paragraphs have at least 0.13, terse pages
of a compiler's manual less."""
_LEAST_SHARE_OF_CODE = 0.16
_CODE_MARK = re.compile(r"[{}\[\]();=<>_\\]")
_CODE_SHARE = 0.09
"""Share of such marks above which a text is mostly code: prose has about 0.005, and 99 of 100
pages of a compiler's manual, code samples included, have no more than this."""
_MARGIN = 1.5


def guess_language(text: str) -> str:
    """Guess the ISO 639-1 code of a text; empty if unsure.

    Scripts decide for zh, ja, ko, ru, ar, el and he; commonest words for en, fr, de, es, it,
    pt and nl. Looks at up to three pieces of 4,000 characters, so its time does not grow
    with the text. Unsure below six words, if no language leads clearly, if few words are common
    ones (lists, source code; Latin and its imitations), and for scripts shared by a language it
    does not know (Ukrainian, Persian).
    """
    middle = len(text) // 2
    pieces = (text[:_PIECE], text[middle : middle + _PIECE], text[-_PIECE:])
    sample = text if len(text) <= 3 * _PIECE else "\n".join(pieces)
    letters = len(_LETTER.findall(sample))
    if not letters:
        return ""
    counts = {language: len(pattern.findall(sample)) for language, pattern in _SCRIPTS}
    for language, _ in _SCRIPTS:
        # Japanese mixes kana with Chinese characters, so a little kana settles it.
        share = 0.1 if language == "ja" else 0.5
        base = counts["ja"] + counts["zh"] if language == "ja" else letters
        if counts[language] and counts[language] >= share * base and base > 0.3 * letters:
            other = _ALIKE.get(language)
            return "" if other and len(other.findall(sample)) > 0.01 * len(sample) else language
    marks = len(_CODE_MARK.findall(sample))
    code = marks > _CODE_SHARE * (len(sample) - sum(map(str.isspace, sample)))
    return _by_words(
        _WORD.findall(sample.casefold()), _LEAST_SHARE_OF_CODE if code else _LEAST_SHARE
    )


def _by_words(words: list[str], least: float) -> str:
    if len(words) < _FEWEST_WORDS:
        return ""
    counts = Counter(words)
    scores = {
        language: sum(counts[word] * _WEIGHT[word] for word in stop if word in counts)
        for language, stop in _STOP.items()
    }
    (best, first), (_, second) = sorted(scores.items(), key=lambda p: (-p[1], p[0]))[:2]
    different = sum(word in counts for word in _STOP[best])
    sure = different >= _FEWEST_STOP_WORDS and first >= least * len(words)
    return best if sure and best != _LATIN and first >= _MARGIN * second else ""
