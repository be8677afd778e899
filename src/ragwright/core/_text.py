"""Texts: hashes, what can be encoded, numbers with nouns, late expressions, citation marks.

A reply cites by marks such as ``[2]``; text of a document must not look like one. Both use the same
expression, so whatever counts as a citation in a reply is neutralised in a passage.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, cast

from ._errors import MissingExtraError


def text_hash(text: str) -> str:
    """Hash of a text: 32 hexadecimal digits of BLAKE2b over its UTF-8 bytes.

    Lone surrogates are hashed as distinct bytes rather than refused, so any ``str`` has a hash.
    """
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def value_hash(value: Any) -> str:
    """Hash of a JSON-able value, equal for equal values whatever the order of their keys.

    Raises:
        TypeError: The value holds something that JSON cannot represent.
    """
    return text_hash(canonical_json(value))


def values_hash(values: Iterable[Any]) -> str:
    """:func:`value_hash` of the list of these values, read one at a time."""
    digest = hashlib.blake2b(b"[", digest_size=16)
    for at, value in enumerate(values):
        text = f"{',' if at else ''}{canonical_json(value)}"
        digest.update(text.encode("utf-8", "surrogatepass"))
    digest.update(b"]")
    return digest.hexdigest()


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: the form that hashes and logs compare."""
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def case_folded(text: str) -> str:
    """Return a text without the differences of case and white space."""
    return " ".join(text.casefold().split())


def well_formed(text: str) -> str:
    r"""The text with U+FFFD for every half of a surrogate pair; two halves become one character.

    JSON can contain such a half (``"\ud83d"``), and so can a command line that is not UTF-8. It
    cannot be written to a file, database or socket.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def count_noun(count: int, singular: str, plural: str = "") -> str:
    """A number with its noun: ``1 row``, ``2 rows``, ``1,200 rows``.

    Args:
        count: How many.
        singular: The noun for 1, with what follows it where that changes too: ``row has``.
        plural: The same for any other number; by default ``singular`` with an s.
    """
    return f"{count:,} {singular if count == 1 else plural or f'{singular}s'}"


class _Pattern:
    def __init__(self, text: str, flags: int) -> None:
        self.text = text
        self.wanted = flags

    def __getattr__(self, name: str) -> Any:
        # Methods are kept, so that all calls after the first go to the compiled pattern.
        method = getattr(re.compile(self.text, self.wanted), name)
        setattr(self, name, method)
        return method


def compile_late(text: str, flags: int = 0) -> re.Pattern[str]:
    """A regular expression that is compiled when one of its methods is first called.

    For patterns that most commands never use: compiling one takes 0.1 to 5 ms. It has the
    attributes of a ``re.Pattern`` without being an instance of it: call its methods, do not
    give it to functions of ``re``.

    Raises:
        re.error: At the first use, if the text is not a regular expression.
    """
    return cast("re.Pattern[str]", _Pattern(text, flags))


_MARK = compile_late(
    r"[\[【]\s*+(\d{1,3}(?:\s*(?:,|;|&|and|et|[-–—])\s*\d{1,3})*+)\s*+(?:†[^\[\]【】]{0,40}+)?[\]】]"
)
"""One to three digits: a year in brackets is not a citation."""

_PART = compile_late(r"(\d{1,3})\s*(?:[-–—]\s*(\d{1,3}))?")
_CODE = compile_late(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
_BEFORE_AN_INDEX = compile_late(r"[\w\])\u2060]")
_FARTHEST = 50


@dataclass(frozen=True, slots=True)
class CitationMark:
    """A mark in a text: its place, and the numbers of the passages that it names."""

    start: int
    end: int
    numbers: tuple[int, ...]


def citation_marks(text: str) -> Iterator[CitationMark]:
    """The citation marks of a text in order: ``[1]``, ``[1-3]``, ``[1 and 2]``, ``【1†a】``.

    An index in code that directly follows a name, such as ``x[1]``, is not a mark, nor is ``[0]``:
    passages are numbered from 1.
    """
    at = 0
    for place, part in enumerate(_CODE.split(text)):
        for match in _MARK.finditer(part):
            before = part[max(0, match.start() - 1) : match.start()]
            numbers = _passage_numbers(match[1])
            if 0 in numbers or (place % 2 and _BEFORE_AN_INDEX.match(before)):
                continue
            yield CitationMark(at + match.start(), at + match.end(), numbers)
        at += len(part)


def bracket_marks(text: str) -> str:
    """Put citation marks in round brackets, ``(2)``, so that they no longer count."""
    while marks := list(citation_marks(text)):
        pieces: list[str] = []
        at = 0
        for mark in marks:
            pieces += (text[at : mark.start], "(", text[mark.start + 1 : mark.end - 1], ")")
            at = mark.end
        text = "".join((*pieces, text[at:]))  # which may complete a mark around them
    return text


def _passage_numbers(numbers_text: str) -> tuple[int, ...]:
    numbers: list[int] = []
    for first, last in _PART.findall(numbers_text):
        low, high = int(first), int(last or first)
        # A reversed or very long range counts as its two ends only.
        numbers += range(low, high + 1) if 0 <= high - low <= _FARTHEST else (low, high)
    return tuple(numbers)


_MOST = 20
_LONGEST = 300


def html_table(head: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> str:
    """A table as HTML for a notebook, every text escaped.

    The first 20 rows are shown and the others counted; a cell shows its first 300 characters.

    Args:
        head: Names of the columns.
        rows: Cells; floats are shown with four digits, None as nothing.
        title: Text above the table.
    """
    all_rows = list(rows)
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = "".join(
        f"<tr>{''.join(f'<td>{escape(_shown_cell(cell))}</td>' for cell in row)}</tr>"
        for row in all_rows[:_MOST]
    )
    more = f"<p>and {len(all_rows) - _MOST} more</p>" if len(all_rows) > _MOST else ""
    above = f"<p>{escape(title)}</p>" if title else ""
    return f"{above}<table><thead><tr>{names}</tr></thead><tbody>{lines}</tbody></table>{more}"


def frame_of(records: Sequence[Mapping[str, Any]]) -> Any:
    """Records as a data frame of pandas, one column per key.

    Raises:
        MissingExtraError: pandas is not installed.
    """
    try:
        pandas = importlib.import_module("pandas")
    except ImportError as error:
        raise MissingExtraError(
            "a data frame needs the package 'pandas', which is not installed",
            hint="pip install pandas",
        ) from error
    return pandas.DataFrame(list(records))


def shorten_text(text: str, most: int = 60) -> str:
    """A text in one line of at most so many characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else f"{flat[: most - 1]}…"


def _shown_cell(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:.4f}" if isinstance(value, float) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} …"
