"""Splits a model's reply into the requested texts.

Replies are read as a JSON list, a numbered list, a bulleted list, or paragraphs. A text with
doubtful borders is marked; texts are never joined or cut without a mark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

NO_LIST = "not split: the reply shows no list"
AT_BLANKS = "unsure: split at blank lines"
AT_LINES = "unsure: split at line ends"
NUMBERS = "unsure: the numbers of the list do not count up by one"
LOOSE_START = "unsure: its first line may be a remark"
LOOSE_END = "unsure: its end may be a remark"


@dataclass(frozen=True, slots=True)
class ReplyText:
    """One text of a reply, with the doubt about it (empty if none)."""

    text: str
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Split:
    """The texts of a reply; ``refused`` holds its beginning if the model refused."""

    parts: tuple[ReplyText, ...] = ()
    refused: str = ""


_THOUGHT = re.compile(r"\s*<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)
_FENCED = re.compile(r"([^`]*)```[\w-]*[ \t]*\n([^`]*)\n?[ \t]*```([^`]*)")
_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_RULE = re.compile(r"^[ \t]*[-*=_]{3,}[ \t]*$", re.MULTILINE)
_NUMBER = re.compile(
    r"(?P<indent>[ \t]*)[#>*_(\[ ]{0,6}(?:(?:text|message|option|draft|version)\s#?)?"
    r"(?P<number>\d{1,3})(?:[*_]*[.):\]][.):\]*_]*(?=\s|$)|[ \t]+[-–—](?=\s)|[*_]+$)\s*",
    re.IGNORECASE,
)
_BULLET = re.compile(r"(?P<indent>[ \t]*)(?P<bullet>[-*•+–])[ \t]+(?=\S)")
_IN_LINE = re.compile(r"\s\d{1,2}[.)]\s")
_COUNTED = re.compile(
    r"\s*[-–—(\[]\s*(?:character count: \d+|~?\d+\s*(?:characters?|chars?))[)\]]?\s*$",
    re.IGNORECASE,
)
_QUOTES = {'"': '"', "“": "”", "„": "“", "«": "»", "'": "'", "`": "`"}
_EMPHASIS = ("**", "__", "*", "_")

_PREAMBLE = re.compile(
    r"\W*(?:sure|certainly|of course|absolutely|okay|ok|here(?:['’]s| is| are)?|below|as requested"
    r"|these are|the following|i(?:['’]ve| have) (?:written|drafted))\b",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"\W*(?:sure|certainly|of course|absolutely)\W*$"
    r"|\b(?:texts?|messages?|drafts?|options?|versions?|sms|list)\b",
    re.IGNORECASE,
)
# About the work itself: a text to a reader may also say "let me know".
_CLOSING = re.compile(
    r"\W*(?:let me know (?:if|which)\b.*\b(?:chang|adjust|version|option|more|another|texts?\b"
    r"|messages?\b|tone|fits?\b)|feel free to (?:adjust|edit|modify|use|change)"
    r"|(?:i )?hope (?:this|these) (?:help|work|meet|fit)|would you like (?:me|any|more|another))",
    re.IGNORECASE | re.DOTALL,
)
_MAY_CLOSE = re.compile(r"\W*(?:let me know|feel free|i hope|would you like|note\b)", re.IGNORECASE)
_REFUSAL = re.compile(
    r"\W*(?:i(?:['’]m| am) (?:sorry|unable|not able)|i apologi[sz]e|i (?:can(?:['’]t|not)|won['’]t)"
    r"|sorry,? (?:but )?i|as an ai|unfortunately,? i|désolé|es tut mir leid|lo siento)",
    re.IGNORECASE,
)
_REFUSES = re.compile(
    r"\b(?:can(?:['’]t|not)|unable|not able|won['’]t|not comfortable|not appropriate"
    r"|ne peux|kann (?:ich )?(?:das |dabei )?nicht|no puedo)",
    re.IGNORECASE,
)
_SHOWN = 120
_LONGEST_REMARK = 300

_Found = list[tuple[str, str]]


def split_reply(reply: str, wanted: int = 1) -> Split:
    """The texts of a reply to a request for ``wanted`` of them, in order.

    Thoughts, a code fence around the reply, quotes, emphasis, character counts and remarks around
    the texts are removed. There may be fewer or more texts than wanted; none for an empty reply.
    """
    body = _THOUGHT.sub("", reply).replace("\r\n", "\n").replace("\r", "\n").strip()
    fenced = _FENCED.fullmatch(body)
    if fenced and _is_preamble(fenced[1]) and len(fenced[3]) <= _LONGEST_REMARK:
        body = fenced[2].strip()
    found = _json_texts(body) or _listed(body, wanted)
    if not found and _REFUSAL.match(body) and _REFUSES.search(body[:400]):
        return Split(refused=" ".join(body.split())[:_SHOWN])
    parts = (ReplyText(_bare(text), mark) for text, mark in found or _unlisted(body, wanted))
    return Split(tuple(part for part in parts if part.text))


def _json_texts(body: str) -> _Found:
    """Texts of a JSON list or object at the start of a line; none if there is none."""
    begin = re.search(r"^\s*[\[{]", body, re.MULTILINE)
    if begin is None:
        return []
    try:
        value, _ = json.JSONDecoder(strict=False).raw_decode(body, begin.end() - 1)
    except (ValueError, RecursionError):
        return []
    if isinstance(value, dict):
        lists = [one for one in value.values() if isinstance(one, list)]
        value = lists[0] if len(lists) == 1 else list(value.values())
    texts = [_json_text(item) for item in value]
    return [(text, "") for text in texts if text is not None] if None not in texts else []


def _json_text(item: Any) -> str | None:
    """A text, or that of an object: under a usual key, or its only one."""
    if isinstance(item, dict):
        texts = [one for one in item.values() if isinstance(one, str)]
        named = [item[key] for key in ("text", "message", "content") if key in item]
        item = named[0] if named else texts[0] if len(texts) == 1 else None
    return item if isinstance(item, str) else None


# -- lists ---------------------------------------------------------------------------------


def _listed(body: str, wanted: int) -> _Found:
    """Texts of a numbered list, else of a bulleted one; none if the reply is neither."""
    lines = body.split("\n")
    lists = [found for found in (_numbered(lines), _bulleted(lines, wanted)) if found]
    return _checked(max(lists, key=lambda found: len(found) == wanted), wanted) if lists else []


def _numbered(lines: Sequence[str]) -> _Found:
    """Texts that begin at consecutive numbers; a doubtful number marks its texts."""
    marks = [(at, mark) for at, line in enumerate(lines) if (mark := _NUMBER.match(line))]
    marks = _outermost(marks)
    numbers = [int(mark["number"]) for _, mark in marks]
    starts: list[tuple[int, int]] = []
    doubtful: set[int] = set()
    expected = min(1, numbers[0]) if numbers else 1
    for place, ((at, mark), number) in enumerate(zip(marks, numbers, strict=True)):
        if number < expected or (number > expected and expected in numbers[place:]):
            doubtful.add(len(starts) - 1)
            continue
        if number > expected:
            doubtful |= {len(starts) - 1, len(starts)}
        starts.append((at, mark.end()))
        expected = number + 1
    if not starts:
        return []
    before = "\n".join(lines[: starts[0][0]])
    if len(starts) == 1 and (numbers[0] > 1 or not _is_preamble(before)):
        return []
    found = [
        (text, NUMBERS if at in doubtful else "") for at, text in enumerate(_between(lines, starts))
    ]
    return [(before, NUMBERS), *found] if numbers[0] > 1 and not _is_preamble(before) else found


def _bulleted(lines: Sequence[str], wanted: int) -> _Found:
    """Texts that begin at the bullet of the first item; one alone only if one was wanted."""
    marks = [(at, mark) for at, line in enumerate(lines) if (mark := _BULLET.match(line))]
    marks = [one for one in marks if one[1]["bullet"] == marks[0][1]["bullet"]]
    starts = [(at, mark.end()) for at, mark in _outermost(marks)]
    if len(starts) < 2 and not (starts and wanted == 1 and starts[0][0] == 0):
        return []
    return [(text, "") for text in _between(lines, starts)]


def _outermost(marks: list[tuple[int, re.Match[str]]]) -> list[tuple[int, re.Match[str]]]:
    """Marks without those of a list within an item, which are indented further."""
    least = min((len(mark["indent"]) for _, mark in marks), default=0)
    return [one for one in marks if len(one[1]["indent"]) <= least + 1]


def _between(lines: Sequence[str], starts: Sequence[tuple[int, int]]) -> Iterable[str]:
    """The text from each start (line, column) to the next, without its lines' indent."""
    ends = [*(at for at, _ in starts[1:]), len(lines)]
    for (at, column), end in zip(starts, ends, strict=True):
        rest = lines[at + 1 : end]
        depth = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
        yield "\n".join([lines[at][column:], *(line[depth:] for line in rest)])


def _checked(found: _Found, wanted: int) -> _Found:
    """Texts without a remark after the last one; possible remarks or joined texts are marked."""
    text, mark = found[-1]
    text, loose = _cut_closing(text)
    alone = len(found) > 1 and not any("\n\n" in other.strip() for other, _ in found[:-1])
    loose = loose or (alone and "\n\n" in text)
    found = [*found[:-1], (text, mark or (LOOSE_END if loose else ""))]
    if len(found) >= wanted:
        return found
    return [(text, mark or (NUMBERS if _IN_LINE.search(text) else "")) for text, mark in found]


# -- no list -------------------------------------------------------------------------------


def _unlisted(body: str, wanted: int) -> _Found:
    """Texts of a reply without a list: paragraphs or lines if as many as wanted, else the whole."""
    paragraphs = [part.strip() for part in _PARAGRAPHS.split(_RULE.sub("\n", body)) if part.strip()]
    if len(paragraphs) > 1 and _is_preamble(paragraphs[0]) and _ABOUT.search(paragraphs[0]):
        paragraphs = paragraphs[1:]
    body, loose = _cut_closing("\n\n".join(paragraphs))
    first, _, rest = body.partition("\n")
    announced = bool(_PREAMBLE.match(first)) and first.endswith(":") and bool(rest.strip())
    if announced and _ABOUT.search(first):
        body, announced = rest.strip(), False
    if wanted == 1:
        return [(body, LOOSE_START if announced else LOOSE_END if loose else "")]
    paragraphs = _PARAGRAPHS.split(body)
    if len(paragraphs) == wanted:
        return [(text, AT_BLANKS) for text in paragraphs]
    lines = body.split("\n")
    if len(lines) == wanted and len(paragraphs) == 1:
        return [(text, AT_LINES) for text in lines]
    return [(body, NO_LIST)]


def _is_preamble(text: str) -> bool:
    """True for an introduction: it announces texts, or ends in a colon."""
    bare = text.strip().strip("*_# ")
    if len(bare) > _LONGEST_REMARK or "\n\n" in bare:
        return False
    return not bare or bool(_PREAMBLE.match(bare)) or bare.endswith(":")


def _cut_closing(text: str) -> tuple[str, bool]:
    """A text without remarks about the work at its end, and whether its end may be another."""
    paragraphs = _PARAGRAPHS.split(_RULE.sub("\n", text).strip())
    paragraphs = [part.strip("\n") for part in paragraphs if part.strip()]
    while len(paragraphs) > 1 and _CLOSING.match(paragraphs[-1]):
        paragraphs.pop()
    loose = len(paragraphs) > 1 and bool(_MAY_CLOSE.match(paragraphs[-1]))
    return "\n\n".join(paragraphs), loose


def _bare(text: str) -> str:
    """A text without quotes, emphasis and a count of characters around it."""
    found = text.strip()
    for _ in range(3):
        counted = _COUNTED.search(found)
        found = found[: counted.start()] if counted and counted.start() else found
        closing = _QUOTES.get(found[:1], "")
        inner = found[1:-1]
        if closing and found.endswith(closing) and not {found[0], closing} & set(inner) and inner:
            found = inner.strip()
        for mark in _EMPHASIS:
            inner = found.removeprefix(mark).removesuffix(mark)
            if len(found) - len(inner) == 2 * len(mark) and mark not in inner and inner.strip():
                found = inner.strip()
        if found.endswith("**") and found.count("**") == 1:  # it opened before the number
            found = found[:-2].rstrip()
    return "\n".join(line.rstrip() for line in found.split("\n")).strip()
