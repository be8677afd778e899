"""Settings of measures besides rows: models, language, cues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..core import option
from ._rubric import Rubric

JudgeFormat: TypeAlias = Literal["auto", "json", "text"]

REJECTIONS = (
    "insufficient information",
    "cannot answer",
    "can not answer",
    "can't answer",
    "unable to answer",
    "not enough information",
    "informations insuffisantes",
    "ne peux pas répondre",
    "ne permet pas de répondre",
    "ne permettent pas de répondre",
)
ERRORS = (
    "factual error",
    "factual errors",
    "erreur factuelle",
    "erreurs factuelles",
)


@dataclass(frozen=True, slots=True)
class MeasureSetup:
    """Settings of measures; a measure whose model is not set is not applicable.

    A row's ``metadata["language"]`` overrides ``language``.
    """

    model: str = option("", "Chat model that judges.")
    language: str = option("en", "ISO code of the texts, for articles, stems and stop words.")
    embedder: str = option("", "Embedding model of ChunkScore and QADistance.")
    token_model: str = option(
        "", "Folder of a local transformer, for BERTScore and MoverScore (`[torch]`)."
    )
    completer: str = option(
        "", "Model whose server echoes prompts with log-probabilities, for Perplexity."
    )
    rejection_cues: tuple[str, ...] = option(
        REJECTIONS, "Words by which a response is recognised as a refusal to answer."
    )
    error_cues: tuple[str, ...] = option(
        ERRORS, "Words by which a response is recognised as reporting an error in the passages."
    )
    format: JudgeFormat = option(
        "auto",
        "json asks for structured output, text for a last line FINAL SCORE: n; auto is json, "
        "then text if the server has no structured output.",
    )
    max_tokens: int = option(1000, "Most tokens of a judge's reply.", ge=50)
    temperature: float = option(0.0, "Temperature of the judge; equal for all repeats.", ge=0)
    window: int | None = option(
        None, "Most tokens of the judge's prompt and replies together; empty: unknown.", ge=1
    )
    bytes_per_token: float = option(
        3.0, "UTF-8 bytes per token, to estimate whether a prompt fits the window.", gt=0
    )
    per_passage: bool = option(
        False, "Judge passages one by one if together they do not fit the window."
    )
    repeat: int = option(1, "Independent judgments of each row; their mean is its score.", ge=1)
    questions: int = option(3, "Questions generated for QuestionSimilarity.", ge=1)
    spans: int = option(5, "Most spans of an answer that Q2 asks about.", ge=1)
    rubrics: Mapping[str, Rubric] = option(
        dict, "Your own rubrics by name, in addition to those in the folder `rubrics`."
    )
