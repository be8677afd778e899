"""Context consolidation: passages as they are, or a model's summaries of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..core import Hit, PromptError, Usage, count_noun, load_shipped_mapping, passage_values, render
from ..flow import ChatReply, Flow, Message, chat, gather
from ._options import Method
from ._window import Window, fit_hits, name_hits, split_hit

_NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class ConsolidateOptions:
    """Limits for shortening a context before the answer is written.

    Attributes:
        budget: Most tokens of the final context.
        words: Requested length of a summary, in words.
        window: Window of the summarising model.
        hard: The budget is the rest of the window and must not be exceeded.
    """

    method: Method
    model: str
    budget: int
    words: int = 120
    window: Window = field(default_factory=Window)
    hard: bool = False

    @property
    def max_tokens(self) -> int:
        """Most tokens of a summary: three per word, so that few are cut."""
        return self.words * 3


@dataclass(frozen=True, slots=True)
class Consolidated:
    """A context ready for the prompt.

    Attributes:
        hits: Passages behind it, best first; a summary of one passage keeps its address.
        summary: One text over all passages with their ``[n]``; empty if the passages themselves are
            shown.
        notes: What was left out, shortened or read in parts.
        usage: Sum over the calls made.
        cached: True where every call was answered from the reply store.
    """

    hits: tuple[Hit, ...]
    summary: str = ""
    notes: tuple[str, ...] = ()
    usage: Usage = Usage()
    cached: bool = True


def consolidate(
    question: str, hits: Sequence[Hit], options: ConsolidateOptions
) -> Flow[Consolidated]:
    """The context for a question by one of four methods.

    ``concatenate`` shows the passages that fit. ``summarise_each`` replaces each by its
    summary (calls side by side) and drops irrelevant ones. ``running``
    carries notes from passage to passage. ``tree`` summarises each, then merges summaries
    until one is left. A passage too long for the window is read in parts. Notes name everything
    that is dropped.

    Raises:
        PromptError: The window does not even hold the summariser's own prompt.
    """
    if options.method == "concatenate" or not hits:
        kept, notes = fit_hits(hits, options.budget, options.window.count, hard=options.hard)
        return Consolidated(kept, notes=notes)
    parts, split = _sized_parts(question, hits, options)
    if options.method == "running":
        return (yield from _running_notes(question, hits, parts, split, options))
    replies = yield from gather(
        [
            _ask_summary("each", question, {"passages": [passage_values(1, part)]}, [part], options)
            for _, part in parts
        ]
    )
    usage = sum((r.usage for r in replies), Usage())
    cached = all(r.cached for r in replies)
    summaries: dict[int, list[str]] = {}
    for (number, _), reply in zip(parts, replies, strict=True):
        text = reply.text.strip()
        if text.strip(".").casefold() not in {"", _NOTHING}:
            summaries.setdefault(number, []).append(text)
    bearing = [(hits[number - 1], summaries[number]) for number in sorted(summaries)]
    without = [(n, hit) for n, hit in enumerate(hits, 1) if n not in summaries]
    notes = (*split, *_note_left_out(without))
    if options.method == "summarise_each":
        short = [replace(hit, text="\n".join(texts)) for hit, texts in bearing]
        kept, dropped = fit_hits(short, options.budget, options.window.count, hard=options.hard)
        return Consolidated(kept, notes=(*notes, *dropped), usage=usage, cached=cached)
    kept = tuple(hit for hit, _ in bearing)
    texts = [f"[{at}] {text}" for at, (_, texts_of) in enumerate(bearing, 1) for text in texts_of]
    while len(texts) > 1:
        groups = _merge_groups(question, texts, options)
        merged = yield from gather(
            [_ask_summary("merge", question, {"notes": group}, kept, options) for group in groups]
        )
        usage = sum((r.usage for r in merged), usage)
        cached = cached and all(r.cached for r in merged)
        texts = [reply.text.strip() for reply in merged]
    return Consolidated(kept, "".join(texts), notes, usage, cached)


def _running_notes(
    question: str,
    hits: Sequence[Hit],
    parts: Sequence[tuple[int, Hit]],
    notes: tuple[str, ...],
    options: ConsolidateOptions,
) -> Flow[Consolidated]:
    summary, usage, cached = "", Usage(), True
    for number, hit in parts:
        values = {"summary": summary, "passages": [passage_values(number, hit)]}
        reply = yield from _ask_summary("running", question, values, [hit], options)
        summary = reply.text.strip() or summary
        usage, cached = usage + reply.usage, cached and reply.cached
    return Consolidated(tuple(hits), summary, notes, usage, cached)


def _ask_summary(
    template: str,
    question: str,
    values: Mapping[str, Any],
    hits: Sequence[Hit],
    options: ConsolidateOptions,
) -> Flow[ChatReply]:
    return (
        yield from chat(
            options.model,
            [Message("user", _summary_prompt(template, question, values, options))],
            {"temperature": 0.0, "max_tokens": options.max_tokens},
            sources=list(dict.fromkeys(hit.document_id for hit in hits)),
        )
    )


def _summary_prompt(
    template: str, question: str, values: Mapping[str, Any], options: ConsolidateOptions
) -> str:
    data = load_shipped_mapping("answer", "prompts/consolidate.yaml")
    return render(data.text(template), {"question": question, "words": options.words, **values})


def _sized_parts(
    question: str, hits: Sequence[Hit], options: ConsolidateOptions
) -> tuple[list[tuple[int, Hit]], tuple[str, ...]]:
    """Passages with their numbers, those too long for the window in parts, and notes on these."""
    if options.window.tokens is None:
        return list(enumerate(hits, 1)), ()
    count = options.window.count
    carried = options.max_tokens if options.method == "running" else 0
    template = "running" if options.method == "running" else "each"
    numbered: list[tuple[int, Hit]] = []
    notes = []
    for number, hit in enumerate(hits, 1):
        values = {"summary": "", "passages": [passage_values(number, replace(hit, text=""))]}
        room = _tokens_left(_summary_prompt(template, question, values, options), options) - carried
        pieces = [hit] if count(hit.text) <= room else list(split_hit(hit, room, count))
        if not pieces:
            notes.append(f"passage {name_hits([hit], number)} left out: no part of it fits")
        elif pieces[-1].end < hit.end and hit.text[pieces[-1].end - hit.start :].strip():
            notes.append(f"the end of passage {name_hits([hit], number)} left out: it cannot fit")
        if len(pieces) > 1:
            notes.append(
                f"passage {name_hits([hit], number)} is longer than the model's window: read in "
                f"{len(pieces)} parts"
            )
        numbered += [(number, piece) for piece in pieces]
    return numbered, tuple(notes)


def _tokens_left(text: str, options: ConsolidateOptions) -> int:
    """Tokens of the window beside a prompt's fixed text and the reply.

    Raises:
        PromptError: There are none.
    """
    assert options.window.tokens is not None
    fixed = options.window.size([Message("user", text)])
    remaining = options.window.tokens - fixed - options.max_tokens
    if remaining < 2 * options.max_tokens:  # room for two summaries, or none could be merged
        raise PromptError(
            f"summarising takes about {fixed} tokens of prompt and {options.max_tokens} of "
            f"reply, too much for a window of {options.window.tokens}",
            hint="set answer.consolidate: concatenate, or use a model with a larger window",
        )
    return remaining


def _merge_groups(
    question: str, texts: Sequence[str], options: ConsolidateOptions
) -> list[list[str]]:
    """Texts in groups of at least two that fit the budget and the window at their longest.

    The size depends on the settings only, so that a forecast counts the same calls.
    """
    most = options.budget
    if options.window.tokens is not None:
        most = min(
            most, _tokens_left(_summary_prompt("merge", question, {"notes": []}, options), options)
        )
    size = max(2, most // options.max_tokens)
    groups = [list(texts[i : i + size]) for i in range(0, len(texts), size)]
    lone = len(groups) > 1 and len(groups[-1]) == 1
    if lone and options.window.tokens is None:
        groups[-2] += groups.pop()
    elif lone:  # one more might not fit the window: move one from the group before
        groups[-1].insert(0, groups[-2].pop())
    return groups


def _note_left_out(without: Sequence[tuple[int, Hit]]) -> tuple[str, ...]:
    if not without:
        return ()
    names = ", ".join(name_hits([hit], number) for number, hit in without[:8])
    more = f" and {len(without) - 8} more" if len(without) > 8 else ""
    reason = "their summaries have nothing on the question"
    return (f"{count_noun(len(without), 'passage')} left out, {reason}: {names}{more}",)
