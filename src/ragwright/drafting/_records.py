"""What drafting takes and gives: a request, the prompts sent, the texts that came back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..core import ConfigError, Hit, Usage

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
