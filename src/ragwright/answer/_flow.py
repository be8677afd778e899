"""The answering flow: a chat model writes from the context, or the offline model quotes it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .. import answer as answers  # what model calls alone need loads with them
from ..core import Answer, Hit, ModelReplyError, Persona
from ..flow import ChatReply, Flow, chat
from ..models import ExtractiveReranker, Tokenizer, asks_steps
from ._citations import resolve_citations
from ._code_entry import CodeAnswer, answer_from_entries
from ._contrast import compared_things, contrast
from ._extract import Selection, closest, quoted, score_sentences, select_for, word_places
from ._lacking import lowered
from ._options import AnswerOptions, PromptOptions
from ._phrases import refusal
from ._prompt import read_prompt
from ._quotes import make_quotes
from ._sentences import split_sentences
from ._speakers import of_speaker
from ._window import PromptFrame, Window


@dataclass(frozen=True, slots=True)
class AnswerSetup:
    """The settings of the answering flow.

    Creating it reads the prompt's template once for all answers.

    Attributes:
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

    def __post_init__(self) -> None:
        """Read the prompt's template.

        Raises:
            PromptError: Its file is wrong, with file and line.
        """
        object.__setattr__(self, "prompt", read_prompt(self.prompt))

    def window(self, model: str) -> Window:
        """The window of a chat model."""
        return Window(tokenizer=self.tokenizer) if self.window_of is None else self.window_of(model)


QUOTED = "quoted offline: sentences of the sources, chosen by their words; no model wrote this"


UNCHANGED = "same text as without a persona: quotes are not reworded"
"""Note of an answer that is the same for no persona."""


def answer(
    question: str,
    persona: Persona,
    hits: Sequence[Hit],
    setup: AnswerSetup | None = None,
    *,
    absent: Sequence[str] = (),
) -> Flow[Answer]:
    """An answer for a persona from retrieved passages, with citations, or an abstention.

    Args:
        question: A question that stands alone (see :func:`condense`).
        persona: Reader of the answer; its ``model`` overrides the project's.
        hits: Passages, best first.
        setup: Settings.
        absent: Things of the question that nothing in the index holds; an answer that is quoted
            needs a higher score then.

    Raises:
        ModelReplyError: The chat model's reply is empty.
        PromptError: The prompt cannot be rendered.
    """
    chosen = setup or AnswerSetup()
    model = persona.model or chosen.options.model
    if model == ExtractiveReranker.name:
        return (yield from extract(question, persona, hits, chosen.options, absent))
    return (yield from write(question, persona, hits, chosen))


def extract(
    question: str,
    persona: Persona,
    hits: Sequence[Hit],
    options: AnswerOptions,
    absent: Sequence[str] = (),
) -> Flow[Answer]:
    """An answer of quoted sentences, each cited with its exact span; one request, no server."""
    sentences = split_sentences(hits)
    blank = Answer(question, "", persona.name, hits=tuple(hits), model=ExtractiveReranker.name)
    if not sentences:
        return _refused_answer(
            blank, "nothing was retrieved" if not hits else "no sentence to quote"
        )
    entries = answer_from_entries(question, hits, persona)
    if entries is not None:
        return _entries_answer(blank, entries, persona)
    things = compared_things(question)
    if things is not None:
        selection = yield from contrast(question, things, sentences, hits, persona, options)
        if selection.chosen:
            return _quoted_answer(blank, selection, persona)
        if selection.best:
            note = f"no passage compares {things[0]} and {things[1]}, or tells of both"
            return replace(
                _refused_answer(blank, note), closest=closest(question, [selection.best], hits)
            )
    sources = list(dict.fromkeys(hit.document_id for hit in hits))
    spoken = of_speaker(question, sentences, hits)
    topic, sentences = spoken if spoken is not None else (question, sentences)
    if not sentences:
        return _refused_answer(blank, "the passages found hold no speech of that speaker")
    places = word_places(hits)
    scores = yield from score_sentences(topic, sentences, sources, places=places)
    quotes = make_quotes(topic, sentences, lowered(scores) if absent else scores, hits)
    steps = asks_steps(question)
    selection = select_for(persona, quotes, hits, options, steps=steps)
    if not selection.chosen and selection.best:
        entries = answer_from_entries(question, hits, persona, headed=True)
        if entries is not None:
            return _entries_answer(blank, entries, persona)
        reached, needed = _distinct_numbers(selection.score, options.threshold)
        note = f"the closest passage has score {reached} of {needed} needed (answer.threshold)"
        note += f"; not in the index: {', '.join(absent)}" if absent else ""
        return replace(_refused_answer(blank, note), closest=closest(question, quotes, hits))
    answered = _quoted_answer(blank, selection, persona)
    if persona.name:
        neutral = Persona("")
        usual = select_for(neutral, quotes, hits, options, steps=steps)
        if quoted(usual, hits, neutral)[0] == answered.text:
            return replace(answered, notes=(*answered.notes, UNCHANGED))
    return answered


def _quoted_answer(blank: Answer, selection: Selection, persona: Persona) -> Answer:
    """An answer that quotes a selection."""
    text, citations, notes = quoted(selection, blank.hits, persona)
    label = f"{QUOTED}; best score {selection.score:.2f}"
    return replace(
        blank,
        text=text,
        citations=citations,
        notes=(label, *notes),
        best_quote=selection.score,
    )


def _entries_answer(blank: Answer, entries: CodeAnswer, persona: Persona) -> Answer:
    """The answer that quotes the entries of codes."""
    neutral_entries = answer_from_entries(blank.question, blank.hits, Persona(""), headed=True)
    unchanged = (
        persona.name and neutral_entries is not None and neutral_entries.text == entries.text
    )
    notes = (*entries.notes, UNCHANGED) if unchanged else entries.notes
    return replace(
        blank, text=entries.text, citations=entries.citations, notes=notes, best_quote=1.0
    )


def write(question: str, persona: Persona, hits: Sequence[Hit], setup: AnswerSetup) -> Flow[Answer]:
    """An answer written by a chat model from the passages that fit its context."""
    options = setup.options
    model = persona.model or options.model
    blank = Answer(question, "", persona.name, model=model)
    if options.closed_book:
        hits = ()
    elif not hits:
        return _refused_answer(blank, "nothing was retrieved")
    parts = _for_context(setup.prompt, options.closed_book)
    frame = PromptFrame(
        question, persona, parts, setup.window(model), options.max_tokens, options.hit_order
    )
    room = frame.room(options.context_tokens)
    consolidation = answers.ConsolidateOptions(
        options.consolidate,
        model,
        room,
        window=frame.window,
        hard=room < options.context_tokens,
    )
    context = yield from answers.consolidate(question, hits, consolidation)
    if not context.hits and not options.closed_book:
        reason = context.notes[0] if context.notes else "no passage fits the context"
        return replace(
            _refused_answer(blank, reason), notes=context.notes or (reason,), usage=context.usage
        )
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
        raise ModelReplyError(
            f"{model} returned an empty answer",
            hint="raise answer.max_tokens, or ask again (empty replies are never stored)",
        )
    citations, citation_notes = resolve_citations(text, shown_hits)
    abstained = abstains(text, setup.prompt.cue)
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
        finish=reply.finish,
    )


def _reply_notes(reply: ChatReply, options: AnswerOptions) -> list[str]:
    """Notes for the user on the reply."""
    notes = []
    if reply.finish == "length":
        notes.append(f"the reply was cut at {options.max_tokens} tokens")
    if reply.finish == "content_filter":
        notes.append("the server's content filter cut the reply")
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


def avg_chunk_score(made: Answer) -> float | None:
    """Mean similarity of the passages of an answer to its question (dense channel).

    None if no passage has a dense score: keyword scores are not similarities.
    """
    scores = [hit.channels["dense"].score for hit in made.hits if "dense" in hit.channels]
    return sum(scores) / len(scores) if scores else None


def _refused_answer(blank: Answer, note: str) -> Answer:
    return replace(blank, text=refusal(blank.question), abstained=True, notes=(note,))


def _distinct_numbers(score: float, threshold: float) -> tuple[str, str]:
    """Both numbers with two digits, or more if they would look equal."""
    digits = next((d for d in range(2, 9) if round(score, d) != round(threshold, d)), 9)
    return f"{score:.{digits}f}", f"{threshold:.{digits}f}"


def _for_context(options: PromptOptions, closed_book: bool) -> PromptOptions:
    """Prompt options without the parts about passages, for a closed-book question."""
    if not closed_book:
        return options
    about = ("context", "only_context", "ignore_debris", "key_information", "insufficient")
    return replace(options, without=(*options.without, *about, "tailor"))


def _folded_text(text: str) -> str:
    return " ".join(re.sub(r"[\W_]+", " ", text.casefold()).split())
