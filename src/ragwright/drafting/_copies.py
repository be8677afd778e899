"""Texts that repeat an example, or one another: containment of character n-grams (Broder 1997)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SIZE = 4
"""Characters of an n-gram; 4 is best on edited messages, of 4 to 6 characters and 2 to 3 words."""

_LEAST = 20
"""Fewest n-grams of a near copy; a shorter text must be equal, as any text contains three words."""

_SIGNS = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class NearCopy:
    """The text that another nearly repeats, and the share of the shorter one: 0 to 1."""

    of: str
    share: float

    def __str__(self) -> str:
        """Return the mark of a text."""
        return f"near copy of {self.of} ({self.share:.2f})"


def copies_among(
    texts: Sequence[str], examples: Sequence[tuple[str, str]], threshold: float
) -> list[tuple[NearCopy, ...]]:
    """Return the near copies of each text: at most one example, and one earlier text.

    Each is the most similar one, the first of equals.
    """
    names = [*(name for name, _ in examples), *(f"text {n}" for n in range(1, len(texts) + 1))]
    all_texts = [*(text for _, text in examples), *texts]
    first = len(examples)
    copies = []
    for shares in shares_before(all_texts, first):
        parts = ((0, shares[:first]), (first, shares[first:]))
        best = [(begin + int(part.argmax()), part.max()) for begin, part in parts if len(part)]
        copies.append(tuple(NearCopy(names[n], float(s)) for n, s in best if s >= threshold))
    return copies


def shares_before(texts: Sequence[str], first: int = 0) -> Iterator[NDArray[np.float64]]:
    """Return how far each text contains all earlier ones, or is in them, from a first one on.

    This is the share of the n-grams of the shorter text that are in the other one, 0 to 1. Case,
    punctuation and spacing are ignored. If the shorter text has under 20 n-grams, it is 1 for
    equal texts, else 0.
    """
    normal = [normalise_case(text) for text in texts]
    grams = [{text[at : at + SIZE] for at in range(len(text) - SIZE + 1)} for text in normal]
    for place in range(first, len(texts)):
        least = [min(len(earlier), len(grams[place])) for earlier in grams[:place]]
        shares = [
            len(grams[place] & grams[at]) / size
            if size >= _LEAST
            else float(size > 0 and normal[at] == normal[place])
            for at, size in enumerate(least)
        ]
        yield np.array(shares, np.float64)


def normalise_case(text: str) -> str:
    """Return a text without case, punctuation and runs of blanks (NFKC)."""
    return _SIGNS.sub(" ", unicodedata.normalize("NFKC", text).casefold()).strip()


NO_LIST = "not split: the reply shows no list"
AT_BLANKS = "unsure: split at blank lines"
AT_LINES = "unsure: split at line ends"
NUMBERS = "unsure: the numbers of the list do not count up by one"
LOOSE_START = "unsure: its first line may be a remark"
LOOSE_END = "unsure: its end may be a remark"


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

_MarkedTexts = list[tuple[str, str]]


def split_reply(reply: str, wanted: int = 1) -> tuple[_MarkedTexts, str]:
    """Return the texts of a reply to a request for ``wanted`` of them, each with its doubt.

    A doubt is empty if there is none. A code fence around the reply, quotes, emphasis, character
    counts and remarks around the texts are removed. There may be fewer or more texts than wanted;
    none for an empty reply. If the model refused, there is none either, and the second value is the
    beginning of the refusal.
    """
    body = reply.replace("\r\n", "\n").replace("\r", "\n").strip()
    fenced = _FENCED.fullmatch(body)
    if fenced and _is_preamble(fenced[1]) and len(fenced[3]) <= _LONGEST_REMARK:
        body = fenced[2].strip()
    texts = _list_texts(body, wanted)
    if not texts and _REFUSAL.match(body) and _REFUSES.search(body[:400]):
        return [], " ".join(body.split())[:_SHOWN]
    parts = ((_bare_text(text), mark) for text, mark in texts or _paragraph_texts(body, wanted))
    return [part for part in parts if part[0]], ""


# -- lists ---------------------------------------------------------------------------------


def _list_texts(body: str, wanted: int) -> _MarkedTexts:
    """Return the texts of a numbered list, or of a bulleted one; none if the reply is neither."""
    lines = body.split("\n")
    lists = [texts for texts in (_numbered_texts(lines), _bulleted_texts(lines, wanted)) if texts]
    return _marked_list(max(lists, key=lambda texts: len(texts) == wanted), wanted) if lists else []


def _numbered_texts(lines: Sequence[str]) -> _MarkedTexts:
    """Return texts that begin at consecutive numbers; a doubtful number marks its texts."""
    marks = [
        (line_number, mark)
        for line_number, line in enumerate(lines)
        if (mark := _NUMBER.match(line))
    ]
    marks = _outermost(marks)
    numbers = [int(mark["number"]) for _, mark in marks]
    starts: list[tuple[int, int]] = []
    doubtful: set[int] = set()
    expected = min(1, numbers[0]) if numbers else 1
    for place, ((line_number, mark), number) in enumerate(zip(marks, numbers, strict=True)):
        if number < expected or (number > expected and expected in numbers[place:]):
            doubtful.add(len(starts) - 1)
            continue
        if number > expected:
            doubtful |= {len(starts) - 1, len(starts)}
        starts.append((line_number, mark.end()))
        expected = number + 1
    if not starts:
        return []
    before = "\n".join(lines[: starts[0][0]])
    if len(starts) == 1 and (numbers[0] > 1 or not _is_preamble(before)):
        return []
    texts = [
        (text, NUMBERS if index in doubtful else "")
        for index, text in enumerate(_texts_between(lines, starts))
    ]
    return [(before, NUMBERS), *texts] if numbers[0] > 1 and not _is_preamble(before) else texts


def _bulleted_texts(lines: Sequence[str], wanted: int) -> _MarkedTexts:
    """Return texts that begin at the bullet of the first item; one alone only if one is wanted."""
    marks = [
        (line_number, mark)
        for line_number, line in enumerate(lines)
        if (mark := _BULLET.match(line))
    ]
    marks = [mark_at for mark_at in marks if mark_at[1]["bullet"] == marks[0][1]["bullet"]]
    starts = [(line_number, mark.end()) for line_number, mark in _outermost(marks)]
    if len(starts) < 2 and not (starts and wanted == 1 and starts[0][0] == 0):
        return []
    return [(text, "") for text in _texts_between(lines, starts)]


def _outermost(marks: list[tuple[int, re.Match[str]]]) -> list[tuple[int, re.Match[str]]]:
    """Drop marks of a list within an item, which are indented further."""
    least = min((len(mark["indent"]) for _, mark in marks), default=0)
    return [mark_at for mark_at in marks if len(mark_at[1]["indent"]) <= least + 1]


def _texts_between(lines: Sequence[str], starts: Sequence[tuple[int, int]]) -> Iterable[str]:
    """Return the text from each start (line, column) to the next, without its lines' indent."""
    ends = [*(line_number for line_number, _ in starts[1:]), len(lines)]
    for (line_number, column), end in zip(starts, ends, strict=True):
        rest = lines[line_number + 1 : end]
        depth = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
        yield "\n".join([lines[line_number][column:], *(line[depth:] for line in rest)])


def _marked_list(texts: _MarkedTexts, wanted: int) -> _MarkedTexts:
    """Remove a remark after the last text; mark possible remarks or joined texts."""
    text, mark = texts[-1]
    text, may_have_remark = _cut_closing(text)
    others_are_paragraphs = len(texts) > 1 and not any(
        "\n\n" in other.strip() for other, _ in texts[:-1]
    )
    may_have_remark = may_have_remark or (others_are_paragraphs and "\n\n" in text)
    texts = [*texts[:-1], (text, mark or (LOOSE_END if may_have_remark else ""))]
    if len(texts) >= wanted:
        return texts
    return [(text, mark or (NUMBERS if _IN_LINE.search(text) else "")) for text, mark in texts]


# -- no list -------------------------------------------------------------------------------


def _paragraph_texts(body: str, wanted: int) -> _MarkedTexts:
    """Return the texts of a reply without a list: paragraphs or lines if as many as wanted."""
    paragraphs = [part.strip() for part in _PARAGRAPHS.split(_RULE.sub("\n", body)) if part.strip()]
    if len(paragraphs) > 1 and _is_preamble(paragraphs[0]) and _ABOUT.search(paragraphs[0]):
        paragraphs = paragraphs[1:]
    body, may_have_remark = _cut_closing("\n\n".join(paragraphs))
    first, _, rest = body.partition("\n")
    may_have_preamble = bool(_PREAMBLE.match(first)) and first.endswith(":") and bool(rest.strip())
    if may_have_preamble and _ABOUT.search(first):
        body, may_have_preamble = rest.strip(), False
    if wanted == 1:
        return [(body, LOOSE_START if may_have_preamble else LOOSE_END if may_have_remark else "")]
    paragraphs = _PARAGRAPHS.split(body)
    if len(paragraphs) == wanted:
        return [(text, AT_BLANKS) for text in paragraphs]
    lines = body.split("\n")
    if len(lines) == wanted and len(paragraphs) == 1:
        return [(text, AT_LINES) for text in lines]
    return [(body, NO_LIST)]


def _is_preamble(text: str) -> bool:
    """True for an introduction that announces texts, or ends in a colon."""
    stripped = text.strip().strip("*_# ")
    if len(stripped) > _LONGEST_REMARK or "\n\n" in stripped:
        return False
    return not stripped or bool(_PREAMBLE.match(stripped)) or stripped.endswith(":")


def _cut_closing(text: str) -> tuple[str, bool]:
    """Cut remarks about the work at a text's end; True if another one may remain."""
    paragraphs = _PARAGRAPHS.split(_RULE.sub("\n", text).strip())
    paragraphs = [part.strip("\n") for part in paragraphs if part.strip()]
    while len(paragraphs) > 1 and _CLOSING.match(paragraphs[-1]):
        paragraphs.pop()
    may_have_remark = len(paragraphs) > 1 and bool(_MAY_CLOSE.match(paragraphs[-1]))
    return "\n\n".join(paragraphs), may_have_remark


def _bare_text(text: str) -> str:
    """Return a text without quotes, emphasis and a count of characters around it."""
    body = text.strip()
    for _ in range(3):
        count_match = _COUNTED.search(body)
        body = body[: count_match.start()] if count_match and count_match.start() else body
        closing = _QUOTES.get(body[:1], "")
        inner = body[1:-1]
        if closing and body.endswith(closing) and not {body[0], closing} & set(inner) and inner:
            body = inner.strip()
        for mark in _EMPHASIS:
            inner = body.removeprefix(mark).removesuffix(mark)
            if len(body) - len(inner) == 2 * len(mark) and mark not in inner and inner.strip():
                body = inner.strip()
        if body.endswith("**") and body.count("**") == 1:  # it opened before the number
            body = body[:-2].rstrip()
    return "\n".join(line.rstrip() for line in body.split("\n")).strip()
