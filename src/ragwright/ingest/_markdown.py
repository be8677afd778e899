"""Markdown with front matter, mails with headers, mailboxes, delimited text."""

from __future__ import annotations

import base64
import binascii
import csv
import email
import email.policy
import io
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from email.message import EmailMessage, MIMEPart
from itertools import chain, islice
from typing import Any

from ..core import (
    GROUPS,
    ConfigError,
    EmptySourceError,
    MalformedSourceError,
    MetaValue,
    Placed,
    RagwrightError,
    Section,
    UnclearGroupsError,
    group_names,
    mentions_groups,
    misspelt_groups,
    parse_yaml,
)
from ._encoding import clean_metadata, decode, guess_language, iso_date, normalise, suffix_of
from ._extract import Attachment, Extract, markdown_headings, sections_of, table_cell
from ._html import read_html
from ._options import SourceOptions

_FRONT = re.compile(r"\A\s*---[ \t]*\n(.*?)(?<=\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_TOML = re.compile(r"\A\s*\+\+\+[ \t]*\n(.*?)(?<=\n)\+\+\+[ \t]*(?:\n|\Z)", re.DOTALL)
_OPENED = re.compile(
    r"\A\s*(?:---|\+\+\+)[ \t]*\n(?:[ \t]*(?:#[^\n]*)?\n)*(?:[\w-]+:(?:\s|\Z)|[\w-]+[ \t]*=)"
)
_KEY = re.compile(r"""["']?([^\s"'#:-][^"':]*)(?:["'][ \t]*)?:(?:\s|\Z)""")
_LIMIT = 65_536
_HINT = (
    "write a text, a number, a date, true or false, or a list of them; of groups of readers a list "
    f"of names, {GROUPS}: [hr]"
)
_HOLDS = "a filter could not use it, so an excluding filter would not exclude the document"


def read_markdown(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read a Markdown file; refused if its front matter cannot be read completely.

    Raises:
        MalformedSourceError: The front matter cannot be read completely.
        UnsupportedSourceError: The bytes are not text.
    """
    decoded = decode(data, where, options.encoding)
    text = normalise(decoded.text)
    front, text = _front_matter(text, where)
    metadata = clean_metadata({"encoding": decoded.unusual, **front})
    headings = markdown_headings(text)
    title = str(metadata.pop("title", ""))
    language = str(metadata.pop("lang", metadata.pop("language", "")))[:2].lower()
    return Extract(
        text=text,
        title=title or (headings[0][0] if headings else ""),
        language=language or guess_language(text),
        created=_date(metadata, "created date published publish_date date_created"),
        modified=_date(metadata, "modified updated lastmod last_modified ms_date"),
        media_type="text/markdown",
        sections=sections_of(headings, len(text)),
        metadata=metadata,
        faults=decoded.faults,
    )


def _date(metadata: dict[str, Any], names: str) -> str:
    return next(filter(None, (iso_date(metadata.get(name)) for name in names.split())), "")


def _front_matter(text: str, where: str) -> tuple[dict[str, MetaValue], str]:
    """Return the fields of the front matter as metadata, and the text below it.

    A hard filter may use any of them: a document whose fields were dropped would pass a filter
    that excludes it, so front matter is read completely or the file is refused.

    Two rules around something other than a mapping are text, not front matter.
    """
    match = _FRONT.match(text[:_LIMIT]) or _TOML.match(text[:_LIMIT])
    if match is None and not _OPENED.match(text):
        return {}, text
    front = text[: match.end(1) if match else _LIMIT]
    try:
        placed = _parse(match, where)
        if not isinstance(placed.value, dict):
            return {}, text
        return _read_fields(placed), text[match.end() if match else 0 :]
    except ConfigError as error:
        number = (error.where or "").rpartition(":")[2]
        lines = front.split("\n")[: int(number) if number.isdecimal() else 1]
        keys = (match[1].strip() for match in map(_KEY.match, reversed(lines)) if match)
        key = repr(next(keys, ""))
        named = f", key {key}: " if key != "''" and key not in error.what else ": "
        unclear = repr(GROUPS) in error.what or mentions_groups(front)
        raise (UnclearGroupsError if unclear else MalformedSourceError)(
            f"front matter{named}{error.what}",
            where=error.where,
            hint=error.hint or "quote values that contain a colon or begin with a sign",
        ) from error


def _parse(match: re.Match[str] | None, where: str) -> Placed:
    """Parse YAML or TOML to plain values; a number that is written in another way stays text."""

    def number(written: str) -> Any:
        return float(written) if str(float(written)) == written else written

    if match is None:
        raise ConfigError(
            f"it is not closed within {_LIMIT:,} characters",
            where=f"{where}:1",
            hint="close it with the same line, or put a blank line and text in front of it",
        )
    front = "\n" * match.string.count("\n", 0, match.start(1)) + match[1]
    if match.re is _FRONT:
        return parse_yaml(front, where, as_written=True)
    try:
        return Placed(tomllib.loads(front, parse_float=number), file=where)
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"line (\d+)", str(error))
        raise ConfigError(str(error), where=f"{where}:{line[1] if line else 1}") from error


def _read_fields(placed: Placed) -> dict[str, MetaValue]:
    """Return the fields as metadata; of a nested table or list, each value.

    Groups of readers that cannot be read are refused: the document would be everyone's.
    """
    fields = {
        key: _leaves(value) if isinstance(value, dict | list) else value
        for key, value in placed.value.items()
    }
    names: dict[str, str] = {}
    for key, value in fields.items():
        fault, hint = _fault(key, value), _HINT
        if next(iter(clean_metadata({key: "x"})), "") == GROUPS:
            try:
                group_names(placed.value[key])
            except ConfigError as error:
                fault, hint = f"for {GROUPS!r}: {error.what}", error.hint or ""
        for name in clean_metadata({key: value}):
            if names.setdefault(name, key) != key:  # one would hide the other
                fault = fault or f"becomes the same field as {names[name]!r}"
        if fault:
            raise ConfigError(f"{key!r} {fault}: {_HOLDS}", where=placed.where(key), hint=hint)
    return clean_metadata(fields)


def _leaves(value: Any) -> list[Any]:
    """Return the values of a nested table or list."""
    items = value.values() if isinstance(value, dict) else value
    nested = isinstance(value, dict | list)
    return [leaf for item in items for leaf in _leaves(item)] if nested else [value]


def _fault(key: Any, value: Any) -> str:
    """Return the fault of a value; empty if metadata can hold it as it is."""
    items = value if isinstance(value, list) else [value]
    large = (item for item in items if isinstance(item, int) and abs(item) >= 2**63)
    named = str(key).lower() in ("title", "lang", "language")
    faults = {
        f"is not a field, but nearly {GROUPS!r}": misspelt_groups((str(key).strip(),)),
        "is not a finite number": not all(
            math.isfinite(item) for item in items if isinstance(item, float)
        ),
        "is a number of more than 64 bits": any(large),
        "is a list": named and isinstance(value, list),
    }
    return next((fault for fault, true in faults.items() if true), "")


_ENVELOPE = re.compile(rb"(?:\A|(?<=\n\n)|(?<=\n\r\n))From [^\n]*\n(?=>?[!-9;-~]+:)")
_WORD = re.compile(r"\w{4,}|\d+")


def read_mbox(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read a mailbox: each of its mails is an attachment.

    Raises:
        MalformedSourceError: No mail begins in it.
    """
    starts = [match.span() for match in _ENVELOPE.finditer(data)]
    if not starts:
        raise MalformedSourceError(
            "no mail begins in the mailbox: no line From with headers below it",
            where=where,
            hint="export the mails again, or rename a single one to .eml",
        )
    ends = [start for start, _ in starts[1:]] + [len(data)]
    mails = (data[begin:end] for (_, begin), end in zip(starts, ends, strict=True))
    return Extract(
        text="",
        media_type="application/mbox",
        attachments=tuple(
            Attachment(f"{number}.eml", re.sub(rb"(?m)^>(>*From )", rb"\1", mail))
            for number, mail in enumerate(mails, 1)
        ),
    )


def read_eml(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read a mail: its plain part, or the HTML part where that says more.

    ``text`` may be empty where the mail only carries attachments.
    """
    if b"\0" in data[:100]:  # a mail saved as UTF-16
        data = decode(data, where, options.encoding).text.lstrip("\ufeff").encode()
    message = email.message_from_bytes(data, policy=email.policy.default)
    text, sections, faults = _body(message, where, options)
    headers = {
        name: _header(message, name, where)
        for name in ("from", "to", "cc", "date", "message-id", "subject")
    }
    return Extract(
        text=text if text.strip() else "",
        title=headers.pop("subject"),
        language=guess_language(text),
        created=iso_date(headers.pop("date")),
        media_type="message/rfc822",
        sections=sections,
        metadata=clean_metadata(headers),
        faults=tuple({fault.what: fault for fault in faults if text.strip()}.values()),
        attachments=tuple(_attachments(message)),
    )


def _body(
    message: EmailMessage, where: str, options: SourceOptions
) -> tuple[str, tuple[Section, ...], list[RagwrightError]]:
    """Return the text of a mail: the HTML if that says much more, then what else the other says.

    Many mails have a plain part of one line: "View this mail in your browser".
    """
    faults: list[RagwrightError] = []
    texts = {"plain": "", "html": ""}
    for kind in texts:
        part = message.get_body((kind,))
        payload = part.get_payload(decode=True) if part is not None else b""
        if part is not None and isinstance(payload, bytes) and payload:
            stated = (str(part.get_param("charset", "")),)
            decoded = decode(payload, where, options.encoding, stated)
            texts[kind] = decoded.text
            faults += decoded.faults
    plain = normalise(texts["plain"]).strip("\n")
    if not texts["html"].strip():
        return plain, (), faults
    try:
        shown = texts["html"].encode(errors="replace")
        page = read_html(shown, where, SourceOptions(encoding="utf-8"))
    except EmptySourceError:
        return plain, (), faults
    words, others = set(_WORD.findall(plain)), set(_WORD.findall(page.text))
    if plain.strip() and len(others - words) <= max(3, 0.5 * len(words)):
        return plain, (), faults
    more = len(words - others) > max(12, 0.5 * len(words))
    text = f"{page.text}\n\n{plain}" if more else page.text
    return text, page.sections, [*faults, *page.faults]


def _header(message: EmailMessage, name: str, where: str) -> str:
    raw = next((str(v) for key, v in message.raw_items() if key.lower() == name), "")
    try:
        text = str(message.get(name) or "")
        if re.search("[\udc80-\udcff]", raw):  # bytes as they are, without the encoding's name
            text = decode(raw.encode("ascii", "surrogateescape"), where).text
        return " ".join(normalise(text).split())
    except (ValueError, IndexError, AttributeError, RagwrightError):  # headers that are broken
        return ""


def _attachments(message: EmailMessage) -> Iterator[Attachment]:
    for number, part in enumerate(message.iter_attachments(), 1):
        if part.get_content_type() == "message/rfc822":
            content = _forwarded(part)
            name = part.get_filename() or f"message-{number}.eml"
        else:
            payload = part.get_payload(decode=True)
            content = payload if isinstance(payload, bytes) else b""
            name = part.get_filename() or f"part-{number}.{part.get_content_subtype()}"
        picture = part.get_content_maintype() == "image" and not part.get_filename()
        signed = part.get_content_subtype().endswith(("pkcs7-signature", "pgp-signature"))
        if content and not picture and not signed:
            yield Attachment(name.replace("\\", "/").rpartition("/")[2], content)


def _forwarded(part: MIMEPart) -> bytes:
    """Return a mail within a mail; some programs encode it, although the standard forbids it."""
    inner = part.get_payload(0) if part.is_multipart() else None
    content = inner.as_bytes() if isinstance(inner, EmailMessage) else b""
    coding = str(part.get("content-transfer-encoding", "")).strip().lower()
    try:
        if coding == "base64":
            return base64.b64decode(content)
        return binascii.a2b_qp(content) if coding == "quoted-printable" else content
    except binascii.Error:
        return content


_MOST_ABOVE = 20
"""Most lines above a table: what made it, and when."""
_NAMED_ROWS = 5
_TELLING_ROWS = 200


def read_csv(data: bytes, where: str, options: SourceOptions) -> Extract:
    """Read delimited text as a table; the first row is the header.

    Rows with too few cells are padded; in rows with too many the surplus stays in the last
    cell. Both are reported in ``faults`` with their line numbers. Empty rows are left out. Lines
    above the table, parted from it by an empty line, become a paragraph.

    Raises:
        UnsupportedSourceError: The bytes are not text.
    """
    decoded = decode(data, where, options.encoding)
    raw = normalise(decoded.text)
    stated = re.match(r"(?i)sep=([,;\t|])[ ]*\n", raw)  # names the delimiter for Excel
    raw = raw[stated.end() :] if stated else raw
    delimiter = stated[1] if stated else sniff_delimiter(raw, suffix_of(where))
    faults = list(decoded.faults)
    lines_above = int(stated is not None)
    reader = csv.reader(io.StringIO(raw, newline=""), delimiter=delimiter, strict=True)
    numbered = ((line + lines_above, row) for line, row in _numbered(reader))
    try:
        preamble, lines, wrong = _write(numbered, delimiter, where)
    except csv.Error as error:
        faults.append(
            MalformedSourceError(
                f"the quoting is damaged: {error}",
                where=f"{where}:{reader.line_num + lines_above}",
                hint="close the quotes; the file was read with quotes as plain characters",
            )
        )
        plain = enumerate(raw.rstrip().split("\n"), 1 + lines_above)
        rows = ((number, line.split(delimiter)) for number, line in plain)
        preamble, lines, wrong = _write(rows, delimiter, where)
    text = "\n\n".join(filter(None, (preamble, "\n".join(lines))))
    text = text if text.strip("|- \n") else ""
    return Extract(
        text=text,
        language=guess_language(text),
        media_type="text/tab-separated-values" if delimiter == "\t" else "text/csv",
        metadata=clean_metadata({"encoding": decoded.unusual, "rows": len(lines) - 2}),
        faults=(*faults, *wrong),
    )


def _count_above(rows: list[list[str]]) -> int:
    """Count the rows above a table: what made it, and when.

    They are narrower than the table, and have one cell, at most half as many cells, or an empty
    row below them.
    """
    widths = Counter(len(row) for row in rows if len(row) > 1)
    usual = widths.most_common(1)[0][0] if widths else 0
    above = 0
    for row in rows[:_MOST_ABOVE]:
        filled = sum(map(bool, row))
        gap = [] in rows[above:_MOST_ABOVE] and filled < usual
        narrow = len(row) < 2 or 2 * filled <= usual or gap
        if len(row) > usual or not narrow or (filled and not usual):
            break
        above += 1
    return above if above < len(rows) and any(map(any, rows[:above])) else 0


def _write(
    rows: Iterator[tuple[int, list[str]]], delimiter: str, where: str
) -> tuple[str, list[str], list[RagwrightError]]:
    """Return the text above a table, its Markdown lines, and a fault if rows were uneven.

    It goes row by row so that the cells of a large file are never all in memory.
    """
    head = list(islice(rows, _TELLING_ROWS))
    above = _count_above([[cell.strip() for cell in row] if any(row) else [] for _, row in head])
    preamble = (" ".join(filter(None, map(str.strip, row))) for _, row in head[:above])
    widths = [len(row) for _, row in head[above:] if any(map(str.strip, row))]
    width, count = Counter(widths).most_common(1)[0] if widths else (0, 0)
    width = width if 2 * count > len(widths) else widths[0] if widths else 0
    lines: list[str] = []
    wrong: list[tuple[int, int]] = []
    for number, row in chain(head[above:], rows):
        if not any(map(str.strip, row)):
            continue
        if len(row) != width:
            wrong.append((number, len(row)))
            surplus = [delimiter.join(row[width - 1 :])] if len(row) > width else []
            row = [*row[: width - len(surplus)], *surplus, *[""] * (width - len(row))]
        lines.append(f"| {' | '.join([table_cell(cell) for cell in row])} |")
    lines.insert(1, "| " + " | ".join(["-"] * width) + " |")
    said = "\n".join(filter(None, preamble))
    if not wrong:
        return said, lines, []
    named = ", ".join(f"row {line} has {count}" for line, count in wrong[:_NAMED_ROWS])
    more = f" and {len(wrong) - _NAMED_ROWS} more" * (len(wrong) > _NAMED_ROWS)
    fault = MalformedSourceError(
        f"{len(wrong)} of {len(lines) - 1} rows differ from the usual {width} cells: {named}{more}",
        where=f"{where}:{wrong[0][0]}",
        hint="correct these rows; they were read with missing cells empty and surplus cells joined",
    )
    return said, lines, [fault]


def sniff_delimiter(text: str, suffix: str = "") -> str:
    """Detect the delimiter that cuts the first 200 lines into the most even rows.

    Ties go to the suffix's own, then to comma, semicolon, tab, bar.
    """
    lines = text[:65_536].split("\n")[:_TELLING_ROWS]
    order = "\t,;|" if suffix == ".tsv" else ",;\t|"
    return max(order, key=lambda delimiter: _evenness(lines, delimiter))


def _evenness(lines: list[str], delimiter: str) -> float:
    """Return the share of rows of the commonest width, the wider the better; 0 if not cut."""
    try:
        widths = Counter(len(row) for row in csv.reader(lines, delimiter=delimiter) if row)
    except csv.Error:
        return 0.0
    width, count = max(widths.items(), key=lambda pair: pair[::-1], default=(0, 0))
    return count / widths.total() + 0.001 * min(width, 100) if width > 1 else 0.0


def _numbered(reader: Any) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of each row's first line, and its cells."""
    before = 0
    for row in reader:
        yield before + 1, row
        before = reader.line_num
