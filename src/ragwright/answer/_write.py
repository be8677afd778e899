"""Write an answer from passages: the prompt, the model's reply, its citations."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..core import (
    Answer,
    Hit,
    Persona,
)
from ..flow import (
    INCOMPLETE,
    ChatReply,
    Flow,
    chat,
)
from ..models import NO_MODEL, Tokenizer, no_text_error
from ._consolidate import ConsolidateOptions, consolidate
from ._marks import resolve_citations
from ._options import REFUSED, AnswerOptions, PromptOptions
from ._snippets import snippet_answer
from ._window import PromptFrame, Window

_ABOUT_PASSAGES = (
    *("context", "only_context", "cite", "ignore_debris", "key_information", "insufficient"),
    "tailor",
)
"""Parts of a prompt that a closed-book question leaves out."""


@dataclass(frozen=True, slots=True)
class AnswerSetup:
    """The settings of the answering flow.

    Attributes:
        options: Model, context and limits.
        prompt: Its composition; :func:`read_prompt` reads a template once for all answers.
        tokenizer: Counts the tokens of the context if ``window_of`` is not given; None for an
            estimate from words.
        window_of: Returns a chat model's window by its name (see
            :func:`generator_window`); called for each persona's model.
        on_context: Gets the passages of a prompt before the model is asked.
    """

    options: AnswerOptions = AnswerOptions()
    prompt: PromptOptions = PromptOptions()
    tokenizer: Tokenizer | None = None
    window_of: Callable[[str], Window] | None = None
    on_context: Callable[[Sequence[Hit]], None] | None = None

    def window(self, model: str) -> Window:
        """The window of a chat model."""
        return Window(tokenizer=self.tokenizer) if self.window_of is None else self.window_of(model)


def answer(
    question: str, persona: Persona, hits: Sequence[Hit], setup: AnswerSetup | None = None
) -> Flow[Answer]:
    """An answer for a persona from retrieved passages, with citations, or an abstention.

    Without a chat model these are snippets, with words of the passages alone to weigh them.

    Args:
        question: A question that stands alone (see :func:`condense`).
        persona: Reader of the answer; its ``model`` overrides the project's.
        hits: Passages, best first.
        setup: Settings.

    Raises:
        ModelReplyError: The chat model's reply is empty.
        PromptError: The prompt cannot be rendered.
    """
    chosen = setup or AnswerSetup()
    if (persona.model or chosen.options.model) == NO_MODEL:
        return snippet_answer(question, persona, hits, threshold=chosen.options.threshold)
    return (yield from write(question, persona, hits, chosen))


def write(question: str, persona: Persona, hits: Sequence[Hit], setup: AnswerSetup) -> Flow[Answer]:
    """An answer written by a chat model from the passages that fit its context."""
    options = setup.options
    model = persona.model or options.model
    blank = Answer(question, "", persona.name, model=model)
    if options.closed_book:
        hits = ()
    elif not hits:
        return replace(blank, text=REFUSED, abstained=True, notes=("nothing was retrieved",))
    parts = setup.prompt
    if options.closed_book:
        parts = replace(parts, without=(*parts.without, *_ABOUT_PASSAGES))
    frame = PromptFrame(
        question, persona, parts, setup.window(model), options.max_tokens, options.hit_order
    )
    room = frame.room(options.context_tokens)
    consolidation = ConsolidateOptions(
        options.consolidate,
        model,
        room,
        window=frame.window,
        hard=room < options.context_tokens,
    )
    context = yield from consolidate(question, hits, consolidation)
    if not context.hits and not options.closed_book:
        notes = context.notes or ("no passage fits the context",)
        return replace(blank, text=REFUSED, abstained=True, notes=notes, usage=context.usage)
    prompt, shown_hits, dropped = frame.fitted(context.hits, context.summary)
    params = {
        "max_tokens": options.max_tokens,
        "temperature": options.temperature,
        "seed": options.seed,
    }
    sources = list(dict.fromkeys(hit.document_id for hit in shown_hits))
    if setup.on_context is not None:
        setup.on_context(shown_hits)
    reply = yield from chat(model, prompt.messages, params, stream=options.stream, sources=sources)
    text = reply.text.strip()
    if not text:
        raise no_text_error(reply, model)
    citations, citation_notes = resolve_citations(text, shown_hits)
    refused = reply.finish == "refusal"
    abstained = refused or abstains(text, setup.prompt.cue)
    if not (citations or abstained or options.closed_book):
        citation_notes += ("the answer cites no passage",)
    return replace(
        blank,
        text=text,
        abstained=abstained,
        citations=citations,
        hits=shown_hits,
        cached=reply.cached and context.cached,
        prompt=tuple((m.role, m.content) for m in prompt.messages),
        usage=context.usage + reply.usage,
        notes=(*context.notes, *dropped, *_reply_notes(reply, options), *citation_notes),
        finish={"refusal": "content_filter", "tool_calls": "stop"}.get(reply.finish, reply.finish),
    )


def _reply_notes(reply: ChatReply, options: AnswerOptions) -> list[str]:
    """Notes for the user on the reply."""
    notes = []
    if reply.finish == "length":
        notes.append(f"the reply was cut at {options.max_tokens} tokens")
    elif reply.finish in INCOMPLETE:
        notes.append(INCOMPLETE[reply.finish])
    if reply.dropped:
        notes.append(f"the server does not support {', '.join(reply.dropped)}; left out")
    return [*notes, *reply.notes]


def abstains(text: str, cue: str) -> bool:
    """True if a reply says, by the configured cue, that the context does not answer.

    The cue is searched for in the first two sentences, ignoring case, spacing, quotes and the last
    stop.
    """
    folded_cue = _folded_text(cue)
    opening = _folded_text(" ".join(re.split(r"(?<=[.!?…])\s+", text.strip())[:2]))
    return bool(folded_cue) and folded_cue in opening


def avg_chunk_score(answered: Answer) -> float | None:
    """Mean similarity of the passages of an answer to its question (dense channel).

    None if no passage has a dense score: keyword scores are not similarities.
    """
    scores = [hit.channels["dense"].score for hit in answered.hits if "dense" in hit.channels]
    return sum(scores) / len(scores) if scores else None


def _folded_text(text: str) -> str:
    return " ".join(re.sub(r"[\W_]+", " ", text.casefold()).split())
