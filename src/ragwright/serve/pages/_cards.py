"""Answers as cards: those just made, and those of a conversation, read from the outputs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...core import StoreError
from .._answers import answer_details, notes_for, short_model
from .._links import moved_url, source_url
from .._reading import visible_passages
from ._why import plain_why

if TYPE_CHECKING:
    from ...drafting import Outputs
    from ...workbench import Asking, Workbench
    from .._admission import Caller
    from .._answers import Delivered

_IN_WORDS = ("quoted offline", "read as: ", "no keyword hits: ", "nothing was retrieved")
"""Beginnings of notes that the page says in other words."""


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """An answer that is shown.

    Attributes:
        id: Its name among the outputs.
        question: The question as it was asked.
        persona: The persona that it was written for.
        text: The answer with its marks.
        model: The model that wrote it.
        details: As ``answer_details``.
        passages: Id of a chunk that it was made from -> the text of the chunk.
        scope: The tenant that it was made for.
        verdict: The last verdict of a reader.
    """

    id: str
    question: str
    persona: str
    text: str
    model: str
    details: Mapping[str, Any]
    passages: Mapping[str, str] = field(default_factory=dict)
    scope: str = ""
    verdict: str = ""

    @property
    def places(self) -> list[tuple[str, str]]:
        """Document and chunk of each passage that it was made from."""
        return [(place["document_id"], place["chunk_id"]) for place in self.details["read"]]


def delivered_answer(done: Delivered) -> ShownAnswer:
    """An answer that was just made."""
    answer = done.answer
    passages = {hit.chunk_id: hit.text for hit in answer.hits}
    details = answer_details(done)
    text = done.marks.text
    return ShownAnswer(
        done.id, answer.question, answer.persona, text, answer.model, details, passages
    )


def stored_answer(outputs: Outputs, name: str) -> ShownAnswer | None:
    """A stored answer, None where it was deleted."""
    try:
        named = outputs.named(name)
        batch = None if named is None else outputs.batch(int(named[0].partition(".")[0]))
    except StoreError:  # deleted between the two
        return None
    output = next((o for o in batch.outputs if o.kind == "text"), None) if batch else None
    if batch is None or output is None or "read" not in batch.details:
        return None
    return ShownAnswer(
        name,
        str(batch.request.get("question", "")),
        str(batch.request.get("persona", "")),
        output.text,
        output.model,
        batch.details,
        {hit.chunk_id: hit.text for hit in batch.hits},
        batch.scope,
        output.verdict,
    )


async def visible_answers(
    bench: Workbench, asking: Asking, answers: Iterable[ShownAnswer], *, mine: bool
) -> frozenset[str]:
    """The ids of those answers whose passages a caller may all see now.

    An answer without passages, or from the whole corpus, may be shown to those it could have been
    made for: the same tenant. Owners and readers without groups have the same one, the empty one;
    so there an answer of somebody else (not ``mine``) is shown only to whom nothing is hidden.
    """
    wanted = list(answers)
    seen = await visible_passages(bench, asking, (p for answer in wanted for p in answer.places))
    return frozenset(
        answer.id
        for answer in wanted
        if all(chunk in seen for _, chunk in answer.places)
        and (
            (answer.places and answer.details.get("route") != "corpus")
            or not asking.filters
            or (answer.scope == asking.scope and (mine or answer.scope))
        )
    )


async def cards_of(
    bench: Workbench, caller: Caller, answers: Sequence[ShownAnswer]
) -> list[dict[str, Any]]:
    """The values of cards for the template."""
    analyzer = bench.project.analyzer
    explained = await asyncio.to_thread(
        lambda: [plain_why(analyzer, a.question, a.details, a.passages) for a in answers]
    )
    pairs = zip(answers, explained, strict=True)
    return [_card(answer, caller, why) for answer, why in pairs]


def _card(answer: ShownAnswer, caller: Caller, why: Mapping[str, Any]) -> dict[str, Any]:
    details = answer.details
    spans = {place["number"]: linked_place(place) for place in details["citations"]}
    urls = {_span(place): {"url": place["url"]} for place in details["citations"]}
    return {
        "id": answer.id,
        "persona": answer.persona,
        "parts": _parts(answer.text, details["marks"], spans),
        "spans": list(spans.values()),
        "closest": [linked_place(place) for place in details["closest"]],
        "abstained": details["abstained"],
        "model": short_model(answer.model, caller),
        "notes": notes_for([n for n in details["notes"] if not n.startswith(_IN_WORDS)], caller),
        "promise": details["promise"],
        "verdict": answer.verdict,
        "why": {**why, "read": [linked_place(urls.get(_span(p), {}) | p) for p in why["read"]]},
    }


def linked_place(place: Mapping[str, Any], base: str = "") -> dict[str, Any]:
    """A place with its address on this server, whatever name it was reached by at the time."""
    url = place.get("url") or source_url("", *_span(place), place["text"])
    url = moved_url(url, base)
    return {**place, "url": url, "title": place["title"] or place["document_id"]}


def _span(place: Mapping[str, Any]) -> tuple[str, int, int]:
    return place["document_id"], place["start"], place["end"]


def _parts(
    text: str, marks: Iterable[Sequence[int]], spans: Mapping[int, Mapping[str, Any]]
) -> list[tuple[str, Mapping[str, Any] | None]]:
    """The text cut at its marks, so that each mark becomes a link and nothing else does."""
    parts: list[tuple[str, Mapping[str, Any] | None]] = []
    at = 0
    for start, end, number in marks:
        parts += [(text[at:start], None), (text[start:end], spans.get(number))]
        at = end
    return [*parts, (text[at:], None)]
