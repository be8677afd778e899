"""Texts: hashes, secrets in addresses, what can be encoded, late expressions, citation marks.

A reply cites by marks such as ``[2]``; text of a document must not look like one. Both use the same
expression, so whatever counts as a citation in a reply is neutralised in a passage.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from html import escape
from typing import Any
from urllib.parse import quote, unquote, unquote_plus, urlsplit

from ._errors import ConfigError, MissingExtraError


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


_MARK = re.compile(
    r"[\[【]\s*+(\d{1,3}(?:\s*(?:,|;|&|and|et|[-–—])\s*\d{1,3})*+)\s*+(?:†[^\[\]【】]{0,40}+)?[\]】]"
)
"""One to three digits: a year in brackets is not a citation."""

_PART = re.compile(r"(\d{1,3})\s*(?:[-–—]\s*(\d{1,3}))?")
_CODE = re.compile(r"(```.*?```|`[^`\n]+`)", re.DOTALL)
_BEFORE_AN_INDEX = re.compile(r"[\w\])\u2060]")
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


_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""An environment variable in an address."""

_FILE = re.compile(r"sqlite(\+\w+)?:")
"""Addresses that are paths."""

_PASSWORD = re.compile(r"://[^:@/?#]*:([^@?]+)@")
"""A password in an address that is not a valid URL because a character is not quoted."""

_SECRET = re.compile(
    r"passw(or)?d|passphrase|pwd|token|secret|credential|^(pass|auth)$"
    r"|(?<![a-z])key(?![a-z])|(api|access|account|private|shared|secret)_?key(?![a-z])"
)
"""Parameters that hold secrets: ``sslpassword``, ``PWD``, ``AccountKey``; ``sslkey`` is a path."""

_NO_SECRET = re.compile(r"(path|file|ur[il])$")
"""Parameters that only give the path of a secret."""

_SETTING = re.compile(r"([^=;]+)=(\{[^}]*\}|[^;]*)")
"""A setting of a connection string of ODBC."""


def fill_address(address: str, where: str | None = None) -> str:
    """An address with its environment variables replaced by their values, quoted within a URL.

    Raises:
        ConfigError: A variable is not set.
    """
    unquoted = _VARIABLE.fullmatch(address) is not None or _FILE.match(address) is not None

    def value(match: re.Match[str]) -> str:
        text = os.environ.get(match[1], "")
        if not text:
            raise ConfigError(
                f"a database address needs {match[1]}, which is not set",
                where=where,
                hint=f"export {match[1]}=…  (secrets are read from the environment only)",
            )
        return text if unquoted else quote(text, safe="")

    return _VARIABLE.sub(value, address)


def holds_secret(address: str) -> bool:
    """True if the address contains a password, a token or a key in plain text."""
    if _FILE.match(address):
        return False
    bare = _VARIABLE.sub("", address)
    return any(_passwords_of(bare)) or any(value.strip("{}") for value in _secret_parameters(bare))


def hide_secret(text: str, address: str) -> str:
    """A message without the secrets of a filled address, which drivers may repeat."""
    for secret in sorted(_secrets_of(address), key=len, reverse=True):
        text = text.replace(secret, "…")
    return text


def notice_address_faults(address: str) -> Iterator[tuple[str, str]]:
    """Faults of a notice address: sentence, what to do. The address itself is not repeated."""
    if "${" in _VARIABLE.sub("", address):
        yield "a variable in an address is written ${NAME}", "only letters, digits and _"
    elif "://" not in address and not _VARIABLE.fullmatch(address):
        yield "this is not a valid notice address", "write mailto://…, json://… or ${VARIABLE}"
    if holds_secret(address):
        yield (
            "a notice address contains a secret",
            "put it into an environment variable and write ${VARIABLE} instead",
        )


def _secrets_of(address: str) -> set[str]:
    """Secrets of an address, as written in it and decoded."""
    texts = {*_passwords_of(address), *_secret_parameters(address)}
    try:
        urlsplit(address)
    except ValueError:
        texts.add(address)
    texts |= {value.strip("{}") for value in texts}
    texts |= {form for text in texts for form in (unquote(text), unquote_plus(text))}
    return {form for text in texts for form in (text, quote(text, safe="")) if form}


def _passwords_of(address: str) -> Iterator[str]:
    with suppress(ValueError):
        yield urlsplit(address).password or ""
    yield from _PASSWORD.findall(address)


def _secret_parameters(address: str) -> Iterator[str]:
    """Yield the values of parameters that hold secrets, also those of ODBC within one."""
    for pair in re.split("[?&]", address)[1:]:
        for text in {pair, unquote_plus(pair)}:
            name, _, value = text.partition("=")
            if _is_secret(name):
                yield value
            for inner, setting in _SETTING.findall(value if "=" in value else text):
                if _is_secret(inner):
                    yield setting


def _is_secret(name: str) -> bool:
    name = name.strip().lower().replace(" ", "_")
    return _SECRET.search(name) is not None and not _NO_SECRET.search(name)


def retry_after(text: str | None, now: float | None = None) -> float | None:
    """Seconds that a ``Retry-After`` asks to wait, written as a number or as a date (RFC 9110).

    Args:
        text: The header, None where there is none.
        now: Seconds since 1970 that a date is counted from; the present by default.

    Returns:
        Seconds, 0 or more and finite; None if the header cannot be parsed.
    """
    text = (text or "").strip()
    try:
        seconds = float(text)
    except ValueError:
        try:
            date = parsedate_to_datetime(text)
        except (TypeError, ValueError):
            return None
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        seconds = date.timestamp() - (time.time() if now is None else now)
    return max(0.0, seconds) if math.isfinite(seconds) else None
