"""Answers and drafts on their way to a client: made, counted and stored in one place."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..answer import Marks, marks_of_answer
from ..core import GROUPS, Answer, Hit, RagwrightError, Usage
from ..drafting import DraftBatch, Drafting, DraftRequest, NewBatch, NewOutput
from ..flow import Message
from ..monitoring import brief_model
from ..workbench import AskOptions, Workbench
from ._admission import Admission, Caller
from ._errors import ApiError
from ._links import citation_json, link_lines, make_link, promise_json, texts_of_spans
from ._wire import ChatMessage

log = logging.getLogger("ragwright.serve")


def turns_of(
    messages: Sequence[ChatMessage], param: str = "messages"
) -> tuple[str, tuple[Message, ...]]:
    """The question and the turns before it. System messages are left out: the persona is ours.

    Of earlier turns the text alone is read: an image in one does not lock the conversation.

    Raises:
        ApiError: There is no question, or it holds something else than text.
    """
    turns: list[Message] = []
    last = max((n for n, message in enumerate(messages) if message.role == "user"), default=-1)
    for number, message in enumerate(messages):
        try:
            text = message.plain_text(strict=number == last)
        except ValueError as error:
            raise ApiError(
                400, str(error), "unsupported_content", param=f"{param}.{number}.content"
            ) from None
        if message.role in ("user", "assistant") and text.strip():
            turns.append(Message(message.role, text))
    if not turns or turns[-1].role != "user":
        raise ApiError(
            400,
            "the last message must be a question with the role `user`",
            "invalid_value",
            param=param,
        )
    return turns[-1].content, tuple(turns[:-1])


@dataclass(frozen=True, slots=True)
class ServedAnswer:
    """An answer as it goes to a client: under an id, marks rewritten."""

    id: str
    answer: Answer
    marks: Marks


def make_answer_id(kind: str = "chatcmpl-") -> str:
    """A new id of an answer, which cannot be guessed; ``kind`` is how it begins."""
    return f"{kind}{secrets.token_urlsafe(18)}"


async def answer_personas(
    work: Admission, question: str, personas: Sequence[str], asking: AskOptions, name: str = ""
) -> list[ServedAnswer]:
    """A question answered for each persona, from one search; ``name`` is the id of a single answer.

    Raises:
        RagwrightError: What answering failed with.
        TimeoutError: The time of the request is up.
        ClientGoneError: Its client went away.
    """
    work.noted(question)
    answers = await work.result(work.bench.aask_all(question, personas, asking))
    return [await deliver_answer(work, answer, asking, name=name) for answer in answers]


async def deliver_answer(
    work: Admission,
    answer: Answer,
    asking: AskOptions,
    *,
    name: str = "",
    marks: Marks | None = None,
) -> ServedAnswer:
    """Count an answer and store it among the outputs, under a new id where it has no name yet.

    What cannot be stored is logged and does not fail the request: the answer is there.

    Raises:
        ApiError: 503; a document that it was made from was erased meanwhile.
    """
    work.refuse_erased(asking, answer.hits)
    work.noted(answer.question, answer.hits)
    if marks is None:
        texts = await texts_of_spans(work.bench, answer.hits)
        marks = marks_of_answer(answer, make_link(work.caller.base, texts))
    done = ServedAnswer(name or make_answer_id(), answer, marks)
    if work.service.metrics is not None:
        work.service.metrics.answered(answer.abstained)
    if work.service.options.keep_answers:
        try:
            work.caller.note.subject = await asyncio.to_thread(_store_answer, work, done, asking)
        except (RagwrightError, OSError) as error:
            log.error("an answer could not be stored: %s", error)
    return done


def _store_answer(work: Admission, done: ServedAnswer, asking: AskOptions) -> str:
    """Store an answer; returns the id of the output."""
    snapshot = "" if asking.target is None else asking.target.snapshot
    origin = replace(work.opened.origin, snapshot=snapshot, scope=asking.scope)
    outputs = work.bench.outputs
    batch = _answer_batch(done, asking, work.caller.name, work.opened.name)
    batch = replace(batch, earlier=_earlier_passages(work, asking))
    with work.bench.project.work.working("serve", brief=True):
        work.refuse_erased(asking, done.answer.hits)  # nobody can erase while it is stored
        number = outputs.add(batch, origin)
        outputs.give_name(f"{number}.1", done.id, work.caller.name)
    return f"{number}.1"


def _earlier_passages(work: Admission, asking: AskOptions) -> tuple[tuple[str, str], ...] | None:
    """Document and chunk of the passages of the answers before this one.

    None without any, or where nobody knows.
    """
    if not asking.quotes_answers:
        return None
    answers = [turn.content for turn in asking.history if turn.role == "assistant"]
    return work.bench.outputs.sources_of_texts(work.caller.name, answers)


def _answer_batch(done: ServedAnswer, asking: AskOptions, client: str, name: str) -> NewBatch:
    answer = done.answer
    uses = tuple(hit.chunk_id for hit in answer.hits)
    turns = [{"role": role, "content": content} for role, content in answer.prompt]
    paid = Usage() if answer.cached else answer.usage
    outputs = (
        NewOutput(
            "prompt",
            json.dumps(turns, ensure_ascii=False),
            answer.model,
            uses=uses,
            usage=paid,
            details={"format": "chat", "cached": answer.cached},
        ),
        NewOutput(
            "text",
            done.marks.text,
            answer.model,
            prompt=0,
            uses=uses,
            share=paid,
            details={"abstained": answer.abstained, "name": name, **promise_json(answer)},
        ),
    )
    request: dict[str, Any] = {"question": answer.question, "persona": answer.persona}
    # Answers of earlier turns are outputs of their own: here they would outlive what they quote.
    questions = [turn.content for turn in asking.history if turn.role == "user"]
    if questions:
        request["asked_before"] = questions
    details = {
        "id": done.id,
        "route": answer.route,
        "abstained": answer.abstained,
        "citations": [citation_json(span) for span in done.marks.spans],
        "notes": list(answer.notes),
        "cached": answer.cached,
    }
    text, links = done.marks.text, link_lines(done.marks.spans)
    sent = (text, text + links) if links else (text,)
    return NewBatch(
        "answer", request, outputs, answer.hits, client, paid, details=details, sent=sent
    )


def drafting(work: Admission, models: Sequence[str], *, preview: bool = False) -> Drafting:
    """Return how texts are drafted for a request: under its key's filters, within its time."""
    return Drafting(
        tuple(models),
        preview=preview,
        scope=work.scope,
        trace=work.trace,
        filters=work.asking().filters,
        timeout=work.left,
    )


async def deliver_drafts(
    work: Admission, request: DraftRequest, drafting_options: Drafting
) -> DraftBatch:
    """Draft texts and let the key rate them, by the ids that they have among the outputs.

    It goes on when the client goes away: what was paid for is stored.

    Raises:
        RagwrightError: What drafting failed with.
    """
    batch = await work.service.aside(lambda: work.bench.draft(request, drafting_options))
    for number in range(1, len(batch.texts) + 1):
        name = f"{batch.number}.{number}"
        await asyncio.to_thread(work.bench.outputs.give_name, name, name, work.caller.name)
    work.caller.note.subject = str(batch.number)
    work.caller.note.used(hit.document_id for hit in batch.hits)
    return batch


_ADDRESS = re.compile(r"\bhttps?://[^\s#]+#")


def hide_addresses(answer: Answer, caller: Caller) -> Answer:
    """An answer as a caller may see it: readers learn no address or folder of a model."""
    if caller.owner:
        return answer
    return replace(
        answer,
        model=shorten_model(answer.model, caller),
        route_reason=_ADDRESS.sub("", answer.route_reason),
        notes=notes_for(answer.notes, caller),
    )


def shorten_model(name: str, caller: Caller) -> str:
    """The name of a model as a caller may see it."""
    return name if caller.owner else brief_model(name)


def notes_for(notes: Sequence[str], caller: Caller) -> tuple[str, ...]:
    """The notes on an answer as a caller may see them."""
    return tuple(notes if caller.owner else (_ADDRESS.sub("", note) for note in notes))


def hits_for(hits: Sequence[Hit], caller: Caller) -> list[Hit]:
    """Hits as a caller may see them: readers do not learn which other groups may read them."""
    if caller.owner:
        return list(hits)
    return [
        replace(hit, metadata={k: v for k, v in hit.metadata.items() if k != GROUPS})
        if GROUPS in hit.metadata
        else hit
        for hit in hits
    ]


_READ_AS = re.compile(r"read as: (.*) \([^()]*\)", re.DOTALL)


def standalone(answer: Answer) -> str:
    """The question as it was looked up, which differs where it follows earlier turns."""
    read_as = next((m for note in answer.notes if (m := _READ_AS.fullmatch(note))), None)
    return read_as[1] if read_as else answer.question


def answering(bench: Workbench, persona: str) -> str:
    """The chat model that answers for a persona."""
    chosen = bench.project.persona(persona)
    return chosen.model or bench.project.settings.answer.model
