"""A judge's reply, read strictly: one integer on the scale, or the reason why there is none.

Nothing is repaired, guessed or rounded. An ambiguous reply is invalid, and the judge is shown its
mistake; a wrong score would go unnoticed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..flow import INCOMPLETE

ReplyForm: TypeAlias = Literal["json", "text"]

CUE = "FINAL SCORE:"
"""Start of the last line of a plain-text judgment."""

_AT_START = re.compile(r"^[\s>*_#`~|-]*final[\s*_]+score\b", re.IGNORECASE | re.MULTILINE)
_WITH_NUMBER = re.compile(
    r"final[\s*_]+score[\s*_`]*(?:[:=：]|is\b|of\b|->|-|–|—|→)?[\s*_`]*\d", re.IGNORECASE
)
_WHOLE = r"(?P<score>0|[1-9][0-9]{0,8})"
_LAST = tuple(
    re.compile(pattern, re.IGNORECASE | re.ASCII)
    for pattern in (
        rf"(?P<mark>[*_`]{{0,3}})final score:[ \t]*{_WHOLE}(?:\.?(?P=mark)|(?P=mark)\.)",
        rf"(?P<mark>[*_`]{{1,3}})final score:(?P=mark)[ \t]*{_WHOLE}\.?",
        rf"final score:[ \t]*(?P<mark>[*_`]{{1,3}}){_WHOLE}(?P=mark)\.?",
        rf"(?P<one>[*_`]{{1,3}})final score:(?P=one)[ \t]*(?P<two>[*_`]{{1,3}}){_WHOLE}(?P=two)\.?",
    )
)
_DECLINED = re.compile(r"[*_`]{0,3}final score:[*_`]{0,3}[ \t]*none[*_`]{0,3}\.?", re.IGNORECASE)
_SAYS = re.compile(r"\w")
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(?P<inner>.*)\n[ \t]*```", re.DOTALL | re.IGNORECASE)


class Declined(ValueError):
    """The judge declines in the valid form: there is no fault to correct."""


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """The content of a reply: a score with its reasoning, or None with the fault.

    ``declined`` is True if the judge itself gives no score.
    """

    score: int | None
    reasoning: str = ""
    fault: str = ""
    declined: bool = False


def read_verdict(
    text: str, scale: tuple[int, int], form: ReplyForm, finish: str = ""
) -> JudgeReply:
    """The score of a judge's reply.

    Args:
        text: The reply.
        scale: Lowest and highest score, both included.
        form: ``text``: reasoning, then exactly one line ``FINAL SCORE: n``, the last one;
            emphasis around it and a full stop after it are allowed. ``json``: one object
            ``{"reasoning": "…", "score": n}``, in this order, nothing beside it but one code
            fence around the whole. ``none`` or ``null`` in place of n declines to judge.
        finish: Why the model stopped; a reply that was cut is always invalid.

    Returns:
        A verdict without a score if anything is missing, repeated, outside the scale, or not a
        whole number in digits.
    """
    try:
        if form == "text":
            return _text_reply(_whole(text, finish), scale)
        return _json_reply(text, scale, finish)
    except ValueError as error:
        return JudgeReply(None, fault=str(error), declined=isinstance(error, Declined))


def read_object(text: str, keys: Sequence[str], finish: str = "") -> dict[str, Any]:
    """The JSON object of a reply, with exactly these keys in this order.

    A code fence around the whole is allowed; nothing else may be beside it.

    Raises:
        ValueError: It is something else; the message, which the judge reads, says why.
    """
    body = strip_fence(_whole(text, finish))
    try:
        value = json.loads(body, object_pairs_hook=_unique_keys)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not one JSON object: {str(error)[:80]}") from error
    return require_keys(value, keys)


def strip_fence(text: str) -> str:
    """A text without surrounding space and code fence."""
    body = text.strip()
    fenced = _FENCE.fullmatch(body)
    return fenced["inner"].strip() if fenced else body


def require_keys(value: Any, keys: Sequence[str]) -> dict[str, Any]:
    """An object with exactly these keys in this order.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(value, dict) or list(value) != list(keys):
        key_list = " and then ".join(f'"{key}"' for key in keys)
        raise ValueError(f"not an object of {key_list}, and nothing else")
    return value


def text_of(value: Any, what: str) -> str:
    """A nonempty text, stripped; halves of surrogate pairs become question marks.

    Raises:
        ValueError: It is not text, or has no letter or digit, like the ``...`` of a template.
    """
    if not isinstance(value, str) or not _SAYS.search(value):
        raise ValueError(f"{what} must be a text that is not empty")
    return value.strip().encode("utf-8", "replace").decode("utf-8")


def require_answer(value: Any) -> Any:
    """A value that the judge must decide.

    Raises:
        Declined: It is null: the judge does not decide.
    """
    if value is None:
        raise Declined("the judge declined to judge")
    return value


def strings_in(value: Any) -> list[str]:
    """Every text in a parsed reply, keys left out."""
    if isinstance(value, str):
        return [value]
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for part in inside for text in strings_in(part)]


def _whole(text: str, finish: str) -> str:
    """The reply.

    Raises:
        ValueError: It was cut, refused, or is empty.
    """
    if finish in INCOMPLETE:
        raise ValueError(INCOMPLETE[finish])
    if not text.strip():
        raise ValueError("the reply is empty")
    return text


def _text_reply(text: str, scale: tuple[int, int]) -> JudgeReply:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    starts = {match.end() for match in _AT_START.finditer(text)}
    # A score within the text counts too: with two scores it is unclear which one is meant.
    cues = len(starts) + sum(
        not any(match.start() < end <= match.end() for end in starts)
        for match in _WITH_NUMBER.finditer(text)
    )
    if not cues:
        raise ValueError(f"no line begins with {CUE}")
    if cues > 1:
        raise ValueError(f"a final score is given {cues} times; it must be given once")
    if not _AT_START.match(lines[-1]):
        raise ValueError("the final score is not the last line")
    if _DECLINED.fullmatch(lines[-1]):
        raise Declined("the judge declined to judge")
    final = next((match for form in _LAST if (match := form.fullmatch(lines[-1]))), None)
    if final is None:
        raise ValueError(
            f"the last line {lines[-1][:60]!r} is not '{CUE} n' with a whole number in digits"
        )
    reasoning = "\n".join(lines[:-1])
    if not _SAYS.search(reasoning):
        raise ValueError("a score without any reasoning")
    return _scored_reply(int(final["score"]), scale, reasoning)


def _json_reply(text: str, scale: tuple[int, int], finish: str) -> JudgeReply:
    value = read_object(text, ("reasoning", "score"), finish)
    score = require_answer(value["score"])
    reasoning = text_of(value["reasoning"], "reasoning")
    if not isinstance(score, int) or isinstance(score, bool):
        raise ValueError(f"the score {json.dumps(score)[:40]} is not a whole number")
    return _scored_reply(score, scale, reasoning)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        raise ValueError("a key occurs twice")
    return mapping


def _scored_reply(score: int, scale: tuple[int, int], reasoning: str) -> JudgeReply:
    low, high = scale
    if not low <= score <= high:
        raise ValueError(f"the score {score} is not on the scale from {low} to {high}")
    return JudgeReply(score, reasoning)
