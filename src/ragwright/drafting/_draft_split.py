"""A model's reply taken apart into the texts that were asked for.

Models number, label, quote, fence and comment as they like. What a reply leaves open (where a
text ends, whether a number opens one) is marked on the text and never decided silently.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ._draft_lines import SKIPPED, Line, chains, marked_lines
from ._draft_remarks import (
    bare_text,
    is_closing,
    is_preamble,
    is_refusal,
    without_closing,
    without_preamble,
)

NO_LIST = "not split: the reply shows no list"
AT_BLANKS = "unsure: split at blank lines"
AT_LINES = "unsure: split at line ends"
IN_LINE = "unsure: split inside a line"
UNNUMBERED = "unsure: it has no number"
LOOSE_START = "unsure: its first line may be a remark"
LOOSE_END = "unsure: its end may be a remark"


@dataclass(frozen=True, slots=True)
class ReplyText:
    """One text of a reply, and what is unsure of it (empty where nothing is)."""

    text: str
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Split:
    """The texts of a reply; ``refused`` holds its beginning where the model refused."""

    parts: tuple[ReplyText, ...] = ()
    refused: str = ""


_THOUGHT = re.compile(r"\s*<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)
_FENCE = re.compile(r"^[ \t]*```[\w-]*[ \t]*\n(.*?)\n?^[ \t]*```[ \t]*$", re.DOTALL | re.MULTILINE)
_RULE = re.compile(
    r"^[ \t]*(?:-{3,}|\*{3,}|={3,}|_{3,}|(?:[-*_][ \t]+){2,}[-*_])[ \t]*$", re.MULTILINE
)
_TAGS = re.compile(
    r"<(text|message|item|li|sms|draft)\b[^>]*>(.*?)</\1>", re.DOTALL | re.IGNORECASE
)
_TABLE = re.compile(
    r"^[ \t]*(?P<header>\|.+\|)[ \t]*\n[ \t]*\|[ \t:|-]*-[ \t:|-]*\|[ \t]*\n"
    r"(?P<rows>(?:[ \t]*\|.+\|[ \t]*(?:\n|\Z))+)",
    re.MULTILINE,
)
_CELL = re.compile(r"(?<!\\)\|")
_BREAK = re.compile(r"[ \t]*<br[ \t]*/?>[ \t]*", re.IGNORECASE)
_TEXT_COLUMNS = frozenset({"text", "message", "sms", "draft", "content"})
_INLINE = re.compile(r"(?<!\S)[(\[]?(\d{1,2})[.)\]:][)\]]?(?=\s)")
_SHOWN = 120
_LONGEST_REMARK = 400


def split_reply(reply: str, wanted: int = 1) -> Split:
    """The texts of a reply to a request for ``wanted`` of them, in order.

    Lists numbered or lettered in any usual way, labels (``Text 1:``), bullets, JSON, tags, rules
    between texts; thoughts, fences, quotes, counts of characters and remarks around the texts go.
    There may be fewer or more than wanted; none for an empty reply.
    """
    body = _THOUGHT.sub("", reply).replace("\r\n", "\n").replace("\r", "\n").strip()
    if not body:
        return Split()
    found = _structured(body)
    if found is None:
        fences = _FENCE.findall(body)
        if len(fences) == 1 and _around_is_remark(body):
            body = str(fences[0]).strip()
        elif len(fences) == wanted > 1:
            return Split(_parts((text, "") for text in fences))
        found = _listed(body, wanted)
    if found is None:
        if is_refusal(body):
            return Split(refused=" ".join(body.split())[:_SHOWN])
        found = _unlisted(body, wanted)
    return Split(_parts(found))


def _parts(found: Iterable[tuple[str, str]]) -> tuple[ReplyText, ...]:
    made = (ReplyText(bare_text(text), mark) for text, mark in found)
    return tuple(part for part in made if part.text)


def _around_is_remark(body: str) -> bool:
    """True where all that stands outside of the only fence is a preamble and a short remark."""
    before, after = _FENCE.split(body)[0::2]
    return is_preamble(before) and len(after) <= _LONGEST_REMARK


# -- structure that says itself ------------------------------------------------------------


def _structured(body: str) -> list[tuple[str, str]] | None:
    """Texts of JSON, of tags or of a table, None where the reply is neither."""
    tagged = _TAGS.findall(body)
    if tagged:
        return [(text, "") for _, text in tagged]
    tabled = _tabled(body)
    if tabled:
        return [(text, "") for text in tabled]
    for opening, closing in (("[", "]"), ("{", "}")):
        start, end = body.find(opening), body.rfind(closing)
        if start < 0 or end <= start or not _begins_line(body, start):
            continue
        try:
            texts = _texts_of(json.loads(body[start : end + 1], strict=False))
        except (ValueError, RecursionError):
            continue
        if texts:
            return [(text, "") for text in texts]
    return None


def _tabled(body: str) -> list[str]:
    """Texts of a table in Markdown, in its column of texts or else its longest; none where none."""
    found = _TABLE.search(body)
    if found is None or (not is_preamble(before := body[: found.start()]) and before.strip()):
        return []
    header, *rows = (
        [cell.strip().replace(r"\|", "|") for cell in _CELL.split(line.strip().strip("|"))]
        for line in (found["header"], *found["rows"].splitlines())
    )
    if any(len(row) != len(header) for row in rows):
        return []
    named = [at for at, cell in enumerate(header) if cell.casefold() in _TEXT_COLUMNS]
    sizes = [sum(len(row[at]) for row in rows) for at in range(len(header))]
    at = named[0] if len(named) == 1 else sizes.index(max(sizes))
    return [_BREAK.sub("\n", row[at]) for row in rows]


def _begins_line(body: str, at: int) -> bool:
    return not body[body.rfind("\n", 0, at) + 1 : at].strip()


def _texts_of(found: Any) -> list[str]:
    """Texts that a JSON value holds: a list of them, or of objects with one text each."""
    if isinstance(found, dict):
        lists = [value for value in found.values() if isinstance(value, list)]
        if len(lists) == 1:
            return _texts_of(lists[0])
        values = list(found.values())
        return values if values and all(isinstance(value, str) for value in values) else []
    if not isinstance(found, list):
        return []
    texts = []
    for item in found:
        if isinstance(item, dict):
            strings = [value for value in item.values() if isinstance(value, str)]
            named = [item[key] for key in ("text", "message", "content") if key in item]
            item = (named or strings or [None])[0] if named or len(strings) == 1 else None
        if not isinstance(item, str):
            return []
        texts.append(item)
    return texts


# -- lists ---------------------------------------------------------------------------------


def _listed(body: str, wanted: int) -> list[tuple[str, str]] | None:
    """Texts of the list that a reply is, None where it is none."""
    lines = marked_lines(body)
    best = None
    for chain in chains(lines, wanted):
        alone = chain.ordered or (chain.kind == "bullet" and wanted == 1)
        if len(chain.starts) < 2 and not (alone and _opens(lines, chain.starts[0])):
            continue
        rank = (len(chain.starts) == wanted, chain.strength, len(chain.starts), -chain.starts[0])
        if best is None or rank > best[0]:
            best = (rank, chain)
    if best is None or (len(best[1].starts) < 2 <= wanted and _inline(body, wanted)):
        return _inline(body, wanted)
    chain = best[1]
    found = _stage_hooks(lines, chain.starts, chain.marks)
    before = "\n".join(line.whole for line in lines[: chain.starts[0]]).strip()
    if chain.first == 2 and before and not is_preamble(before):
        found.insert(0, (before, UNNUMBERED))
    elif chain.first > 1:
        found[0] = (found[0][0], found[0][1] or SKIPPED)
    return _closed(found)


def _opens(lines: Sequence[Line], start: int) -> bool:
    """True where nothing but a preamble stands before a line."""
    before = "\n".join(line.whole for line in lines[:start]).strip()
    return not before or is_preamble(before)


def _stage_hooks(
    lines: Sequence[Line], starts: Sequence[int], marks: Sequence[str]
) -> list[tuple[str, str]]:
    """What stands from each start to the next."""
    ends = [*starts[1:], len(lines)]
    found = []
    for start, end, mark in zip(starts, ends, marks, strict=True):
        rest = [line.whole for line in lines[start + 1 : end]]
        found.append(("\n".join([lines[start].rest, *_dedented(rest)]), mark))
    return found


def _dedented(lines: Sequence[str]) -> list[str]:
    depths = [len(line) - len(line.lstrip()) for line in lines if line.strip()]
    depth = min(depths, default=0)
    return [line[depth:] for line in lines]


def _closed(found: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Texts without what a model says after the last one."""
    if not found:
        return found
    text, mark = found[-1]
    text, unsure = without_closing(text)
    alone = len(found) > 1 and all("\n\n" not in other.strip() for other, _ in found[:-1])
    if not mark and (unsure or (alone and "\n\n" in text.strip())):
        mark = LOOSE_END
    return [*found[:-1], (text, mark)]


def _inline(body: str, wanted: int) -> list[tuple[str, str]] | None:
    """Texts of a list that stands in one line, where it has all that were wanted."""
    if wanted < 2:
        return None
    starts: list[re.Match[str]] = []
    for match in _INLINE.finditer(body):
        if int(match[1]) == len(starts) + 1:
            starts.append(match)
    if len(starts) != wanted:
        return None
    before = body[: starts[0].start()].strip()
    if before and not is_preamble(before):
        return None
    ends = [*(match.start() for match in starts[1:]), len(body)]
    return [(body[a.end() : end], IN_LINE) for a, end in zip(starts, ends, strict=True)]


# -- no list -------------------------------------------------------------------------------


def _unlisted(body: str, wanted: int) -> list[tuple[str, str]]:
    """Texts of a reply without a list: by rules, blank lines, lines; else the whole, marked."""
    sections = [part.strip() for part in _RULE.split(body) if part.strip()]
    sections, mark = _framed(sections)
    if len(sections) == wanted > 1:
        return [(text, "") for text in sections]
    body = "\n\n".join(sections)
    if wanted == 1:
        return [(body, mark)] if body else []
    paragraphs = [part for part in re.split(r"\n[ \t]*\n", body) if part.strip()]
    if len(paragraphs) == wanted:
        return [(text, AT_BLANKS) for text in paragraphs]
    lines = [line for line in body.split("\n") if line.strip()]
    if len(lines) == wanted and len(paragraphs) == 1:
        return [(text, AT_LINES) for text in lines]
    return [(body, NO_LIST)] if body else []


def _framed(sections: list[str]) -> tuple[list[str], str]:
    """Sections without a preamble in the first and a remark in the last, and what is unsure."""
    if len(sections) > 1 and is_preamble(sections[0]):
        sections = sections[1:]
    if len(sections) > 1 and is_closing(sections[-1]):
        sections = sections[:-1]
    if not sections:
        return [], ""
    sections[0], opens = without_preamble(sections[0])
    sections[-1], closes = without_closing(sections[-1])
    mark = LOOSE_START if opens else LOOSE_END if closes else ""
    return [section for section in sections if section.strip()], mark
