"""How the judge is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..core import option

JudgeFormat: TypeAlias = Literal["auto", "json", "text"]


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """How the judge is asked, and how often."""

    format: JudgeFormat = option(
        "auto",
        "json asks for structured output, text for a last line FINAL SCORE: n; auto is json, and "
        "text in the second try where the server has no structured output.",
    )
    max_tokens: int = option(1000, "Most tokens of a judge's reply.", ge=50)
    temperature: float = option(0.0, "Temperature of the judge; equal for all repeats.", ge=0)
    window: int | None = option(
        None, "Most tokens of the judge's prompt and replies together; empty: unknown.", ge=1
    )
    bytes_per_token: float = option(
        3.0, "UTF-8 bytes a token, by which a prompt is held against the window.", gt=0
    )
    per_passage: bool = option(
        False, "Judge passages one by one where together they do not fit the window."
    )
    repeat: int = option(1, "Independent judgments of each row; their mean is its score.", ge=1)
    questions: int = option(3, "Questions that QuestionSimilarity has written.", ge=1)
    spans: int = option(5, "Most spans of an answer that Q2 asks about.", ge=1)
