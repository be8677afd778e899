"""Statements without their values: what two passages share where they contradict each other."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ..models import is_code

_LISTS = {
    "months": "january february march april may june july august september october november "
    "december jan feb mar apr jun jul aug sep sept oct nov dec",
    "counts": "two three four five six seven eight nine ten eleven twelve",
    "negations": "not cannot kein keine keinen nicht pas aucun aucune isn't aren't doesn't don't "
    "can't won't mustn't shouldn't didn't wasn't weren't",
    "naming": "figure fig table step section chapter page note example equation line part item "
    "number version v type level class error code warning option case appendix question rule "
    "article annex day phase model series group task unit port slot channel bit byte windows c",
}
_MONTHS = frozenset(_LISTS["months"].split())
_COUNTS = {word: str(n) for n, word in enumerate(_LISTS["counts"].split(), start=2)}
_UNITS = {
    "mm": ("m", 1e-3), "cm": ("m", 1e-2), "m": ("m", 1.0), "km": ("m", 1e3),
    "mg": ("g", 1e-3), "g": ("g", 1.0), "kg": ("g", 1e3),
    "ms": ("s", 1e-3), "s": ("s", 1.0), "sec": ("s", 1.0), "second": ("s", 1.0),
    "seconds": ("s", 1.0), "min": ("s", 60.0), "minute": ("s", 60.0), "minutes": ("s", 60.0),
    "h": ("s", 3600.0), "hour": ("s", 3600.0), "hours": ("s", 3600.0),
    "day": ("d", 1.0), "days": ("d", 1.0), "week": ("d", 7.0), "weeks": ("d", 7.0),
    "month": ("mo", 1.0), "months": ("mo", 1.0), "year": ("mo", 12.0), "years": ("mo", 12.0),
    "kb": ("B", 1e3), "mb": ("B", 1e6), "gb": ("B", 1e9), "tb": ("B", 1e12),
    "mv": ("V", 1e-3), "v": ("V", 1.0), "kv": ("V", 1e3), "ma": ("A", 1e-3), "a": ("A", 1.0),
    "w": ("W", 1.0), "kw": ("W", 1e3), "hz": ("Hz", 1.0), "khz": ("Hz", 1e3), "mhz": ("Hz", 1e6),
    "bar": ("bar", 1.0), "°c": ("°C", 1.0), "°f": ("°F", 1.0), "%": ("%", 1.0),
    "percent": ("%", 1.0), "l": ("l", 1.0), "ml": ("l", 1e-3), "nm": ("Nm", 1.0),
}  # fmt: skip
"""Units of one quantity and their size, so that 25 mm equals 2.5 cm."""

_OPPOSITES = {
    word: (f"<{left}/{right}>", word)
    for left, right in (
        ("enabled", "disabled"), ("enable", "disable"), ("on", "off"), ("true", "false"),
        ("always", "never"), ("above", "below"), ("minimum", "maximum"), ("before", "after"),
        ("required", "optional"), ("allowed", "forbidden"), ("clockwise", "counterclockwise"),
        ("increase", "decrease"), ("open", "closed"), ("supported", "unsupported"),
        ("mandatory", "voluntary"), ("yes", "no"),
    )
    for word in (left, right)
}  # fmt: skip
_OFF_AND_ON = {"<on/off>"}
"""Opposites that are also plain prepositions: they count only as the last word or after a verb."""

_NEGATIONS = frozenset(_LISTS["negations"].split())
_SUPPORT = frozenset(("do", "does", "did", "be"))
"""Auxiliaries that a negation brings with it: left out, so that both forms are alike."""

_NAMING = frozenset(_LISTS["naming"].split())
"""Words before a number that names something and is no value."""

_TOKEN = re.compile(
    r"(?P<iso>\d{4}-\d{2}-\d{2})|(?P<slashed>\d{1,2}[./]\d{1,2}[./]\d{2,4})"
    r"|(?P<code>(?=[\w./-]*[^\W\d_])(?=[\w./-]*\d)[\w](?:[\w]|[-./:](?=\w))*)"
    r"|(?P<number>[-+−]?\d(?:[\d\u00a0,.](?=\d)|\d)*)(?:[ \u00a0]?(?P<unit>°\s?[CF]|%))?"
    r"|(?P<word>[^\W\d_]+(?:['’][^\W\d_]+)?)",
)
_YEAR = re.compile(r"1[0-9]{3}|20[0-9]{2}")
"""A number that begins a statement is its number in a list, unless it is a year."""
_STUCK = re.compile(r"^(\d+(?:[.,]\d+)?)([^\W\d_]{1,3}|°[CF])$")


@dataclass(frozen=True, slots=True)
class Shape:
    """A statement taken apart.

    Attributes:
        skeleton: Its words, with a slot in place of each value, negations left out.
        values: The normal form of each value in order; the last one is the polarity.
        written: The values as written.
        kinds: Kind of each value: ``number``, ``unit``, ``date``, ``opposite``, ``negation``.
        content: Words of the skeleton that are no slots.
    """

    skeleton: tuple[str, ...]
    values: tuple[str, ...]
    written: tuple[str, ...]
    kinds: tuple[str, ...]

    @property
    def content(self) -> tuple[str, ...]:
        """Words of the skeleton that are no slots."""
        return tuple(word for word in self.skeleton if not word.startswith("<"))


def shape_of(text: str) -> Shape:
    """The skeleton and values of a statement."""
    maker = _ShapeMaker()
    for match in _TOKEN.finditer(text):
        maker.take(match)
    return maker.shape()


class _ShapeMaker:
    """Collects the words and values of a statement."""

    def __init__(self) -> None:
        self.skeleton: list[str] = []
        self.values: list[tuple[str, str, str]] = []
        self.negated = False
        self.negation = ""
        self.pending = False

    def take(self, match: re.Match[str]) -> None:
        """Read a token."""
        word = match[0]
        low = word.casefold().replace("’", "'")
        if match["iso"] or match["slashed"]:
            self._value("date", low, word)
        elif match["number"]:
            self._number(match["number"], (match["unit"] or "").replace(" ", ""), word)
        elif match["code"]:
            self._coded(low, word)
        else:
            self._word(low, word)

    def _coded(self, low: str, word: str) -> None:
        """A token of letters and digits: a measure, a year's decade, or a name."""
        stuck = _STUCK.match(word)
        if stuck and stuck[2].casefold() in _UNITS and not is_code(word, written=True):
            self._number(stuck[1], stuck[2], word)
        else:
            self.skeleton.append(low)
            self.pending = False

    def _word(self, low: str, word: str) -> None:
        if self.pending and low in _UNITS:
            _, number, written = self.values.pop()
            self.skeleton.pop()
            self._number(number, low, f"{written} {word}")
            return
        if low in _NEGATIONS:
            self.negated, self.negation = not self.negated, word
            if low == "cannot" or low.endswith("n't"):
                stem = {"cannot": "can", "can't": "can", "won't": "will"}.get(low, low[:-3])
                if stem not in _SUPPORT:
                    self.skeleton.append(stem)
        elif low in _COUNTS:
            self._number(_COUNTS[low], "", word)
        elif low in _MONTHS and (low != "may" or word[0].isupper()) and word[0].isupper():
            self._value("date", low[:3], word)
        elif low in _OPPOSITES and _OPPOSITES[low][0] not in _OFF_AND_ON:
            slot, value = _OPPOSITES[low]
            self.skeleton.append(slot)
            self.values.append(("opposite", value, word))
            self.pending = False
        else:
            if low not in _SUPPORT:
                self.skeleton.append(low)
            self.pending = False

    def _number(self, number: str, unit: str, word: str) -> None:
        before = self.skeleton[-1] if self.skeleton else ""
        if before in _NAMING or not (self.skeleton or _YEAR.fullmatch(number)):
            self.skeleton.append(number)
            self.pending = False
            return
        plain = number.replace("−", "-").replace("\u00a0", "")
        if re.fullmatch(r"[-+]?\d{1,3}(?:,\d{3})+(?:\.\d+)?", plain):
            plain = plain.replace(",", "")
        try:
            size = float(plain.replace(",", "."))
        except ValueError:
            self._value("number", plain, word)
            return
        name, factor = _UNITS.get(unit.casefold(), (unit, 1.0))
        normal = f"{size * factor:.9g} {name}".strip()
        self._value("unit" if name else "number", normal, word)
        self.values[-1] = (self.values[-1][0], normal, word)
        if not unit:
            self.pending = True
            self.values[-1] = ("number", plain, word)

    def _value(self, kind: str, value: str, word: str) -> None:
        self.skeleton.append("<value>")
        self.values.append((kind, value, word))
        self.pending = False

    def shape(self) -> Shape:
        """What was collected."""
        values = [(kind, _plain_number(kind, value), word) for kind, value, word in self.values]
        values.append(("negation", str(self.negated), self.negation or "(no negation)"))
        kinds, normal, written = zip(*values, strict=True)
        return Shape(tuple(self.skeleton), normal, written, kinds)


def _plain_number(kind: str, value: str) -> str:
    """A number without a unit in one spelling."""
    try:
        return f"{float(value.replace(',', '.')):.9g}" if kind == "number" else value
    except ValueError:
        return value
