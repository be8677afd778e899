"""Settings of measures besides rows: models, language, cues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal, TypeAlias

from ..core import load_shipped_mapping, option
from ._rubric import Rubric

JudgeFormat: TypeAlias = Literal["auto", "json", "text"]

ERRORS = (
    "factual error",
    "factual errors",
    "erreur factuelle",
    "erreurs factuelles",
)


ASK_BACK = (
    "are you asking about|for",
    "are you interested in",
    "are you looking for",
    "are you referring to",
    "are you talking about",
    "can|could you be more specific",
    "can|could you clarify|specify",
    "can|could|would you please|kindly clarify|specify",
    "did you mean",
    "do you mean",
    "do you want to know",
    "please clarify|specify",
    "which one",
    "would you like me to",
    "would you like to know about",
    "you could|may|might be referring to",
    "faites-vous référence",
    "parlez-vous",
    "pouvez-vous préciser",
    "pourriez-vous préciser",
    "voulez-vous dire|parler",
    "beziehen Sie sich",
    "können|könnten Sie präzisieren",
    "meinen Sie",
    "meinst du",
    "puede|puedes|podría aclarar|especificar",
    "quiere|quieres decir",
    "se refiere a",
    "te refieres a",
)


@dataclass(frozen=True, slots=True)
class MeasureSetup:
    """The settings of measures; a measure without its model is not applicable.

    A row's ``metadata["language"]`` overrides ``language``.
    """

    model: str = option("", "Chat model that judges.")
    by: str = option(
        "",
        "Judge of a plug-in that judges by rubrics instead of the chat model: its name, or "
        "module:object.",
    )
    language: str = option("en", "ISO code of the texts, for articles, stems and stop words.")
    embedder: str = option("", "Embedding model of ChunkScore and QADistance.")
    token_model: str = option(
        "",
        "Local transformer of BERTScore and MoverScore: FOLDER, st:FOLDER or hf:ORG/NAME "
        "(`[torch]`).",
    )
    completer: str = option(
        "", "Model whose server echoes prompts with log-probabilities, for Perplexity."
    )
    rejection_cues: tuple[str, ...] = option(
        (),
        "Words by which a response is recognised as a refusal to answer, instead of the shipped "
        "ones (English, German, French, Spanish); `a|b` is either word, `=unknown` the whole "
        "response.",
    )
    further_rejection_cues: tuple[str, ...] = option(
        (), "Further words of refusals, besides the shipped ones or those of `rejection_cues`."
    )
    error_cues: tuple[str, ...] = option(
        ERRORS, "Words by which a response is recognised as reporting an error in the passages."
    )
    ask_back_cues: tuple[str, ...] = option(
        ASK_BACK, "Words by which a response is recognised as asking what the user means."
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
    per_passage: bool = option(
        False, "Judge passages one by one if together they do not fit the window."
    )
    repeat: int = option(1, "Independent judgments of each row; their mean is its score.", ge=1)
    questions: int = option(3, "Questions generated for QuestionSimilarity.", ge=1)
    rubrics: Mapping[str, Rubric] = option(
        dict, "Your own rubrics by name, in addition to those in the folder `rubrics`."
    )

    @property
    def refusals(self) -> tuple[str, ...]:
        """The cues by which a refusal is recognised."""
        return (*(self.rejection_cues or load_shipped_refusals()), *self.further_rejection_cues)


@cache
def load_shipped_refusals() -> tuple[str, ...]:
    """The shipped cues of refusals, of all languages."""
    by_language = load_shipped_mapping("measure", "cues/rejections.yaml").values
    return tuple(cue for language in by_language for cue in by_language[language])
