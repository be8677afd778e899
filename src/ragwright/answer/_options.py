"""Settings of the sections ``answer`` and ``prompt`` of a project file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..core import ConfigError, option
from ..models import NO_MODEL

Method: TypeAlias = Literal["concatenate", "summarise_each", "running", "tree"]
HitOrder: TypeAlias = Literal["best_first", "best_last", "best_at_ends"]
DraftSearch: TypeAlias = Literal["auto", "keyword", "dense", "hybrid"]


@dataclass(frozen=True, slots=True)
class CorpusOptions:
    """Settings of answers from every chunk of the corpus."""

    max_chunks: int = option(
        500, "Most chunks a chat model reads for one question, one call each.", ge=1
    )


@dataclass(frozen=True, slots=True)
class DraftWeights:
    """Weights of the soft filters; a topic's weight counts once for each topic."""

    client: float = option(8.0, "Weight of the client.", ge=0)
    ask_type: float = option(5.0, "Weight of the ask type.", ge=0)
    topic: float = option(3.0, "Weight of each topic.", ge=0)
    length: float = option(2.0, "Weight of the length group.", ge=0)
    tone: float = option(1.0, "Weight of each tone.", ge=0)


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """Settings of drafting texts from similar records."""

    models: tuple[str, ...] = option((), "Models that write drafts; empty: answer.model.")
    examples: int = option(15, "Examples shown in a prompt.", ge=1)
    pool: int = option(30, "Number of records found from which examples are taken.", ge=1)
    weights: DraftWeights = option(DraftWeights, "Weight of each soft filter.")
    threshold: float | None = option(
        None, "Least similarity of an example (in keyword search: least BM25 score)."
    )
    unfiltered: bool = option(True, "Include records that meet no soft filter, after all others.")
    search: DraftSearch = option("auto", "Channels that are searched for examples.")
    per_call: int | None = option(
        None, "Most texts per call; empty: as many as fit max_tokens.", ge=1
    )
    max_tokens: int = option(1500, "Most tokens of one reply.", ge=16)
    temperature: float = option(0.8, "Sampling temperature.", ge=0, le=2)
    seed: int = option(0, "Seed of the choice of examples; another seed gives other prompts.")
    prompt: str = option("", "YAML file with the prompt's texts; empty for the shipped one.")
    format: str = option(
        "chat", "Prompt form: chat, or raw: llama3, instruction, or the path of a jinja file."
    )
    formats: Mapping[str, str] = option(dict, "Model -> its own prompt form.")
    stop: tuple[str, ...] = option((), "Further stop texts of a raw reply.")

    def __post_init__(self) -> None:
        """Refuse a pool smaller than the number of examples."""
        if self.pool < self.examples:
            raise ConfigError(
                f"a pool of {self.pool} records cannot give {self.examples} examples",
                where="answer.draft.pool",
                hint=f"raise answer.draft.pool (--pool) to {self.examples} or more, or lower "
                "answer.draft.examples (--examples)",
            )


REFUSED = "The documents found do not answer this question."
"""The text of an abstention where no chat model wrote one."""

DEFAULT_CUE = "The passages do not answer this question."
DEFAULT_ERROR_CUE = "There is a factual error in the passages."


@dataclass(frozen=True, slots=True)
class PromptOptions:
    """Composition of the prompt; presets and switches are combined."""

    template: str = option("", "YAML file with the parts; empty for the shipped one.")
    preset: str = option(
        "complete", "Ablation preset, such as without_style; the page Prompt presets lists all 16."
    )
    parts: tuple[str, ...] = option(
        (),
        "Only these parts; empty for all. Parts: role, tailor, ignore_debris, only_context,"
        " cite, key_information, insufficient, readable_sentences, persona_length, persona_style,"
        " no_extraneous, answer_language, context, question, turn_markers.",
    )
    without: tuple[str, ...] = option((), "Parts left out.")
    order: tuple[str, ...] = option((), "Parts to put first, in this order; the others follow.")
    swap: tuple[tuple[str, str], ...] = option((), "Pairs of parts to swap.")
    replace: Mapping[str, str] = option(dict, "Part -> its text or the name of a variant.")
    company: str = option("", "The company, product or organisation the answers are for.")
    cue: str = option(DEFAULT_CUE, "Words at the start of a reply when the passages do not answer.")
    error_cue: str = option(
        DEFAULT_ERROR_CUE,
        "Words at the start of a reply when a passage is wrong, for the variant report_errors.",
    )


@dataclass(frozen=True, slots=True)
class AnswerOptions:
    """Settings of answering from passages."""

    model: str = option(
        NO_MODEL, "Chat model; snippet: none, the best passages are shown, cut to what matches."
    )
    persona: str = option("", "Default persona.")
    max_tokens: int = option(700, "Most tokens of a reply.", ge=1)
    temperature: float = option(0.0, "Sampling temperature.", ge=0, le=2)
    seed: int | None = option(None, "Seed sent to servers that support it.")
    context_tokens: int = option(6000, "Most tokens of passages in the prompt.", ge=100)
    hit_order: HitOrder = option(
        "best_first", "Order of passages: best_first, best_last or best_at_ends."
    )
    consolidate: Method = option(
        "concatenate",
        "Context: concatenate passages, or summarise them by a model first: summarise_each, "
        "running, tree.",
    )
    stream: bool = option(False, "Show the reply while it is being written.")
    threshold: float = option(
        0.7,
        "Without a chat model: what a passage must hold of the question's words, by their rarity, "
        "against that and the rarest word it lacks; if none does, the answer abstains.",
        ge=0,
        le=1,
    )
    closed_book: bool = option(False, "Ask the model without passages (closed book).")
    corpus: CorpusOptions = option(CorpusOptions, "Questions about the whole corpus.")
    draft: DraftOptions = option(DraftOptions, "Drafting texts from records.")
