"""What measures need besides rows: models, language, cues."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..core import option
from ._judge_options import JudgeOptions
from ._rubric import Rubric

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
    """What measures may use besides a row; a measure whose model is not set is not applicable.

    A row's own ``metadata["language"]`` wins over ``language``.
    """

    language: str = option("en", "ISO code of the texts, for articles, stems and stop words.")
    embedder: str = option("", "Embedding model of ChunkScore and QADistance.")
    token_model: str = option(
        "", "Folder of a local transformer, for BERTScore and MoverScore (`[torch]`)."
    )
    completer: str = option(
        "", "Model whose server echoes prompts with log-probabilities, for Perplexity."
    )
    judge: str = option("", "Chat model that judges.")
    rejection_cues: tuple[str, ...] = option(
        REJECTIONS, "Words by which a response is recognised as a refusal to answer."
    )
    error_cues: tuple[str, ...] = option(
        ERRORS, "Words by which a response is recognised as reporting an error in the passages."
    )
    judging: JudgeOptions = field(default_factory=JudgeOptions)
    rubrics: Mapping[str, Rubric] = option(dict, "A project's own rubrics, by name.")
