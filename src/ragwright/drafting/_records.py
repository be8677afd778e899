"""Records of drafting: the request, the prompts sent, the texts written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..core import ConfigError, Hit, Usage

DraftPurpose: TypeAlias = Literal["first", "length", "missing"]


@dataclass(frozen=True, slots=True)
class DraftRequest:
    """A request for texts.

    Attributes:
        client: The client that sends the texts, as named in the records.
        ask_type: Their ask type, such as ``donate``.
        topics: Their topics.
        tones: Their tones.
        length: Group of lengths: ``short``, ``medium``, ``long``.
        count: Number of texts per model.
        headlines: News that a text may refer to; shown as data, never as instructions.
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
        """Refuse an impossible number of texts."""
        if self.count < 1:
            raise ConfigError(f"a draft of {self.count} texts", hint="request at least 1")


@dataclass(frozen=True, slots=True)
class DraftPrompt:
    """One call: the exact prompt of one model, and the result.

    Attributes:
        model: Model as configured.
        format: ``chat``, ``llama3``, ``instruction``, or the path of a custom template.
        messages: Turns (role, content) of a chat, or of a raw prompt before rendering.
        text: The raw prompt, empty for a chat.
        examples: Chunk ids of its examples, in the order shown.
        wanted: Number of texts requested.
        purpose: ``first``, ``length`` (to replace texts of a wrong length) or ``missing`` (texts
            that the first call did not return).
        sample: Number of the sample; equal prompts with different numbers are different calls.
        reply: The model's reply, empty if it failed or was not called.
        finish: Finish reason of the reply (``stop``, ``length``, …), empty if there is none.
        usage: Usage and cost of this call in this batch: zero if its reply was stored, or shared
            with another call of the batch.
        reply_usage: Usage of the reply when it was first written.
        error: Reason of a missing reply, empty if there is one.
        cached: True if the reply was stored.
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
    """One text written by a model.

    Attributes:
        text: The text alone, without number, quotes or remarks.
        model: Model as configured.
        prompt: Position of its call in the batch's ``prompts``.
        marks: Marks for the user: ``too long: 213 of 160``,
            ``near copy of record:17 (0.93)``, ``cut: the reply ended at its limit``, …
        usage: Its share of its call's ``usage``, equal for all kept texts of the call. Prompts have
            the whole usage: sum either prompts or texts, never both.
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
    """The result of one request.

    Attributes:
        request: The request as carried out, with names as in the records.
        texts: By model in the requested order, then in the order written.
        prompts: All calls, likewise; with ``--show-prompt`` the prompts that would be sent.
        hits: The pool of examples, best first; each with its relaxation level.
        query: Text of the search.
        mode: Mode of the search: ``keyword``, ``dense``, ``hybrid``.
        models: Models that were called.
        notes: Notes for the user: a fallback of the index, a model that failed, texts requested
            again, examples left out.
        usage: Sum of ``usage`` over all prompts, including repeated requests: usage and cost of
            this batch.
        cached: True if every reply was stored.
        snapshot: State of the index that the examples are from.
        partial: True if it was stopped (budget, interrupt) before every call was made; a note has
            the reason.
        number: Number in the table of outputs, None if it is not stored.
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
