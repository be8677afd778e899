"""Which lines of a reply begin an item: numbers, letters, labels, bullets, and their order."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["label", "number", "letter", "bullet"]

REPEATED = "unsure: a number stands there twice"
SKIPPED = "unsure: a number is left out before or after it"

_STRENGTH: dict[Kind, int] = {"label": 3, "number": 3, "letter": 2, "bullet": 1}
_MOST_SKIPPED = 2
_MOST_INDENT = 1

# What may stand around a mark: emphasis, a heading's hashes, a quote's arrow.
_BEFORE = r"(?P<indent>[ \t]*)(?:>[ ]?)?(?:\#{1,6}[ \t]+)?(?P<bold>[*_]{0,3})"
_AFTER = (
    r"(?P<end>[ \t]+[-–—](?=[ \t])|[.)\]:：．、)\-–—]+|(?=[*_]))"
    r"[*_]{0,3}[:.]?(?:[ \t]+|$|(?=[\"“„«'‘*_]|[^\W\d]))"
)
_NUMBER = re.compile(
    rf"^{_BEFORE}(?P<open>[(\[#（№]|no\.?\s|nr\.?\s)?(?P<n>\d{{1,3}})(?:\ufe0f?\u20e3)?{_AFTER}",
    re.IGNORECASE,
)
_HEADED = re.compile(
    r"^(?P<indent>[ \t]*)(?P<open>)\#{1,6}[ \t]+(?P<bold>[*_]{0,3})(?P<n>\d{1,3})[*_]{0,3}[ \t]*$"
)
_HASHED = re.compile(rf"^{_BEFORE}(?P<open>\#)(?P<n>\d{{1,3}})[*_]{{0,3}}(?:[ \t]+|$)")
_KEYCAP = re.compile(rf"^{_BEFORE}(?P<open>)(?P<n>\d)\ufe0f?\u20e3(?P<end>)[*_]{{0,3}}[ \t]*")
_CIRCLED = re.compile(rf"^{_BEFORE}(?P<open>)(?P<n>[①-⑳⓵-⓾❶-❿➀-➓])(?P<end>)[*_]{{0,3}}[ \t]*")
_LETTER = re.compile(rf"^{_BEFORE}(?P<open>[(\[])?(?P<n>[A-Za-z]){_AFTER}")
_ROMAN = re.compile(rf"^{_BEFORE}(?P<open>[(\[])?(?P<n>[ivx]{{2,7}}){_AFTER}", re.IGNORECASE)
_LABEL = re.compile(
    rf"^{_BEFORE}[(\[]?(?P<open>[^\W\d_]{{2,14}})[ \t]*(?:\#|no\.?[ \t]*|nr\.?[ \t]*)?"
    rf"(?P<n>\d{{1,3}}|[A-Za-z])(?:[ \t]+(?:of|/)[ \t]+\d+)?[)\]]?[*_]{{0,3}}"
    rf"(?P<end>[ \t]*[.)\]:：\-–—]+|[ \t]*$)[*_]{{0,3}}[ \t]*",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^(?P<indent>[ \t]*)(?P<open>[-*•–—·▪●‣◦+➤►✅🔹])[ \t]+(?P<rest>\S.*)$")
_LABELS = re.compile(
    r"texts?|messages?|options?|drafts?|versions?|variants?|variations?|examples?|sms|tweets?|"
    r"posts?|samples?|alternatives?|ideas?|items?|nachricht|texto?|mensaje|message|entwurf|"
    r"variante|opci[oó]n|version|versión|beispiel|exemple|messaggio|testo|opzione|bericht",
    re.IGNORECASE,
)
_ROMANS = {
    tens + ones: 10 * len(tens) + at
    for tens in ("", "x", "xx", "xxx")
    for at, ones in enumerate(("", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"))
}
_AS_ROMAN = {ord(letter) - ord("a") + 1: _ROMANS[letter] for letter in "ivx"}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a reply, and the mark that may begin an item on it.

    Attributes:
        whole: The line.
        rest: What follows the mark; the whole line without one.
        kind: Kind of the mark, None without one.
        family: Marks of one list are of one family: their form, not their number.
        number: Number of the mark, letters from 1; 0 for a bullet, too.
        indent: Blanks before it.
    """

    whole: str
    rest: str
    kind: Kind | None = None
    family: str = ""
    number: int = 0
    indent: int = 0


@dataclass(frozen=True, slots=True)
class Chain:
    """Lines that could begin the items of one list.

    Attributes:
        kind: Kind of their marks.
        starts: Positions of the lines, ascending.
        marks: What is unsure of each item, empty where nothing is.
        first: The lowest number that begins one, 0 for bullets.
    """

    kind: Kind
    starts: tuple[int, ...]
    marks: tuple[str, ...]
    first: int

    @property
    def ordered(self) -> bool:
        """True where the marks count from one, or from zero."""
        return self.kind != "bullet" and self.first <= 1

    @property
    def strength(self) -> int:
        """How surely marks of this kind make a list."""
        return _STRENGTH[self.kind]


def marked_lines(body: str) -> list[Line]:
    """The lines of a reply, each with the mark that it begins with."""
    return _with_romans([_marked(line) for line in body.split("\n")])


def _with_romans(lines: list[Line]) -> list[Line]:
    """Lines whose letters i, v and x are numbers where others of their form are (ii, iii, iv)."""
    forms = {line.family for line in lines if line.family.startswith("roman")}
    for form in forms:
        letters = form.replace("roman", "letter", 1)
        numbers = {line.number for line in lines if line.family == letters}
        if numbers <= _AS_ROMAN.keys():
            lines = [
                replace(line, family=form, number=_AS_ROMAN[line.number])
                if line.family == letters
                else line
                for line in lines
            ]
    return lines


def _marked(line: str) -> Line:
    for kind, pattern in (
        ("number", _KEYCAP),
        ("number", _CIRCLED),
        ("number", _NUMBER),
        ("number", _HEADED),
        ("number", _HASHED),
        ("label", _LABEL),
        ("letter", _LETTER),
        ("letter", _ROMAN),
    ):
        found = pattern.match(line)
        if found is None:
            continue
        number = _value(found["n"])
        opening = (found["open"] or "").strip().casefold()
        if number is None or (kind == "label" and not _LABELS.fullmatch(opening)):
            continue
        groups = found.groupdict()
        ending = (groups.get("end") or "").strip()
        letters = "a" if found["n"].isalpha() else "1"
        name = "roman" if pattern is _ROMAN else kind
        family = f"{name} {opening}{letters}{'' if kind == 'label' else ending}"
        rest = line[found.end() :]
        if found["bold"] and not _closed(line[: found.end()], found["bold"]):
            rest = _without_bold(rest, found["bold"])
        return Line(line, rest, kind, family, number, _width(found["indent"]))  # type: ignore[arg-type]
    bullet = _BULLET.match(line)
    if bullet is not None:
        indent = _width(bullet["indent"])
        return Line(line, bullet["rest"], "bullet", f"bullet {bullet['open']}", 0, indent)
    return Line(line, line)


def _value(text: str) -> int | None:
    """The number that digits of any script, a circled digit or letters stand for."""
    if text.isdecimal():
        return int(text)
    if len(text) > 1:
        return _ROMANS.get(text.casefold())
    if text.isascii() and text.isalpha():
        return ord(text.casefold()) - ord("a") + 1
    return int(unicodedata.numeric(text, 0)) or None


def _closed(mark: str, bold: str) -> bool:
    """True where the emphasis that a mark opens ends within it."""
    return mark.count(bold) > 1


def _without_bold(rest: str, bold: str) -> str:
    """The rest of a line whose emphasis began before the mark, without the end of it."""
    return rest.replace(bold, "", 1) if rest.count(bold) == 1 else rest


def _width(indent: str) -> int:
    return len(indent.expandtabs(4))


def chains(lines: Sequence[Line], wanted: int) -> Iterator[Chain]:
    """Every list that the marks of one family make: the lines that begin its items."""
    families: dict[str, list[int]] = {}
    for at, line in enumerate(lines):
        if line.kind is not None:
            families.setdefault(line.family, []).append(at)
    for places in families.values():
        kind = lines[places[0]].kind
        assert kind is not None
        least = min(lines[at].indent for at in places)
        outer = [at for at in places if lines[at].indent <= least + _MOST_INDENT]
        numbers = [lines[at].number for at in outer]
        if kind == "bullet" or (len(numbers) > 1 and set(numbers) in ({0}, {1})):
            yield Chain(kind, tuple(outer), ("",) * len(outer), numbers[0])
        else:
            yield _counted(kind, lines, outer, wanted)


def _counted(kind: Kind, lines: Sequence[Line], places: Sequence[int], wanted: int) -> Chain:
    """The items of a list by its numbers: those that go up by one, or fewer than were wanted.

    In the second case the numbers may count in another way (:func:`_marks_of`).
    """
    numbers = [lines[at].number for at in places]
    chain = _rising(kind, numbers, places, wanted)
    if len(chain.starts) < min(wanted, len(places)):
        marks = _marks_of(numbers, wanted)
        if marks is not None:
            return Chain(kind, tuple(places), marks, min(numbers))
    return chain


def _marks_of(numbers: Sequence[int], wanted: int) -> tuple[str, ...] | None:
    """What is unsure of items whose numbers count down, begin again, or leave some out.

    None where they do nothing of that: then some of them are part of a text.
    """
    first, steps = numbers[0], [b - a for a, b in pairwise(numbers)]
    if numbers[-1] in (0, 1) and set(steps) == {-1}:
        return ("",) * len(numbers)
    if first > 1:
        return None
    if all(step == 1 or after == first for step, after in zip(steps, numbers[1:], strict=True)):
        return (REPEATED,) * len(numbers)
    if min(steps) < 1 or len(numbers) > wanted:
        return None
    gaps = [1, *steps, 1]
    return tuple(SKIPPED if max(around) > 1 else "" for around in pairwise(gaps))


def _rising(kind: Kind, numbers: Sequence[int], places: Sequence[int], wanted: int) -> Chain:
    """The items whose numbers go up by one; other numbers are part of a text."""
    begin = _begin(numbers)
    starts, marks, jumped = [places[begin]], [""], set[int]()
    expected = numbers[begin] + 1
    for step in range(begin + 1, len(places)):
        number = numbers[step]
        near = expected < number <= expected + _MOST_SKIPPED
        near = near and expected not in numbers[step + 1 :]
        if number == expected:
            starts.append(places[step])
            marks.append("")
        elif near and len(starts) < wanted:
            marks[-1] = SKIPPED
            starts.append(places[step])
            marks.append(SKIPPED)
        else:
            if near:
                marks[-1] = marks[-1] or SKIPPED
            elif number > expected:
                jumped.add(len(starts) - 1)
            elif numbers[begin] <= number:
                # It began an item before, or this one does: both ends are open.
                marks = [
                    mark or (REPEATED if at >= number - numbers[begin] - 1 else "")
                    for at, mark in enumerate(marks)
                ]
            continue
        expected = number + 1
    if len(starts) < wanted:  # one of those that are missing may stand there
        marks = [mark or (SKIPPED if at in jumped else "") for at, mark in enumerate(marks)]
    return Chain(kind, tuple(starts), tuple(marks), numbers[begin])


def _begin(numbers: Sequence[int]) -> int:
    """Which of some numbers begins a list: the first one, or the zero right before it."""
    if 1 not in numbers:
        return 0
    one = numbers.index(1)
    return one - 1 if one and numbers[one - 1] == 0 else one
