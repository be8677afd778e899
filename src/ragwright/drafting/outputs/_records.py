"""What goes into the table of outputs, and what comes out of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from ...core import Usage, value_hash

if TYPE_CHECKING:
    from ...core import Filter, Hit
    from .._records import DraftBatch

OutputKind: TypeAlias = Literal["text", "prompt"]
FeedbackVerdict: TypeAlias = Literal["", "accepted", "rejected"]

_LEFT_OUT = frozenset({"count", "bio"})
"""Of a request: what says how it was carried out, and nothing of what a text should be."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Under what a batch was made.

    Attributes:
        snapshot: State of the index that was searched.
        scope: Who may see it (tenant, permissions).
        configuration: Hash of the settings and files it was made under; see ``Configuration``.
        settings: These settings and files themselves, JSON-able, kept once for each hash.
        served: Number of the served configuration where it is that one.
    """

    snapshot: str = ""
    scope: str = ""
    configuration: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    served: int | None = None


@dataclass(frozen=True, slots=True)
class NewOutput:
    """A prompt that was sent, or a text that came of one.

    Attributes:
        kind: Which of the two.
        text: The text; of a chat prompt its turns as a JSON list of ``{role, content}``.
        model: Model as configured.
        prompt: Position of the prompt among the batch's prompts, from 0; of a text alone.
        uses: Ids of the chunks that stand in the prompt.
        marks: What a reader must know of a text (too long, near copy, …).
        usage: What was used and paid for it, in this batch; of a prompt alone, so that what is paid
            stands once.
        share: Of a text alone: its part of its prompt's ``usage``.
        details: Whatever else is known, JSON-able.
    """

    kind: OutputKind
    text: str
    model: str
    prompt: int | None = None
    uses: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    usage: Usage = Usage()
    share: Usage | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NewBatch:
    """All that one request came to, of whatever kind of work.

    Attributes:
        kind: ``draft``, or another kind of work later.
        request: What was asked for, JSON-able.
        outputs: Prompts and texts, each kind in its order.
        hits: What was found for it, best first.
        client: Whom it was made for, empty where nobody is named.
        usage: Of the whole: the sum over its prompts.
        details: Whatever else is known, JSON-able.
    """

    kind: str
    request: Mapping[str, Any]
    outputs: tuple[NewOutput, ...]
    hits: tuple[Hit, ...] = ()
    client: str = ""
    usage: Usage = Usage()
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Output:
    """A stored prompt or text.

    Attributes:
        id: ``12.3`` the third text of batch 12, ``12.p1`` its first prompt.
        batch: Number of its batch.
        at: When the batch was stored: ISO 8601, UTC, one for all of a batch.
        kind: ``text`` or ``prompt``.
        source: The model that wrote it, or ``prompt``.
        model: The model that wrote it, or that was sent it.
        text: The text; of a chat prompt its turns as JSON.
        prompt: Id of the prompt that a text came of.
        marks: As in :class:`NewOutput`; likewise ``usage``, ``share`` and ``details``.
        client: Whom it was made for.
        request: What was asked for.
        configuration: Hash of the settings; ``served`` is their number where they were served.
        scope: Who may see it.
        verdict: What people last said of it; empty where nobody did, likewise ``score``, ``note``.
    """

    id: str
    batch: int
    at: str
    kind: OutputKind
    source: str
    model: str
    text: str
    prompt: str = ""
    marks: tuple[str, ...] = ()
    usage: Usage = Usage()
    details: Mapping[str, Any] = field(default_factory=dict)
    client: str = ""
    request: Mapping[str, Any] = field(default_factory=dict)
    configuration: str = ""
    served: int | None = None
    scope: str = ""
    verdict: FeedbackVerdict = ""
    score: float | None = None
    note: str = ""
    share: Usage | None = None


@dataclass(frozen=True, slots=True)
class OutputHit:
    """What was found for a batch: ids, rank, score, rung, and the text as it was then."""

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
    """What a person said of an output; the latest that says something counts."""

    output: str
    at: str
    by: str
    verdict: FeedbackVerdict = ""
    score: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class OutputBatch:
    """A stored batch: its request, where it came from, and all that belongs to it."""

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
    """Which outputs; an empty field asks for nothing.

    Attributes:
        batch: Number of a batch.
        since: ISO 8601, UTC: stored then or later; ``until`` before.
        until: See ``since``.
        client: Whom it was made for, as it is written or in other capitals.
        model: The model that wrote it, or that was sent it.
        kind: ``text`` or ``prompt``.
        verdict: What people last said of it.
        scope: Who may see it; empty for what belongs to no tenant, None for all, tenants' too.
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
        """The conditions that it states, for a manifest."""
        return {k: v for k, v in asdict(self).items() if v not in (None, "")}


def draft_outputs(batch: DraftBatch) -> NewBatch:
    """A batch of drafts as the table takes it: every prompt, and every text with its prompt's."""
    prompts = [
        NewOutput(
            "prompt",
            prompt.text or chat_text(prompt.messages),
            prompt.model,
            uses=prompt.examples,
            usage=prompt.usage,
            details={
                "format": prompt.format,
                # What stands in the text already is not stored twice.
                **({"turns": _turns(prompt.messages)} if prompt.text else {}),
                "wanted": prompt.wanted,
                "purpose": prompt.purpose,
                "sample": prompt.sample,
                "reply": prompt.reply,
                "finish": prompt.finish,
                "error": prompt.error,
                "cached": prompt.cached,
                "reply_usage": asdict(prompt.reply_usage),
            },
        )
        for prompt in batch.prompts
    ]
    texts = [
        NewOutput(
            "text",
            text.text,
            text.model,
            prompt=text.prompt,
            uses=prompts[text.prompt].uses if text.prompt < len(prompts) else (),
            marks=text.marks,
            share=text.usage,
            details={"characters": text.characters},
        )
        for text in batch.texts
    ]
    details = {
        "query": batch.query,
        "mode": batch.mode,
        "models": list(batch.models),
        "notes": list(batch.notes),
        "cached": batch.cached,
        "partial": batch.partial,
    }
    request = asdict(batch.request)
    return NewBatch(
        "draft", request, (*prompts, *texts), batch.hits, batch.request.client, batch.usage, details
    )


def chat_text(messages: Iterable[tuple[str, str]]) -> str:
    """Turns of a chat as the table keeps them: a JSON list of ``{role, content}``."""
    return json.dumps(_turns(messages), ensure_ascii=False)


def turns_of(prompt: Output) -> list[dict[str, str]]:
    """The turns of a stored prompt, also of those behind a raw one; empty where none are known."""
    turns = prompt.details.get("turns")
    if turns is None and prompt.details.get("format") == "chat":
        turns = json.loads(prompt.text)
    return list(turns or [])


def _turns(messages: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in messages]


def asked(request: Mapping[str, Any]) -> str:
    """A request as a text: what was asked for, not how many nor how.

    Equal requests have equal texts whatever the settings, so that rows of two configurations are
    about the same.
    """
    lines = []
    for key, value in request.items():
        if key in _LEFT_OUT or value in ("", None, [], ()):
            continue
        said = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
        lines.append(f"{key.replace('_', ' ')}: {said}")
    return "\n".join(lines)


def request_hash(request: Mapping[str, Any]) -> str:
    """Hash of what was asked for; equal for requests that differ in number alone."""
    return value_hash({k: v for k, v in request.items() if k not in _LEFT_OUT})


def conditions(filters: Iterable[Filter]) -> list[str]:
    """Filters of a rung as they are typed."""
    return [str(one) for one in filters]
