"""Texts that repeat an example, or one another: containment of character n-grams (Broder 1997)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

SIZE = 4
"""Characters of an n-gram; 4 is best on edited messages, of 4 to 6 characters and 2 to 3 words."""

_LEAST = 20
"""Fewest n-grams of a near copy; a shorter text must be equal, as any text contains three words."""

_SIGNS = re.compile(r"[\W_]+")


def copies_among(
    texts: Sequence[str], examples: Sequence[tuple[str, str]], threshold: float
) -> list[tuple[str, ...]]:
    """Return the marks of each text as a near copy: of at most one example and one earlier text.

    Each is the most similar one, the first of equals; with the share of the shorter text, 0 to 1.
    """
    names = [*(name for name, _ in examples), *(f"text {n}" for n in range(1, len(texts) + 1))]
    all_texts = [*(text for _, text in examples), *texts]
    first = len(examples)
    copies = []
    for shares in shares_before(all_texts, first):
        parts = ((0, shares[:first]), (first, shares[first:]))
        best = [(begin + int(part.argmax()), part.max()) for begin, part in parts if len(part)]
        copies.append(
            tuple(f"near copy of {names[n]} ({s:.2f})" for n, s in best if s >= threshold)
        )
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


UNSPLIT = "not split: the reply shows no list"
GUESSED = "unsure: split at blank lines or line ends"

_FENCED = re.compile(r"([^`]*)```[\w-]*[ \t]*\n([^`]*)\n?[ \t]*```([^`]*)")
_PARAGRAPHS = re.compile(r"\n[ \t]*\n")
_RULE = re.compile(r"^[ \t]*[-*=_]{3,}[ \t]*$", re.MULTILINE)
_NUMBER = re.compile(
    r"(?P<indent>[ \t]*)[#>*_(\[ ]{0,6}(?:(?:text|message|option|draft|version)\s#?)?"
    r"(?P<number>\d{1,3})(?:[*_]*[.):\]][.):\]*_]*(?=\s|$)|[ \t]+[-–—](?=\s)|[*_]+$)\s*",
    re.IGNORECASE,
)
_BULLET = re.compile(r"(?P<indent>[ \t]*)(?P<bullet>[-*•+–])[ \t]+(?=\S)")
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


def split_reply(reply: str, wanted: int = 1) -> tuple[list[str], str, str]:
    """Return the texts of a reply to a request for ``wanted`` of them, a doubt, and a refusal.

    The doubt is about all texts, empty if the reply is a list. A code fence around the reply,
    quotes, emphasis, character counts and remarks around the texts are removed. There may be fewer
    or more texts than wanted; none for an empty reply, and none if the model refused: the refusal
    is its beginning.
    """
    body = reply.replace("\r\n", "\n").replace("\r", "\n").strip()
    fenced = _FENCED.fullmatch(body)
    if fenced and _is_preamble(fenced[1]) and len(fenced[3]) <= _LONGEST_REMARK:
        body = fenced[2].strip()
    lines, doubt = body.split("\n"), ""
    lists = [texts for texts in (_numbered_texts(lines), _bulleted_texts(lines, wanted)) if texts]
    if lists:
        texts = max(lists, key=lambda texts: len(texts) == wanted)
        texts[-1] = _cut_closing(texts[-1])
    elif _REFUSAL.match(body) and _REFUSES.search(body[:400]):
        return [], "", " ".join(body.split())[:_SHOWN]
    else:
        texts, doubt = _paragraph_texts(body, wanted)
    return [text for text in map(_bare_text, texts) if text], doubt, ""


# -- lists ---------------------------------------------------------------------------------


def _numbered_texts(lines: Sequence[str]) -> list[str]:
    """Return texts that begin at rising numbers; a number that comes out of turn is no start."""
    marks = _outermost_marks(lines, _NUMBER)
    numbers = [int(mark["number"]) for _, mark in marks]
    starts: list[tuple[int, int]] = []
    expected = min(1, numbers[0]) if numbers else 1
    for place, ((line_number, mark), number) in enumerate(zip(marks, numbers, strict=True)):
        if number == expected or (number > expected and expected not in numbers[place:]):
            starts.append((line_number, mark.end()))
            expected = number + 1
    if not starts:
        return []
    before = "\n".join(lines[: starts[0][0]])
    is_first = numbers[0] < 2 or _is_preamble(before)
    if len(starts) == 1 and (numbers[0] > 1 or not _is_preamble(before)):
        return []
    return [*([] if is_first else [before]), *_texts_between(lines, starts)]


def _bulleted_texts(lines: Sequence[str], wanted: int) -> list[str]:
    """Return texts that begin at the bullet of the first item; one alone only if one is wanted."""
    marks = _outermost_marks(lines, _BULLET)
    starts = [(at, mark.end()) for at, mark in marks if mark["bullet"] == marks[0][1]["bullet"]]
    if len(starts) < 2 and not (starts and wanted == 1 and starts[0][0] == 0):
        return []
    return _texts_between(lines, starts)


def _outermost_marks(
    lines: Sequence[str], pattern: re.Pattern[str]
) -> list[tuple[int, re.Match[str]]]:
    """Return the lines that a pattern matches, without those of a list within an item."""
    marks = [(at, mark) for at, line in enumerate(lines) if (mark := pattern.match(line))]
    least = min((len(mark["indent"]) for _, mark in marks), default=0)
    return [(at, mark) for at, mark in marks if len(mark["indent"]) <= least + 1]


def _texts_between(lines: Sequence[str], starts: Sequence[tuple[int, int]]) -> list[str]:
    """Return the text from each start (line, column) to the next, without its lines' indent."""
    texts, ends = [], [*(line_number for line_number, _ in starts[1:]), len(lines)]
    for (line_number, column), end in zip(starts, ends, strict=True):
        rest = lines[line_number + 1 : end]
        depth = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
        texts.append("\n".join([lines[line_number][column:], *(line[depth:] for line in rest)]))
    return texts


# -- no list -------------------------------------------------------------------------------


def _paragraph_texts(body: str, wanted: int) -> tuple[list[str], str]:
    """Return paragraphs or lines if there are as many as wanted, else the whole; and the doubt."""
    paragraphs = [part.strip() for part in _PARAGRAPHS.split(_RULE.sub("\n", body)) if part.strip()]
    if len(paragraphs) > 1 and _is_preamble(paragraphs[0]) and _ABOUT.search(paragraphs[0]):
        paragraphs = paragraphs[1:]
    body = _cut_closing("\n\n".join(paragraphs))
    first, _, rest = body.partition("\n")
    if _PREAMBLE.match(first) and first.endswith(":") and rest.strip() and _ABOUT.search(first):
        body = rest.strip()
    if wanted == 1:
        return [body], ""
    parts = _PARAGRAPHS.split(body)
    parts = parts if len(parts) > 1 else body.split("\n")
    return (parts, GUESSED) if len(parts) == wanted else ([body], UNSPLIT)


def _is_preamble(text: str) -> bool:
    stripped = text.strip().strip("*_# ")
    if len(stripped) > _LONGEST_REMARK or "\n\n" in stripped:
        return False
    return not stripped or bool(_PREAMBLE.match(stripped)) or stripped.endswith(":")


def _cut_closing(text: str) -> str:
    paragraphs = _PARAGRAPHS.split(_RULE.sub("\n", text).strip())
    paragraphs = [part.strip("\n") for part in paragraphs if part.strip()]
    while len(paragraphs) > 1 and _CLOSING.match(paragraphs[-1]):
        paragraphs.pop()
    return "\n\n".join(paragraphs)


def _bare_text(text: str) -> str:
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
