"""A judge's reply, read strictly: one integer on the scale, or the reason why there is none.

Nothing is repaired, guessed or rounded. A reply that could be read in two ways is invalid, and
the judge is shown its mistake; a wrong score would not be noticed by anybody.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

JudgeFormat: TypeAlias = Literal["json", "text"]

CUE = "FINAL SCORE:"
"""What the last line of a plain-text judgment begins with."""

_CUE_LINE = re.compile(r"^[\s>*_#`~-]*final\s+score[*_`~\s]*(?::|=|is\b|-|–|—)?", re.IGNORECASE)
_LAST = re.compile(
    r"[*_`~ \t]*final[ ]score:[*_`~ \t]*(?P<score>[0-9]+)[*_`~ \t]*\.?[*_`~ \t]*", re.I
)
_THOUGHT = re.compile(r"\s*<think>.*?</think>", re.DOTALL)
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(?P<inner>.*)\n[ \t]*```", re.DOTALL | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a reply says: a score with its reasoning, or None with what is wrong with the reply."""

    score: int | None
    reasoning: str = ""
    fault: str = ""


def read_verdict(text: str, scale: tuple[int, int], form: JudgeFormat, finish: str = "") -> Verdict:
    """The score of a judge's reply.

    Args:
        text: The reply.
        scale: Lowest and highest score, both included.
        form: ``text``: reasoning, then exactly one line ``FINAL SCORE: n``, the last one;
            emphasis around it and a full stop behind it are let pass. ``json``: one object
            ``{"reasoning": "…", "score": n}``, in this order, nothing beside it but one code
            fence around the whole.
        finish: Why the model stopped; a reply that was cut is invalid whatever it says.

    Returns:
        A verdict without a score wherever anything is missing, twice there, out of the scale,
        or not a whole number written in digits.
    """
    if finish == "length":
        return Verdict(None, fault="the reply was cut off before its end")
    if finish == "content_filter":
        return Verdict(None, fault="the server's content filter cut the reply")
    # Reasoning models think aloud first; what they weigh there is not yet their judgment.
    text = _THOUGHT.sub("", text, count=1) if text.lstrip().startswith("<think>") else text
    if not text.strip():
        return Verdict(None, fault="the reply is empty")
    return _from_json(text, scale) if form == "json" else _from_text(text, scale)


def _from_text(text: str, scale: tuple[int, int]) -> Verdict:
    lines = [line for line in text.splitlines() if line.strip()]
    cued = [line for line in lines if _CUE_LINE.match(line)]
    if not cued:
        return Verdict(None, fault=f"no line begins with {CUE}")
    if len(cued) > 1:
        return Verdict(None, fault=f"{len(cued)} lines give a final score, one is due")
    if cued[0] is not lines[-1]:
        return Verdict(None, fault="the final score is not the last line")
    found = _LAST.fullmatch(lines[-1].strip())
    if found is None:
        shown = lines[-1].strip()[:60]
        return Verdict(None, fault=f"the last line {shown!r} is not '{CUE} n' with a whole number")
    reasoning = "\n".join(lines[:-1]).strip()
    if not reasoning:
        return Verdict(None, fault="a score without any reasoning")
    return _on_scale(int(found["score"]), scale, reasoning)


def _from_json(text: str, scale: tuple[int, int]) -> Verdict:
    body = text.strip()
    fenced = _FENCE.fullmatch(body)
    try:
        value = json.loads(fenced["inner"] if fenced else body, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        return Verdict(None, fault=f"not one JSON object: {str(error)[:80]}")
    if not isinstance(value, dict) or list(value) != ["reasoning", "score"]:
        return Verdict(None, fault='not an object of "reasoning" and then "score"')
    reasoning, score = value["reasoning"], value["score"]
    if not isinstance(reasoning, str) or not reasoning.strip():
        return Verdict(None, fault="a score without any reasoning")
    if not isinstance(score, int) or isinstance(score, bool):
        return Verdict(None, fault=f"the score {json.dumps(score)[:40]} is not a whole number")
    return _on_scale(score, scale, reasoning.strip())


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _on_scale(score: int, scale: tuple[int, int], reasoning: str) -> Verdict:
    low, high = scale
    if not low <= score <= high:
        return Verdict(None, fault=f"the score {score} is not on the scale from {low} to {high}")
    return Verdict(score, reasoning)
