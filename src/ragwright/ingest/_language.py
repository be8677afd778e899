"""Detects a text's language by its script, else by its most common words."""

from __future__ import annotations

import re
from collections import Counter

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
    sample = _sample(text)
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
    words = _WORD.findall(sample.casefold())
    return _by_words(words, _LEAST_SHARE_OF_CODE if code else _LEAST_SHARE)


def _sample(text: str) -> str:
    if len(text) <= 3 * _PIECE:
        return text
    middle = len(text) // 2
    return "\n".join((text[:_PIECE], text[middle : middle + _PIECE], text[-_PIECE:]))


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
