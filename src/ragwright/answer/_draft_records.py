"""What drafting takes and gives: a request, the prompts sent, the texts that came back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..core import ConfigError, Hit, Usage, option

DraftSearch: TypeAlias = Literal["auto", "keyword", "dense", "hybrid"]
DraftPurpose: TypeAlias = Literal["first", "length", "missing"]


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """What texts are wanted.

    Attributes:
        client: Whom the texts are from, as the records name it.
        ask_type: What they ask for, such as ``donate``.
        topics: What they are about, several if need be.
        tones: How they are written.
        length: Group of lengths: ``short``, ``medium``, ``long``.
        count: How many texts each model shall write.
        headlines: News that a text may take up; shown in the request, never as instructions.
        bio: The client's biography goes into the system prompt.
    """

    client: str = ""
    ask_type: str = ""
    topics: tuple[str, ...] = ()
    tones: tuple[str, ...] = ()
    length: str = "short"
    count: int = 5
    headlines: tuple[str, ...] = ()
    bio: bool = False

    def __post_init__(self) -> None:
        """Refuse what no model could be asked for."""
        if self.count < 1:
            raise ConfigError(f"a draft of {self.count} texts", hint="ask for 1 or more")


@dataclass(frozen=True, slots=True)
class DraftPrompt:
    """One call: exactly what one model was sent, and what became of it.

    Attributes:
        model: Model as configured.
        format: ``chat``, ``llama3``, ``instruction``, or the path of an own template.
        messages: Turns (role, content) of a chat, and those behind a raw prompt.
        text: The raw prompt, empty for a chat.
        examples: Chunk ids of its examples, in the order shown.
        wanted: Texts it asks for.
        purpose: ``first``, ``length`` (in place of texts of a wrong length) or ``missing`` (texts
            that the first call did not give).
        sample: Number of the sample; equal prompts of other numbers are other calls.
        reply: What the model said, empty where it failed or was not asked.
        finish: How the reply ended (``stop``, ``length``, …), empty where there is none.
        usage: What this call used and cost in this batch: no calls, tokens or cost where its reply
            was known already, or was another call's of the same batch.
        reply_usage: What the reply took when a model wrote it, whoever paid for it.
        error: Why there is no reply, empty where there is one.
        cached: True where the reply was known already.
    """

    model: str
    format: str = "chat"
    messages: tuple[tuple[str, str], ...] = ()
    text: str = ""
    examples: tuple[str, ...] = ()
    wanted: int = 1
    purpose: DraftPurpose = "first"
    sample: int = 0
    reply: str = ""
    finish: str = ""
    usage: Usage = Usage()
    error: str = ""
    cached: bool = False
    reply_usage: Usage = Usage()


@dataclass(frozen=True, slots=True)
class DraftText:
    """One text that a model wrote.

    Attributes:
        text: The text alone: no number, no quotes, no remarks around it.
        model: Model as configured.
        prompt: Position of its call in the batch's ``prompts``.
        marks: What a reader must know of it: ``too long: 213 of 160``,
            ``near copy of record:17 (0.93)``, ``cut: the reply ended at its limit``, …
        usage: Its share of its call's ``usage``: even among the texts kept of the call. Prompts
            carry the whole of it: what adds up is either the one or the other, never both.
    """

    text: str
    model: str
    prompt: int = 0
    marks: tuple[str, ...] = ()
    usage: Usage = Usage()

    @property
    def characters(self) -> int:
        """Length of the text in characters."""
        return len(self.text)


@dataclass(frozen=True, slots=True)
class DraftBatch:
    """All that one request came to.

    Attributes:
        request: As it was carried out: names as the records spell them.
        texts: By model in the order asked for, then in the order written.
        prompts: Every call, likewise; with ``--show-prompt`` what would be sent.
        hits: The pool of examples, best first; each says its rung.
        query: Text that was searched for.
        mode: How it was searched: ``keyword``, ``dense``, ``hybrid``.
        models: Models that were asked.
        notes: What the reader must know: a second index that answered, a model that failed, texts
            asked for again, examples left out.
        usage: Sum of ``usage`` over all prompts, those of texts that were asked for again among
            them: what this batch used and cost.
        cached: True where every reply was known already.
        snapshot: State of the index that the examples are from.
        partial: True where it was stopped (budget, interrupt) before every call was made; a note
            says by what.
        number: Number in the table of outputs, None where it is not stored there.
    """

    request: DraftRequest
    texts: tuple[DraftText, ...] = ()
    prompts: tuple[DraftPrompt, ...] = ()
    hits: tuple[Hit, ...] = ()
    query: str = ""
    mode: str = ""
    models: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    usage: Usage = Usage()
    cached: bool = False
    number: int | None = None
    snapshot: str = ""
    partial: bool = False


@dataclass(frozen=True, slots=True)
class DraftWeights:
    """How much each soft filter counts; a topic's weight counts once for each topic."""

    client: float = option(8.0, "Weight of the client.", ge=0)
    ask_type: float = option(5.0, "Weight of the ask type.", ge=0)
    topic: float = option(3.0, "Weight of each topic.", ge=0)
    length: float = option(2.0, "Weight of the length group.", ge=0)
    tone: float = option(1.0, "Weight of each tone.", ge=0)


@dataclass(frozen=True, slots=True)
class DraftOptions:
    """How texts are drafted from records like those that are wanted."""

    models: tuple[str, ...] = option((), "Models that write, side by side; empty: answer.model.")
    examples: int = option(15, "Examples shown in a prompt.", ge=1)
    pool: int = option(30, "Records found that examples are taken from.", ge=1)
    weights: DraftWeights = option(DraftWeights, "Weight of each soft filter.")
    threshold: float | None = option(
        None, "Least similarity of an example (in keyword search: least BM25 score)."
    )
    unfiltered: bool = option(True, "Records that meet no soft filter are the last rung.")
    search: DraftSearch = option("auto", "Channels that are searched for examples.")
    one_per_call: tuple[str, ...] = option(
        ("long",), "Length groups of which each call writes one text, from examples of its own."
    )
    max_tokens: int = option(1500, "Most tokens of one reply.", ge=16)
    temperature: float = option(0.8, "Sampling temperature.", ge=0, le=2)
    seed: int = option(0, "Seed of the choice of examples; another one gives other prompts.")
    near_copy: float = option(
        0.7,
        "Share of a text's character 4-grams in an example from which it is a near copy.",
        gt=0,
        le=1,
    )
    prompt: str = option("", "YAML file with the prompt's texts; empty for the shipped one.")
    format: str = option(
        "chat", "Prompt form: chat, or raw: llama3, instruction, or the path of a jinja file."
    )
    formats: Mapping[str, str] = option(dict, "Model -> its own prompt form.")
    stop: tuple[str, ...] = option((), "Texts at which a raw reply ends, beside the form's own.")

    def __post_init__(self) -> None:
        """Refuse a pool that could not hold the examples."""
        if self.pool < self.examples:
            raise ConfigError(
                f"a pool of {self.pool} records cannot give {self.examples} examples",
                where="answer.draft.pool",
                hint=f"raise answer.draft.pool (--pool) to {self.examples} or more, or lower "
                "answer.draft.examples (--examples)",
            )
