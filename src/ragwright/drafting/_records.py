"""Records of drafting: the request, the prompts sent, the texts written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from ..core import ConfigError, Filter, Hit, Usage, value_hash
from ..flow import TraceEntry

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
        messages: Turns (role, content).
        examples: Chunk ids of its examples, in the order shown.
        wanted: Number of texts requested.
        purpose: ``first``, ``length`` (to replace texts of a wrong length) or ``missing`` (texts
            that the first call did not return).
        sample: Number of the sample; equal prompts with different numbers are different calls.
        reply: The model's reply, empty if it failed or was not called.
        finish: Finish reason of the reply (``stop``, ``length``, …), empty if there is none.
        usage: Usage and cost of this call in this batch: zero if its reply was stored, or shared
            with another call of the batch.
        error: Reason of a missing reply, empty if there is one.
        cached: True if the reply was stored.
    """

    model: str
    messages: tuple[tuple[str, str], ...] = ()
    examples: tuple[str, ...] = ()
    wanted: int = 1
    purpose: DraftPurpose = "first"
    sample: int = 0
    reply: str = ""
    finish: str = ""
    usage: Usage = Usage()
    error: str = ""
    cached: bool = False


@dataclass(frozen=True, slots=True)
class DraftText:
    """One text written by a model.

    Attributes:
        text: The text alone, without number, quotes or remarks.
        model: Model as configured.
        prompt: Position of its call in the batch's ``prompts``.
        marks: Marks for the user: ``too long: 213 of 160``,
            ``near copy of record:17 (0.93)``, ``cut: the reply ended at its limit``, …
    """

    text: str
    model: str
    prompt: int = 0
    marks: tuple[str, ...] = ()

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


@dataclass(frozen=True, slots=True)
class Drafting:
    """Settings of one draft, in addition to the project's.

    Attributes:
        models: Models that write, in place of the configured ones.
        preview: Show the prompts without sending them; nothing is stored.
        save: Store prompts and texts in the table of outputs.
        scope: Visibility of replies and outputs (tenant, permissions).
        trace: List that gets an entry for each request.
        filters: Hard filters in addition to the project's own.
        timeout: Most seconds.
        examples: Examples in a prompt, in place of ``answer.draft.examples``.
        pool: Records to choose examples from, in place of ``answer.draft.pool``.
    """

    models: tuple[str, ...] = ()
    preview: bool = False
    save: bool = True
    scope: str = ""
    trace: list[TraceEntry] | None = None
    filters: tuple[Filter, ...] = ()
    timeout: float | None = None
    examples: int | None = None
    pool: int | None = None


OutputKind: TypeAlias = Literal["text", "prompt"]
FeedbackVerdict: TypeAlias = Literal["", "accepted", "rejected"]

_LEFT_OUT = frozenset({"count", "bio"})
"""Fields of a request about its execution, not about the wanted text."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a batch.

    Attributes:
        snapshot: State of the index that was searched.
        scope: Visibility of the batch (tenant, permissions).
        configuration: Hash of the settings and files it was made under; see ``Configuration``.
        settings: These settings and files, JSON-able, stored once for each hash.
        served: Number of the served configuration, if it is served.
    """

    snapshot: str = ""
    scope: str = ""
    configuration: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    served: int | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """A prompt that was sent, or a text from one.

    Storing it sets ``id``, ``batch``, ``at``, ``source`` and what its batch tells.

    Attributes:
        kind: ``prompt`` or ``text``.
        text: The text; of a prompt its turns as a JSON list of ``{role, content}``.
        model: The model that wrote it or received it, as configured.
        prompt: Id of a text's prompt, such as ``12.p1``; ``p1`` before it is stored.
        uses: Ids of the chunks in the prompt; only before it is stored, see ``Outputs.used``.
        marks: Marks of a text (too long, near copy, …).
        usage: Usage and cost in this batch; only for prompts, so that costs are counted once.
        details: Further data, JSON-able.
        id: ``12.3`` the third text of batch 12, ``12.p1`` its first prompt.
        batch: Number of its batch.
        at: Time of storing the batch: ISO 8601, UTC.
        source: The model that wrote it, or ``prompt``.
        client: Its client.
        request: The request.
        configuration: Hash of the settings; ``served`` is their number if they were served.
        scope: Visibility.
        verdict: Latest feedback; empty if there is none, likewise ``score``, ``note``.
    """

    kind: OutputKind
    text: str
    model: str
    prompt: str = ""
    uses: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    usage: Usage = Usage()
    details: Mapping[str, Any] = field(default_factory=dict)
    id: str = ""
    batch: int = 0
    at: str = ""
    source: str = ""
    client: str = ""
    request: Mapping[str, Any] = field(default_factory=dict)
    configuration: str = ""
    served: int | None = None
    scope: str = ""
    verdict: FeedbackVerdict = ""
    score: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class NewBatch:
    """The result of one request, of any kind of work.

    Attributes:
        kind: ``draft``, or another kind of work later.
        request: The request, JSON-able.
        outputs: Prompts and texts, each kind in its order.
        hits: The hits, best first.
        client: Its client, empty if there is none.
        usage: The sum over its prompts.
        details: Further data, JSON-able.
        earlier: Document and chunk of the passages that earlier answers of its conversation were
            made from; None where there were none, or where nobody knows.
        sent: The answer as its client got it and may send it back with a follow-up question.
    """

    kind: str
    request: Mapping[str, Any]
    outputs: tuple[Output, ...]
    hits: tuple[Hit, ...] = ()
    client: str = ""
    usage: Usage = Usage()
    details: Mapping[str, Any] = field(default_factory=dict)
    earlier: tuple[tuple[str, str], ...] | None = None
    sent: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputHit:
    """A hit of a batch: ids, rank, score, relaxation level, and the text as it was then."""

    rank: int
    document_id: str
    chunk_id: str
    score: float
    weight: float | None
    met: tuple[str, ...]
    missed: tuple[str, ...]
    text: str


@dataclass(frozen=True, slots=True)
class Feedback:
    """A person's feedback on an output; the latest nonempty value counts.

    ``correction`` is the answer as it should be, ``passages`` the numbers of the answer's citations
    that hold the answer to the question, from 1.
    """

    output: str
    at: str
    by: str
    verdict: FeedbackVerdict = ""
    score: float | None = None
    note: str = ""
    correction: str = ""
    passages: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputBatch:
    """A stored batch: its request, its origin, and its contents."""

    batch: int
    at: str
    kind: str
    client: str
    request: Mapping[str, Any]
    snapshot: str
    configuration: str
    served: int | None
    scope: str
    usage: Usage
    details: Mapping[str, Any]
    outputs: tuple[Output, ...]
    hits: tuple[OutputHit, ...]
    feedback: tuple[Feedback, ...]


@dataclass(frozen=True, slots=True)
class OutputQuery:
    """A query of outputs; empty fields are ignored.

    Attributes:
        batch: Number of a batch.
        since: ISO 8601, UTC: stored then or later; ``until`` before.
        until: See ``since``.
        client: Its client, ignoring case.
        model: The model that wrote it or received it.
        kind: ``text`` or ``prompt``.
        verdict: People's latest verdict.
        scope: Visibility; empty for outputs without a tenant, None for all.
        configuration: Beginning of the hash of the settings, or the number they were served under.
    """

    batch: int | None = None
    since: str = ""
    until: str = ""
    client: str = ""
    model: str = ""
    kind: OutputKind | None = None
    verdict: FeedbackVerdict = ""
    scope: str | None = ""
    configuration: str = ""

    def described(self) -> dict[str, Any]:
        """Return its conditions, for a manifest."""
        return {k: v for k, v in asdict(self).items() if v not in (None, "")}


def draft_outputs(batch: DraftBatch) -> NewBatch:
    """Return a batch of drafts in the form of the table: all prompts, and all texts."""
    prompts = [
        Output(
            "prompt",
            json.dumps(
                [{"role": role, "content": content} for role, content in prompt.messages],
                ensure_ascii=False,
            ),
            prompt.model,
            uses=prompt.examples,
            usage=prompt.usage,
            details={
                "wanted": prompt.wanted,
                "purpose": prompt.purpose,
                "sample": prompt.sample,
                "reply": prompt.reply,
                "finish": prompt.finish,
                "error": prompt.error,
                "cached": prompt.cached,
            },
        )
        for prompt in batch.prompts
    ]
    texts = [
        Output(
            "text",
            text.text,
            text.model,
            prompt=f"p{text.prompt + 1}",
            uses=prompts[text.prompt].uses if text.prompt < len(prompts) else (),
            marks=text.marks,
            details={"characters": len(text.text)},
        )
        for text in batch.texts
    ]
    details = {
        "query": batch.query,
        "mode": batch.mode,
        "models": list(batch.models),
        "notes": list(batch.notes),
        "cached": batch.cached,
    }
    request = asdict(batch.request)
    return NewBatch(
        "draft", request, (*prompts, *texts), batch.hits, batch.request.client, batch.usage, details
    )


def describe_request(request: Mapping[str, Any]) -> str:
    """Return a request as text, without number and settings.

    Equal requests have equal texts under all settings, so that rows of two configurations match. A
    served answer's request is its question.
    """
    if isinstance(request.get("question"), str):
        return str(request["question"])
    lines = []
    for key, value in request.items():
        if key in _LEFT_OUT or value in ("", None, [], ()):
            continue
        value_text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        lines.append(f"{key.replace('_', ' ')}: {value_text}")
    return "\n".join(lines)


def request_hash(request: Mapping[str, Any]) -> str:
    """Hash the request; equal for requests that differ only in number."""
    return value_hash({k: v for k, v in request.items() if k not in _LEFT_OUT})
